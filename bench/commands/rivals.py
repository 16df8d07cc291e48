"""Times movers that are installed beside each other on your own hosts: on one, or from this one to
another that you reach by ssh.

    penstock-bench rivals --source /data/set --target me@far:/scratch --out DIR
    penstock-bench rivals --source /scratch --target /mnt/other --sets small,large --durable

Movers: penstock, rsync, rclone, tar-nc, gridftp, xrootd, escp, cp (one host), scp (two hosts).
What is missing is named, with the package that has it. tar-nc, gridftp and xrootd take data without
a password: over a network they run only if --rivals names them, listen at a port of --ports while
they run, and anybody who reaches that port could write below the target's directory meanwhile.

Without --sets the contents of --source are moved. With it, data sets are made below --source, and
removed at the end: large, medium, small, mixed, or shapes as 20x50MiB, or presets as esnet@3GiB.
Each round has every mover once, in an order that follows from --seed; a first round warms caches
and is not counted. A new directory at the target takes what arrives, is emptied between runs, and
is removed at the end; nothing else there is touched. With --durable the time ends when the data
would outlive a power cut: penstock syncs what it writes, `sync -f` follows the others.

After each run the target is compared with the source, outside the timed part: names and sizes of
all files, and SHA-256 of all or of a sample. CPU is that of the processes of the run, where this
user may make a control group at the source (root), else that of the whole host from /proc/stat: so
have nothing else run. Reads of a second round come from memory if the data set fits there.

--out gets rivals.jsonl (bench/hosts/record.py has its fields) and rivals.md. Exit code 0: all runs
were good; 1: one was not; 2: wrong usage. Needs Python 3.11; at the other host bash, coreutils,
findutils, grep, sed and util-linux. A run over --limit is ended at both hosts, and the next begins.
It takes (repeats + 1) x movers x the time of one transfer and of reading it once more.
"""

import argparse
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from bench.base.arguments import SHM, add_out, add_penstock, command_parser, end_on_signals
from bench.base.processes import Failed
from bench.hosts import movers, record, table
from bench.hosts.place import Place, Target, parse_target
from bench.hosts.rounds import Rounds
from bench.hosts.sets import TEXTS, DataSet, existing, made, parse_sets

QUICK_MOVERS = ["penstock", "cp", "rsync", "tar-nc"]
QUICK_SETS = "200x4K,4x256K"
SETS_TEXT = ", ".join(f"{name} ({text})" for name, text in TEXTS.items())


