"""Where a comparison works: the target as given, what ssh knows of it, and own directories."""

import os
import re
import shlex
import shutil
import sys
import tempfile
from dataclasses import dataclass

from bench.base.processes import Failed
from bench.hosts.remote import RemoteHost
from bench.hosts.shell import Host, LocalHost

SETTINGS = ("hostname", "user", "port", "identityfile", "userknownhostsfile")
REMOVAL_SECONDS = 600


@dataclass(frozen=True)
class Target:
    """A directory of this host, or of one behind ssh (then `destination` is `[user@]host`)."""

    destination: str
    path: str


def parse_target(text: str) -> Target:
    """Reads `PATH` or `[user@]HOST:PATH`, as rsync and scp do: a colon before any slash."""
    host, colon, path = text.partition(":")
    if not colon or "/" in host:
        return Target("", os.path.abspath(text))
    if not host or host.startswith("-") or host.endswith("@"):
        raise ValueError(f"`{text}` names no host: write [user@]HOST:PATH")
    if not path.startswith("/"):
        raise ValueError(f"`{text}`: the path at the other host must begin with a slash")
    return Target(host, path.rstrip("/") or "/")


def read_settings(text: str) -> dict[str, str]:
    """What ssh would use for a destination, from what `ssh -G` prints; files only if they exist."""
    settings: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key not in SETTINGS or key in settings:
            continue
        if key.endswith("file"):
            files = [os.path.expanduser(name) for name in value.split()]
            there = next((name for name in files if os.path.exists(name)), None)
            if there is None:
                continue
            value = there
        settings[key] = value
    return settings


class Place:
    """Both hosts with a directory of the comparison's own at each, until `close`."""

    def __init__(self, target: Target, ssh: list[str], address: str | None, name: str) -> None:
        self.target, self.ssh = target, ssh
        self.here = LocalHost()
        self.there: Host = self.here
        self.settings: dict[str, str] = {}
        self.address = address or "127.0.0.1"
        self.work = tempfile.mkdtemp(prefix="penstock-bench-")
        self.base = f"{target.path.rstrip('/')}/{name}"
        self.is_made = False
        try:
            if target.destination:
                told = self.here.ask(shlex.join([*ssh, "-G", target.destination]))
                self.settings = read_settings(told)
                self.address = address or self.settings["hostname"]
                self.there = RemoteHost(ssh, target.destination)
            self.make()
        except BaseException:
            self.close()
            raise

    def make(self) -> None:
        """Makes the directory at the target, which must be new."""
        try:
            self.there.ask(f"mkdir -- {shlex.quote(self.base)}")
        except Failed as error:
            raise Failed(
                f"{self.there.name}: no directory for the benchmark in {self.target.path}: "
                f"{error}. Make that directory, or name one that you may write to"
            ) from error
        self.is_made = True
        # A server for all may run as another user.
        self.there.ask(f"chmod 755 -- {shlex.quote(self.base)}")

    def clear(self) -> tuple[str, str]:
        """Empty directories at the target for what arrives and for servers; their paths."""
        out, work = f"{self.base}/out", f"{self.base}/work"
        words = shlex.join([out, work])
        self.there.ask(f"rm -rf -- {words} && mkdir -- {words}", REMOVAL_SECONDS)
        return out, work

    def room(self) -> int:
        """Bytes that the file system of the target has left."""
        told = self.there.ask(f"df -Pk -- {shlex.quote(self.base)} | tail -n 1")
        return int(told.split()[3]) * 1024

    def facts(self) -> dict[str, str]:
        """A line about each host."""
        facts = {"source": describe(self.here, self.work)}
        if self.there is not self.here:
            facts["target"] = describe(self.there, self.base)
        else:
            facts["source"] = describe(self.here, self.base)
        return facts

    def close(self) -> None:
        """Removes the comparison's own directories, and lets the hosts go. Warns of what remains.

        Never fails, so that the first error of a comparison is the one that is reported.
        """
        try:
            self.there.stop()
        except Failed as error:
            warn(f"{self.there.name}: processes may still run: {error}")
        if self.is_made:
            try:
                self.there.ask(f"rm -rf -- {shlex.quote(self.base)}", REMOVAL_SECONDS)
            except Failed as error:
                warn(f"{self.base} at {self.there.name} is not removed: {error}")
        if self.there is not self.here:
            self.there.close()
        self.here.close()
        shutil.rmtree(self.work, ignore_errors=True)


def warn(text: str) -> None:
    """Reports what the end of a comparison has left behind."""
    print(f"warning: {text}", file=sys.stderr)


def describe(host: Host, path: str) -> str:
    """Kernel, processors, memory, congestion control and file system of a host."""
    told = host.ask(
        "uname -sr; nproc; sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1; "
        "sed -n 's/^MemTotal: *//p' /proc/meminfo; "
        "cat /proc/sys/net/ipv4/tcp_congestion_control; "
        f"df --output=fstype {shlex.quote(path)} | tail -n 1; cut -d ' ' -f 1 /proc/loadavg"
    )
    kernel, cores, *model, memory, control, system, load = told.strip().splitlines()
    gib = int(re.sub(r"\D", "", memory)) / 2**20
    processors = f"{cores} CPUs" + (f" ({model[0]})" if model else "")
    return f"{host.name}: {kernel}, {processors}, {gib:.0f} GiB, {control}, {system}, load {load}"
