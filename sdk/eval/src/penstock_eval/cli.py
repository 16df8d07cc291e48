"""Command line: `penstock-eval report` and `penstock-eval check`."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from penstock_eval import __version__, rundir
from penstock_eval.formats import BrokenFileError

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
        description="Makes a report of what `penstock bench sweep` measured.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    report = commands.add_parser(
        "report", help="write report.html, report.md, figures/ and tables/"
    )
    report.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a sweep's --out")
    report.add_argument(
        "-o", "--out", type=Path, metavar="DIR", help="where to write; RUN/report by default"
    )
    report.add_argument(
        "--need", type=rate, metavar="RATE", help="rate that is needed, as 100Gbit/s or 800TB/day"
    )
    report.set_defaults(act=_report)
    check = commands.add_parser("check", help="check a run directory against its JSON Schema")
    check.add_argument("run", type=Path, metavar="RUN", help="a sweep's --out")
    check.set_defaults(act=_check)
    return parser


def _report(arguments: argparse.Namespace) -> int:
    # matplotlib takes a second to load: `check` and `--help` do without.
    from penstock_eval import report

    out: Path = arguments.out or arguments.runs[0] / "report"
    sections = report.write(arguments.runs, out, arguments.need)
    for made in sections:
        for key, title, why in made.left_out:
            _say(f"left out: {key}, {title}: {why}")
    pictures = sum(len(made.pictures) for made in sections)
    listings = sum(len(made.listings) for made in sections)
    _say(f"{pictures} figures and {listings} tables: {out / 'report.html'}")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    found = rundir.complaints(arguments.run)
    for text in found:
        _complain(text)
    if not found:
        run = rundir.Run(arguments.run)
        _say(f"{arguments.run}: right, {len(run.cells)} of {len(run.about['cells'])} runs")
    return 1 if found else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Returns:
        0; 1 where a run directory is broken or a report cannot be written, after saying why.
    """
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
