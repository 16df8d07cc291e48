"""Upgrade and downgrade by package alone, as docs/upgrade.md has them, at a site of three hosts.

The newer release is the program under test with another version of its package. Where that program
is a debug build, the next version of everything is tried too: its hidden option brings a format of
records that the older release does not know.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lab as labs
import packages
from conftest import cannot_run, root
from fleet import digests, main_pid, sent_bytes, versions
from lab import Host
from sites import Site, commands

OLDER = "0.1.0-1"
NEWER = "0.2.0-1"
MIB = 1 << 20
UPGRADE = "upgrade a host"
GO_BACK = "go back on a host"
_NEXT = "--next-version"
# Exit codes of `penstock site status`.
_NO_DAEMON = 5
_NOT_WELL = 7
_WELL = "penstock site status | grep '^site hpc: all is well'"


@dataclasses.dataclass
class Releases:
    """Packages of three releases, under the names that the document gives them.

    Each is in a directory of its own: `older`, `newer`, and `next` if there is one.
    """

    directory: Path
    has_next: bool

    @classmethod
    def make(cls, program: Path, directory: Path) -> Releases:
        """Makes packages of a program."""
        deb = packages.made(program)["deb"]
        words = (str(program), "daemon", _NEXT, "--help")
        has_next = subprocess.run(words, capture_output=True).returncode == 0
        names = {"older": OLDER, "newer": NEWER, **({"next": NEWER} if has_next else {})}
        for name, version in names.items():
            tree = directory / "tree"
            packages.run("dpkg-deb", "--raw-extract", deb, tree)
            shutil.copy(program, tree / "usr/bin/penstock")
            if name == "next":
                unit = tree / "usr/lib/systemd/system/penstock.service"
                text = unit.read_text().replace("penstock daemon", f"penstock daemon {_NEXT}")
                unit.write_text(text)
            (directory / name).mkdir()
            packages.build(tree, version, directory / name)
        return cls(directory, has_next)

    def copy(self, host: Host) -> None:
        """Copies the packages below /root of a host."""
        for path in self.directory.glob("*/*.deb"):
            host.copy(path, f"/root/{path.parent.name}/{path.name}")


@dataclasses.dataclass
class Sites:
    """The site `lab` of one host, and `hpc` of three that share storage."""

    lab: Site
    three: list[Host]
    releases: Releases

    def submit(self, name: str) -> str:
        """Makes a data set at `lab`, and has it moved slowly; returns the transfer's ID."""
        make = ["dataset", "make", f"/srv/raw/{name}", "--files", "40", "--sizes", "2M-16M"]
        self.lab.penstock(*make, user="penstock")
        # At this rate it would last for twenty minutes.
        how = ("--bwlimit", "2Mbit/s", "--piece-size", "1M")
        words = ("transfer", "submit", f"lab:raw/{name}", "hpc:scratch/", *how)
        return self.lab.penstock(*words).strip()

    def show(self, identity: str) -> dict[str, Any]:
        """Returns a transfer as the site `lab` shows it."""
        shown: dict[str, Any] = self.lab.json("transfer", "show", identity)
        return shown

    def finish(self, identity: str, name: str) -> dict[str, Any]:
        """Takes the limit away, waits for the end of a transfer, and compares its data."""
        self.three[0].run("penstock", "transfer", "limit", identity, "--bwlimit", "none")
        self.lab.host.run("penstock", "transfer", "wait", identity, seconds=600)
        there = digests(self.three[1], f"/scratch/data/{name}")
        assert there == digests(self.lab.host, f"/srv/raw/{name}")
        return self.show(identity)


def do(host: Host, title: str, release: str, status: int = 0) -> str:
    """Runs commands of the document beside a package; returns what they print.

    Args:
        host: where they run; the document has `h1` for its name.
        title: of the commands.
        release: directory of the package.
        status: exit code that they are to end with.
    """
    script = f"cd /root/{release} && {commands(title)}"
    # apt asks before it goes back.
    done = host.try_run("sh", "-c", script.replace("h1", host.name), stdin="y\n", seconds=600)
    printed = done.stdout + done.stderr
    assert done.returncode == status, printed
    return printed


def wait_well(hosts: list[Host]) -> None:
    """Waits until the site is as well as before, as each of its hosts sees it."""
    for host in hosts:
        host.wait_until("the site is well", "sh", "-c", _WELL, seconds=120)


def site_of_three(lab: labs.Lab, layer: Path, releases: Releases) -> list[Host]:
    """Makes a site as docs/cluster.md does: on the first host, and with tokens on the others."""
    shared = lab.directory / "shared"
    shared.mkdir()
    three = [lab.host(name, [layer], shares={"/scratch": shared}) for name in ("h1", "h2", "h3")]
    for host in three:
        host.wait_running()
        install(host, releases)
        host.run("install", "-d", "-o", "penstock", "-g", "penstock", "/scratch/data")
        address = ("--peer", host.name, "--advertise", f"{host.address}:7444")
        if host is three[0]:
            host.run("chown", "penstock:penstock", "/scratch")
            where = ("--store", "scratch=/scratch/data", "--journal", "/scratch/.penstock-journal")
            host.run("penstock", "site", "init", "--name", "hpc", "--peers", "3", *address, *where)
        else:
            token = three[0].run("penstock", "site", "join")
            host.run("penstock", "site", "join", "-", *address, stdin=token)
        host.run("systemctl", "daemon-reload")
        host.run("systemctl", "enable", "--now", "penstock")
    wait_well(three)
    return three


