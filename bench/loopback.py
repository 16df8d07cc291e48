#!/usr/bin/env python3
"""Times Penstock, daemon to daemon over loopback, beside the rivals that are installed.

    bench/loopback.py --penstock target/release/penstock [--root /dev/shm/pst-bench] [--reps 5]
                      [--sets one,large,mid,small,esnet] [--rivals cp,tarnc,rsync,gridftp,...] [--out DIR]

Runs are interleaved (A B C A B C ...), the first round is a warm-up and dropped, and the table gives
medians. Every run is compared with its source byte by byte outside the timed part. CPU is user and
system time of all processes of both ends together, counted by a control group (so: run as root). Quote ratios within one run: machines drift.

Needs: python3, diff. Rivals, where installed: cp, tar and nc (openbsd), rsync, globus-url-copy and
globus-gridftp-server (-anonymous), socat with openssl (tar over TLS).
"""

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SETS = {
    # name: (what it is, arguments of `penstock dataset make`)
    "one": ("1 x 4 GiB", ["--files", "1", "--size", "4G", "--layout", "flat"]),
    "large": ("16 x 256 MiB", ["--files", "16", "--size", "256M", "--layout", "flat"]),
    "mid": ("20,000 x 64 KiB", ["--files", "20000", "--size", "64K", "--layout", "flat"]),
    "small": ("100,000 x 4 KiB", ["--files", "100000", "--size", "4K", "--layout", "flat"]),
    "esnet": ("esnet mix, 3 GiB", ["--preset", "esnet", "--bytes", "3G"]),
}
PENSTOCK = {
    "penstock clear xxh3": ["--encryption", "off", "--digest", "xxh3-128"],
    "penstock clear blake3": ["--encryption", "off"],
    "penstock tls blake3": [],
    "penstock tls xxh3": ["--digest", "xxh3-128"],
}
LIMIT_SECONDS = 120


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_port(port):
    for _ in range(400):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"nothing listens at port {port}")


class Group:
    """A control group whose processes' CPU time is counted, whoever their parent is."""

    def __init__(self):
        name = f"pst-bench-{os.getpid()}"
        first = os.path.isdir("/sys/fs/cgroup/cpuacct")
        self.path = os.path.join("/sys/fs/cgroup/cpuacct" if first else "/sys/fs/cgroup", name)
        os.makedirs(self.path, exist_ok=True)

    def enter(self):
        with open(os.path.join(self.path, "cgroup.procs"), "w") as procs:
            procs.write(str(os.getpid()))

    def cpu(self):
        """User and system seconds so far."""
        try:
            return int(open(os.path.join(self.path, "cpuacct.usage")).read()) / 1e9
        except FileNotFoundError:
            first = open(os.path.join(self.path, "cpu.stat")).readline()
            return int(first.split()[1]) / 1e6


GROUP = None


