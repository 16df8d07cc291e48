"""Times builds of Penstock, or options of one, by turns: A B B A ..., daemon to daemon over
loopback.

    penstock-bench turns before=OLD/penstock after=NEW/penstock [--sets small] [--out DIR]
    penstock-bench turns one='NEW/penstock --lanes 1' two='NEW/penstock --lanes 2'
    penstock-bench turns --build v1,v2,v3,native

The first variant is what the others are compared with: of each round the ratio is taken, and the
table gives the medians, with the least and the greatest in brackets. Each variant has daemons of
its own; the order is turned round by round, and the first round is dropped. What arrived is
compared with the source byte by byte in that first round. Run it as root with nothing else going
on; a difference below the range of the ratios means nothing.

--build builds this checkout with `-C target-cpu`, for levels of x86-64 (v1 to v4) and for this
processor (native), and compares the builds after the variants that are named. Each build has a
directory in `levels` of the target directory, and takes minutes the first time. RUSTFLAGS of the
environment, or of the settings of cargo, come before the option.
"""

import argparse
import json
import os
import shlex
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
from bench.movers.builds import LEVELS, NATIVE, Builder, read_levels
from bench.movers.sites import MODES, Sites

FILE_SETS = [name for name, (_, make) in SETS.items() if make and name != "both"]
"""Data sets of files that move one way."""


class Variant:
    """One build with its options, and its two daemons."""

    def __init__(self, name, words, root, data):
        self.name = name
        binary, *self.options = words
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
        self.variants = [Variant(*variant, root, self.data) for variant in arguments.variants]

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


def read_variant(text):
    """Reads `NAME=BINARY [OPTION...]`: the name, and the words of the command."""
    name, _, command = text.partition("=")
    words = shlex.split(command)
    if not name or not words:
        raise argparse.ArgumentTypeError(f"`{text}` is not NAME=BINARY, as new=/tmp/penstock is")
    if not (os.path.isfile(words[0]) and os.access(words[0], os.X_OK)):
        raise argparse.ArgumentTypeError(f"no program {words[0]} for `{name}`: build it first")
    return name, words


def read_sets(text):
    """Reads names of data sets that move one way."""
    for name in text.split(","):
        if name in SETS and name not in FILE_SETS:
            raise argparse.ArgumentTypeError(
                f"`{name}` is a data set of `penstock-bench loopback` only: turns moves files one "
                f"way; there are: {', '.join(FILE_SETS)}"
            )
    return choice("data set", FILE_SETS)(text)


def read_arguments(argv):
    parser = command_parser("turns", __doc__)
    parser.add_argument("variants", nargs="*", type=read_variant, metavar="NAME=BINARY [OPTION...]")
    parser.add_argument(
        "--build",
        type=read_levels,
        default=[],
        metavar="LEVELS",
        help=f"builds of this checkout, of {', '.join([*LEVELS, NATIVE])}",
    )
    parser.add_argument("--root", default="/dev/shm/pst-bench")
    parser.add_argument(
        "--sets",
        type=read_sets,
        default=["large", "small"],
        help=f"of {', '.join(FILE_SETS)}; default: large,small",
    )
    parser.add_argument("--modes", type=choice("mode", MODES), default=["tls blake3"])
    parser.add_argument("--reps", type=int, default=7, help="counted rounds, after one warm-up")
    add_out(parser)
    arguments = parser.parse_args(argv)
    names = [*(name for name, _ in arguments.variants), *arguments.build]
    if not names:
        parser.error("name what to compare: NAME=BINARY for each variant, or --build v1,v3")
    for name in names:
        if names.count(name) > 1:
            parser.error(f"there are two variants `{name}`: give one of them another name")
    return arguments


def main(argv):
    arguments = read_arguments(argv)
    os.makedirs(arguments.root, exist_ok=True)
    end_on_signals()
    if arguments.build:
        builder = Builder()
        arguments.variants += [(level, [builder.build(level)]) for level in arguments.build]
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