def known_movers(text: str) -> list[str]:
    """Reads names of movers, by commas."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in movers.MOVERS:
            known = ", ".join(movers.MOVERS)
            raise argparse.ArgumentTypeError(f"no mover `{name}`; there are: {known}")
    return list(dict.fromkeys(names))


def port_range(text: str) -> tuple[int, int]:
    """Reads `A-B`."""
    first, _, last = text.partition("-")
    if not (first.isdigit() and last.isdigit() and 0 < int(first) <= int(last) < 65536):
        raise argparse.ArgumentTypeError(f"`{text}` is no range of ports, as 50000-50100 is")
    return int(first), int(last)


def mover_options(text: str) -> tuple[str, str]:
    """Reads `MOVER=OPTIONS`."""
    name, equals, options = text.partition("=")
    if name not in movers.MOVERS or not equals:
        raise argparse.ArgumentTypeError(f"`{text}` is not MOVER=OPTIONS, as rsync=-z is")
    return name, options


def read(reader):
    """A reader of arguments whose ValueError says what is wrong."""

    def checked(text: str):
        try:
            return reader(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return checked


def read_arguments(argv: list[str]) -> argparse.Namespace:
    parser = command_parser("rivals", __doc__)
    parser.add_argument("--source", type=os.path.abspath, help="directory of this host")
    parser.add_argument("--target", type=read(parse_target), help="PATH, or [user@]HOST:PATH")
    parser.add_argument(
        "--sets",
        type=read(parse_sets),
        help=f"data sets to make below --source: {SETS_TEXT}, NxSIZE, PRESET@SIZE",
    )
    parser.add_argument("--rivals", type=known_movers, help="movers by commas (default: see above)")
    parser.add_argument("--repeats", type=int, default=6, help="counted rounds (%(default)s)")
    parser.add_argument("--durable", action="store_true", help="the time ends with a sync")
    parser.add_argument("--verify", choices=["all", "sample", "none"], default="all")
    parser.add_argument("--no-warm-up", action="store_true", help="count the first round too")
    parser.add_argument("--seed", type=int, help="of the order (default: random, and reported)")
    parser.add_argument("--ssh", default="ssh", help="the ssh command, as in `ssh -J jump`")
    parser.add_argument("--address", help="of the target for data (default: as ssh has it)")
    parser.add_argument(
        "--ports",
        type=port_range,
        default=(50000, 50100),
        metavar="A-B",
        help="where servers of movers listen (50000-50100)",
    )
    parser.add_argument(
        "--options",
        type=mover_options,
        action="append",
        default=[],
        metavar="MOVER=OPTIONS",
        help="more options of a mover, as rsync=-z",
    )
    parser.add_argument("--limit", type=float, default=3600, help="seconds a run may take")
    add_penstock(parser)
    add_out(parser)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a smoke run on this host with a few MiB; needs no other argument",
    )
    arguments = parser.parse_args(argv)
    if not arguments.quick and not (arguments.source and arguments.target):
        parser.error("--source and --target are needed")
    if arguments.repeats < 1:
        parser.error("--repeats must be at least 1")
    if arguments.seed is None:
        arguments.seed = int.from_bytes(os.urandom(4))
    if not os.path.exists(arguments.penstock):
        arguments.penstock = shutil.which("penstock") or arguments.penstock
    return arguments


@contextmanager
def quick_place(arguments: argparse.Namespace) -> Iterator[None]:
    """Directories of a smoke run, and its arguments."""
    with tempfile.TemporaryDirectory(prefix="pst-rivals-", dir=SHM) as root:
        os.chmod(root, 0o755)
        for name in ("source", "target"):
            os.mkdir(os.path.join(root, name))
        arguments.source = os.path.join(root, "source")
        arguments.target = Target("", os.path.join(root, "target"))
        arguments.sets = parse_sets(QUICK_SETS)
        arguments.repeats, arguments.no_warm_up = 1, True
        arguments.rivals = arguments.rivals or QUICK_MOVERS
        yield


@contextmanager
def data_sets(arguments: argparse.Namespace) -> Iterator[Iterator[DataSet]]:
    """The data sets, one after the other; what was made is removed."""
    if not arguments.sets:
        yield iter([existing(arguments.source)])
        return
    parent = tempfile.mkdtemp(prefix="penstock-bench-", dir=arguments.source)
    os.chmod(parent, 0o755)
    try:
        yield (
            made(name, options, parent, arguments.penstock)
            for name, options in arguments.sets.items()
        )
    finally:
        shutil.rmtree(parent, ignore_errors=True)


def choose(
    arguments: argparse.Namespace, job: movers.Job
) -> tuple[list[str], dict[str, list[str]]]:
    """The movers that can run here, and of the others why not."""
    chosen, missing = [], {}
    for name in arguments.rivals or movers.MOVERS:
        mover = movers.MOVERS[name]
        if not (mover.local if job.is_local else mover.remote):
            why = ["it moves on one host only" if not job.is_local else "it needs two hosts"]
        elif mover.is_open and not job.is_local and arguments.rivals is None:
            why = ["it opens a port to anybody: `--rivals` must name it"]
        else:
            why = movers.lacking(name, job)
        if why:
            missing[name] = why
        else:
            chosen.append(name)
    return chosen, missing


def describe(name: str, job: movers.Job) -> dict[str, str]:
    """What a mover does, as a report says it."""
    mover = movers.MOVERS[name]
    durable = "no"
    if job.durable:
        durable = "syncs itself" if mover.syncs else "`sync -f` afterwards"
    crosses = not job.is_local or mover.is_open
    return {
        "version": movers.version(name, job),
        "encrypted": mover.encrypted if crosses else "no network",
        "verifies": mover.verifies,
        "resumes": mover.resumes,
        "durable": durable,
    }


def compare(arguments: argparse.Namespace, place: Place) -> bool:
    """All data sets; whether all runs were good."""
    job = movers.Job(
        source=arguments.source,
        out="",
        here=place.here,
        there=place.there,
        work=place.work,
        work_there="",
        ssh=place.ssh,
        destination=place.target.destination,
        address=place.address,
        ssh_settings=place.settings,
        ports=arguments.ports,
        durable=arguments.durable,
        penstock=arguments.penstock,
        options=dict(arguments.options),
    )
    chosen, missing = choose(arguments, job)
    for name, why in missing.items():
        print(f"not run: {name}: {'; '.join(why)}", file=sys.stderr)
    if not chosen:
        raise Failed("no mover can run")
    target = place.target
    bench = record.Bench(
        format=record.FORMAT,
        begun=datetime.now(UTC).strftime("%FT%TZ"),
        command=sys.argv,
        seed=arguments.seed,
        source=arguments.source,
        target=f"{target.destination}:{target.path}" if target.destination else target.path,
        durable=arguments.durable,
        verify=arguments.verify,
        repeats=arguments.repeats,
        hosts=place.facts(),
        movers={name: describe(name, job) for name in chosen},
        missing=missing,
    )
    keep(arguments.out, record.line("bench", bench))
    rounds = Rounds(place, job, chosen, arguments)
    with data_sets(arguments) as sets:
        for data in sets:
            for run in rounds.run(data):
                keep(arguments.out, record.line("run", run))
    text = table.report(bench, rounds.runs)
    print(text)
    if arguments.out:
        with open(os.path.join(arguments.out, "rivals.md"), "w") as out:
            out.write(text)
    return not any(run.error for run in rounds.runs)


def keep(directory: str | None, line: dict[str, object]) -> None:
    """Adds a line to the file of records."""
    if directory:
        with open(os.path.join(directory, "rivals.jsonl"), "a") as out:
            out.write(json.dumps(line) + "\n")


def main(argv: list[str]) -> int:
    arguments = read_arguments(argv)
    end_on_signals()
    if arguments.out and os.path.exists(os.path.join(arguments.out, "rivals.jsonl")):
        raise Failed(f"{arguments.out} has a rivals.jsonl already; name another directory")
    if arguments.quick:
        with quick_place(arguments):
            return run(arguments)
    return run(arguments)


def run(arguments: argparse.Namespace) -> int:
    name = f"penstock-bench-{os.urandom(4).hex()}"
    place = Place(arguments.target, shlex.split(arguments.ssh), arguments.address, name)
    try:
        return 0 if compare(arguments, place) else 1
    finally:
        place.close()
