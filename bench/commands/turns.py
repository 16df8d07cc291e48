"""Times builds of Penstock, or options of one, by turns: A B B A ..., daemon to daemon over
loopback.

    penstock-bench turns before=OLD/penstock after=NEW/penstock [--sets small] [--out DIR]
    penstock-bench turns one='NEW/penstock --lanes 1' two='NEW/penstock --lanes 2'

The first variant is what the others are compared with: of each round the ratio is taken, and the
table gives the medians, with the least and the greatest in brackets. Each variant has daemons of
its own; the order is turned round by round, and the first round is dropped. What arrived is
compared with the source byte by byte in that first round. Run it as root with nothing else going
on; a difference below the range of the ratios means nothing.
"""

import json
import os
import shutil
import statistics
import subprocess
import tempfile

from bench.base import memory
from bench.base.arguments import add_out, choice, command_parser, end_on_signals
from bench.base.groups import Group
from bench.base.processes import Failed
from bench.base.trees import fresh, measure_tree, same
from bench.commands.loopback import SETS
from bench.movers.sites import MODES, Sites


class Variant:
    """One build with its options, and its two daemons."""

    def __init__(self, text, root, data):
        self.name, _, command = text.partition("=")
        binary, *self.options = command.split()
        self.group = Group("turns-" + self.name)
        self.sites = Sites(
            os.path.abspath(binary), fresh(os.path.join(root, self.name)), data, self.group, 180
        )

    def move(self, mode, name):
        key = f"{mode}, {self.name}"
        MODES[key] = MODES[mode] + self.options
        return self.sites.move(key, (f"a:data/{name}/", "b:data/out"))


class Turns:
    def __init__(self, arguments, root):
        self.arguments, self.root, self.data = arguments, root, fresh(os.path.join(root, "data"))
        self.target = os.path.join(self.data, "out")
        self.variants = [Variant(text, root, self.data) for text in arguments.variants]

    def stop(self):
        for variant in self.variants:
            variant.sites.stop()

    def run(self, name):
        """One data set: a table's lines."""
        source = os.path.join(self.data, name)
        subprocess.run(
            [self.variants[0].sites.binary, "dataset", "make", source, *SETS[name][1]],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        files, size = measure_tree(source)
        per_file = size / files <= 2**20
        unit = "us a file" if per_file else "s/GiB"
        share = 1e6 / files if per_file else 2**30 / size
        lines = [
            f"\n### {SETS[name][0]}\n",
            f"| mode | variant | s | CPU {unit} | ratio of s | ratio of CPU |",
            "|---|---|---|---|---|---|",
        ]
        for mode in self.arguments.modes:
            rows = [self.round(rep, mode, name) for rep in range(self.arguments.reps + 1)][1:]
            first = self.variants[0].name
            for variant in self.variants:
                walls, cpus = ([row[variant.name][at] for row in rows] for at in (0, 1))
                cells = [
                    mode,
                    variant.name,
                    f"{statistics.median(walls):.3f}",
                    f"{statistics.median(cpus) * share:.2f}",
                ]
                if variant.name == first:
                    cells += ["", ""]
                else:
                    cells += [
                        spread([row[variant.name][at] / row[first][at] for row in rows])
                        for at in (0, 1)
                    ]
                lines.append("| " + " | ".join(cells) + " |")
        shutil.rmtree(source)
        return lines

    def round(self, rep, mode, name):
        done = {}
        for variant in self.variants if rep % 2 else reversed(self.variants):
            fresh(self.target)
            wall, cpu = done[variant.name] = variant.move(mode, name)
            if rep == 0 and not same(os.path.join(self.data, name), self.target):
                raise Failed(f"{variant.name}: the target is not as the source")
            row = {
                "set": name,
                "mode": mode,
                "rep": rep,
                "variant": variant.name,
                "wall_s": wall,
                "cpu_s": cpu,
            }
            if self.arguments.out:
                with open(os.path.join(self.arguments.out, "turns.jsonl"), "a") as out:
                    out.write(json.dumps(row) + "\n")
        shutil.rmtree(self.target)
        return done


def spread(ratios):
    return f"{statistics.median(ratios):.3f} [{min(ratios):.2f}-{max(ratios):.2f}]"


def main(argv):
    parser = command_parser("turns", __doc__)
    parser.add_argument("variants", nargs="+", metavar="NAME=BINARY [OPTION...]")
    parser.add_argument("--root", default="/dev/shm/pst-bench")
    parser.add_argument("--sets", type=choice("data set", SETS), default=["large", "small"])
    parser.add_argument("--modes", type=choice("mode", MODES), default=["tls blake3"])
    parser.add_argument("--reps", type=int, default=7, help="counted rounds, after one warm-up")
    add_out(parser)
    arguments = parser.parse_args(argv)
    os.makedirs(arguments.root, exist_ok=True)
    end_on_signals()
    held = memory.Held()
    root = tempfile.mkdtemp(prefix="turns-", dir=arguments.root)
    turns = None
    try:
        turns = Turns(arguments, root)
        for name in arguments.sets:
            text = "\n".join(turns.run(name))
            print(text, flush=True)
            if arguments.out:
                with open(os.path.join(arguments.out, "turns.md"), "a") as out:
                    out.write(text + "\n")
    finally:
        if turns:
            turns.stop()
        held.close()
        shutil.rmtree(root, ignore_errors=True)
