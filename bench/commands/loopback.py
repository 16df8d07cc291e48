"""Times Penstock, daemon to daemon over loopback, beside the rivals that are installed, and
judges it by the targets in bench/judge/loopback.py.

    penstock-bench loopback [--sets one,large] [--modes tls-blake3] [--rivals escp] [--out DIR]

Data sets: one, large, esnet, mid, small; tiny (one small file, only where it is asked for); `mem`
moves generated data to nowhere, beside iperf3; `both` moves in both directions at once, beside one
way. Runs are interleaved, each round in an order of its own (the same each time the benchmark is
run); the first round is a warm-up and dropped, and figures are medians. Every run is compared with
its source byte by byte outside the timed part. CPU is user and system time of all processes of both
ends, counted by a control group (so: run as root). A virtual machine's memory is kept with it
meanwhile (bench/base/memory.py), which takes a minute at the start. Quote ratios within one
run: machines drift.

Needs Python 3.11, diff, and for all data sets 12 GiB below --root. Rivals, where installed: cp;
tar with nc (openbsd) or socat; rsync, as a daemon or over ssh; globus-url-copy with
globus-gridftp-server; xrdcp with xrootd; EScp, whose binary the variable ESCP names. All of them
run in their best profile for two cores (bench/movers/rivals.py), with throw-away keys, on 127.0.0.1
only. The bounds need `examples/primitives` beside the binary (`cargo xtask bench` builds it).
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

from bench.base import facts, memory
from bench.base.arguments import SHM, add_out, add_penstock, choice, command_parser, end_on_signals
from bench.base.groups import Group
from bench.base.processes import Failed, Run
from bench.base.trees import fresh, measure_tree, same
from bench.judge import report
from bench.judge.loopback import judge
from bench.movers import primitives
from bench.movers.rivals import RIVALS, Keys, installed
from bench.movers.sites import MODES, Sites

SETS = {
    # name: (what it is, arguments of `penstock dataset make`)
    "one": ("1 x 4 GiB", ["--files", "1", "--size", "4G", "--layout", "flat"]),
    "large": ("16 x 256 MiB", ["--files", "16", "--size", "256M", "--layout", "flat"]),
    "esnet": ("esnet mix, 3 GiB", ["--preset", "esnet", "--bytes", "3G"]),
    "mid": ("20,000 x 64 KiB", ["--files", "20000", "--size", "64K", "--layout", "flat"]),
    "small": ("100,000 x 4 KiB", ["--files", "100000", "--size", "4K", "--layout", "flat"]),
    "tiny": ("1 x 4 KiB", ["--files", "1", "--size", "4K", "--layout", "flat"]),
    "mem": ("16 x 1 GiB, mem: to null:", None),
    "both": (
        "both directions, 8 x 256 MiB each",
        ["--files", "8", "--size", "256M", "--layout", "flat"],
    ),
    "quick": ("a few MiB", ["--files", "60", "--sizes", "1K-1M"]),
}
QUICK = {
    "quick": SETS["quick"],
    "mem": ("16 x 1 MiB, mem: to null:", None),
    "both": (
        "both directions, 4 x 1 MiB each",
        ["--files", "4", "--size", "1M", "--layout", "flat"],
    ),
}


class Bench:
    """One run of the harness: where it works, and what it was asked for."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.sets = QUICK if arguments.quick else SETS
        os.makedirs(arguments.root, exist_ok=True)
        self.root = tempfile.mkdtemp(prefix="run-", dir=arguments.root)
        os.chmod(self.root, 0o755)
        self.data = fresh(os.path.join(self.root, "data"))
        self.target = os.path.join(self.data, "out")
        self.keys = Keys(fresh(os.path.join(self.root, "keys"), 0o755))
        self.rivals = Group("rivals")
        self.sites = None
        self.held = None if arguments.quick else memory.Held()
        self.rounds = []
        self.judged = []

    def close(self):
        if self.sites:
            self.sites.stop()
        self.rivals.end()
        if self.held:
            self.held.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def start_sites(self):
        if self.sites:
            self.sites.stop()
        size = "1M" if self.arguments.quick else "1G"
        self.sites = Sites(
            self.arguments.penstock,
            self.root,
            self.data,
            Group("penstock"),
            self.arguments.limit,
            size,
        )

    def primitives(self):
        """One round of what the machine can do; medians over the rounds so far."""
        if not self.arguments.no_primitives:
            work = fresh(os.path.join(self.root, "work"))
            try:
                self.rounds.append(primitives.measure(self.rivals, self.arguments.penstock, work))
            except Failed as error:
                print(f"a primitive failed: {error}", file=sys.stderr)
            shutil.rmtree(work)

    def say(self, text):
        print(text)
        sys.stdout.flush()
        self.keep("table.md", text + "\n")

    def keep(self, name, text):
        if self.arguments.out:
            with open(os.path.join(self.arguments.out, name), "a") as out:
                out.write(text)

    # Movers: each does one run, and returns wall and CPU seconds, bytes, files and whether the
    # target was the same as the source.

    def penstock(self, mode, name):
        files, size = measure_tree(os.path.join(self.data, name))
        wall, cpu = self.sites.move(mode, (f"a:data/{name}/", "b:data/out"))
        return wall, cpu, size, files, same(os.path.join(self.data, name), self.target)

    def penstock_both(self, mode, name):
        source = os.path.join(self.data, name)
        files, size = measure_tree(source)
        wall, cpu = self.sites.move(
            mode, (f"a:data/{name}/", "b:data/out/b"), (f"b:data/{name}/", "a:data/out/a")
        )
        good = all(same(source, os.path.join(self.target, site)) for site in "ab")
        return wall, cpu, 2 * size, 2 * files, good

    def penstock_mem(self, mode):
        size = 2**24 if self.arguments.quick else 2**34
        wall, cpu = self.sites.move(mode, ("a:mem/", "b:null/out"))
        # Its own verdict has to do: `null:` keeps nothing to compare.
        return wall, cpu, size, 16, True

    def rival(self, rival, name):
        source = os.path.join(self.data, name)
        files, size = measure_tree(source)
        work = fresh(os.path.join(self.root, "work"), 0o755)
        try:
            run = Run(self.rivals, source, self.target, self.keys, work, self.arguments.limit)
            wall, cpu = RIVALS[rival].run(run)
        finally:
            self.rivals.kill()
            shutil.rmtree(work)
        return wall, cpu, size, files, same(source, self.target)

    def iperf(self, streams, control):
        row = primitives.iperf(self.rivals, streams, control)
        return row["wall_s"], row["cpu_s"], row["bytes"], 1, True

    def movers(self, name):
        """Name, function and slowness of all that run on a data set."""
        source, movers = "set-" + name, []
        for mode in self.arguments.modes:
            ours = f"penstock {mode}"
            if name == "mem":
                movers.append((ours, lambda mode=mode: self.penstock_mem(mode), False))
                continue
            one_way = f"{ours}, one way" if name == "both" else ours
            movers.append((one_way, lambda mode=mode: self.penstock(mode, source), False))
            if name == "both":
                movers.append((ours, lambda mode=mode: self.penstock_both(mode, source), False))
        if name == "mem" and not self.arguments.no_primitives:
            for rival, how in primitives.iperf_movers().items():
                movers.append((rival, lambda how=how: self.iperf(*how), False))
        if name in ("mem", "both"):
            return movers
        for rival in self.arguments.rivals:
            if not RIVALS[rival].sets or name in RIVALS[rival].sets or self.arguments.quick:
                movers.append(
                    (
                        rival,
                        lambda rival=rival: self.rival(rival, source),
                        name in RIVALS[rival].slow,
                    )
                )
        return movers

    def run_once(self, mover, function):
        """One run of one mover: its row, whether it went well or not."""
        fresh(self.target)
        row = {
            "mover": mover,
            "wall_s": None,
            "cpu_s": None,
            "bytes": None,
            "files": None,
            "verified": False,
            "error": "",
        }
        ours = mover.startswith("penstock ")
        try:
            wall, cpu, size, files, good = function()
            row |= {
                "wall_s": wall,
                "cpu_s": cpu,
                "bytes": size,
                "files": files,
                "verified": good,
                "error": "" if good else "differs",
            }
        except Failed as error:
            row["error"] = str(error)
        if ours:
            row["peaks_mib"] = self.sites.peaks_mib()
            if row["wall_s"] is None:
                self.start_sites()
        shutil.rmtree(self.target, ignore_errors=True)
        return row

    def measure(self, name):
        """One data set, all movers, interleaved; the rows of the counted rounds."""
        what, make = self.sets[name]
        arguments, rows = self.arguments, []
        source = os.path.join(self.data, "set-" + name)
        if make:
            words = [arguments.penstock, "dataset", "make", source, *make]
            done = subprocess.run(words, stdout=subprocess.DEVNULL)
            if done.returncode:
                raise Failed(f"`penstock dataset make` ended with {done.returncode}")
        self.primitives()
        self.start_sites()
        movers = self.movers(name)
        for rep in range(0 if arguments.warmup else 1, arguments.reps + 1):
            for mover, function, slow in random.Random(rep).sample(movers, len(movers)):
                few = arguments.slow_rivals_reps
                if slow and few is not None and not 1 <= rep <= few:
                    continue
                row = {"set": name, "what": what, "rep": rep} | self.run_once(mover, function)
                if not arguments.quick:
                    print(json.dumps(row), file=sys.stderr)
                self.keep("raw.jsonl", json.dumps(row) + "\n")
                rows.append(row)
        self.sites.stop()
        self.sites = None
        shutil.rmtree(source, ignore_errors=True)
        names = [mover for mover, *_ in movers]
        rows.sort(key=lambda row: names.index(row["mover"]))
        return [row for row in rows if row["rep"] > 0]

    def run(self):
        """All data sets; whether every run of Penstock was verified."""
        self.say(facts.machine(self.arguments.penstock, sys.argv))
        lacking = [rival for rival in RIVALS if installed(rival)]
        if lacking and not self.arguments.quick:
            self.say(
                "\nNot installed: "
                + "; ".join(f"{rival} ({', '.join(installed(rival))})" for rival in lacking)
            )
        results = {}
        for name in self.arguments.sets:
            rows = results[name] = self.measure(name)
            self.say(report.movers_table(self.sets[name][0], rows, peaks(rows)))
        self.primitives()
        measured = primitives.summary(self.rounds)
        if measured:
            self.say(report.primitives_table(measured, len(self.rounds)))
            self.say(report.bounds_text(results, measured))
        if not self.arguments.quick:
            judged = [
                row
                for name, rows in results.items()
                for row in judge(name, rows, peaks(rows), measured)
            ]
            self.say("\n### Targets" + "\n" + report.targets_table(judged))
            self.say(report.closing(judged))
            self.keep("primitives.jsonl", "".join(json.dumps(one) + "\n" for one in self.rounds))
        ours = [
            row for rows in results.values() for row in rows if row["mover"].startswith("penstock ")
        ]
        failed = [row for row in ours if not row["verified"]]
        for row in failed:
            print(f"error: {row['set']}, {row['mover']}: {row['error']}", file=sys.stderr)
        return bool(ours) and not failed


