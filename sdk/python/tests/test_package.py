"""The package as it is built, installed and imported."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
WHEELS = PROJECT.parents[1] / "target/sdk/wheels"
"""Folder with a wheel of each dependency; `cargo xtask verify sdk` makes it."""
_IMPORT = "import time; t = time.perf_counter(); import penstock; print(time.perf_counter() - t)"

pytestmark = pytest.mark.tools


def _build(directory: Path, kind: str, project: Path = PROJECT, epoch: str | None = None) -> Path:
    """Builds a distribution as hatch does, and returns its file."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(directory)]
    environment = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
    if epoch is not None:
        environment["SOURCE_DATE_EPOCH"] = epoch
    subprocess.run(command, cwd=project, env=environment, check=True, capture_output=True)
    (built,) = directory.iterdir()
    return built


@pytest.mark.parametrize("epoch", [None, "1764115200"])
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_a_build_is_reproducible(tmp_path: Path, kind: str, epoch: str | None) -> None:
    """Promise: whoever builds a release, wherever and whenever, gets the bytes that we release."""
    copy = tmp_path / "elsewhere"
    left_out = shutil.ignore_patterns("__pycache__", "docs", "tests")
    # The copied files have the time of the copy.
    shutil.copytree(PROJECT, copy, ignore=left_out, copy_function=shutil.copyfile)
    one = _build(tmp_path / "one", kind, epoch=epoch)
    other = _build(tmp_path / "other", kind, copy, epoch)
    assert one.name == other.name
    assert one.read_bytes() == other.read_bytes()


def test_a_source_distribution_builds_the_wheel(tmp_path: Path) -> None:
    """Promise: what is built from the sources that we release is the wheel that we release."""
    with tarfile.open(_build(tmp_path / "sdist", "sdist")) as archive:
        assert all(member.isfile() for member in archive)
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("penstock-*")
    assert (unpacked / "LICENSE").read_bytes() == (PROJECT.parents[1] / "LICENSE").read_bytes()
    one, other = _build(tmp_path / "one", "wheel"), _build(tmp_path / "other", "wheel", unpacked)
    assert one.read_bytes() == other.read_bytes()


def test_a_wheel_has_types_and_nothing_of_ours(tmp_path: Path) -> None:
    """Promise: a wheel says that it is typed, has the licence, and brings no tests."""
    wheel = _build(tmp_path, "wheel")
    listed = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", wheel], capture_output=True, text=True, check=True
    ).stdout
    assert "penstock/py.typed" in listed
    assert "licenses/LICENSE" in listed
    assert "tests/" not in listed
    assert "tools/" not in listed


def test_a_host_without_a_network_installs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Promise: a folder of wheels is enough to install it into a new environment."""
    if not WHEELS.is_dir():
        pytest.skip(f"SKIPPED: there is no {WHEELS}: `cargo xtask verify sdk` makes it")
    built, clean = tmp_path / "built", tmp_path / "clean"
    _build(built, "wheel")
    python = clean / "bin/python"
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    folders = ["--find-links", str(WHEELS), "--find-links", str(built)]
    quiet = ["--quiet", "--disable-pip-version-check"]
    for command in (
        [sys.executable, "-m", "venv", str(clean)],
        [str(python), "-m", "pip", "install", *quiet, "--no-index", *folders, "penstock"],
        [str(python), "-m", "pip", "check"],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    seconds = [
        float(subprocess.check_output([python, "-c", _IMPORT], env=environment, cwd=tmp_path))
        for _ in range(3)
    ]
    with capsys.disabled():
        print(f"\nimport penstock: {1000 * min(seconds):.0f} ms in a new environment")
