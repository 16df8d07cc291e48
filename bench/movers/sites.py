"""Two paired Penstock sites with one daemon each, and the transfers between them."""

import os
import subprocess
import time

from bench.base.groups import spent
from bench.base.processes import Failed, wait_process
from bench.base.trees import fresh

MODES = {
    "clear xxh3": ["--encryption", "off", "--digest", "xxh3-128"],
    "clear blake3": ["--encryption", "off"],
    "tls blake3": [],
    "tls xxh3": ["--digest", "xxh3-128"],
}
MEM_FILES = "files=16"


class Sites:
    """Sites `a` and `b`, both with the store `data`, and `a` with `mem`, `b` with `null`."""

    def __init__(self, binary, root, data, group, limit_s, mem_size="1G", options=None):
        """`options` are further ones of `site init`, by the name of the site."""
        self.binary, self.group, self.limit_s = binary, group, limit_s
        self.directories = {name: os.path.join(root, "site-" + name) for name in "ab"}
        self.daemons, self.begun = [], 0
        stores = {"a": f"mem=mem:{MEM_FILES},size={mem_size}", "b": "null=null:"}
        for name, directory in self.directories.items():
            fresh(directory, 0o700)
            self.call(
                "site",
                "init",
                "--name",
                name,
                "--dir",
                directory,
                "--listen",
                "127.0.0.1:0",
                "--store",
                f"data={data}",
                "--store",
                stores[name],
                *(options or {}).get(name, []),
            )
            self.daemons.append(self.start(name))
        token = self.call("site", "pair", "--dir", self.directories["a"]).strip()
        self.call("site", "pair", "--dir", self.directories["b"], token)

    def start(self, name):
        """Starts the daemon of a site, and waits until it serves."""
        daemon = self.group.start(
            [self.binary, "daemon", "--dir", self.directories[name]],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        if not daemon.stdout.readline():
            raise Failed(f"the daemon of site {name} does not start")
        return daemon

    def call(self, *arguments):
        done = subprocess.run([self.binary, *arguments], capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"penstock {' '.join(arguments[:2])}: {done.stderr.strip()}")
        return done.stdout

    def peaks_mib(self):
        """Peak resident memory of both daemons since `forget_peaks`."""
        return [peak_mib(daemon.pid) for daemon in self.daemons]

    def forget_peaks(self):
        for daemon in self.daemons:
            with open(f"/proc/{daemon.pid}/clear_refs", "w") as clear:
                clear.write("5")

    def move(self, mode, *routes):
        """Runs the transfers at once, each submitted to its target; wall and CPU seconds."""
        self.forget_peaks()
        before, begun = self.group.cpu(), time.monotonic()
        clients = []
        for source, target in routes:
            site = self.directories[target.partition(":")[0]]
            clients.append(
                self.group.start(
                    [
                        self.binary,
                        "transfer",
                        "submit",
                        source,
                        target,
                        "--wait",
                        "--json",
                        "--dir",
                        site,
                        *MODES[mode],
                    ],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        codes = [wait_process(client, begun + self.limit_s) for client in clients]
        wall = time.monotonic() - begun
        errors = " ".join(client.stderr.read().strip() for client in clients)
        if any(codes):
            raise Failed(f"exit codes {codes}: {errors[-300:]}")
        return wall, spent(self.group, before)

    def stop(self):
        self.group.end()


def peak_mib(pid):
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0
