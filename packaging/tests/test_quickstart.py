"""docs/quickstart.md, line by line, on two hosts of a systemd of their own, from the package on."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import packages
from conftest import cannot_run, root
from lab import TARGET, CannotRunError, Host, Lab

DOCUMENT = TARGET.parent / "docs" / "quickstart.md"
USER = "anna"
HOSTS = ("lab", "hpc")
# Warnings of `penstock doctor`: a host of the laboratory has no time server.
_WARNINGS = 3


@dataclasses.dataclass(frozen=True)
class Line:
    """A command of the document."""

    number: int
    hosts: tuple[str, ...]
    text: str

    @property
    def statuses(self) -> tuple[int, ...]:
        """Exit codes with which it may end."""
        return (0, _WARNINGS) if self.text.endswith("penstock doctor") else (0,)


def lines_of(text: str) -> Iterator[Line]:
    """Yields the commands of the blocks `sh HOST` of a document, in their order."""
    hosts: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            words = line.removeprefix("```").split()
            named = words[1] if words[:1] == ["sh"] else ""
            hosts = HOSTS if named == "both" else ((named,) if named else ())
        elif hosts and line.strip():
            yield Line(number, hosts, line)


def run(host: Host, line: Line, stdin: str) -> subprocess.CompletedProcess[str]:
    """Runs a command as a person with sudo does: in a shell, in the own home directory."""
    script = f"cd && {line.text}"
    environment = {"HOME": f"/home/{USER}"}
    return host.try_run(
        "bash", "-c", script, user=USER, stdin=stdin, environment=environment, seconds=300
    )


def set_up(lab: Lab, name: str, layer: Path, package: Path) -> Host:
    """Boots a host with a person who may use sudo, and the package in her home directory."""
    host = lab.host(name, [layer], disks=["/srv"])
    host.wait_running()
    host.run("ip", "route", "add", "default", "via", "10.89.0.1")
    host.run("useradd", "--create-home", "--shell", "/bin/bash", USER)
    host.write(f"/etc/sudoers.d/{USER}", f"{USER} ALL=(ALL) NOPASSWD: ALL\n", mode=0o440)
    host.copy(package, f"/home/{USER}/{package.name}")
    return host


def test_blocks_are_found() -> None:
    """Promise: commands are those of blocks that name a host, with their line and host."""
    text = "a\n```sh lab\nx\n\ny\n```\nb\n```\nz\n```\n```sh both\nw\n```\n"
    found = [(line.number, line.hosts, line.text) for line in lines_of(text)]
    assert found == [(3, ("lab",), "x"), (5, ("lab",), "y"), (12, HOSTS, "w")]
    lines = list(lines_of(DOCUMENT.read_text()))
    assert len(lines) > 10
    assert {host for line in lines for host in line.hosts} == set(HOSTS)


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_each_line_works(lab: Lab, program: Path, suite: str) -> None:
    """Promise: each command of the quickstart works as it stands, one after the other, from the
    package on; at its end the data set is at the target, byte by byte."""
    try:
        package = packages.made(program)["deb"]
    except CannotRunError as error:
        cannot_run(error)
        raise
    layer = root(suite, "sudo", "iproute2", "b3sum")
    hosts = {name: set_up(lab, name, layer, package) for name in HOSTS}
    printed = ""
    for line in lines_of(DOCUMENT.read_text()):
        # What is pasted is the token that the command before has printed.
        token = re.findall(r"^pst1:\S+$", printed, re.MULTILINE) if line.text.endswith(" -") else []
        for name in line.hosts:
            done = run(hosts[name], line, "".join(f"{one}\n" for one in token))
            printed = done.stdout
            place = f"{DOCUMENT.name}:{line.number} on {name}: {line.text}"
            shown = f"{place}\n{done.stdout}{done.stderr}"
            print(shown)  # noqa: T201 - shown if a later line fails
            assert done.returncode in line.statuses, f"{done.returncode}: {shown}"
            if line.text.endswith("site pair -"):
                assert "all is well" in shown, shown
            if " transfer submit " in line.text:
                assert "all verified" in shown, shown
    sums = "cd {} && find . -type f -exec sha256sum {{}} + | sort -k 2"
    there = [
        hosts[name].run("bash", "-c", sums.format(place))
        for name, place in (("lab", "/srv/raw/run7"), ("hpc", "/srv/scratch/run7"))
    ]
    assert there[0] == there[1]
    assert there[0].count("\n") > 10