def install(host: Host, releases: Releases) -> None:
    """Installs the older release on a fresh host."""
    releases.copy(host)
    host.run("sh", "-c", "apt install /root/older/*.deb")


@pytest.fixture(scope="module")
def sites(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """Makes both sites with the older release, and pairs them."""
    try:
        releases = Releases.make(program, tmp_path_factory.mktemp("releases"))
        lab = labs.Lab()
    except labs.CannotRunError as error:
        cannot_run(error)
        raise
    with lab:
        # The root of the tests of Ansible, which is there then.
        layer = root("bookworm", *labs.SSH, "etcd-server")
        alone = lab.host("lab", [layer], disks=["/srv"])
        alone.wait_running()
        install(alone, releases)
        solo = Site.start(alone, ["/srv/raw"])
        three = site_of_three(lab, layer, releases)
        solo.pair(Site(three[0]))
        for host in three:
            host.run("penstock", "site", "grant", "lab", "--write", "scratch")
        yield Sites(solo, three, releases)


def test_three_hosts_are_upgraded_and_go_back_by_package(sites: Sites) -> None:
    """Promise: the commands of docs/upgrade.md bring the next release to one host after the other
    and then the one before, while a transfer runs. Each host is drained, the transfer never fails,
    ends verified, and sends less than a tenth twice (E20)."""
    identity = sites.submit("kept")
    total = int(sites.lab.host.run("du", "-sb", "/srv/raw/kept").split()[0])
    sent = sent_bytes(sites.lab.host)
    for title, release, version in ((UPGRADE, "newer", NEWER), (GO_BACK, "older", OLDER)):
        before = [main_pid(host) for host in sites.three]
        # The document leaves the order to the administrator.
        for host in reversed(sites.three):
            assert f"peer `{host.name}` gets no new work" in do(host, title, release)
            wait_well(sites.three)
            assert sites.show(identity)["state"] in {"queued", "running"}
        assert set(versions(sites.three)) == {version}
        assert all(
            main_pid(host) not in {old, 0} for host, old in zip(sites.three, before, strict=True)
        )
    assert 0 < sites.show(identity)["progress"]["bytes"] < total
    shown = sites.finish(identity, "kept")
    assert shown["progress"]["bytes_resent"] < total / 10
    assert sent_bytes(sites.lab.host) - sent < total * 1.1 + 8 * MIB


def test_without_a_package_a_host_is_drained_by_hand(sites: Sites) -> None:
    """Promise: the commands for a host without packages replace the program there, drained, and
    end the drain."""
    host = sites.three[2]
    place = "/etc/systemd/system/penstock.service.d/99-local.conf"
    start = "/usr/local/bin/penstock daemon --dir /var/lib/penstock"
    host.write(place, f"[Service]\nExecStart=\nExecStart={start}\n")
    host.run("systemctl", "daemon-reload")
    host.run("sh", "-c", "mkdir /root/bare && cp /usr/bin/penstock /root/bare/")
    printed = do(host, "upgrade a host without a package", "bare")
    assert "peer `h3` has no work" in printed
    wait_well(sites.three)
    assert host.run("readlink", f"/proc/{main_pid(host)}/exe") == "/usr/local/bin/penstock\n"
    host.run("rm", place, "/usr/local/bin/penstock")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "restart", "penstock")
    wait_well(sites.three)


def test_the_way_back_is_open_until_the_format_rises(sites: Sites) -> None:
    """Promise: while one host keeps the older release, the others go to one with a newer format and
    back. Once all had it, a host that goes back takes no part, says why as the document has it, and
    the others work on; the newer release there mends it."""
    if not sites.releases.has_next:
        pytest.skip("the program is no debug build, and has no next version")
    first, second, last = sites.three
    identity = sites.submit("mixed")
    for host in (first, second):
        do(host, UPGRADE, "next")
        wait_well(sites.three)
    assert status(last)["cluster"]["format"] == 1
    for host in (first, second):
        do(host, GO_BACK, "older")
        wait_well(sites.three)
        assert sites.show(identity)["state"] in {"queued", "running"}
    sites.finish(identity, "mixed")

    for host in sites.three:
        do(host, UPGRADE, "next")
        wait_well(sites.three)
    risen = "penstock site status | grep '^records  *format 2'"
    first.wait_until("the next format", "sh", "-c", risen, seconds=120)
    printed = do(last, GO_BACK, "older", status=_NOT_WELL)
    reason = "the site's records are of format 2, and this release of penstock knows 1"
    assert reason in printed
    identity = sites.submit("two")
    sites.finish(identity, "two")
    do(last, UPGRADE, "next")
    wait_well(sites.three)


def test_a_site_of_one_host_refuses_the_way_back(sites: Sites) -> None:
    """Promise: a newer format closes the way back at once at a site of one host. The older release
    leaves the state as it is, and says so; the newer one continues."""
    if not sites.releases.has_next:
        pytest.skip("the program is no debug build, and has no next version")
    host = sites.lab.host
    do(host, UPGRADE, "next")
    refused = do(host, GO_BACK, "older", status=_NO_DAEMON)
    assert "the daemon does not start again" in refused
    assert host.property("penstock", "ExecMainStatus") == "7"
    assert "is of format 2; this release knows up to 1" in host.journal("penstock")
    do(host, UPGRADE, "next")
    assert versions([host]) == [NEWER]
    kept = sites.lab.penstock("transfer", "list", "--json").splitlines()
    assert {json.loads(line)["state"] for line in kept} == {"done"}


def status(host: Host) -> dict[str, Any]:
    """Returns the status of the site."""
    shown: dict[str, Any] = json.loads(host.run("penstock", "site", "status", "--json"))
    return shown
