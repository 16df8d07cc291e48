"""Times Penstock into a disk, durable at the end, beside fio into the same file system.

    penstock-bench disk [--penstock PROGRAM] [--reps 5] [--size 4G] [--out DIR]
                  [--systems ext4,xfs,root] [--sets one,large,small] [--place /var/tmp/pst-disk]
                  [--movers 'NAME;...'] [--plain target/release/examples/disk]

The source is on tmpfs, the daemons speak over loopback, and the target is a directory of the disk
that holds --place ("root") or an ext4 or XFS file system in an image there (loop device with direct
I/O; needs root). fio writes the same number of bytes in 1 MiB blocks by two jobs with end_fsync,
through the page cache, directly, and directly with a queue of 8; its own runtime counts, which
leaves out its start, while the whole command counts for Penstock.

"plain" is the plainest mover there can be (examples/disk.rs of penstock-net: read, hash, send,
receive, hash, write, sync; no frames, requests, ledger or names), with four lanes, and by its own
clock: what two cores and this disk allow for that data path. It writes directly, "plain buffered"
through the page cache; "penstock buffered" is Penstock with `io = "buffered"` for its store.

The set "small" has 100,000 files of 4 KiB whatever --size says. It is held against tar into tar,
tar over nc, rsync and cp on this host, each with a sync of the file system; they verify nothing.

Runs are interleaved in an order that turns by one each round, the first round (rep 0) is a
warm-up that only raw.jsonl keeps, and the table gives medians and the ratio to the fastest and to
each fio. What arrived is compared with its source outside the timed part. "CPU" is that of the two
daemons and the command; "machine" is the busy time of all cores, with the kernel's own writers and
whatever else ran. A virtual machine's memory is kept with it meanwhile (bench/base/memory.py).

At most three times --size is used below --place at once, and all of it is removed at the end.
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time

from bench.base import memory
from bench.base.arguments import add_out, add_penstock, command_parser, end_on_signals
from bench.movers.sites import peak_mib

GIB = 2**30
LIMIT_SECONDS = 180
PENSTOCK = {
    "penstock clear xxh3": ["--encryption", "off", "--digest", "xxh3-128"],
    "penstock clear blake3": ["--encryption", "off"],
    "penstock tls blake3": [],
    "penstock buffered, clear xxh3": ["--encryption", "off", "--digest", "xxh3-128"],
    "penstock buffered, tls blake3": [],
}
PLAIN = {
    "plain clear xxh3": ["xxh3"],
    "plain clear blake3": ["blake3"],
    "plain tls blake3": ["tls-blake3"],
    "plain buffered, clear xxh3": ["xxh3", "buffered"],
    "plain buffered, clear blake3": ["blake3", "buffered"],
    "plain buffered, tls blake3": ["tls-blake3", "buffered"],
}
FIO = {
    "fio buffered": ["--ioengine=psync"],
    "fio direct": ["--ioengine=psync", "--direct=1"],
    "fio direct, depth 8": ["--ioengine=io_uring", "--iodepth=8", "--direct=1"],
}
TAR = "tar, then sync"
# Movers of small files that verify nothing, by the command: $0 is the source, $1 the target.
COMMANDS = {
    TAR: 'tar -C "$0" -cf - . | tar -C "$1" -xf -',
    "tar over nc, then sync": 'nc -l -N 127.0.0.1 7399 | tar -C "$1" -xf - & '
    "until ss -Hltn sport = 7399 | grep -q .; do sleep 0.01; done; "
    'tar -C "$0" -cf - . | nc -N 127.0.0.1 7399; wait',
    "rsync, then sync": 'rsync -r -t -W "$0/" "$1/"',
    "cp, then sync": 'cp -r "$0/." "$1/"',
}
SETS = {"one": 1, "large": 16, "small": 100_000}
SMALL_BYTES = 4096
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}


def call(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def bytes_of(text):
    factor = {"M": 2**20, "G": GIB}.get(text[-1:].upper())
    return int(text[:-1]) * factor if factor else int(text)


def size_of(name, arguments):
    """Bytes of a data set."""
    return SETS[name] * SMALL_BYTES if name == "small" else arguments.size


def movers_of(name, arguments):
    """Those of the movers that a data set is for."""
    if name == "small":
        return [
            mover
            for mover in arguments.movers
            if mover in COMMANDS or (mover in PENSTOCK and "buffered" not in mover)
        ]
    return [mover for mover in arguments.movers if mover not in COMMANDS]


def machine_busy():
    ticks = open("/proc/stat").readline().split()
    return sum(int(ticks[at]) for at in (1, 2, 3, 6, 7)) / os.sysconf("SC_CLK_TCK")


def process_cpu(pid):
    ticks = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class FileSystem:
    """A file system to write to; its directory is `path`."""

    def __init__(self, kind, place, size):
        self.kind, self.image = kind, None
        self.path = os.path.join(place, kind)
        os.makedirs(self.path)
        if kind == "root":
            return
        self.image = os.path.join(place, kind + ".img")
        call("fallocate", "-l", str(2 * size + GIB // 2), self.image)
        call(*MAKE[kind], self.image)
        self.loop = call("losetup", "--find", "--show", "--direct-io=on", self.image).strip()
        call("mount", self.loop, self.path)

    def describe(self):
        told = call("findmnt", "-n", "-o", "FSTYPE,SOURCE", "-T", self.path).split()
        return f"{told[0]} on {'a loop image, direct I/O' if self.image else told[1]}"

    def remove(self):
        if self.image:
            call("umount", self.path)
            call("losetup", "-d", self.loop)
            os.unlink(self.image)
        shutil.rmtree(self.path, ignore_errors=True)


class Sites:
    """Two paired sites with one daemon each: `a` has the source, `b` the target."""

    def __init__(self, binary, root, stores):
        self.binary, self.daemons = binary, {}
        self.directories = {name: os.path.join(root, "site-" + name) for name in stores}
        for name, store in stores.items():
            directory = self.directories[name]
            call(
                binary,
                "site",
                "init",
                "--name",
                name,
                "--dir",
                directory,
                "--listen",
                "127.0.0.1:0",
                "--store",
                f"data={store}",
            )
            self.add_buffered(directory, store)
            daemon = subprocess.Popen(
                [binary, "daemon", "--dir", directory],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            daemon.stdout.readline()
            self.daemons[name] = daemon
        token = call(binary, "site", "pair", "--dir", self.directories["a"]).strip()
        call(binary, "site", "pair", "--dir", self.directories["b"], token)

    @staticmethod
    def add_buffered(directory, store):
        """The same directory as a second store, which is written through the page cache."""
        with open(os.path.join(directory, "penstock.toml"), "a") as config:
            config.write(f'\n[[store]]\nname = "buffered"\npath = "{store}"\nio = "buffered"\n')

    def cpu(self):
        return sum(process_cpu(daemon.pid) for daemon in self.daemons.values())

    def move(self, source, target, options, store="data"):
        """Seconds of the whole command; None if it failed."""
        begun = time.monotonic()
        done = subprocess.run(
            [
                self.binary,
                "transfer",
                "submit",
                f"a:data/{source}/",
                f"b:{store}/{target}",
                "--wait",
                "--json",
                "--dir",
                self.directories["b"],
                *options,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT_SECONDS,
        )
        wall = time.monotonic() - begun
        sys.stderr.write(done.stderr if done.returncode else "")
        return None if done.returncode else wall

    def stop(self):
        peaks = {name: round(peak_mib(daemon.pid)) for name, daemon in self.daemons.items()}
        for daemon in self.daemons.values():
            daemon.terminate()
            daemon.wait()
        return peaks


def run_fio(directory, size, options):
    """Seconds by fio's own clock, the final fsync included, and the CPU seconds of its jobs."""
    before = children_cpu()
    done = subprocess.run(
        [
            "fio",
            "--name=job",
            "--directory=" + directory,
            "--rw=write",
            "--bs=1m",
            "--numjobs=2",
            f"--size={size // 2}",
            "--end_fsync=1",
            "--group_reporting",
            "--output-format=json",
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        return None, 0.0
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    return job["write"]["runtime"] / 1000, children_cpu() - before


def run_plain(binary, source, directory, how):
    """Seconds by its own clock, the final sync included, and its CPU seconds."""
    done = subprocess.run(
        [binary, source, directory, *how], capture_output=True, text=True, timeout=LIMIT_SECONDS
    )
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        return None, 0.0
    told = json.loads(done.stdout)
    return told["wall_s"], told["cpu_s"]


def run_command(command, source, directory):
    """Seconds of a command and of a sync after it, and their CPU seconds."""
    before, begun = children_cpu(), time.monotonic()
    done = subprocess.run(
        ["sh", "-ec", f'{command}; sync -f "$1"', source, directory], timeout=LIMIT_SECONDS
    )
    wall = time.monotonic() - begun
    return None if done.returncode else wall, children_cpu() - before


def one_run(mover, system, sites, source, arguments):
    """One timed run; the row without its place in the series."""
    name = os.path.basename(source)
    out = os.path.join(system.path, "out")
    os.makedirs(out)
    call("sync", "-f", system.path)
    busy, same = machine_busy(), True
    if mover in FIO:
        wall, cpu = run_fio(out, arguments.size, FIO[mover])
        same = wall is not None
    elif mover in PLAIN:
        wall, cpu = run_plain(arguments.plain, source, out, PLAIN[mover])
    elif mover in COMMANDS:
        wall, cpu = run_command(COMMANDS[mover], source, out)
    else:
        before = sites.cpu() + children_cpu()
        store = "buffered" if "buffered" in mover else "data"
        wall = sites.move(name, "out", PENSTOCK[mover], store)
        cpu = sites.cpu() + children_cpu() - before
    busy = machine_busy() - busy
    if mover not in FIO:
        same = wall is not None and subprocess.run(["diff", "-rq", source, out]).returncode == 0
    shutil.rmtree(out)
    return {"mover": mover, "wall_s": wall, "cpu_s": cpu, "machine_s": busy, "verified": same}


def measure(system, arguments, source_root):
    """All sets and movers on one file system; rows of raw results, and peaks in MiB."""
    rows = []
    sites = Sites(
        arguments.penstock,
        os.path.join(source_root, system.kind),
        {"a": os.path.join(source_root, "data"), "b": system.path},
    )
    try:
        for name in arguments.sets:
            source = os.path.join(source_root, "data", "set-" + name)
            movers = movers_of(name, arguments)
            for rep in range(arguments.reps + 1):
                turn = rep % len(movers)
                for mover in movers[turn:] + movers[:turn]:
                    row = {
                        "system": system.describe(),
                        "set": name,
                        "rep": rep,
                        "bytes": size_of(name, arguments),
                        **one_run(mover, system, sites, source, arguments),
                    }
                    print(json.dumps(row), file=sys.stderr, flush=True)
                    if arguments.out:
                        with open(os.path.join(arguments.out, "raw.jsonl"), "a") as raw:
                            raw.write(json.dumps(row) + "\n")
                    rows.append(row)
    finally:
        peaks = sites.stop()
    return [row for row in rows if row["rep"] > 0], peaks


def table(rows, peaks):
    """Markdown for the rows of one file system."""
    lines = []
    for name in dict.fromkeys(row["set"] for row in rows):
        part = [row for row in rows if row["set"] == name]
        if name == "small":
            lines += small_table(part)
            continue
        size = part[0]["bytes"] / GIB
        good = {
            mover: [row for row in part if row["mover"] == mover and row["verified"]]
            for mover in dict.fromkeys(row["mover"] for row in part)
        }
        median = {
            mover: statistics.median(row["wall_s"] for row in runs)
            for mover, runs in good.items()
            if runs
        }
        fios = [mover for mover in FIO if mover in median]
        fastest = min((median[mover] for mover in fios), default=None)
        lines += [
            f"\n### {part[0]['system']}: {SETS[name]} file(s), {size:.2f} GiB\n",
            "| mover | wall s (range) | GB/s | CPU s/GiB | machine s/GiB | x fastest fio (0.95) | "
            + " | ".join("x " + mover for mover in fios)
            + " | x plain (0.9) | ok |",
            "|---" * (8 + len(fios)) + "|",
        ]
        for mover, runs in good.items():
            if not runs:
                lines.append(f"| {mover} | failed" + " | -" * (6 + len(fios)) + " |")
                continue
            walls = [row["wall_s"] for row in runs]
            cpu, machine = (
                statistics.median(row[key] for row in runs) / size for key in ("cpu_s", "machine_s")
            )
            ratios = [
                f"{wall / median[mover]:.2f}"
                for wall in [fastest, *(median[other] for other in fios)]
                if wall
            ]
            plain = median.get(mover.replace("penstock ", "plain "))
            ratios.append(f"{plain / median[mover]:.2f}" if plain and mover in PENSTOCK else "-")
            lines.append(
                f"| {mover} | {median[mover]:.2f} ({min(walls):.2f}-{max(walls):.2f}) | "
                f"{size * GIB / median[mover] / 1e9:.2f} | {cpu:.2f} | {machine:.2f} | "
                + " | ".join(ratios)
                + f" | {len(runs)}/{sum(row['mover'] == mover for row in part)} |"
            )
    lines.append(f"\nPeak memory of the daemons: source {peaks['a']} MiB, target {peaks['b']} MiB.")
    return "\n".join(lines) + "\n"


def small_table(rows):
    """Lines for the small files of one file system."""
    files = SETS["small"]
    lines = [
        f"\n### {rows[0]['system']}: {files} files of {SMALL_BYTES} bytes\n",
        "| mover | wall s (range) | files/s | CPU us/file | machine us/file | x tar | x fastest "
        "| ok |",
        "|---|---|---|---|---|---|---|---|",
    ]
    by_mover = {
        mover: [row for row in rows if row["mover"] == mover]
        for mover in dict.fromkeys(row["mover"] for row in rows)
    }
    walls = {
        mover: sorted(row["wall_s"] for row in runs if row["verified"])
        for mover, runs in by_mover.items()
    }
    for mover, runs in by_mover.items():
        good = [row for row in runs if row["verified"]]
        if not good:
            lines.append(f"| {mover} | failed | - | - | - | - | - | 0/{len(runs)} |")
            continue
        wall = statistics.median(walls[mover])
        cpu, machine = (
            statistics.median(row[key] for row in good) / files * 1e6
            for key in ("cpu_s", "machine_s")
        )
        tar = f"{statistics.median(walls[TAR]) / wall:.2f}" if walls.get(TAR) else "-"
        medians = [statistics.median(walls[name]) for name in COMMANDS if walls.get(name)]
        fastest = f"{min(medians) / wall:.2f}" if medians else "-"
        lines.append(
            f"| {mover} | {wall:.2f} ({walls[mover][0]:.2f}-{walls[mover][-1]:.2f}) | "
            f"{files / wall:.0f} | {cpu:.1f} | {machine:.1f} | {tar} | {fastest} | "
            f"{len(good)}/{len(runs)} |"
        )
    return lines


def make_sources(arguments, source_root):
    for name in arguments.sets:
        files = SETS[name]
        call(
            arguments.penstock,
            "dataset",
            "make",
            os.path.join(source_root, "data", "set-" + name),
            "--files",
            str(files),
            "--size",
            str(size_of(name, arguments) // files),
            "--layout",
            "flat",
        )


def main(argv):
    parser = command_parser("disk", __doc__)
    add_penstock(parser)
    parser.add_argument("--plain", default="target/release/examples/disk")
    parser.add_argument(
        "--movers",
        type=lambda text: text.split(";"),
        help="separated by `;`",
        default=[*PENSTOCK, *PLAIN, *FIO, *COMMANDS],
    )
    parser.add_argument("--reps", type=int, default=5, help="counted rounds, after one warm-up")
    parser.add_argument(
        "--size", type=bytes_of, default=4 * GIB, help="bytes of each set of large files, as 4G"
    )
    parser.add_argument(
        "--systems", type=lambda text: text.split(","), default=["ext4", "xfs", "root"]
    )
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(SETS))
    parser.add_argument("--place", default="/var/tmp/pst-disk", help="on the disk to be measured")
    parser.add_argument("--tmpfs", default="/dev/shm/pst-disk", help="for the source")
    add_out(parser)
    arguments = parser.parse_args(argv)
    arguments.plain = os.path.abspath(arguments.plain)
    # A run that is cut short by `timeout` cleans up behind itself too.
    end_on_signals()
    for directory in (arguments.place, arguments.tmpfs):
        os.makedirs(directory)
    held = memory.Held()
    try:
        make_sources(arguments, arguments.tmpfs)
        for kind in arguments.systems:
            system = FileSystem(kind, arguments.place, arguments.size)
            try:
                rows, peaks = measure(system, arguments, arguments.tmpfs)
            finally:
                system.remove()
            text = table(rows, peaks)
            print(text, flush=True)
            if arguments.out:
                with open(os.path.join(arguments.out, "table.md"), "a") as out:
                    out.write(text)
    finally:
        held.close()
        for directory in (arguments.place, arguments.tmpfs):
            shutil.rmtree(directory, ignore_errors=True)
