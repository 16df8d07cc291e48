"""Sites of Penstock on hosts of the laboratory, as an administrator sets them up."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lab as labs
from lab import Host

REPOSITORY = labs.HERE.parent.parent
SYSTEM = REPOSITORY / "packaging" / "system"
DEPLOY = REPOSITORY / "docs" / "deploy.md"
UPGRADE = REPOSITORY / "docs" / "upgrade.md"

_PLACES = {
    "penstock.service": "usr/lib/systemd/system/penstock.service",
    "sysusers.d/penstock.conf": "usr/lib/sysusers.d/penstock.conf",
    "penstock.toml": "etc/penstock/penstock.toml",
    "firewalld/penstock.xml": "usr/lib/firewalld/services/penstock.xml",
    "ufw/penstock": "etc/ufw/applications.d/penstock",
}

# What the scripts of packages do, too: a directory that is there keeps its owner.
_MAKE_DIRECTORY = (
    "test -d /var/lib/penstock || install -d -o penstock -g penstock -m 700 /var/lib/penstock"
)


def system_layer() -> Path:
    """Returns a layer for hosts with the files that packages install beside the program.

    It is made once for each content, as a layer that hosts use may not change.
    """
    texts = {place: (SYSTEM / source).read_bytes() for source, place in _PLACES.items()}
    key = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:8]
    made = labs.TARGET / "lab-system" / key
    if not made.is_dir():
        made.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=made.parent))
        partial.chmod(0o755)
        for place, text in texts.items():
            (partial / place).parent.mkdir(parents=True, exist_ok=True)
            (partial / place).write_bytes(text)
        (partial / "etc/penstock/conf.d").mkdir()
        with contextlib.suppress(OSError):
            partial.rename(made)
    return made


def drop_in(name: str) -> str:
    """Returns a drop-in of docs/deploy.md, by the name of its file in the first comment."""
    for block in re.findall(r"```ini\n(.*?)```", DEPLOY.read_text(), re.DOTALL):
        if block.startswith(f"# {name}\n"):
            return str(block)
    raise LookupError(f"{DEPLOY} has no drop-in {name}")


def commands(title: str) -> str:
    """Returns a block of commands of docs/upgrade.md, by the comment that it begins with."""
    for block in re.findall(r"```sh\n(.*?)```", UPGRADE.read_text(), re.DOTALL):
        if block.startswith(f"# {title}\n"):
            return f"set -e\n{block}"
    raise LookupError(f"{UPGRADE} does not say how to {title}")


@dataclasses.dataclass
class Site:
    """A site of one host, whose daemon is the service `penstock`."""

    host: Host

    @classmethod
    def install(cls, host: Host) -> Site:
        """Does what a package does when it is installed, on a host that has its files."""
        host.run("systemd-sysusers", "penstock.conf")
        host.run("sh", "-c", _MAKE_DIRECTORY)
        host.run("systemctl", "daemon-reload")
        return cls(host)

    @classmethod
    def start(cls, host: Host, stores: Sequence[str], *arguments: str) -> Site:
        """Installs, makes a site with the name of the host, and starts it.

        Args:
            host: the host, which has the files of a package and is up.
            stores: directories, which become the daemon's; each is a store with its last name.
            arguments: further ones of `penstock site init`.
        """
        site = cls.install(host)
        for store in stores:
            host.run("install", "-d", "-o", "penstock", "-g", "penstock", store)
        site.init(stores, *arguments)
        host.run("systemctl", "start", "penstock")
        return site

    def init(self, stores: Sequence[str], *arguments: str) -> str:
        """Makes the site; returns what was printed."""
        named = [f"--store={Path(store).name}={store}" for store in stores]
        words = ["penstock", "site", "init", "--name", self.host.name, *named, *arguments]
        words += ["--advertise", f"{self.host.address}:7444"]
        done = self.host.try_run(*words)
        if done.returncode != 0:
            raise labs.CommandError(words, done)
        return done.stdout + done.stderr

    def penstock(self, *words: str, user: str | None = None, stdin: str | None = None) -> str:
        """Runs a command, and returns its standard output."""
        return self.host.run("penstock", *words, user=user, stdin=stdin)

    def json(self, *words: str) -> Any:
        """Runs a command with `--json`, and returns the value that it prints."""
        return json.loads(self.penstock(*words, "--json"))

    def pair(self, other: Site) -> None:
        """Pairs with another site, which may write and delete here."""
        token = self.penstock("site", "pair")
        other.penstock("site", "pair", "-", stdin=token)

    @property
    def main_pid(self) -> int:
        """The process of the daemon, as the host numbers it; 0 if there is none."""
        return int(self.host.property("penstock", "MainPID"))

    @property
    def restarts(self) -> int:
        """How often systemd has restarted the daemon by itself."""
        return int(self.host.property("penstock", "NRestarts"))

    def status(self) -> dict[str, str]:
        """Returns the lines of proc_pid_status(5) of the daemon."""
        text = self.host.read(f"/proc/{self.main_pid}/status")
        return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
