"""Hosts of real systemd on one machine: roots of Debian in namespaces, on a network of their own.

A `Lab` has a directory, a bridge in a network namespace that nothing outside reaches, and hosts. A
`Host` is an overlay over layers that all share, with systemd as its first process. It needs root,
mmdebstrap and its mirror for the first root of a kind, and control groups of version 2.

Nothing of it outlives the process that made the lab, however that ends: the kernel kills each first
process with its parent (PR_SET_PDEATHSIG of prctl(2)), with it all processes of its namespace
(pid_namespaces(7)), and with the last of them mounts and networks. Directories and control groups
that a killed test has left are removed by the next lab.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent.parent / "target"
"""Directory of what is built; roots and labs are below it."""

SUITES = ("bookworm", "trixie")
"""Releases of Debian on which packages and units are tested: 12 and 13."""

PLAIN = ("systemd", "systemd-sysv", "dbus", "ca-certificates")
"""Packages of each root, beside the essential ones."""

SSH = ("openssh-server", "python3", "python3-apt")
"""Packages of a root that Ansible works on."""

_TOOLS = ("mmdebstrap", "unshare", "nsenter", "setpriv", "ip")
_PREFIX = "10.89.0"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# No terminal, and no mirror that dpkg would be locked for.
_SILENT = ("console-getty.service", "apt-daily.timer", "apt-daily-upgrade.timer")
_LOOK_SECONDS = 0.05


class CannotRunError(Exception):
    """The machine lacks what a lab needs; the text says what."""


class CommandError(Exception):
    """A command failed; the text has its words, its exit status and what it printed."""

    def __init__(self, words: Sequence[str], done: subprocess.CompletedProcess[str]) -> None:
        self.done = done
        printed = f"{done.stdout}{done.stderr}".strip()
        super().__init__(f"`{' '.join(words)}` ended with status {done.returncode}:\n{printed}")


def require() -> None:
    """Checks what every lab needs.

    Raises:
        CannotRunError: something is missing.
    """
    if os.geteuid() != 0:
        raise CannotRunError("hosts in namespaces need root")
    for tool in _TOOLS:
        if shutil.which(tool) is None:
            raise CannotRunError(f"there is no {tool} (Debian: mmdebstrap util-linux iproute2)")
    cgroup_base()


def root(suite: str, packages: Sequence[str] = PLAIN) -> Path:
    """Returns a root of a release of Debian, made once and kept below `target/roots`.

    It is shared: use it as a layer, or copy it, and never write into it. Making one takes about a
    minute, and the mirror that the machine's apt uses.

    Args:
        suite: name of the release, such as `bookworm`.
        packages: names of packages that it has beside the essential ones.

    Raises:
        CannotRunError: a tool is missing, or mmdebstrap fails; the text has the reason.
    """
    wanted = ",".join(sorted(set(packages)))
    key = hashlib.sha256(wanted.encode()).hexdigest()[:8]
    made = TARGET / "roots" / suite / key
    made.parent.mkdir(parents=True, exist_ok=True)
    with (made.parent / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if made.is_dir():
            return made
        require()
        partial = made.with_suffix(".partial")
        if partial.exists():
            shutil.rmtree(partial)
        words = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={wanted}"]
        done = subprocess.run(
            [*words, suite, str(partial)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            end = "\n".join(done.stderr.splitlines()[-5:])
            raise CannotRunError(f"mmdebstrap makes no root of Debian {suite}:\n{end}")
        partial.rename(made)
    return made


class Lab:
    """Hosts, and the network that joins them. A context manager: at its end nothing is left."""

    def __init__(self) -> None:
        require()
        labs = TARGET / "lab"
        labs.mkdir(parents=True, exist_ok=True)
        with _locked(labs):
            _remove_leftovers(labs)
            self.directory = Path(tempfile.mkdtemp(dir=labs))
            """Directory of the lab; it goes with it."""
            self._lock = contextlib.ExitStack()
            self._lock.enter_context(_locked(self.directory))
        self.hosts: dict[str, Host] = {}
        self._cgroup = cgroup_base() / f"penstock-lab-{self.directory.name}"
        self._cgroup.mkdir()
        self._switch = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"]
        )
        self._wait_for_switch()
        self._ip("link", "set", "lo", "up")
        self._ip("link", "add", "name", "bridge", "type", "bridge")
        self._ip("address", "add", f"{_PREFIX}.1/24", "dev", "bridge")
        self._ip("link", "set", "bridge", "up")

    def __enter__(self) -> Self:
        """Returns the lab itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the lab, as `close` does."""
        self.close()

    def close(self) -> None:
        """Kills all hosts, and removes all that the lab has made."""
        for host in self.hosts.values():
            host.kill()
        self._switch.kill()
        self._switch.wait()
        _remove(self.directory, self._cgroup)
        self._lock.close()

    def host(
        self,
        name: str,
        layers: Sequence[Path],
        *,
        disks: Sequence[str] = (),
        shares: Mapping[str, Path] | None = None,
        is_started: bool = True,
    ) -> Host:
        """Makes a host.

        Args:
            name: its name, by which the others find it too; 12 letters at most.
            layers: directories that its root is made of, the uppermost first; the last one is a
                `root`. They are only read.
            disks: absolute places where it has a directory of the machine's own file system
                mounted, as an overlay is not what stores lie on.
            shares: absolute places where it has a directory of this machine mounted, which other
                hosts may have too.
            is_started: boots it, without a wait for the end of that.
        """
        number = len(self.hosts) + 11
        host = Host(self, name, f"{_PREFIX}.{number}", layers, disks, shares or {})
        self.hosts[name] = host
        lines = [f"{other.address} {other.name}" for other in self.hosts.values()]
        for other in self.hosts.values():
            other.write("/etc/hosts", "\n".join(["127.0.0.1 localhost", *lines, ""]))
        if is_started:
            host.start()
        return host

    def control(
        self,
        words: Sequence[str],
        *,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
        seconds: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program of this machine in the network of the hosts, at address 10.89.0.1.

        Args:
            words: the program and its arguments.
            directory: where it runs; without it, the current one.
            environment: variables beside those of this process.
            seconds: after this time it is killed.
        """
        return subprocess.run(
            self.control_words(words),
            cwd=directory,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def control_words(self, words: Sequence[str]) -> list[str]:
        """Returns what has to run so that a program runs in the network of the hosts."""
        return ["nsenter", "--net", f"--target={self._switch.pid}", "--", *words]

    def ssh_key(self) -> Path:
        """Returns the private key that hosts of `allow_ssh` accept, made at the first call."""
        key = self.directory / "ssh_key"
        if not key.exists():
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(key)]
            subprocess.run(words, check=True)
        return key

    def known_hosts(self) -> Path:
        """Returns a file with the host keys of all hosts, as ssh(1) reads it."""
        lines = [
            f"{host.name},{host.address} {host.ssh_host_key()}" for host in self.hosts.values()
        ]
        file = self.directory / "known_hosts"
        file.write_text("".join(lines))
        return file

    def join(self, host: Host, init: int) -> None:
        """Gives a host its card on the bridge. The first process of its namespaces is `init`."""
        number = host.address.rsplit(".", 1)[1]
        card = ["link", "add", "name", f"host{number}", "type", "veth"]
        self._ip(*card, "peer", "name", "eth0", "netns", str(init))
        self._ip("link", "set", f"host{number}", "master", "bridge", "up")
        inside = ["nsenter", "--net", f"--target={init}", "--", "ip"]
        for words in (
            ("address", "add", f"{host.address}/24", "dev", "eth0"),
            ("link", "set", "lo", "up"),
            ("link", "set", "eth0", "up"),
        ):
            subprocess.run([*inside, *words], check=True)

    def cgroup(self, name: str) -> Path:
        """Makes a control group for a host that boots."""
        group = self._cgroup / name
        _remove_cgroup(group)
        group.mkdir()
        return group

    def _ip(self, *words: str) -> None:
        subprocess.run(self.control_words(["ip", *words]), check=True)

    def _wait_for_switch(self) -> None:
        _wait("the network of the lab", 10, lambda: _is_apart(self._switch.pid))