def peak_mib(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def timed(command):
    """Runs a shell command; its wall seconds, or None if it failed."""
    begun = time.monotonic()
    try:
        done = subprocess.run(
            ["bash", "-c", command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LIMIT_SECONDS,
            preexec_fn=GROUP.enter,
        )
    except subprocess.TimeoutExpired:
        return None
    wall = time.monotonic() - begun
    return wall if done.returncode == 0 else None


class Server:
    """A server process for one run; its CPU counts once it has ended and was waited for."""

    def __init__(self, command, port):
        self.process = subprocess.Popen(
            ["bash", "-c", "exec " + command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=GROUP.enter,
        )
        wait_port(port)

    def stop(self):
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def run_cp(source, target, work):
    return timed(f"cp -r {source}/. {target}/")


def run_tarnc(source, target, work):
    port = free_port()
    receive = f"nc -l 127.0.0.1 {port} | tar -xf - -C {target}"
    send = f"for i in 1 2 3 4 5 6 7 8 9; do sleep 0.02; tar -cf - -C {source} . | nc -N 127.0.0.1 {port} && exit; done"
    return timed(f"({receive}) & sleep 0.1; {send}; wait")


def run_tartls(source, target, work):
    port = free_port()
    pem = os.path.join(work, "socat.pem")
    if not os.path.exists(pem):
        subprocess.run(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
            f"-subj /CN=localhost -keyout {pem}.k -out {pem}.c && cat {pem}.k {pem}.c > {pem}",
            shell=True, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    receive = f"socat -u OPENSSL-LISTEN:{port},bind=127.0.0.1,cert={pem},verify=0 - | tar -xf - -C {target}"
    send = f"tar -cf - -C {source} . | socat -u - OPENSSL:127.0.0.1:{port},verify=0"
    return timed(f"({receive}) & sleep 0.3; {send}; wait")


def run_rsync(source, target, work):
    port = free_port()
    config = os.path.join(work, "rsyncd.conf")
    with open(config, "w") as out:
        out.write(f"use chroot = no\nreverse lookup = no\nuid = root\ngid = root\n[d]\npath = {target}\nread only = no\n")
    server = Server(f"rsync --daemon --no-detach --config={config} --port={port} --address=127.0.0.1", port)
    try:
        return timed(f"rsync -r -t -W {source}/ rsync://127.0.0.1:{port}/d/")
    finally:
        server.stop()


def run_gridftp(source, target, work):
    ports = (free_port(), free_port())
    servers = [
        Server(f"globus-gridftp-server -p {port} -aa -anonymous-user root -allow-root -control-interface 127.0.0.1 -c /dev/null", port)
        for port in ports
    ]
    try:
        options = "-fast -r -cd -p 2 -cc 4 -pp"
        return timed(
            f"globus-url-copy {options} ftp://127.0.0.1:{ports[0]}{source}/ ftp://127.0.0.1:{ports[1]}{target}/")
    finally:
        for server in servers:
            server.stop()


RIVALS = {
    "cp": (run_cp, ["cp"]),
    "tar over nc": (run_tarnc, ["tar", "nc"]),
    "rsync daemon": (run_rsync, ["rsync"]),
    "gridftp": (run_gridftp, ["globus-url-copy", "globus-gridftp-server"]),
    "tar over tls": (run_tartls, ["tar", "socat", "openssl"]),
}


class Sites:
    """Two paired sites with one daemon each."""

    def __init__(self, binary, root):
        self.binary = binary
        self.data = os.path.join(root, "data")
        self.directories = {name: os.path.join(root, "site-" + name) for name in "ab"}
        self.daemons = {}
        for name, directory in self.directories.items():
            shutil.rmtree(directory, ignore_errors=True)
            self.call(["site", "init", "--name", name, "--dir", directory, "--listen", "127.0.0.1:0",
                       "--store", f"data={self.data}"])
            daemon = subprocess.Popen([binary, "daemon", "--dir", directory],
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                      preexec_fn=GROUP.enter)
            daemon.stdout.readline()
            self.daemons[name] = daemon
        token = self.call(["site", "pair", "--dir", self.directories["a"]]).strip()
        self.call(["site", "pair", "--dir", self.directories["b"], token])

    def call(self, arguments):
        return subprocess.run([self.binary, *arguments], check=True, capture_output=True, text=True).stdout

    def peaks(self):
        return [peak_mib(daemon.pid) for daemon in self.daemons.values()]

    def move(self, source, target, options):
        begun = time.monotonic()
        done = subprocess.run(
            [self.binary, "transfer", "submit", f"a:data/{source}/", f"b:data/{target}", "--wait",
             "--json", "--dir", self.directories["b"], *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT_SECONDS,
            preexec_fn=GROUP.enter)
        wall = time.monotonic() - begun
        if done.returncode != 0:
            sys.stderr.write(done.stderr)
            return None
        return wall

    def stop(self):
        for daemon in self.daemons.values():
            daemon.terminate()
            daemon.wait()


def measure(name, arguments):
    """One data set, all movers, interleaved; rows of raw results."""
    what, make = SETS[name]
    root, binary = arguments.root, arguments.penstock
    data = os.path.join(root, "data")
    os.makedirs(data, exist_ok=True)
    source = os.path.join(data, "set-" + name)
    subprocess.run([binary, "dataset", "make", source, *make], check=True, stdout=subprocess.DEVNULL)
    files, size = 0, 0
    for directory, _, names in os.walk(source):
        files += len(names)
        size += sum(os.path.getsize(os.path.join(directory, file)) for file in names)
    movers = {}
    for rival, (run, programs) in RIVALS.items():
        wanted = arguments.rivals is None or rival in arguments.rivals
        if wanted and all(shutil.which(program) for program in programs):
            movers[rival] = run
    rows = []
    sites = Sites(binary, root)
    with tempfile.TemporaryDirectory() as work:
        for rep in range(arguments.reps + 1):
            for mover in [*PENSTOCK, *movers]:
                target = os.path.join(data, "out")
                shutil.rmtree(target, ignore_errors=True)
                os.makedirs(target)
                before = GROUP.cpu()
                if mover in PENSTOCK:
                    wall = sites.move("set-" + name, "out", PENSTOCK[mover])
                else:
                    wall = movers[mover](source, target, work)
                cpu = GROUP.cpu() - before
                same = wall is not None and subprocess.run(
                    ["diff", "-rq", source, target], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
                row = {"set": name, "what": what, "mover": mover, "rep": rep, "files": files, "bytes": size,
                       "wall_s": wall, "cpu_s": cpu, "verified": same}
                print(json.dumps(row), file=sys.stderr)
                rows.append(row)
                shutil.rmtree(target, ignore_errors=True)
    peaks = sites.peaks()
    sites.stop()
    shutil.rmtree(source)
    return [row for row in rows if row["rep"] > 0], peaks


def table(rows, peaks):
    what = rows[0]["what"]
    files, size = rows[0]["files"], rows[0]["bytes"]
    print(f"\n### {what} ({files} files, {size / 2**30:.2f} GiB)\n")
    print("| mover | wall s | GB/s | files/s | CPU s/GiB | CPU us/file | ok |")
    print("|---|---|---|---|---|---|---|")
    for mover in dict.fromkeys(row["mover"] for row in rows):
        good = [row for row in rows if row["mover"] == mover and row["verified"]]
        runs = sum(row["mover"] == mover for row in rows)
        if not good:
            print(f"| {mover} | - | - | - | - | - | 0/{runs} |")
            continue
        wall = statistics.median(row["wall_s"] for row in good)
        cpu = statistics.median(row["cpu_s"] for row in good)
        print(f"| {mover} | {wall:.2f} | {size / wall / 1e9:.2f} | {files / wall:.0f} | "
              f"{cpu / (size / 2**30):.2f} | {cpu / files * 1e6:.1f} | {len(good)}/{runs} |")
    print(f"\nPeak memory of the two daemons over all these runs: {peaks[0]:.0f} and {peaks[1]:.0f} MiB.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", default="target/release/penstock")
    parser.add_argument("--root", default="/dev/shm/pst-bench")
    parser.add_argument("--reps", type=int, default=5, help="counted rounds, after one warm-up")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--rivals", type=lambda text: text.split(","), default=None)
    parser.add_argument("--out", help="directory for raw.jsonl")
    arguments = parser.parse_args()
    global GROUP
    GROUP = Group()
    arguments.penstock = os.path.abspath(arguments.penstock)
    os.makedirs(arguments.root, exist_ok=True)
    for name in arguments.sets.split(","):
        rows, peaks = measure(name, arguments)
        table(rows, peaks)
        sys.stdout.flush()
        if arguments.out:
            os.makedirs(arguments.out, exist_ok=True)
            with open(os.path.join(arguments.out, "raw.jsonl"), "a") as out:
                out.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
