"""Hosts: this one, and one that is reached by ssh; commands, servers, and the CPU they take."""

import os
import re
import select
import shlex
import signal
import subprocess
import tempfile
import time
from typing import Protocol

from bench.base.groups import SETTLE_SECONDS, Group
from bench.base.processes import Failed, wait_process

ASK_SECONDS = 60
TICKS_A_SECOND = 100
"""USER_HZ of Linux, the unit of /proc/stat (proc(5))."""
LISTEN_SECONDS = 10
BUSY_FIELDS = (1, 2, 3, 6, 7)
"""Of the first line of /proc/stat: user, nice, system, irq, softirq."""


class Host(Protocol):
    """What a mover needs of a host. Every call raises `Failed` with what the host said."""

    name: str
    counts: str
    """What `cpu` counts: `processes` of the run alone, or the whole `host`."""

    def ask(self, script: str, limit_s: float = ASK_SECONDS) -> str:
        """Runs a script of sh to its end; its output."""
        ...

    def start(self, command: str, log: str) -> int:
        """Starts a command of bash, its output in a file; a number to wait for it by."""
        ...

    def wait(self, number: int, deadline: float) -> int:
        """Waits for what was started; its exit code."""
        ...

    def stop(self) -> None:
        """Ends all that was started."""
        ...

    def cpu(self) -> float:
        """User and system seconds so far."""
        ...

    def close(self) -> None:
        """Ends all, and lets the host go."""
        ...


class LocalHost:
    """This host. With the right to make a control group it counts the processes of a run alone."""

    def __init__(self) -> None:
        self.name = os.uname().nodename
        self.group = Group(f"hosts-{os.urandom(4).hex()}")
        self.counts = "host" if self.group.cpu() is None else "processes"
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def ask(self, script: str, limit_s: float = ASK_SECONDS) -> str:
        try:
            done = subprocess.run(
                ["sh", "-c", script],
                capture_output=True,
                text=True,
                timeout=limit_s,
                errors="surrogateescape",
            )
        except subprocess.TimeoutExpired as error:
            raise Failed(f"over the time limit of {limit_s:.0f} s") from error
        if done.returncode:
            raise Failed(tail(done.stdout + done.stderr) or f"exit code {done.returncode}")
        return done.stdout

    def start(self, command: str, log: str) -> int:
        with open(log, "a") as out:
            words = f"set -o pipefail; {command}"
            process = self.group.start(words, stdout=out, stderr=out)
        self.running[process.pid] = process
        return process.pid

    def wait(self, number: int, deadline: float) -> int:
        return wait_process(self.running[number], deadline)

    def stop(self) -> None:
        self.group.kill()
        self.running.clear()

    def cpu(self) -> float:
        counted = self.group.cpu()
        return busy_seconds(self.ask("head -n 1 /proc/stat")) if counted is None else counted

    def close(self) -> None:
        self.group.end()