@dataclasses.dataclass
class _Running:
    """What runs while a host is up: the process that holds it, and its first one."""

    holder: subprocess.Popen[str]
    init: int


class Host:
    """One host: a root of its own, in which systemd runs. Made by `Lab.host`."""

    def __init__(
        self,
        lab: Lab,
        name: str,
        address: str,
        layers: Sequence[Path],
        disks: Sequence[str],
        shares: Mapping[str, Path],
    ) -> None:
        self.name = name
        self.address = address
        self._lab = lab
        self.layers = tuple(layers)
        """Directories that its root is made of, for a host of the same kind."""
        self._directory = lab.directory / name
        self._disks = [f"{directory}:{place}" for place, directory in shares.items()]
        self._running: _Running | None = None
        for part in ("upper", "work", "root"):
            (self._directory / part).mkdir(parents=True)
        for number, place in enumerate(disks):
            disk = self._directory / f"disk{number}"
            disk.mkdir()
            self._disks.append(f"{disk}:{place}")
        for unit in _SILENT:
            mask = self._directory / "upper/etc/systemd/system" / unit
            mask.parent.mkdir(parents=True, exist_ok=True)
            mask.symlink_to("/dev/null")
        self.write("/etc/hostname", f"{name}\n")
        self.write("/etc/resolv.conf", "")

    def disk(self, place: str) -> Path:
        """Returns the directory of this machine that the host has mounted at a place."""
        for disk in self._disks:
            source, _, target = disk.partition(":")
            if target == place:
                return Path(source)
        raise LookupError(f"host {self.name} has no disk at {place}")

    @property
    def is_up(self) -> bool:
        """Whether its first process is there."""
        return self._running is not None and self._running.holder.poll() is None

    @property
    def init(self) -> int:
        """The first process, as this machine numbers it."""
        if self._running is None:
            raise RuntimeError(f"host {self.name} does not run")
        return self._running.init

    @property
    def console(self) -> str:
        """What systemd has written to its console."""
        return (self._directory / "console").read_text(errors="replace")

    def start(self) -> None:
        """Boots it. `wait_running` waits for the end of that."""
        words = ["setpriv", "--pdeathsig", "KILL", str(HERE / "boot.sh")]
        words += [str(self._lab.cgroup(self.name)), ":".join(map(str, self.layers))]
        words += [str(self._directory), self.name, *self._disks]
        with (self._directory / "console").open("w") as console:
            holder = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=console, stderr=console, text=True
            )
        init = 0

        def is_there() -> bool:
            nonlocal init
            if holder.poll() is not None:
                raise CannotRunError(f"host {self.name} does not boot: {self.console}")
            init = _child(holder.pid)
            return init > 0 and _is_apart(init)

        _wait(f"the first process of {self.name}", 20, is_there)
        self._lab.join(self, init)
        _pipe(holder).write("\n")
        _pipe(holder).close()

        def is_systemd() -> bool:
            if holder.poll() is not None:
                raise CannotRunError(f"host {self.name} does not boot: {self.console}")
            return _program(init) == "systemd"

        # Before that its root is the one of this machine, which no test may write into.
        _wait(f"systemd of {self.name}", 20, is_systemd)
        self._running = _Running(holder, init)

    def wait_running(self, seconds: float = 60) -> None:
        """Waits until systemd has started all units.

        Raises:
            AssertionError: a unit failed, or it takes longer than `seconds`.
        """

        def is_running() -> bool:
            if not self.is_up:
                raise AssertionError(f"host {self.name} ended while it booted:\n{self.console}")
            return self.system_state(wait=True) in {"running", "degraded"}

        _wait(f"systemd of {self.name}", seconds, is_running)
        if self.system_state() == "degraded":
            failed = self.run("systemctl", "--failed", "--no-pager", "--plain")
            raise AssertionError(f"units of host {self.name} failed:\n{failed}")

    def system_state(self, *, wait: bool = False) -> str:
        """Returns the state of the whole system, after the boot if `wait` is set."""
        words = ["systemctl", "is-system-running", *(["--wait"] if wait else [])]
        return self.run(*words, check=False).strip()

    def stop(self, seconds: float = 60) -> None:
        """Shuts it down in order, and waits for that."""
        if self._running is None:
            return
        self.run("systemctl", "poweroff", check=False)
        self._running.holder.wait(timeout=seconds)
        self._running = None

    def kill(self) -> None:
        """Ends all of its processes at once. Its files stay, and `start` boots it again."""
        if self._running is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._running.init, signal.SIGKILL)
        self._running.holder.kill()
        self._running.holder.wait()
        place = Path(f"/proc/{self._running.init}")
        _wait(f"the end of {self.name}", 20, lambda: not place.exists())
        self._running = None

    def run(
        self,
        *words: str,
        user: str | None = None,
        stdin: str | None = None,
        environment: Mapping[str, str] | None = None,
        seconds: float = 120,
        check: bool = True,
    ) -> str:
        """Runs a program in the host, and returns its standard output.

        Args:
            words: the program and its arguments; no shell reads them.
            user: account that runs it, with its groups; without it, root.
            stdin: what it reads; without it, nothing.
            environment: variables beside PATH, HOME and LANG.
            seconds: after this time it is killed.
            check: raise an error unless it ends with status 0.

        Raises:
            CommandError: it ended with another status.
            subprocess.TimeoutExpired: it took longer than `seconds`.
        """
        done = self.try_run(
            *words, user=user, stdin=stdin, environment=environment, seconds=seconds
        )
        if check and done.returncode != 0:
            raise CommandError(words, done)
        return done.stdout

    def try_run(
        self,
        *words: str,
        user: str | None = None,
        stdin: str | None = None,
        environment: Mapping[str, str] | None = None,
        seconds: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program in the host as `run` does, and returns how it ended."""
        return subprocess.run(
            self.words(*words, user=user, environment=environment),
            input=stdin or "",
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def words(
        self, *words: str, user: str | None = None, environment: Mapping[str, str] | None = None
    ) -> list[str]:
        """Returns what this machine has to run so that a program runs in the host."""
        if _program(self.init) != "systemd":
            raise RuntimeError(f"host {self.name} has ended")
        enter = ["nsenter", "-m", "-u", "-i", "-n", "-p", "-C", "-t", str(self.init), "--"]
        variables = {"PATH": _PATH, "HOME": "/root", "LANG": "C.UTF-8", **(environment or {})}
        clean = ["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in variables.items())]
        change = [] if user is None else ["/sbin/runuser", "-u", user, "--"]
        return [*enter, *clean, *change, *words]

    def write(self, place: str, text: str, *, mode: int = 0o644) -> None:
        """Writes a file of root, whether the host runs or not, and makes its directories."""
        if self.is_up:
            script = 'mkdir -p "$(dirname "$1")" && cat >"$1" && chmod "$2" "$1"'
            self.run("/bin/sh", "-c", script, "write", place, f"{mode:o}", stdin=text)
            return
        file = self._directory / "upper" / place.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def copy(self, source: Path, place: str, *, mode: int = 0o644) -> None:
        """Copies a file of this machine into the host, which has to run."""
        script = 'mkdir -p "$(dirname "$1")" && cat >"$1" && chmod "$2" "$1"'
        words = self.words("/bin/sh", "-c", script, "copy", place, f"{mode:o}")
        with source.open("rb") as file:
            subprocess.run(words, stdin=file, check=True)

    def read(self, place: str) -> str:
        """Returns the text of a file."""
        return self.run("cat", "--", place)

    def exists(self, place: str) -> bool:
        """Whether the running host has something of that name."""
        return self.try_run("test", "-e", place).returncode == 0

    def journal(self, unit: str) -> str:
        """Returns the log of a unit since the host has booted."""
        return self.run("journalctl", "--no-pager", "-b", "-u", unit, check=False)

    def processes(self, name: str) -> list[int]:
        """Returns the processes of a program, as the host numbers them (proc_pid_comm(5))."""
        found = self.run("sh", "-c", 'grep -lxF "$1" /proc/[0-9]*/comm || true', "find", name)
        return [int(line.split("/")[2]) for line in found.splitlines()]

    def property(self, unit: str, name: str) -> str:
        """Returns a property of a unit, as systemctl(1) shows it."""
        return self.run("systemctl", "show", "--value", "-p", name, unit).strip()

    def wait_until(self, what: str, *words: str, seconds: float = 60) -> None:
        """Waits until a program ends with status 0.

        Args:
            what: what is waited for, for the text of the error.
            words: the program and its arguments.
            seconds: how long, at most.
        """
        _wait(f"{what} on {self.name}", seconds, lambda: self.try_run(*words).returncode == 0)

    def allow_ssh(self) -> None:
        """Lets the key of the lab log in as root. The host is up, and of a root with `SSH`."""
        public = self._lab.ssh_key().with_suffix(".pub").read_text()
        self.write("/root/.ssh/authorized_keys", public, mode=0o600)
        self.run("systemctl", "start", "ssh")

    def ssh_host_key(self) -> str:
        """Returns the public key by which sshd of the host is known."""
        kind, key, *_ = self.read("/etc/ssh/ssh_host_ed25519_key.pub").split()
        return f"{kind} {key}\n"


def _wait(what: str, seconds: float, is_so: Callable[[], bool]) -> None:
    """Waits until a question is answered with yes."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not there after {seconds:.0f} s")
        time.sleep(_LOOK_SECONDS)


