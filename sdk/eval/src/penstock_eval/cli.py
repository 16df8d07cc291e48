"""Command line: `penstock-eval report` and `penstock-eval check`."""

import argparse
import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from penstock_eval import __version__, subjects
from penstock_eval.formats import BrokenFileError
from penstock_eval.rundir import Run
from penstock_eval.soakdir import Soak
from penstock_eval.storagedir import StorageResult

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kMGT]?)(bit/s|B/s|B/day)")
_FACTORS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BYTES = {"bit/s": 1 / 8, "B/s": 1.0, "B/day": 1 / 86_400}


def rate(text: str) -> float:
    """Rate in bytes per second: `1 Tbit/s`, `2.5GB/s`, `800TB/day`."""
    found = _RATE.fullmatch(text.strip())
    if not found or float(found[1]) == 0:
        raise argparse.ArgumentTypeError(
            f"`{text}` is no rate; write it as 100Gbit/s, 12.5GB/s or 800TB/day"
        )
    return float(found[1]) * _FACTORS[found[2]] * _BYTES[found[3]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="penstock-eval",
        description="Makes a report of sweeps, soaks, comparisons of movers, and storage.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    report = commands.add_parser(
        "report", help="write report.html, report.md, figures/ and tables/"
    )
    report.add_argument(
        "found",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="the --out of `bench sweep`, `bench storage`, `soak`, or `penstock-bench rivals`",
    )
    report.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="DIR",
        help="where to write; `report` in the first RUN by default",
    )
    report.add_argument(
        "--need", type=rate, metavar="RATE", help="rate that is needed, as 100Gbit/s or 800TB/day"
    )
    report.set_defaults(act=_report)
    check = commands.add_parser("check", help="check a directory against its JSON Schema")
    check.add_argument("run", type=Path, metavar="RUN", help="as of `report`")
    check.set_defaults(act=_check)
    return parser


def _report(arguments: argparse.Namespace) -> int:
    # matplotlib takes a second to load: `check` and `--help` do without.
    from penstock_eval import report

    out: Path = arguments.out or arguments.found[0] / "report"
    sections = report.write(arguments.found, out, arguments.need)
    for made in sections:
        if len(sections) > 1 and made.left_out:
            keys = ", ".join(key for key, *_ in made.left_out)
            _say(f"left out of {made.name}: {keys}; the report says why")
            continue
        for key, title, why in made.left_out:
            _say(f"left out: {key}, {title}: {why}")
    pictures = sum(len(made.pictures) for made in sections)
    listings = sum(len(made.listings) for made in sections)
    _say(f"{pictures} figures and {listings} tables: {out / 'report.html'}")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    path: Path = arguments.run
    found = subjects.complaints(path)
    for text in found:
        _complain(text)
    if not found:
        _say(f"{path}: right, {_extent(subjects.read(path))}")
    return 1 if found else 0


def _extent(subject: subjects.Subject) -> str:
    """How much of a directory there is."""
    if isinstance(subject, Run):
        return f"{len(subject.cells)} of {len(subject.about['cells'])} runs"
    if isinstance(subject, Soak):
        return f"{len(subject.rounds)} rounds, {len(subject.faults)} faults"
    if isinstance(subject, StorageResult):
        return f"{len(subject.steps)} steps"
    return f"{len(subject.transfers)} transfers"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Returns:
        0; 1 where a run directory is broken or a report cannot be written, after saying why.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A path or title may have signs that the terminal lacks.
        sys.stdout.reconfigure(errors="backslashreplace")
    chosen = _parser().parse_args(arguments)
    try:
        return chosen.act(chosen)
    except BrokenFileError as error:
        _complain(str(error))
    except OSError as error:
        _complain(f"{error.filename}: {error.strerror}")
    return 1


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _complain(text: str) -> None:
    sys.stderr.write(f"penstock-eval: {text}\n")
