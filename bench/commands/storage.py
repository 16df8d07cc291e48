"""Cross-checks `penstock bench storage` with programs that share no code with it.

    penstock-bench storage [--penstock PROGRAM] [--reps 6] [--size 512M] [--files 50000]
                     [--systems ext4,xfs] [--place /var/tmp/pst-storage] [--out DIR]

Large blocks are held against fio, which writes and reads the same bytes in blocks of 512 KiB with
as many jobs as Penstock has threads, past the page cache where Penstock does so, and syncs at the
end. Small files of 4 KiB are held against the plainest program there can be (plain_files.c): each
thread makes, writes and closes files in directories of its own, and one syncfs(2) ends it. In the
row "renamed" that program gives files temporary names, renames them after the sync and syncs again:
it keeps the promise of a transfer, that no file which is not durable has its final name.

Each file system is an image on a loop device with direct I/O, made anew. All programs run by turns,
in an order that turns by one each round; the first round (rep 0) is a warm-up that only raw.jsonl
keeps. The table gives medians, and the median of the ratios of each round with the least and the
greatest. Run it as root with nothing else going on. At most four times --size is used below --place
at once, and all of it is removed at the end.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time

from bench.base import memory
from bench.base.arguments import add_out, add_penstock, command_parser, end_on_signals
from bench.base.groups import Group
from bench.base.processes import Failed
from bench.base.trees import fresh
from bench.commands.disk import FileSystem, bytes_of

THREADS = 4
SECONDS = 20
SMALL_BYTES = 4096
BLOCK = "512k"
# Rows of small files, with the options of plain_files.
SMALL_ROWS = {"small files": [], "small files, renamed": ["renamed"]}
HERE = os.path.dirname(os.path.abspath(__file__))


class Store:
    """A site of one peer, whose store is a directory of a file system."""

    def __init__(self, binary, directory, store, group):
        self.binary, self.directory = binary, fresh(directory, 0o700)
        self.call(
            "site",
            "init",
            "--name",
            "bench",
            "--dir",
            directory,
            "--listen",
            "127.0.0.1:0",
            "--store",
            f"data={store}",
        )
        self.daemon = group.start(
            [binary, "daemon", "--dir", directory],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        if not self.daemon.stdout.readline():
            raise Failed("the daemon does not start")

    def call(self, *arguments):
        done = subprocess.run([self.binary, *arguments], capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"penstock {' '.join(arguments[:2])}: {done.stderr.strip()}")
        return done.stdout

    def measure(self, size, budget):
        """Measures files of one size; bytes and files per second of each operation."""
        text = self.call(
            "bench",
            "storage",
            "data",
            "--dir",
            self.directory,
            "--json",
            "--ops",
            "write,read",
            "--sizes",
            str(size),
            "--budget",
            str(budget),
            "--threads",
            str(THREADS),
            "--repeats",
            "1",
            "--seconds",
            str(SECONDS),
        )
        result = json.loads(text)
        if result.get("unread"):
            raise Failed(f"penstock has written no file of {size} bytes whole in {SECONDS} s")
        return {point["operation"]: point for point in result["points"]}


def fio(directory, size, operation, direct):
    """Bytes per second of fio, the sync at the end included."""
    words = [
        "fio",
        "--name=large",
        f"--directory={directory}",
        f"--rw={operation}",
        f"--bs={BLOCK}",
        f"--size={size}",
        f"--numjobs={THREADS}",
        "--thread",
        "--ioengine=psync",
        f"--direct={int(direct)}",
        "--end_fsync=1",
        "--group_reporting",
        "--output-format=json",
        "--invalidate=1",
    ]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"fio: {done.stderr.strip()}")
    return json.loads(done.stdout)["jobs"][0][operation]["bw_bytes"]


def plain(binary, directory, files, *options):
    """Files per second of the plainest program, its syncs included."""
    done = subprocess.run(
        [binary, directory, str(files), str(THREADS), str(SMALL_BYTES), *options],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Failed(f"plain_files: {done.stderr.strip()}")
    told = json.loads(done.stdout)
    return told["files"] / told["durable_s"]


class Check:
    """The runs on one file system."""

    def __init__(self, arguments, system, group, programs):
        self.arguments, self.system = arguments, system
        self.plain_files = programs
        self.scratch = os.path.join(system.path, "rivals")
        data = os.path.join(system.path, "data")
        os.makedirs(data)
        site = os.path.join(arguments.place, "site-" + system.kind)
        self.store = Store(arguments.penstock, site, data, group)

    def penstock_large(self):
        found = self.store.measure(self.arguments.size, self.arguments.size * THREADS)
        return {
            "write": found["write"]["bytes_per_s"]["median"],
            "read": found["read"]["bytes_per_s"]["median"],
        }

    def fio_large(self):
        fresh(self.scratch)
        found = {}
        for operation in ("write", "read"):
            # Penstock reads through the page cache, which it gave up before.
            direct = operation == "write" and self.arguments.direct
            found[operation] = fio(self.scratch, self.arguments.size, operation, direct)
        shutil.rmtree(self.scratch)
        return found

    def penstock_small(self):
        budget = self.arguments.files * SMALL_BYTES
        found = self.store.measure(SMALL_BYTES, budget)
        return dict.fromkeys(SMALL_ROWS, found["write"]["files_per_s"]["median"])

    def plain_small(self):
        rates = {}
        for row, options in SMALL_ROWS.items():
            fresh(self.scratch)
            rates[row] = plain(self.plain_files, self.scratch, self.arguments.files, *options)
            shutil.rmtree(self.scratch)
        return rates

    def round(self, rep):
        """One turn of all programs; their rates by program and row."""
        runs = [
            ("penstock", self.penstock_large),
            ("rival", self.fio_large),
            ("penstock", self.penstock_small),
            ("rival", self.plain_small),
        ]
        found = {"penstock": {}, "rival": {}}
        for name, run in runs[rep % len(runs) :] + runs[: rep % len(runs)]:
            os.sync()
            found[name].update(run())
        return found


def table(system, rounds):
    lines = [f"\n### {system}\n", "| row | penstock | rival | ratio |", "|---|---|---|---|"]
    rivals = {"write": "fio", "read": "fio", **dict.fromkeys(SMALL_ROWS, "plain_files")}
    for row, rival in rivals.items():
        ours = [found["penstock"][row] for found in rounds]
        theirs = [found["rival"][row] for found in rounds]
        ratios = [one / other for one, other in zip(ours, theirs)]
        unit, scale = ("files/s", 1) if row in SMALL_ROWS else ("MB/s", 1e6)
        median = lambda values: f"{statistics.median(values) / scale:,.0f} {unit}"
        lines.append(
            f"| {row} | {median(ours)} | {median(theirs)} ({rival}) | "
            f"{statistics.median(ratios):.3f} [{min(ratios):.2f}-{max(ratios):.2f}] |"
        )
    return lines


def run(arguments):
    binary = os.path.join(arguments.place, "plain_files")
    subprocess.run(
        ["cc", "-O2", "-pthread", "-o", binary, os.path.join(HERE, "plain_files.c")], check=True
    )
    text = [
        f"{time.strftime('%Y-%m-%d')}, kernel {os.uname().release}, "
        f"{os.cpu_count()} processors, {arguments.reps} rounds, {THREADS} threads"
    ]
    for kind in arguments.systems.split(","):
        system = FileSystem(kind, arguments.place, arguments.size * THREADS)
        group = Group("storage-" + kind)
        try:
            described = system.describe()
            check = Check(arguments, system, group, binary)
            rounds = []
            for rep in range(arguments.reps + 1):
                found = check.round(rep)
                print(kind, rep, json.dumps(found), file=sys.stderr, flush=True)
                if arguments.out:
                    row = {"system": described, "rep": rep, **found}
                    with open(os.path.join(arguments.out, "raw.jsonl"), "a") as out:
                        out.write(json.dumps(row) + "\n")
                rounds.append(found)
            text += table(described, rounds[1:])
        finally:
            group.end()
            system.remove()
    print("\n".join(text))
    if arguments.out:
        with open(os.path.join(arguments.out, "table.md"), "w") as out:
            out.write("\n".join(text) + "\n")


def main(argv):
    parser = command_parser("storage", __doc__)
    add_penstock(parser)
    parser.add_argument("--reps", type=int, default=6, help="counted rounds, after one warm-up")
    parser.add_argument("--size", type=bytes_of, default="512M", help="bytes of each thread")
    parser.add_argument("--files", type=int, default=50_000, help="small files of a run")
    parser.add_argument("--systems", default="ext4,xfs", help="ext4, xfs or root")
    parser.add_argument("--place", default="/var/tmp/pst-storage")
    parser.add_argument(
        "--buffered",
        dest="direct",
        action="store_false",
        help='have fio write through the page cache, as a store with `io = "buffered"` does',
    )
    add_out(parser)
    arguments = parser.parse_args(argv)
    arguments.penstock = os.path.abspath(arguments.penstock)
    fresh(arguments.place)
    end_on_signals()
    held = memory.Held()
    try:
        run(arguments)
    finally:
        held.close()
        shutil.rmtree(arguments.place, ignore_errors=True)