def peaks(rows):
    """Peak memory of the daemons of `a` and `b` over all runs of a data set."""
    known = [row["peaks_mib"] for row in rows if "peaks_mib" in row]
    return [max(pair) for pair in zip(*known)] if known else None


def read_arguments(argv):
    parser = command_parser("loopback", __doc__)
    add_penstock(parser)
    parser.add_argument(
        "--root",
        default=os.path.join(SHM, "pst-bench"),
        help="directory to work in, on tmpfs (%(default)s)",
    )
    parser.add_argument("--sets", type=choice("data set", SETS), help="default: all")
    parser.add_argument(
        "--modes",
        type=choice("mode", MODES),
        default=list(MODES),
        help="clear-xxh3, clear-blake3, tls-blake3, tls-xxh3; default: all",
    )
    parser.add_argument(
        "--rivals",
        type=choice("rival", RIVALS),
        help=f"of {', '.join(RIVALS)}; `none`; default: all that are installed",
    )
    parser.add_argument("--reps", type=int, default=5, help="counted rounds, after one warm-up")
    parser.add_argument(
        "--slow-rivals-reps",
        type=int,
        metavar="N",
        help="rounds, without warm-up, of rivals that take very long on a set",
    )
    parser.add_argument("--limit", type=float, default=180, help="seconds a run may take")
    parser.add_argument("--no-primitives", action="store_true", help="no iperf3 and the like")
    add_out(parser)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a smoke run: a few MiB, once; exit code 1 unless all is verified",
    )
    arguments = parser.parse_args(argv)
    arguments.warmup = not arguments.quick
    if arguments.quick:
        arguments.reps, arguments.no_primitives = 1, True
        arguments.sets = list(QUICK)
        arguments.rivals = arguments.rivals or []
    if arguments.sets is None:
        arguments.sets = [name for name in SETS if name not in ("quick", "tiny")]
    if arguments.rivals is None:
        arguments.rivals = list(RIVALS)
    arguments.rivals = [rival for rival in arguments.rivals if not installed(rival)]
    return arguments


def main(argv):
    arguments = read_arguments(argv)
    end_on_signals()
    bench = Bench(arguments)
    try:
        good = bench.run()
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        good = False
    finally:
        bench.close()
    return 0 if good else 1
