"""A host behind ssh: its shell, the processes there, and the end of both after a lost answer."""

import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time

from bench.base.processes import Failed
from bench.hosts.shell import ASK_SECONDS, busy_seconds, tail

MARK = "PENSTOCK_BENCH_SHELL"
"""A variable of the environment: it finds all that a shell has started (proc_pid_environ(5))."""
CLOSE_SECONDS = 5
NEEDS = "bash cut env find grep sed setsid sha256sum sort xargs"
HAS = "command -v $name > /dev/null"


class Shell:
    """A shell behind ssh: one command costs one round trip. After a lost answer, use another."""

    def __init__(self, ssh: list[str], destination: str) -> None:
        self.name = os.urandom(8).hex()
        self.is_in_step = True
        """Whether every question so far has been answered: otherwise the next answer is late."""
        self.complaints = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [*ssh, destination, f"cd / && exec env {MARK}={self.name} sh"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            start_new_session=True,
        )

    def ask(self, script: str, limit_s: float) -> str:
        """Runs a script of sh to its end; its output. Raises `Failed`, also after `limit_s`."""
        deadline = time.monotonic() + limit_s
        mark = f"end-{os.urandom(8).hex()}"
        asked = f"{{ {script}\n}} < /dev/null 2>&1\nprintf '\\n{mark} %s\\n' $?\n"
        assert self.process.stdin
        self.is_in_step = False
        try:
            self.process.stdin.write(asked.encode(errors="surrogateescape"))
            self.process.stdin.flush()
        except OSError as error:
            raise Failed(self.why_lost()) from error
        text, code = self.answer(mark, deadline)
        self.is_in_step = True
        if code:
            raise Failed(tail(text) or f"exit code {code}")
        return text

    def answer(self, mark: str, deadline: float) -> tuple[str, int]:
        """Reads up to a mark: the output, and the exit code."""
        assert self.process.stdout
        descriptor, told = self.process.stdout.fileno(), b""
        ending = re.compile(rf"\n{mark} (\d+)\n\Z".encode())
        while not (found := ending.search(told, max(0, len(told) - 80))):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise Failed("over the time limit")
            more = os.read(descriptor, 2**20)
            if not more:
                raise Failed(self.why_lost())
            told += more
        return told[: found.start()].decode(errors="surrogateescape"), int(found[1])

    def why_lost(self) -> str:
        """Ends ssh; the reason that it has written."""
        self.end(CLOSE_SECONDS)
        self.complaints.seek(0)
        said = tail(self.complaints.read().decode(errors="replace"))
        return f"the connection has ended: {said or 'ssh says nothing'}"

    def end(self, patience_s: float) -> None:
        """Waits for the end of ssh, and kills it after `patience_s`."""
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def close(self) -> None:
        """Ends the connection: at once if an answer is missing, else with the shell."""
        assert self.process.stdin
        assert self.process.stdout
        try:
            self.process.stdin.close()
        except OSError:
            pass  # What was not sent is of no use.
        self.end(CLOSE_SECONDS if self.is_in_step else 0)
        self.process.stdout.close()
        self.complaints.close()


class RemoteHost:
    """A host behind ssh. Its shell stays; after a lost answer another takes its place."""

    def __init__(self, ssh: list[str], destination: str) -> None:
        self.name, self.ssh = destination, ssh
        self.counts = "host"
        self.shell: Shell | None = None
        self.lost: list[str] = []
        """Names of shells that may still run, or have left processes behind."""
        self.started: dict[int, Shell] = {}
        """By the number of a session, the shell that can wait for its leader."""
        try:
            self.ask(f"(for name in {NEEDS}; do {HAS} || {{ echo no $name; exit 1; }}; done)")
        except Failed as error:
            self.close()
            raise Failed(
                f"{destination} cannot be used by ssh: {error}. Log in there once by hand; it "
                "needs bash, findutils, coreutils, grep, sed and util-linux"
            ) from error

    def ready(self) -> Shell:
        """A shell that answers; it replaces one that does not, and ends what that has started."""
        if self.shell and not self.shell.is_in_step:
            self.shell.close()
            self.lost.append(self.shell.name)
            self.shell = None
        if self.shell is None:
            self.shell = Shell(self.ssh, self.name)
        if self.lost:
            told = self.shell.ask(ending(of_shells(self.lost), "KILL KILL"), ASK_SECONDS)
            self.lost = []
            if told.strip():
                warning = f"{self.name}: processes {tail(told)} have not ended after a kill"
                print(f"warning: {warning}", file=sys.stderr)
        return self.shell

    def ask(self, script: str, limit_s: float = ASK_SECONDS) -> str:
        return self.ready().ask(script, limit_s)

    def start(self, command: str, log: str) -> int:
        words = shlex.quote(f"set -o pipefail; {command}")
        script = f"setsid bash -c {words} >> {shlex.quote(log)} 2>&1 & echo $!"
        shell = self.ready()
        number = int(shell.ask(script, ASK_SECONDS))
        self.started[number] = shell
        return number

    def wait(self, number: int, deadline: float) -> int:
        shell = self.ready()
        if self.started[number] is not shell:
            raise Failed("its exit code went with the connection that started it")
        told = shell.ask(f"wait {number}; echo $?", max(0.0, deadline - time.monotonic()))
        return int(told)

    def stop(self) -> None:
        if not self.started:
            return
        told = self.ask(ending(of_sessions(list(self.started)), "TERM KILL"))
        self.started = {}
        if told.strip():
            raise Failed(f"processes {tail(told)} have not ended after a kill")

    def cpu(self) -> float:
        return busy_seconds(self.ask("head -n 1 /proc/stat"))

    def close(self) -> None:
        try:
            self.stop()
        except Failed as error:
            print(f"warning: {self.name}: processes may still run: {error}", file=sys.stderr)
        if self.shell:
            self.shell.close()
            self.shell = None


def of_shells(names: list[str]) -> str:
    """A command that lists the processes that have come from these shells."""
    return f"grep -lsE '{MARK}=({'|'.join(names)})' /proc/[0-9]*/environ | cut -d / -f 3"


def of_sessions(numbers: list[int]) -> str:
    """A command that lists the living processes of these sessions, by proc_pid_stat(5)."""
    sessions = "|".join(str(number) for number in numbers)
    wanted = rf"s/^([0-9]+) \(.*\) [^XZ] [0-9]+ [0-9]+ ({sessions}) .*/\1/p"
    return f"sed -nE '{wanted}' /proc/[0-9]*/stat 2> /dev/null"


def ending(listing: str, signals: str) -> str:
    """A script of sh that ends the listed processes, and prints those that a second did not end.

    Each signal is sent to those that the one before has not ended within a second.
    """
    return (
        f"(found() {{ {listing}; true; }}\n"
        f"for signal in {signals}; do\n"
        '  numbers=$(found); [ "$numbers" ] || break\n'
        "  kill -$signal $numbers 2> /dev/null\n"
        "  for turn in 1 2 3 4 5 6 7 8 9 10; do\n"
        '    [ "$(found)" ] || break\n'
        "    sleep 0.1\n"
        "  done\n"
        "done\n"
        "found)"
    )
