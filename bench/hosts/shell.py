"""Hosts: the duties of one, and this host; commands, servers, and the CPU they take."""

import os
import re
import shlex
import signal
import subprocess
import time
from typing import Protocol

from bench.base.groups import SETTLE_SECONDS, Group, send
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
        """Runs a script of sh to its end; its output. After `limit_s` the script is ended."""
        ...

    def start(self, command: str, log: str) -> int:
        """Starts a command of bash, its output in a file; a number to wait for it by."""
        ...

    def wait(self, number: int, deadline: float) -> int:
        """Waits for a command that was started; its exit code. Fails after the deadline."""
        ...

    def stop(self) -> None:
        """Ends all that was started, after a time-out too. Fails if a kill did not help."""
        ...

    def cpu(self) -> float:
        """User and system seconds so far."""
        ...

    def close(self) -> None:
        """Ends all, and lets the host go. Never fails: it warns of processes that remain."""
        ...


class LocalHost:
    """This host. With the right to make a control group it counts the processes of a run alone."""

    def __init__(self) -> None:
        self.name = os.uname().nodename
        self.group = Group(f"hosts-{os.urandom(4).hex()}")
        self.counts = "host" if self.group.cpu() is None else "processes"
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def ask(self, script: str, limit_s: float = ASK_SECONDS) -> str:
        with subprocess.Popen(
            ["sh", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
            start_new_session=True,
        ) as shell:
            try:
                told, complaint = shell.communicate(timeout=limit_s)
            except BaseException as error:
                # The shell alone would leave its children, which still read or write.
                send(os.killpg, shell.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise Failed("over the time limit") from error
                raise
        if shell.returncode:
            raise Failed(tail(told + complaint) or f"exit code {shell.returncode}")
        return told

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
