"""Processes of a run: servers, the timed part, and limits of time."""

import os
import select
import socket
import time

from bench.base.groups import spent


class Failed(Exception):
    """A run that did not end well; the text says how."""


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
