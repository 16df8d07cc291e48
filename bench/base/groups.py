"""Control groups: the CPU time of all that is started in one, and an end to just that."""

import os
import signal
import subprocess
import time

SETTLE_SECONDS = 0.2
"""After a run, before its CPU is read: what a mover leaves for later is its cost too."""


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
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=self.enter,
            **options,
        )
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


def spent(group, before):
    """CPU seconds of the group since `before`, once it has settled."""
    if before is None:
        return None
    time.sleep(SETTLE_SECONDS)
    return group.cpu() - before
