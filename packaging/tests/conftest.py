"""What tests of packaging share: the program, a laboratory, and the logs of hosts that failed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

import lab as labs


def cannot_run(reason: object) -> None:
    """Skips a test that this machine cannot run; in a gate that is a failure."""
    if "CI" in os.environ:
        pytest.fail(f"cannot run: {reason}", pytrace=False)
    print(f"SKIPPED: {reason}")  # noqa: T201 - the runner of the project collects such lines
    pytest.skip(str(reason))


@pytest.fixture(scope="session")
def program() -> Path:
    """Returns the program under test, without what only debuggers read.

    It is `PENSTOCK_BIN`, or else the one in `target/debug`.
    """
    built = Path(os.environ.get("PENSTOCK_BIN", labs.TARGET / "debug" / "penstock"))
    if not built.exists():
        cannot_run(f"there is no program {built}: cargo build --package penstock")
    made = labs.TARGET / "lab-program" / "usr" / "bin" / "penstock"
    if not made.exists() or made.stat().st_mtime < built.stat().st_mtime:
        made.parent.mkdir(parents=True, exist_ok=True)
        partial = made.with_suffix(".partial")
        if shutil.which("strip") is None:
            shutil.copy(built, partial)
        else:
            subprocess.run(["strip", "-o", str(partial), str(built)], check=True)
        partial.chmod(0o755)
        partial.rename(made)
    return made


@pytest.fixture(scope="session")
def program_layer(program: Path) -> Path:
    """Returns a layer for hosts that has nothing but /usr/bin/penstock."""
    return program.parent.parent.parent


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[labs.Lab]:
    """Makes a laboratory for one test."""
    try:
        made = labs.Lab()
    except labs.CannotRunError as error:
        cannot_run(error)
        raise
    with made:
        request.node.stash[_LAB] = made
        yield made


@pytest.fixture(params=labs.SUITES)
def debian(request: pytest.FixtureRequest) -> Path:
    """Returns a root of each release that is tested."""
    return root(str(request.param))


def root(suite: str, *packages: str) -> Path:
    """Returns a root with further packages, or skips the test where none can be made."""
    try:
        return labs.root(suite, (*labs.PLAIN, *packages))
    except labs.CannotRunError as error:
        cannot_run(error)
        raise


_LAB = pytest.StashKey[labs.Lab]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the last lines of each host's log to the report of a test that failed."""
    report = yield
    made = item.stash.get(_LAB, None)
    if call.when == "call" and made is not None and report.failed:
        for host in made.hosts.values():
            text = host.console[-2000:]
            if host.is_up:
                text = host.run("journalctl", "--no-pager", "-b", "-n", "60", check=False)
            report.sections.append((f"log of {host.name}", text))
    return report
