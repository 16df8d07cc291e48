"""What every mover is run by: control groups, servers, the timed part, data sets, comparing."""

import argparse
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

SETTLE_SECONDS = 0.2
"""After a run, before its CPU is read: what a mover leaves for later is its cost too."""


def end_on_signals():
    """Makes SIGTERM and SIGHUP end the program in order: neither may leave daemons behind."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(128 + signal.SIGTERM))


def choice(kind, known):
    """A reader of comma-separated names, with hyphens or spaces; `none` for no name at all."""
    def read(text):
        names = [name.strip().replace("-", " ") for name in text.split(",")]
        if names == ["none"]:
            return []
        for name in names:
            if name not in known:
                there = ", ".join(known)
                raise argparse.ArgumentTypeError(f"no {kind} `{name}`; there are: {there}")
        return names
    return read


class Failed(Exception):
    """A run that did not end well; the text says how."""


class Group:
    """A control group: counts the CPU time of all that was started in it, and ends just that.

    Without the right to make one (no root) CPU is None, and sessions are ended by their leaders.
    """

    def __init__(self, name):
        v1 = "/sys/fs/cgroup/cpuacct"
        parent = v1 if os.path.isdir(v1) else "/sys/fs/cgroup"
        self.path = os.path.join(parent, f"pst-bench-{os.getpid()}-{name}")
        self.started = []
        try:
            os.makedirs(self.path, exist_ok=True)
        except OSError:
            self.path = None

    def enter(self):
        """Called by a new process between fork and exec."""
        if self.path:
            with open(os.path.join(self.path, "cgroup.procs"), "w") as procs:
                procs.write(str(os.getpid()))

    def start(self, command, **options):
        """Starts a command (a list, or text for bash) as a session of its own, in the group."""
        words = ["bash", "-c", command] if isinstance(command, str) else command
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True,
                                   preexec_fn=self.enter, **options)
        self.started.append(process)
        return process

    def cpu(self):
        """User and system seconds so far, of processes that ended too."""
        if not self.path:
            return None
        try:
            with open(os.path.join(self.path, "cpuacct.usage")) as usage:
                return int(usage.read()) / 1e9
        except FileNotFoundError:
            with open(os.path.join(self.path, "cpu.stat")) as stat:
                return int(stat.readline().split()[1]) / 1e6

    def pids(self):
        if not self.path:
            return []
        with open(os.path.join(self.path, "cgroup.procs")) as procs:
            return [int(pid) for pid in procs.read().split()]

    def kill(self):
        """Ends every process of the group, and no other."""
        for attempt in range(100):
            running = [process for process in self.started if process.poll() is None]
            pids = self.pids()
            if not running and not pids:
                break
            number = signal.SIGTERM if attempt < 20 else signal.SIGKILL
            if attempt in (0, 20, 50):
                for pid in pids:
                    send(os.kill, pid, number)
                for process in running if not self.path else []:
                    send(os.killpg, process.pid, number)
            time.sleep(0.05)
        self.started = []

    def end(self):
        self.kill()
        if self.path:
            try:
                os.rmdir(self.path)
            except OSError:
                pass


def send(how, pid, number):
    try:
        how(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def wait_process(process, deadline):
    """Waits without polling, as polling would round times up; its exit code."""
    descriptor = os.pidfd_open(process.pid)
    try:
        left = max(0.0, deadline - time.monotonic())
        if not select.select([descriptor], [], [], left)[0]:
            raise Failed("over the time limit")
    finally:
        os.close(descriptor)
    return process.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_listening(port):
    """Waits for a listener without connecting, as some take one connection only."""
    wanted = f":{port:04X}"
    for _ in range(1000):
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with open(table) as lines:
                for line in lines:
                    fields = line.split()
                    if fields[3] == "0A" and fields[1].endswith(wanted):
                        return
        time.sleep(0.01)
    raise Failed(f"nothing listens at port {port}")


class Run:
    """One run of one mover: what it moves, where to, and the processes of it."""

    def __init__(self, group, source, target, keys, work, limit_s):
        self.group, self.source, self.target = group, source, target
        self.keys, self.work, self.limit_s = keys, work, limit_s
        self.port = free_port()

    def path(self, name):
        """A file of this run's own."""
        return os.path.join(self.work, name)

    def write(self, name, text):
        with open(self.path(name), "w") as out:
            out.write(text)
        return self.path(name)

    def serve(self, command, port=None):
        """Starts a server and waits until it listens."""
        with open(self.path("server.log"), "a") as log:
            process = self.group.start(command, stdout=log, stderr=log)
        wait_listening(port or self.port)
        return process

    def timed(self, command, until=()):
        """The timed part: a client, and the ends of the processes `until`. Wall and CPU s."""
        with open(self.path("client.log"), "w") as log:
            before, begun = self.group.cpu(), time.monotonic()
            client = self.group.start("set -o pipefail; " + command, stdout=log, stderr=log)
            deadline = begun + self.limit_s
            code = wait_process(client, deadline)
            if code == 0:
                for process in until:
                    code = code or wait_process(process, deadline)
            wall = time.monotonic() - begun
        if code:
            raise Failed(f"exit code {code}: {self.tail()}")
        return wall, spent(self.group, before)

    def tail(self):
        text = ""
        for name in ("client.log", "server.log"):
            try:
                with open(self.path(name), errors="replace") as log:
                    text += log.read()[-300:]
            except FileNotFoundError:
                pass
        return " ".join(text.split())


def spent(group, before):
    """CPU seconds of the group since `before`, once it has settled."""
    if before is None:
        return None
    time.sleep(SETTLE_SECONDS)
    return group.cpu() - before


def measure_tree(directory):
    """Number of files and their bytes."""
    files, size = 0, 0
    for parent, _, names in os.walk(directory):
        files += len(names)
        size += sum(os.path.getsize(os.path.join(parent, name)) for name in names)
    return files, size


def same(source, target):
    """Whether two trees have the same files with the same bytes, as `diff` sees it."""
    # Some movers put the directory itself into the target.
    inside = os.path.join(target, os.path.basename(source))
    landed = inside if os.path.isdir(inside) else target
    done = subprocess.run(["diff", "-rq", source, landed],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


def fresh(directory, mode=0o777):
    """An empty directory in the place of whatever was there."""
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    os.chmod(directory, mode)
    return directory
