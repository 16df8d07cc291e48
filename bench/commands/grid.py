"""Automatic lanes and piece sizes beside a grid of fixed ones, daemon to daemon: over loopback, or
between two hosts of the lab (lab/) over 1 Gbit/s and 90 ms.

    penstock-bench grid [--penstock PROGRAM] [--sets large,small] [--reps 3] [--out DIR]
    penstock-bench grid --far [--lab PROGRAM] ...

Every combination of `--lanes` and `--piece-size` runs once a round, in random order (the seed is
printed), with the automatic settings run four times among them, so that they meet the machine in as
many moods. The table gives medians of wall seconds and says how far the automatic settings are from
the best cell: a single best of sixteen noisy medians is a little better than any of them really is.
TLS with BLAKE3. Nothing is compared outside: the exit code says that all is verified.
Needs what `penstock-bench loopback` needs, without rivals; with `--far`, root.
"""

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

from bench.base import memory
from bench.base.arguments import add_lab, add_out, add_penstock, command_parser, end_on_signals
from bench.base.groups import Group
from bench.base.trees import fresh
from bench.commands import wan
from bench.commands.loopback import SETS
from bench.movers.sites import MODES, Sites

LANES = (1, 2, 4, 8)
PIECES = ("4M", "16M", "64M", "256M")
AUTOMATIC = "automatic"
FAR_SETS = {
    "one": ("1 x 512 MiB", wan.SETS["medium"]),
    "some": ("16 x 32 MiB", ["--files", "16", "--size", "32M", "--layout", "flat"]),
    "esnet": ("esnet, 512 MiB", ["--preset", "esnet", "--bytes", "512M"]),
    "small": ("5,000 x 4 KiB", wan.SETS["small"]),
}


class FarSites:
    """The sites of `wan` with a lab of their own, under the names that those over loopback have."""

    def __init__(self, arguments, root, data):
        name = f"grid{os.getpid()}"
        self.lab = wan.Lab(arguments.lab, name, wan.THIN, "256m")
        self.lab.set_congestion("bbr")
        self.group = Group("penstock")
        self.sites = wan.Sites(arguments.penstock, root, data, self.lab, self.group)

    def move(self, mode, route):
        wall, cpu, *_ = self.sites.move(mode, *route, None, 180)
        return wall, cpu

    def stop(self):
        self.group.end()
        self.lab.down()


def measure(arguments, root, name, rng):
    """One data set: wall seconds by cell."""
    data = fresh(os.path.join(root, "data"))
    source = os.path.join(data, "set")
    subprocess.run(
        [arguments.penstock, "dataset", "make", source, *arguments.known[name][1]],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    if arguments.far:
        sites = FarSites(arguments, root, data)
    else:
        sites = Sites(arguments.penstock, root, data, Group("penstock"), 180)
    cells = {AUTOMATIC: []}
    for lanes in LANES:
        for piece in PIECES:
            key = f"{lanes} lanes, {piece}"
            cells[key] = ["--lanes", str(lanes), "--piece-size", piece]
    walls = {key: [] for key in cells}
    try:
        for rep in range(arguments.reps + 1):
            order = [*cells, AUTOMATIC, AUTOMATIC, AUTOMATIC]
            rng.shuffle(order)
            for key in order:
                fresh(os.path.join(data, "out"))
                MODES["grid"] = cells[key]
                wall, cpu = sites.move("grid", ("a:data/set/", "b:data/out"))
                row = {"set": name, "cell": key, "rep": rep, "wall_s": wall, "cpu_s": cpu}
                if arguments.out:
                    with open(os.path.join(arguments.out, "grid.jsonl"), "a") as out:
                        out.write(json.dumps(row) + "\n")
                if rep:
                    walls[key].append(wall)
    finally:
        sites.stop()
    return {key: statistics.median(times) for key, times in walls.items()}


def table(title, medians):
    best = min((key for key in medians if key != AUTOMATIC), key=medians.get)
    lines = [
        f"\n### {title}: wall seconds\n",
        "| lanes | " + " | ".join(PIECES) + " |",
        "|---" * (len(PIECES) + 1) + "|",
    ]
    for lanes in LANES:
        row = [f"{medians[f'{lanes} lanes, {piece}']:.2f}" for piece in PIECES]
        lines.append(f"| {lanes} | " + " | ".join(row) + " |")
    ratio = medians[AUTOMATIC] / medians[best]
    lines.append(f"\nAutomatic: {medians[AUTOMATIC]:.2f} s, {ratio:.2f} of the best cell ({best}).")
    return "\n".join(lines)


def main(argv):
    parser = command_parser("grid", __doc__)
    add_penstock(parser)
    parser.add_argument("--root", default="/dev/shm/pst-bench")
    parser.add_argument("--far", action="store_true", help="over 1 Gbit/s and 90 ms")
    add_lab(parser)
    parser.add_argument("--sets", help="default: all four")
    parser.add_argument("--reps", type=int, default=3, help="counted rounds, after one warm-up")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    add_out(parser)
    arguments = parser.parse_args(argv)
    arguments.known = FAR_SETS if arguments.far else SETS
    os.makedirs(arguments.root, exist_ok=True)
    end_on_signals()
    print(f"seed {arguments.seed}")
    rng = random.Random(arguments.seed)
    held = memory.Held()
    four = list(FAR_SETS) if arguments.far else ["large", "esnet", "mid", "small"]
    for name in arguments.sets.split(",") if arguments.sets else four:
        root = tempfile.mkdtemp(prefix="grid-", dir=arguments.root)
        os.chmod(root, 0o755)
        try:
            print(table(arguments.known[name][0], measure(arguments, root, name, rng)))
        finally:
            shutil.rmtree(root, ignore_errors=True)
        sys.stdout.flush()
    held.close()