class RemoteHost:
    """A host behind ssh, with one shell that stays, so that a command costs one round trip."""

    def __init__(self, ssh: list[str], destination: str) -> None:
        self.name = destination
        self.counts = "host"
        self.complaints = tempfile.TemporaryFile()
        self.shell = subprocess.Popen(
            [*ssh, destination, "cd / && exec sh"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            start_new_session=True,
        )
        self.mark = f"end-{os.urandom(8).hex()}"
        self.started: list[int] = []
        try:
            self.ask("command -v bash setsid find sort sha256sum > /dev/null")
        except Failed as error:
            self.shell.kill()
            raise Failed(
                f"{destination} cannot be used by ssh: {error}. Log in there once by hand; it "
                "needs bash, findutils, coreutils and util-linux"
            ) from error

    def ask(self, script: str, limit_s: float = ASK_SECONDS) -> str:
        asked = f"{{ {script}\n}} < /dev/null 2>&1\nprintf '\\n{self.mark} %s\\n' $?\n"
        assert self.shell.stdin
        try:
            self.shell.stdin.write(asked.encode(errors="surrogateescape"))
            self.shell.stdin.flush()
        except OSError as error:
            raise Failed(self.why_lost()) from error
        return self.answer(time.monotonic() + limit_s)

    def answer(self, deadline: float) -> str:
        assert self.shell.stdout
        descriptor, told = self.shell.stdout.fileno(), b""
        ending = re.compile(rf"\n{self.mark} (\d+)\n\Z".encode())
        while not (found := ending.search(told, max(0, len(told) - 80))):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise Failed("over the time limit")
            more = os.read(descriptor, 2**20)
            if not more:
                raise Failed(self.why_lost())
            told += more
        text = told[: found.start()].decode(errors="surrogateescape")
        if int(found[1]):
            raise Failed(tail(text) or f"exit code {int(found[1])}")
        return text

    def why_lost(self) -> str:
        """What ssh said when it ended."""
        self.shell.wait()
        self.complaints.seek(0)
        said = tail(self.complaints.read().decode(errors="replace"))
        return f"the connection has ended: {said or 'ssh says nothing'}"

    def start(self, command: str, log: str) -> int:
        words = shlex.quote(f"set -o pipefail; {command}")
        number = int(self.ask(f"setsid bash -c {words} >> {shlex.quote(log)} 2>&1 & echo $!"))
        self.started.append(number)
        return number

    def wait(self, number: int, deadline: float) -> int:
        told = self.ask(f"wait {number}; echo $?", max(0.0, deadline - time.monotonic()))
        return int(told)

    def stop(self) -> None:
        for number in self.started:
            # setsid(1) makes each the leader of a session and of its group of processes.
            self.ask(
                f"kill -- -{number} 2> /dev/null; for i in 1 2 3 4 5 6 7 8 9 10; do "
                f"kill -0 -- -{number} 2> /dev/null || break; sleep 0.1; done; "
                f"kill -9 -- -{number} 2> /dev/null; wait {number} 2> /dev/null; true"
            )
        self.started = []

    def cpu(self) -> float:
        return busy_seconds(self.ask("head -n 1 /proc/stat"))

    def close(self) -> None:
        try:
            self.stop()
        except Failed:
            pass
        assert self.shell.stdin
        self.shell.stdin.close()
        try:
            self.shell.wait(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(self.shell.pid, signal.SIGKILL)
        self.complaints.close()


def busy_seconds(line: str) -> float:
    """CPU seconds of a whole host since it was started, from the first line of /proc/stat."""
    words = line.split()
    return sum(int(words[field]) for field in BUSY_FIELDS) / TICKS_A_SECOND


def spent(host: Host, before: float) -> float:
    """CPU seconds since `before`, once what a mover leaves for later has been done."""
    time.sleep(SETTLE_SECONDS)
    return host.cpu() - before


def find(host: Host, program: str) -> str:
    """Path of a program at a host, or an empty text; those for root may lie outside PATH."""
    quoted = shlex.quote(program)
    found = host.ask(f"(PATH=$PATH:/usr/sbin:/sbin; command -v {quoted} || true)")
    return found.strip()


def sockets(host: Host) -> str:
    """The TCP sockets of a host, as the kernel lists them."""
    return host.ask("cat /proc/net/tcp /proc/net/tcp6 2> /dev/null; true")


def is_used(table: str, port: int) -> bool:
    """Whether a table of sockets has a port of this side, of a connection too."""
    return bool(re.search(rf"^\s*\d+: [0-9A-F]+:{port:04X} ", table, re.MULTILINE))


def is_listening(table: str, port: int) -> bool:
    """Whether a table of sockets has a listener at a port."""
    return bool(re.search(rf"^\s*\d+: [0-9A-F]+:{port:04X} \S+ 0A ", table, re.MULTILINE))


def wait_listening(host: Host, port: int) -> None:
    """Waits for a listener without connecting, as some take one connection only."""
    deadline = time.monotonic() + LISTEN_SECONDS
    while not is_listening(sockets(host), port):
        if time.monotonic() > deadline:
            raise Failed(f"nothing listens at port {port} of {host.name}")
        time.sleep(0.02)


def tail(text: str) -> str:
    """The end of what a program said, in one line."""
    return " ".join(text[-400:].split())
