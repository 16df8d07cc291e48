"""Times Penstock between two sites of the lab (lab/), over a slow and perhaps lossy link, beside
iperf3 and the rivals that are installed, and judges it by the targets in bench/judge/wan.py.

    cargo build --release -p penstock-lab
    penstock-bench wan [--rows large,medium] [--reps 3] [--out DIR] [--tcp-buf 0]

Rows: large (4 GiB, TLS and clear), medium (512 MiB) and small (5,000 x 4 KiB), over 1 Gbit/s and
90 ms; loss and cubic (512 MiB with 0.01 % and 0.1 % of all segments lost, under BBR and CUBIC);
many (100,000 x 4 KiB) and fat (mem: to null:), over 10 Gbit/s and 150 ms. Runs are interleaved,
figures are medians. `--tcp-buf` sets the largest TCP buffers of the hosts of the lab; with 0 they
are as the kernel has them: a host that nobody has tuned.

How things are measured: a run is the whole command `transfer submit --wait`. Source and target are
in a tmpfs of their own. The first byte is there when 16 KiB more are used of it, looked for every
millisecond: what a store notes of itself is less. (Until 2026-11-24 it was 64 KiB, which small
files reach a little later.) The steady rate is that of the blocks there (on
`fat`: of the bytes on the wire) from 15 % to 92 % of all bytes, looked at every 50 ms; iperf3
drops its first seconds. Every run is compared with its source byte by byte afterwards. Needs root,
Python 3.11, iperf3; for all rows 10 GiB of memory.
"""

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from bench.base import facts
from bench.base.arguments import (
    SHM,
    add_lab,
    add_out,
    add_penstock,
    choice,
    command_parser,
    end_on_signals,
)
from bench.base.groups import Group, spent
from bench.base.processes import Failed, wait_process
from bench.base.trees import fresh, measure_tree, same
from bench.judge.wan import table, targets_table
from bench.movers.sites import MODES, peak_mib

GIB = 2**30
HOST = {"a": "10.50.1.1", "b": "10.50.2.1"}
PORT = 7444
STREAMS = 8
"""Of iperf3 and of the rivals that can: eight, as the targets say."""
SETS = {
    "large": ["--files", "1", "--size", "4G", "--layout", "flat"],
    "medium": ["--files", "1", "--size", "512M", "--layout", "flat"],
    "small": ["--files", "5000", "--size", "4K", "--layout", "flat"],
    "many": ["--files", "100000", "--size", "4K", "--layout", "flat"],
}
QUICK = {"large": "64M", "medium": "16M"}
THIN = ["--rtt", "90ms", "--rate", "1g"]
FAT = ["--rtt", "150ms", "--rate", "10g"]
ROWS = ["large", "medium", "small", "loss", "cubic", "many", "fat"]
LOSSES = ["0.01%", "0.1%"]
FIRST_BYTES = 16 * 2**10
"""A transfer puts up to 8 KiB of its own into a store; the rest is of files."""
ALLOWED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"


class Lab:
    """A lab of two hosts; `where` puts a command at one."""

    def __init__(self, program, name, shape, tcp_buf):
        self.program, self.name, self.allowed = program, name, None
        self.call("down")
        self.call("up", "--bare", *shape, "--tcp-buf", tcp_buf)

    def call(self, verb, *words):
        done = subprocess.run(
            [self.program, verb, "--name", self.name, *words], capture_output=True, text=True
        )
        if done.returncode:
            raise Failed(f"penstock-lab {verb}: {done.stderr.strip()}")
        return done.stdout

    def where(self, site):
        return ["ip", "netns", "exec", f"{self.name}-{site}0"]

    def set_congestion(self, control):
        """Sets what new sockets of both hosts use. A namespace may only take what all users of
        this machine may; that list is put back by `down`."""
        with open(ALLOWED) as text:
            allowed = text.read().split()
        if control not in allowed:
            self.allowed = self.allowed or allowed
            with open(ALLOWED, "w") as out:
                out.write(" ".join([*allowed, control]))
        for site in "ab":
            done = subprocess.run(
                [
                    *self.where(site),
                    "sh",
                    "-c",
                    f"echo {control} > /proc/sys/net/ipv4/tcp_congestion_control",
                ]
            )
            if done.returncode:
                raise Failed(f"{control} cannot be the congestion control of a host")

    def counters(self):
        """Counters of what site a sends, straight from the emulator."""
        with socket.socket(socket.AF_UNIX) as emulator:
            emulator.connect(f"/run/penstock-lab-{self.name}.sock")
            emulator.sendall(b"stat\n")
            text = emulator.makefile().read()
        line = next(line for line in text.splitlines() if line.startswith("net0 from=a"))
        return {
            key: int(value)
            for key, value in (word.split("=") for word in line.split()[2:])
            if key in ("wire_bytes", "segments", "lost", "dropped")
        }

    def down(self):
        self.call("down")
        if self.allowed:
            with open(ALLOWED, "w") as out:
                out.write(" ".join(self.allowed))


