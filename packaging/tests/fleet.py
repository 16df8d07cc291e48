"""A fleet that Ansible sets up: a site of one host, and one of three that share storage."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import lab as labs
import packages
from lab import Host, Lab

REPOSITORY = labs.HERE.parent.parent
PLAYBOOKS = REPOSITORY / "packaging" / "ansible"
PACKAGING = REPOSITORY / "packaging"

TOKEN = "pst1:"  # noqa: S105 - how tokens begin
"""What each token for joining and pairing begins with."""

_CONTROL = """\
Package: penstock
Version: 0
Architecture: amd64
Maintainer: The Penstock authors <penstock@users.noreply.github.com>
Description: stand-in of the package
"""
_POSTINST = """\
#!/bin/sh
set -e
systemd-sysusers penstock.conf
[ -e /var/lib/penstock ] || install -d -m 700 -o penstock -g penstock /var/lib/penstock
systemctl daemon-reload
/usr/libexec/penstock/restart || true
"""
_RECAP = re.compile(r"^(\S+)\s+: (ok=.*)$", re.MULTILINE)


def playbook_program() -> Path:
    """Returns ansible-playbook: the one beside this Python, or else that of PATH.

    Raises:
        CannotRunError: there is none.
    """
    beside = Path(sys.executable).parent / "ansible-playbook"
    found = str(beside) if beside.exists() else shutil.which("ansible-playbook")
    if found is None:
        raise labs.CannotRunError("there is no ansible-playbook: pip install ansible-core")
    return Path(found)


def make_package(directory: Path, version: str, program: Path | str) -> Path:
    """Makes a package for Debian of a program, with a version.

    `PENSTOCK_PACKAGES` names a directory with a package of the project, whose other files it has;
    without it there are the unit, the user, the restart that an installation does, and what a
    removal and a purge do.

    Args:
        directory: where it is made.
        version: version of the package.
        program: the program, or the text of a script that takes its place.
    """
    tree = directory / f"tree-{version}"
    named = os.environ.get("PENSTOCK_PACKAGES")
    if named is None:
        _stand_in(tree)
    else:
        real = next(Path(named).glob("penstock_*_amd64.deb"))
        packages.run("dpkg-deb", "--raw-extract", real, tree)
    installed = tree / "usr/bin/penstock"
    if isinstance(program, Path):
        shutil.copy(program, installed)
    else:
        installed.write_text(program)
    installed.chmod(0o755)
    return packages.build(tree, version, directory)


def _stand_in(tree: Path) -> None:
    places = {
        "system/penstock.service": "usr/lib/systemd/system/penstock.service",
        "system/sysusers.d/penstock.conf": "usr/lib/sysusers.d/penstock.conf",
        "system/penstock.toml": "etc/penstock/penstock.toml",
        "scripts/restart.sh": "usr/libexec/penstock/restart",
    }
    for source, place in places.items():
        (tree / place).parent.mkdir(parents=True)
        shutil.copy(PACKAGING / source, tree / place)
    (tree / "usr/libexec/penstock/restart").chmod(0o755)
    (tree / "usr/bin").mkdir()
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(_CONTROL)
    (tree / "DEBIAN/conffiles").write_text("/etc/penstock/penstock.toml\n")
    (tree / "DEBIAN/postinst").write_text(_POSTINST)
    for name in ("prerm", "postrm"):
        shutil.copy(PACKAGING / "deb" / name, tree / "DEBIAN" / name)
    for name in ("postinst", "prerm", "postrm"):
        (tree / "DEBIAN" / name).chmod(0o755)


@dataclasses.dataclass(frozen=True)
class Play:
    """A run of a playbook."""

    status: int
    text: str
    recap: Mapping[str, Mapping[str, int]]
    """Counts of results by host: `ok`, `changed`, `failed` and others."""

    @property
    def changed(self) -> int:
        """Returns how many tasks have changed something, on all hosts."""
        return sum(counts["changed"] for counts in self.recap.values())

    def check(self) -> Play:
        """Returns the play itself.

        Raises:
            AssertionError: it failed on a host.
        """
        assert self.status == 0, self.text
        return self


class Fleet:
    """Hosts, the inventory that describes them, and the packages for them."""

    def __init__(
        self, lab: Lab, plain: Path, with_etcd: Path, program: Path, connections: Path
    ) -> None:
        """Makes the hosts, and waits until they are up.

        Args:
            lab: where they are made.
            plain: the root of the host that is a site of its own.
            with_etcd: the root of the three others.
            program: the program that packages are made of.
            connections: a directory for sockets of ssh, whose path has to be short. It is of this
                fleet alone, as hosts of two laboratories have the same addresses.
        """
        self.lab = lab
        self.program = program
        self.connections = connections
        self.directory = lab.directory / "control"
        self.shared = lab.directory / "shared"
        for directory in (self.directory, self.shared):
            directory.mkdir()
        self.solo = lab.host("solo", [plain], disks=["/srv"])
        shares = {"/scratch": self.shared}
        names = ("h1", "h2", "h3")
        self.three = [lab.host(name, [with_etcd], shares=shares) for name in names]
        for host in self.hosts:
            host.wait_running()
            host.allow_ssh()
        self.inventory = self.directory / "inventory.json"
        self.inventory.write_text(json.dumps(self._inventory(), indent=1))
        self.seen_tokens: list[str] = []

    @property
    def hosts(self) -> list[Host]:
        """Returns all hosts."""
        return [self.solo, *self.three]

    def _inventory(self) -> dict[str, Any]:
        options = f"-F /dev/null -o UserKnownHostsFile={self.lab.known_hosts()} -o BatchMode=yes"

        def hosts(named: list[Host]) -> dict[str, Any]:
            return {host.name: {"ansible_host": host.address} for host in named}

        lab: dict[str, Any] = {
            "penstock_site": "lab",
            "penstock_stores": [{"name": "raw", "path": "/srv/raw", "create": True}],
        }
        scratch = {"name": "scratch", "path": "/scratch/data", "create": True}
        hpc: dict[str, Any] = {
            "penstock_site": "hpc",
            "penstock_uid": 977,
            "penstock_journal": "/scratch/.penstock-journal",
            "penstock_stores": [{**scratch, "write": ["lab"], "delete": ["lab"]}],
            "penstock_settings": {
                "running_max": 3,
                "web": {"listen": ["0.0.0.0:7443"], "names": ["dtn.example.org"]},
                "auth": {"socket_group": "users", "unix": {"@operator": "role:operator"}},
                "network": [{"name": "fast", "interface": "eth0"}],
            },
            "penstock_groups": ["users"],
            "penstock_users": [
                {"name": "anna", "role": "operator"},
                {"name": "ben", "grants": {"scratch": ["write", "read"]}, "group": "beamline"},
            ],
        }
        common = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.lab.ssh_key()),
            "ansible_ssh_common_args": options,
            "ansible_python_interpreter": "/usr/bin/python3",
            # No host of the laboratory has a default route.
            "penstock_advertise": ["{{ ansible_host }}:7444"],
            "penstock_package": str(make_package(self.directory, "0.1.0-1", self.program)),
            "penstock_pairs": [["lab", "hpc"]],
        }
        sites = {
            "lab": {"vars": lab, "hosts": hosts([self.solo])},
            "hpc": {"vars": hpc, "hosts": hosts(self.three)},
        }
        return {"penstock": {"vars": common, "children": sites}}

    def play(self, name: str, *arguments: str) -> Play:
        """Runs a playbook against the fleet.

        Args:
            name: of the playbook.
            arguments: further ones of ansible-playbook.
        """
        program = playbook_program()
        words = [str(program), "-i", str(self.inventory), f"{name}.yml", *arguments]
        environment = {
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_HOME": str(self.directory / "ansible"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.connections),
        }
        with self._watch_words():
            done = self.lab.control(
                words, directory=PLAYBOOKS, environment=environment, seconds=1200
            )
        recap = {
            host: {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", counts)}
            for host, counts in _RECAP.findall(done.stdout)
        }
        return Play(done.returncode, done.stdout + done.stderr, recap)

    @contextlib.contextmanager
    def _watch_words(self) -> Generator[None]:
        """Collects words of processes that have a token, while a playbook runs.

        This machine sees the processes of all hosts.
        """
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.02):
                for process in Path("/proc").iterdir():
                    # A process may end meanwhile, and not each entry is one.
                    with contextlib.suppress(OSError):
                        words = (process / "cmdline").read_bytes()
                        if TOKEN.encode() in words:
                            self.seen_tokens.append(words.decode(errors="replace"))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()

    def transfer(self, identity: str) -> dict[str, Any]:
        """Returns a transfer as the site `hpc` shows it."""
        for host in self.three:
            done = host.try_run("penstock", "transfer", "show", identity, "--json")
            if done.returncode == 0:
                shown: dict[str, Any] = json.loads(done.stdout)
                return shown
        raise AssertionError(f"no host of site hpc shows transfer {identity}")


def versions(hosts: list[Host]) -> list[str]:
    """Returns the installed version of the package on each host."""
    words = ("dpkg-query", "--show", "--showformat", "${Version}", "penstock")
    return [host.run(*words) for host in hosts]


def main_pid(host: Host) -> int:
    """Returns the process of the daemon, as the host numbers it; 0 if there is none."""
    return int(host.property("penstock", "MainPID"))


def digests(host: Host, directory: str) -> list[str]:
    """Returns the digests of all files below a directory, with their relative names."""
    script = 'cd "$1" && find . -type f -exec sha256sum {} + | sort -k 2'
    return host.run("sh", "-c", script, "digests", directory).splitlines()


def sent_bytes(host: Host) -> int:
    """Returns the bytes that the card of a host has sent since it has booted."""
    return int(host.read("/sys/class/net/eth0/statistics/tx_bytes"))