def _pipe(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdin is not None
    return process.stdin


def _child(parent: int) -> int:
    """Returns the first child of a process, or 0."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The name of a program may have spaces and brackets (proc(5)).
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[1]) == parent:
                    return int(entry.name)
    return 0


def _program(process: int) -> str:
    """Returns the name of the file that a process runs, or nothing if it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/exe").readlink().name
    return ""


def _is_apart(process: int) -> bool:
    """Whether a process is in another network namespace than this one."""
    return _network(process) != _network("self")


def _network(process: int | str) -> Path:
    return Path(f"/proc/{process}/ns/net").readlink()


def cgroup_base() -> Path:
    """Returns the control group of this process, of version 2.

    Raises:
        CannotRunError: there is none that may be written.
    """
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, after = line.split(" - ")
        if after.split()[0] == "cgroup2":
            mount = Path(before.split()[4])
            own = [
                line[3:]
                for line in Path("/proc/self/cgroup").read_text().splitlines()
                if line.startswith("0::")
            ]
            base = mount / own[0].lstrip("/") if own else mount
            if not base.is_dir():
                base = mount
            if not os.access(base, os.W_OK):
                raise CannotRunError(f"control groups in {base} cannot be made")
            return base
    raise CannotRunError("control groups of version 2 are not mounted")


@contextlib.contextmanager
def _locked(directory: Path, *, waits: bool = True) -> Generator[None]:
    """Locks a directory; the lock ends with this process, too.

    Raises:
        OSError: the directory is gone, or another process has the lock and `waits` is false.
    """
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        yield
    finally:
        os.close(opened)


def _remove_leftovers(labs: Path) -> None:
    """Removes labs whose processes are gone."""
    for directory in labs.iterdir():
        with contextlib.suppress(OSError), _locked(directory, waits=False):
            _remove(directory, cgroup_base() / f"penstock-lab-{directory.name}")


def _remove(directory: Path, cgroup: Path) -> None:
    _wait(f"the end of processes in {cgroup}", 20, lambda: _remove_cgroup(cgroup))
    shutil.rmtree(directory)


def _remove_cgroup(group: Path) -> bool:
    """Removes a control group and those in it; returns whether it is gone."""
    for inner in _inner_first(group):
        with contextlib.suppress(OSError):
            inner.rmdir()
    return not group.exists()


def _inner_first(group: Path) -> Iterator[Path]:
    if group.is_dir():
        for entry in group.iterdir():
            if entry.is_dir():
                yield from _inner_first(entry)
        yield group