def used_bytes(directory):
    """Bytes of blocks that are used of the file system of a directory."""
    system = os.statvfs(directory)
    return (system.f_blocks - system.f_bfree) * system.f_frsize


class Watch(threading.Thread):
    """Looks at the target's file system and at the wire while a transfer runs."""

    def __init__(self, lab, target):
        super().__init__(daemon=True)
        self.lab, self.target = lab, target
        self.before = used_bytes(target) if target else None
        self.ended = threading.Event()
        self.begun = time.monotonic()
        self.first_byte = None
        self.samples = []
        """Seconds since the beginning, bytes at the target, bytes on the wire."""
        self.start()

    def run(self):
        wire = self.lab.counters()["wire_bytes"]
        due = 0.0
        while not self.ended.wait(0.001 if self.first_byte is None else 0.05):
            seconds = time.monotonic() - self.begun
            landed = None
            if self.target and (self.first_byte is None or len(self.samples) < 50_000):
                landed = self.landed()
                if landed >= FIRST_BYTES and self.first_byte is None:
                    self.first_byte = seconds
            if seconds >= due:
                sent = self.lab.counters()["wire_bytes"] - wire
                self.samples.append((round(seconds, 3), landed, sent))
                due = seconds + 0.045

    def landed(self):
        """Bytes of blocks that the file system of the target has got since the beginning."""
        return used_bytes(self.target) - self.before

    def end(self):
        self.ended.set()
        self.join()

    def steady(self, size, column):
        """Bytes a second between 15 % and 92 % of `size`; none if there are too few samples."""
        inner = [
            (sample[0], sample[column])
            for sample in self.samples
            if sample[column] is not None and 0.15 * size <= sample[column] <= 0.92 * size
        ]
        if len(inner) < 10:
            return None
        (begun, first), (ended, last) = inner[0], inner[-1]
        return (last - first) / (ended - begun)

    def wire_ended(self):
        """When the last 0.1 % of what went over the wire was on it."""
        if not self.samples:
            return None
        last = self.samples[-1][2]
        return next(sample[0] for sample in self.samples if sample[2] >= 0.999 * last)


