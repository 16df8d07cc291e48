"""The report of a comparison: medians, spreads, and ratios within rounds, as Markdown."""

import statistics
from collections.abc import Callable, Iterable

from bench.hosts.record import Bench, Run

GIB = 2**30
OURS = "penstock"
DIGITS = 2
ENOUGH = 6
"""Rounds, from which on the least and the greatest hold the median by 97 %."""


def spread(values: Iterable[float], digits: int) -> str:
    """The median, with the least and the greatest."""
    known = sorted(values)
    if not known:
        return "-"
    middle = statistics.median(known)
    if len(known) == 1:
        return f"{middle:.{digits}f}"
    return f"{middle:.{digits}f} ({known[0]:.{digits}f}–{known[-1]:.{digits}f})"


def counted(runs: list[Run]) -> list[Run]:
    """The runs that figures are made of: no warm-up, nothing that failed."""
    return [run for run in runs if run.round > 0 and run.error is None and run.wall_s is not None]


def ratios(runs: list[Run], mover: str) -> list[float]:
    """Seconds of a mover by those of Penstock in the same round, for rounds where both are good."""
    seconds = {(run.mover, run.round): run.wall_s or 0.0 for run in counted(runs)}
    return [
        seconds[mover, number] / ours
        for (name, number), ours in seconds.items()
        if name == OURS and ours and (mover, number) in seconds
    ]


def short(value: float) -> str:
    """A figure with two digits at least."""
    return f"{value:,.1f}" if value < 10 else f"{value:,.0f}"


def median_of(runs: list[Run], figure: Callable[[Run], float | None]) -> str:
    """The median of a figure of runs that have it."""
    known = [value for run in runs if (value := figure(run)) is not None]
    return f"{statistics.median(known):.2f}" if known else "-"


def row(runs: list[Run], mover: str, has_target: bool) -> str:
    """The line of a mover in the table of a data set."""
    of = [run for run in runs if run.mover == mover and run.round > 0]
    good = counted(of)
    seconds = [run.wall_s for run in good if run.wall_s]
    middle = statistics.median(seconds) if seconds else None
    one = of[0]
    rate = short(one.bytes / middle / 1e6) if middle else "-"
    files = short(one.files / middle) if middle else "-"
    cells = [mover, spread(seconds, DIGITS), rate, files]
    cells.append("1" if mover == OURS else spread(ratios(runs, mover), DIGITS))
    cells.append(median_of(good, lambda run: run.cpu_source_s))
    if has_target:
        cells.append(median_of(good, lambda run: run.cpu_target_s))
    verified = sum(run.verified is True for run in good)
    unasked = all(run.verified is None for run in good)
    cells.append(f"{len(good)} of {len(of)}")
    cells.append("not looked at" if unasked and good else f"{verified} of {len(of)}")
    return "| " + " | ".join(cells) + " |"


def set_table(runs: list[Run]) -> str:
    """The table of a data set, the fastest mover first, and what went wrong."""
    first = runs[0]
    has_target = any(run.cpu_target_by for run in runs)
    by = "both ends" if not has_target else "source"
    heads = ["mover", "seconds", "MB/s", "files/s", "× Penstock's time", f"CPU s, {by}"]
    heads += ["CPU s, target"] if has_target else []
    heads += ["good runs", "verified"]
    size = (
        f"{first.bytes / GIB:.2f} GiB"
        if first.bytes >= GIB / 10
        else (f"{first.bytes / 2**20:.1f} MiB")
    )
    lines = [f"### {first.set}: {first.files:,} files, {size}", ""]
    lines += ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    movers = list(dict.fromkeys(run.mover for run in runs))
    medians = {
        mover: statistics.median(known)
        for mover in movers
        if (known := [run.wall_s or 0 for run in counted(runs) if run.mover == mover])
    }
    movers.sort(key=lambda mover: (medians.get(mover, float("inf")), mover))
    lines += [row(runs, mover, has_target) for mover in movers]
    wrong = [run for run in runs if run.error]
    if wrong:
        lines += ["", "What went wrong:", ""]
        lines += failures(wrong)
    return "\n".join(lines)


def failures(wrong: list[Run]) -> list[str]:
    """A line for each failure of a mover, with the rounds that it happened in."""
    rounds: dict[tuple[str, str], list[str]] = {}
    for run in wrong:
        key = run.mover, cell(run.error or "")
        rounds.setdefault(key, []).append(str(run.round))
    return [
        f"- {mover}, round{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}: {error}"
        for (mover, error), numbers in rounds.items()
    ]


def cell(text: str) -> str:
    """Text that a cell of a table can hold."""
    return text.replace("|", "\\|").replace("\n", " ")


def movers_table(bench: Bench, runs: list[Run]) -> str:
    """What each mover does and does not do."""
    lines = ["### What each does, and does not", ""]
    lines += ["| mover | version | encrypted | verifies | resumes | durable |", "|---" * 6 + "|"]
    keys = ("version", "encrypted", "verifies", "resumes", "durable")
    for mover, facts in bench.movers.items():
        lines.append("| " + " | ".join([mover, *(cell(facts[key]) for key in keys)]) + " |")
    if bench.missing:
        lines += ["", "Not run:", ""]
        lines += [f"- {mover}: {cell('; '.join(why))}" for mover, why in bench.missing.items()]
    last = {run.mover: run.command for run in runs if run.command}
    lines += ["", "Commands, of the last run of each:", ""]
    lines += [f"- {mover}: `{last[mover]}`" for mover in bench.movers if mover in last]
    return "\n".join(lines)


def counts_text(runs: list[Run]) -> str:
    """How to read the columns of CPU."""
    kinds = {run.cpu_source_by for run in runs} | {run.cpu_target_by for run in runs} - {None}
    if "host" not in kinds:
        return "CPU is user and system time of the processes of the run."
    if "processes" in kinds:
        return (
            "CPU of the source is that of the processes of the run; that of the target is of the "
            "whole host, with whatever else ran there."
        )
    return "CPU is that of whole hosts, with whatever else ran there."


def report(bench: Bench, runs: list[Run]) -> str:
    """All of it."""
    durable = (
        "The time ends when the data is durable: Penstock syncs itself, `sync -f` follows others."
        if bench.durable
        else "Nobody syncs: a power cut at the end of a run may lose the data (see `--durable`)."
    )
    looked = {
        "all": "all files by SHA-256",
        "sample": "names and sizes of all files, and a sample of them by SHA-256",
        "none": "nothing",
    }[bench.verify]
    rounds = f"{bench.repeats} round{'s' if bench.repeats > 1 else ''}"
    warm_up = ", after a warm-up that no figure contains" if any(not r.round for r in runs) else ""
    lines = ["# Movers side by side", "", f"- from {bench.source} to {bench.target}"]
    lines += [f"- {end}: {text}" for end, text in bench.hosts.items()]
    lines += [
        f"- begun {bench.begun}; {rounds}, each in an order of its own (seed "
        f"{bench.seed}){warm_up}",
        f"- {durable}",
        f"- Compared after each run, outside its time: {looked}. {counts_text(runs)}",
        "",
        "Figures are medians, with the least and the greatest in brackets. The ratio is of runs of "
        "the same round: above 1 the mover takes longer than Penstock.",
    ]
    if bench.repeats < ENOUGH:
        lines += [
            "",
            f"**{rounds} cannot show small differences**: take {ENOUGH} or more for a claim.",
        ]
    for name in dict.fromkeys(run.set for run in runs):
        lines += ["", set_table([run for run in runs if run.set == name])]
    lines += ["", movers_table(bench, runs)]
    return "\n".join(lines) + "\n"
