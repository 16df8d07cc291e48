"""Whether the cost per file stays flat as a data set grows: 10^4 to 10^6 real files of 1 KiB, and
10^5 to 10^7 generated entries.

    penstock-bench flat [--real 10000,100000] [--generated 100000] [--reps 3] [--out DIR]

Real files go by `penstock copy` and daemon to daemon over loopback, tmpfs to tmpfs; generated ones
from `mem:` to `null:`, daemon to daemon. `cp -r` tells how the file system itself grows dearer.
Prints microseconds of CPU per file of all processes of both ends, files per second, and the peak
memory of each process. Sizes are interleaved; each has a site of its own, so that no ledger of
another size is in its way. Every target is counted, the smallest is compared with its source.

Needs root (control groups) and, for 10^6 real files, 11 GiB and 2 million inodes below --root;
for 10^7 entries 4 GiB below --state. Takes about ten minutes.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from bench.base import facts
from bench.base.arguments import add_out, add_penstock, command_parser, end_on_signals
from bench.base.groups import Group, spent
from bench.base.processes import Failed, wait_process
from bench.base.trees import fresh, measure_tree, same
from bench.movers import sites

FILE_BYTES = 1024


class Flat:
    """One run: where it works, and what it was asked for."""

    def __init__(self, arguments):
        self.arguments = arguments
        os.makedirs(arguments.root, exist_ok=True)
        self.data = tempfile.mkdtemp(prefix="flat-", dir=arguments.root)
        self.state = tempfile.mkdtemp(prefix="flat-", dir=arguments.state)
        os.chmod(self.data, 0o755)
        self.target = os.path.join(self.data, "out")
        self.group = Group("flat")
        self.rows = []

    def close(self):
        self.group.end()
        shutil.rmtree(self.data, ignore_errors=True)
        shutil.rmtree(self.state, ignore_errors=True)

    def command(self, *words):
        """A command of one process: wall and CPU seconds, and its peak memory."""
        fresh(os.path.join(self.state, "copy"))
        before, begun = self.group.cpu(), time.monotonic()
        process = self.group.start(
            words,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"XDG_STATE_HOME": os.path.join(self.state, "copy")},
        )
        watch = Peak(process.pid)
        code = wait_process(process, begun + self.arguments.limit)
        wall = time.monotonic() - begun
        if code:
            raise Failed(f"{' '.join(words[:2])} ended with {code}")
        return wall, spent(self.group, before), [watch.end()]

    def daemons(self, stores, route):
        """Daemon to daemon, with new sites: wall and CPU seconds, and peaks of both daemons."""
        sites.MEM_FILES = stores
        root = fresh(os.path.join(self.state, "sites"))
        pair = sites.Sites(
            self.arguments.penstock,
            root,
            self.data,
            Group("flat-sites"),
            self.arguments.limit,
            mem_size="4K",
        )
        try:
            wall, cpu = pair.move("tls blake3", route)
            return wall, cpu, pair.peaks_mib()
        finally:
            pair.stop()
            shutil.rmtree(root, ignore_errors=True)

    def keep(self, what, count, rep, wall, cpu, peaks):
        row = {
            "what": what,
            "files": count,
            "rep": rep,
            "wall_s": round(wall, 3),
            "cpu_s": round(cpu, 3),
            "us_per_file": round(cpu / count * 1e6, 2),
            "files_per_s": round(count / wall),
            "peaks_mib": [round(p, 1) for p in peaks],
        }
        self.rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
        if self.arguments.out:
            with open(os.path.join(self.arguments.out, "flat.jsonl"), "a") as out:
                out.write(json.dumps(row) + "\n")

    def check(self, source, count):
        found, _ = measure_tree(self.target)
        least = count == min(self.arguments.real)
        if found != count or (least and not same(source, self.target)):
            raise Failed(f"the target of {count} files differs: it has {found}")

    def real(self, count, rep):
        """All ways to move real files; the source is made anew, for memory's sake."""
        source = os.path.join(self.data, "source")
        words = [
            self.arguments.penstock,
            "dataset",
            "make",
            source,
            "--files",
            str(count),
            "--size",
            str(FILE_BYTES),
        ]
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
        try:
            for what, move in (
                ("cp -r", lambda: self.command("cp", "-r", source, self.target)),
                (
                    "copy",
                    lambda: self.command(
                        self.arguments.penstock, "copy", source + "/", self.target
                    ),
                ),
                (
                    "daemon to daemon",
                    lambda: self.daemons("files=1", ("a:data/source/", "b:data/out")),
                ),
            ):
                shutil.rmtree(self.target, ignore_errors=True)
                result = move()
                self.check(source, count)
                self.keep(what, count, rep, *result)
        finally:
            shutil.rmtree(self.target, ignore_errors=True)
            shutil.rmtree(source, ignore_errors=True)

    def generated(self, count, rep):
        stores = f"files={count},dirs={max(1, count // 1000)}"
        self.keep("mem: to null:", count, rep, *self.daemons(stores, ("a:mem/", "b:null/out")))

    def run(self):
        arguments = self.arguments
        for rep in range(1, arguments.reps + 1):
            for counts, move in (
                (arguments.real, self.real),
                (arguments.generated, self.generated),
            ):
                for count in counts:
                    if rep == 1 or count <= arguments.once_above:
                        move(count, rep)

    def table(self):
        lines = [
            "| what | files | CPU µs a file | files/s | peak MiB of each process | runs |",
            "|---|---|---|---|---|---|",
        ]
        for what, count in dict.fromkeys((row["what"], row["files"]) for row in self.rows):
            rows = [row for row in self.rows if (row["what"], row["files"]) == (what, count)]
            costs = [row["us_per_file"] for row in rows]
            peaks = " / ".join(f"{max(each):.0f}" for each in zip(*(r["peaks_mib"] for r in rows)))
            speed = statistics.median(row["files_per_s"] for row in rows)
            lines.append(
                f"| {what} | {count:,} | {statistics.median(costs):.1f} "
                f"[{min(costs):.1f}-{max(costs):.1f}] | {speed:,.0f} | {peaks} "
                f"| {len(rows)} |"
            )
        return "\n".join(lines)