class Sites:
    """Site a and site b with a daemon each, at the hosts of a lab."""

    def __init__(self, binary, root, data, lab, group):
        self.binary, self.lab, self.group = binary, lab, group
        self.directories = {site: os.path.join(root, "site-" + site) for site in "ab"}
        self.daemons = []
        other = {"a": "mem=mem:files=16,size=1G", "b": "null=null:"}
        for site, directory in self.directories.items():
            fresh(directory, 0o700)
            self.call(
                site,
                "site",
                "init",
                "--name",
                site,
                "--listen",
                f"{HOST[site]}:{PORT}",
                "--store",
                f"data={data}",
                "--store",
                other[site],
            )
            log = open(os.path.join(root, f"daemon-{site}.log"), "w")
            daemon = group.start(
                [*lab.where(site), binary, "daemon", "--dir", directory],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            log.close()
            if not daemon.stdout.readline():
                raise Failed(f"the daemon of site {site} does not start")
            self.daemons.append(daemon)
        self.call("b", "site", "pair", self.call("a", "site", "pair").strip())

    def call(self, site, *words):
        done = subprocess.run(
            [
                *self.lab.where(site),
                self.binary,
                *words[:2],
                "--dir",
                self.directories[site],
                *words[2:],
            ],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise Failed(f"penstock {' '.join(words[:2])}: {done.stderr.strip()}")
        return done.stdout

    def move(self, mode, source, target, watched, limit_s):
        """Wall seconds, CPU seconds, the watch, the events and whether it ended in time."""
        for daemon in self.daemons:
            with open(f"/proc/{daemon.pid}/clear_refs", "w") as clear:
                clear.write("5")
        before = self.group.cpu()
        watch = Watch(self.lab, watched)
        client = self.group.start(
            [
                *self.lab.where("b"),
                self.binary,
                "transfer",
                "submit",
                source,
                target,
                "--wait",
                "--json",
                "--dir",
                self.directories["b"],
                *MODES[mode],
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        lines = []
        reader = threading.Thread(
            target=lambda: lines.extend(
                (time.monotonic() - watch.begun, line) for line in client.stdout
            )
        )
        reader.start()
        try:
            code = wait_process(client, watch.begun + limit_s)
        except Failed:
            code = None
            client.send_signal(signal.SIGINT)
        wall = time.monotonic() - watch.begun
        watch.end()
        reader.join(timeout=5)
        if code:
            raise Failed(f"exit code {code}: {lines[-1:]}")
        return wall, spent(self.group, before), watch, lines, code == 0

    def stop_transfers(self):
        for line in self.call("b", "transfer", "list", "--json").splitlines():
            known = json.loads(line)
            if known.get("state") not in ("done", "failed", "cancelled"):
                self.call("b", "transfer", "cancel", known["id"])

    def peaks_mib(self):
        return [round(peak_mib(daemon.pid)) for daemon in self.daemons]


class Bench:
    """One run of the harness."""

    def __init__(self, arguments):
        self.arguments = arguments
        os.makedirs(arguments.root, exist_ok=True)
        self.root = tempfile.mkdtemp(prefix="wan-", dir=arguments.root)
        os.chmod(self.root, 0o755)
        self.data = fresh(os.path.join(self.root, "data"))
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "mode=755,size=10g", "pst-wan", self.data], check=True
        )
        self.target = os.path.join(self.data, "out")
        self.name = f"wan{os.getpid()}"
        self.rivals, self.lab, self.sites, self.ours = Group("wan-rivals"), None, None, None
        self.rows = []

    def close(self):
        self.stop_lab()
        self.rivals.end()
        subprocess.run(["umount", "-l", self.data], check=False)
        shutil.rmtree(self.root, ignore_errors=True)

    def start_lab(self, shape):
        self.stop_lab()
        self.lab = Lab(self.arguments.lab, self.name, shape, self.arguments.tcp_buf)
        self.lab.set_congestion("bbr")
        self.ours = Group("wan-penstock")
        self.sites = Sites(self.arguments.penstock, self.root, self.data, self.lab, self.ours)

    def stop_lab(self):
        if self.ours:
            self.ours.end()
        if self.lab:
            self.lab.down()
        self.lab = self.sites = self.ours = None

    def make(self, name):
        source = os.path.join(self.data, name)
        if os.path.isdir(source):
            return
        how = list(SETS[name])
        if self.arguments.quick and name in QUICK:
            how[3] = QUICK[name]
        subprocess.run(
            [self.arguments.penstock, "dataset", "make", source, *how],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        # A file that has just changed is looked at once more when two seconds are over (C1).
        time.sleep(2.5)

    def keep(self, name, text):
        if self.arguments.out:
            with open(os.path.join(self.arguments.out, name), "a") as out:
                out.write(text)

    # Movers: each adds one row.

    def run_one(self, row, mover, rep, function):
        fresh(self.target)
        result = {"row": row, "mover": mover, "rep": rep, "error": ""}
        lost = self.lab.counters()
        try:
            result |= function()
        except Failed as error:
            result["error"] = str(error)
        now = self.lab.counters()
        result |= {key: now[key] - lost[key] for key in ("lost", "dropped")}
        self.keep("raw.jsonl", json.dumps(result) + "\n")
        result.pop("samples", None)
        result.pop("events", None)
        print(json.dumps(result), file=sys.stderr)
        self.rows.append(result)
        shutil.rmtree(self.target, ignore_errors=True)

    def penstock(self, mode, name, limit_s=None):
        source = os.path.join(self.data, name)
        files, size = measure_tree(source)
        limit_s = limit_s or self.arguments.limit
        wall, cpu, watch, lines, ended = self.sites.move(
            mode, f"a:data/{name}/", "b:data/out", self.data, limit_s
        )
        landed = size if ended else watch.landed()
        if not ended:
            self.sites.stop_transfers()
        good = not ended or same(source, self.target)
        return self.figures(watch, lines, wall, cpu, landed, files, watch.steady(size, 1)) | {
            "ended": ended,
            "error": "" if good else "differs",
        }

    def penstock_mem(self, mode):
        wall, cpu, watch, lines, _ = self.sites.move(
            mode, "a:mem/", "b:null/out", None, self.arguments.limit
        )
        size = 16 * GIB
        # On the wire a payload of 1,448 bytes is 1,538.
        steady = watch.steady(size * 1538 / 1448, 2)
        steady = steady * 1448 / 1538 if steady else None
        return self.figures(watch, lines, wall, cpu, size, 16, steady)

    def figures(self, watch, lines, wall, cpu, size, files, steady):
        return {
            "wall_s": round(wall, 3),
            "cpu_s": cpu,
            "bytes": size,
            "files": files,
            "rate": size / wall,
            "steady": steady,
            "first_byte_s": watch.first_byte,
            "wire_ended_s": watch.wire_ended(),
            "peak_mib": self.sites.peaks_mib(),
            "samples": watch.samples,
            "events": [(round(at, 3), json.loads(line)) for at, line in lines],
        }

    def iperf(self, seconds, omit, streams=STREAMS):
        serve = [*self.lab.where("b"), "iperf3", "-s", "-1"]
        server = self.rivals.start(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_listening("b", 5201)
        client = self.rivals.start(
            [
                *self.lab.where("a"),
                "iperf3",
                "-c",
                HOST["b"],
                "-t",
                str(seconds),
                "-O",
                str(omit),
                "-P",
                str(streams),
                "-Z",
                "-J",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        told = json.loads(client.communicate(timeout=seconds + omit + 60)[0])
        wait_process(server, time.monotonic() + 30)
        if "error" in told:
            raise Failed(told["error"])
        # What came after the omitted seconds; its own sum counts what was under way before too.
        rates = [
            interval["sum"]["bits_per_second"] / 8
            for interval in told["intervals"]
            if not interval["sum"]["omitted"]
        ]
        received = told["end"]["sum_received"]["bits_per_second"] / 8
        return {
            "rate": min(received, statistics.mean(rates)),
            "sent_rates": rates,
            "received": received,
            "retransmits": told["end"]["sum_sent"]["retransmits"],
        }

    def wait_listening(self, site, port):
        """Waits for a listener at a host without connecting, as some take one connection only."""
        wanted = f":{port:04X}"
        pid = subprocess.run(
            [
                "ip",
                "netns",
                "exec",
                f"{self.name}-{site}0",
                "sh",
                "-c",
                f"for i in $(seq 500); do grep -qE '{wanted} .* 0A ' "
                "/proc/net/tcp /proc/net/tcp6 && exit 0; sleep 0.01; done; exit 1",
            ]
        )
        if pid.returncode:
            raise Failed(f"nothing listens at port {port}")

    def rival(self, rival, name, limit_s=None):
        source = os.path.join(self.data, name)
        files, size = measure_tree(source)
        work = fresh(os.path.join(self.root, "work"), 0o755)
        limit_s = limit_s or self.arguments.limit
        try:
            client, until = RIVALS[rival][0](self, source, work)
            before, begun = self.rivals.cpu(), time.monotonic()
            process = self.rivals.start(
                [*self.lab.where("a"), "bash", "-c", client],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            ended = True
            try:
                for one in (process, *until):
                    if wait_process(one, begun + limit_s):
                        raise Failed("an exit code is not 0")
            except Failed:
                if time.monotonic() - begun < limit_s:
                    raise
                ended = False
            wall = time.monotonic() - begun
            cpu = spent(self.rivals, before)
        finally:
            self.rivals.kill()
            shutil.rmtree(work, ignore_errors=True)
        landed = size if ended else measure_tree(self.target)[1]
        good = not ended or same(source, self.target)
        return {
            "wall_s": round(wall, 3),
            "cpu_s": cpu,
            "bytes": landed,
            "files": files,
            "rate": landed / wall,
            "ended": ended,
            "error": "" if good else "differs",
        }

    def serve(self, site, command, work, port):
        with open(os.path.join(work, f"server-{port}.log"), "w") as log:
            process = self.rivals.start(
                [*self.lab.where(site), "bash", "-c", command], stdout=log, stderr=log
            )
        self.wait_listening(site, port)
        return process

    # Rows.

    def run(self):
        self.say(facts.machine(self.arguments.penstock, sys.argv))
        quick, reps = self.arguments.quick, self.arguments.reps
        wanted = self.arguments.rows
        if any(row not in ("fat", "many") for row in wanted):
            self.start_lab(THIN)
            for row in ("large", "medium", "small"):
                if row in wanted or (row == "medium" and {"loss", "cubic"} & set(wanted)):
                    self.make(row)
            for rep in range(1, reps + 1):
                self.thin_round(wanted, rep, quick)
        if {"fat", "many"} & set(wanted):
            self.start_lab(FAT)
        if "many" in wanted:
            self.make("many")
            for rep in range(1, reps + 1):
                self.run_one(
                    "many", "penstock tls blake3", rep, lambda: self.penstock("tls blake3", "many")
                )
                for rival in (one for one in self.arguments.rivals if one != "gridftp"):
                    self.run_one("many", rival, rep, lambda: self.rival(rival, "many"))
        if "fat" in wanted:
            for rep in range(1, reps + 1):
                for streams in (1, 4, STREAMS):
                    self.run_one(
                        "fat",
                        f"iperf3 -P {streams}",
                        rep,
                        lambda: self.iperf(*((2, 1) if quick else (6, 4)), streams),
                    )
                for mode in ("clear xxh3", "tls blake3"):
                    self.run_one("fat", f"penstock {mode}", rep, lambda: self.penstock_mem(mode))
        self.say(table(self.rows))
        self.say(targets_table(self.rows))
        return not any(row["error"] for row in self.rows if row["mover"].startswith("penstock"))

    def thin_round(self, wanted, rep, quick):
        """One round of all rows over the thin link."""
        times = (2, 1) if quick else (8, 4)
        for row, modes in (
            ("large", ("tls blake3", "clear blake3")),
            ("medium", ("tls blake3",)),
            ("small", ("tls blake3",)),
        ):
            if row not in wanted:
                continue
            if row != "small":
                self.run_one(row, "iperf3", rep, lambda: self.iperf(*times))
            for mode in modes:
                self.run_one(row, f"penstock {mode}", rep, lambda: self.penstock(mode, row))
            for rival in self.arguments.rivals if row != "large" else ():
                self.run_one(row, rival, rep, lambda: self.rival(rival, row))
        for row, control in (("loss", "bbr"), ("cubic", "cubic")):
            if row not in wanted:
                continue
            self.lab.set_congestion(control)
            if row == "loss" and "medium" not in wanted:
                self.run_one(
                    "medium",
                    "penstock tls blake3",
                    rep,
                    lambda: self.penstock("tls blake3", "medium"),
                )
            for loss in LOSSES:
                self.lab.call("set", "net0", f"loss={loss}")
                self.lossy_round(f"{row} {loss}", control, rep, times)
            self.lab.call("set", "net0", "loss=0")
            self.lab.set_congestion("bbr")

    def lossy_round(self, row, control, rep, times):
        limit_s = self.arguments.loss_limit
        self.run_one(row, "iperf3", rep, lambda: self.iperf(*times))
        self.run_one(
            row, "penstock tls blake3", rep, lambda: self.penstock("tls blake3", "medium", limit_s)
        )
        for rival in self.arguments.rivals:
            # With CUBIC one stream alone has no chance.
            if control != "cubic" or RIVALS[rival][1]:
                self.run_one(row, rival, rep, lambda: self.rival(rival, "medium", limit_s))

    def say(self, text):
        print(text)
        sys.stdout.flush()
        self.keep("table.md", text + "\n")


# Rivals: each starts its servers, and gives the client's command at site a and the processes
# whose end ends the run.


def tar_nc(bench, source, work):
    receiver = bench.serve(
        "b",
        f"set -o pipefail; nc -l -N {HOST['b']} 9000 | tar x -b 256 -C {bench.target}",
        work,
        9000,
    )
    return f"set -o pipefail; tar c -b 256 -C {source} . | nc -N {HOST['b']} 9000", [receiver]


def rsync_daemon(bench, source, work):
    config = os.path.join(work, "rsyncd.conf")
    with open(config, "w") as out:
        out.write(
            "use chroot = no\nreverse lookup = no\nuid = root\ngid = root\n"
            f"[d]\npath = {bench.target}\nread only = no\n"
        )
    bench.serve(
        "b",
        f"rsync --daemon --no-detach --config={config} --port=9001 --address={HOST['b']}",
        work,
        9001,
    )
    return f"rsync -r -t -W {source}/ rsync://{HOST['b']}:9001/d/", []


def gridftp(bench, source, work):
    """From server to server, pipelined, as Globus moves data."""
    for site, port in (("b", 9002), ("a", 9003)):
        bench.serve(
            site,
            f"exec globus-gridftp-server -p {port} -s -aa -anonymous-user root "
            f"-anonymous-group root -allow-root -data-interface {HOST[site]} -d error",
            work,
            port,
        )
    return (
        f"globus-url-copy -q -fast -p {STREAMS} -cc 8 -pp -r -cd "
        f"ftp://{HOST['a']}:9003{source}/ ftp://{HOST['b']}:9002{bench.target}/"
    ), []


RIVALS = {
    # name: (function, whether it uses several streams, programs)
    "tar over nc": (tar_nc, False, ("tar", "nc")),
    "rsync daemon": (rsync_daemon, False, ("rsync",)),
    "gridftp": (gridftp, True, ("globus-url-copy", "globus-gridftp-server")),
}


def installed(rival):
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return all(shutil.which(name, path=path) for name in RIVALS[rival][2])


def read_arguments(argv):
    parser = command_parser("wan", __doc__)
    add_penstock(parser)
    add_lab(parser)
    parser.add_argument(
        "--root",
        default=os.path.join(SHM, "pst-wan"),
        help="directory to work in, on tmpfs (%(default)s)",
    )
    parser.add_argument("--rows", type=choice("row", ROWS), default=ROWS, help=", ".join(ROWS))
    parser.add_argument(
        "--rivals",
        type=choice("rival", RIVALS),
        help=f"of {', '.join(RIVALS)}; `none`; default: all that are installed",
    )
    parser.add_argument("--reps", type=int, default=3, help="rounds")
    parser.add_argument(
        "--tcp-buf",
        default="256m",
        help="largest TCP buffers in the lab (%(default)s); 0: the kernel's own",
    )
    parser.add_argument("--limit", type=float, default=180, help="seconds a run may take")
    parser.add_argument(
        "--loss-limit",
        type=float,
        default=40,
        help="seconds after which a run on a lossy link is stopped",
    )
    add_out(parser)
    parser.add_argument("--quick", action="store_true", help="small data, to see that it works")
    arguments = parser.parse_args(argv)
    if arguments.rivals is None:
        arguments.rivals = list(RIVALS)
    arguments.rivals = [rival for rival in arguments.rivals if installed(rival)]
    return arguments


def main(argv):
    arguments = read_arguments(argv)
    end_on_signals()
    bench = Bench(arguments)
    try:
        good = bench.run()
    finally:
        bench.close()
    return 0 if good else 1