class Peak:
    """Watches the peak memory of a process until it has ended."""

    def __init__(self, pid):
        self.pid, self.peak, self.ended = pid, 0.0, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while not self.ended.wait(0.05):
            try:
                self.peak = max(self.peak, sites.peak_mib(self.pid))
            except OSError:
                return

    def end(self):
        self.ended.set()
        self.thread.join()
        return self.peak


def numbers(text):
    return [int(word) for word in text.split(",") if word]


def main(argv):
    parser = command_parser("flat", __doc__)
    add_penstock(parser)
    parser.add_argument("--root", default="/dev/shm/pst-bench", help="for data, on tmpfs")
    parser.add_argument("--state", default="/var/tmp", help="for site directories and ledgers")
    parser.add_argument(
        "--real",
        type=numbers,
        default=[10**4, 10**5, 10**6],
        help="numbers of real files (%(default)s)",
    )
    parser.add_argument(
        "--generated",
        type=numbers,
        default=[10**5, 10**6, 10**7],
        help="numbers of generated entries (%(default)s)",
    )
    parser.add_argument("--reps", type=int, default=3, help="runs of each size")
    parser.add_argument(
        "--once-above",
        type=int,
        default=10**6,
        metavar="N",
        help="larger sets are moved once (%(default)s)",
    )
    parser.add_argument("--limit", type=float, default=900, help="seconds a run may take")
    add_out(parser)
    arguments = parser.parse_args(argv)
    end_on_signals()
    flat, good = Flat(arguments), True
    print(facts.machine(arguments.penstock, sys.argv), flush=True)
    try:
        flat.run()
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        good = False
    finally:
        flat.close()
    print("\n" + flat.table())
    return 0 if good else 1
