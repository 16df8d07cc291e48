"""Tables of a comparison of movers."""

from penstock_eval import stats, units
from penstock_eval.rivals import OURS, Rivals, Transfer
from penstock_eval.tables import Table, Value, ends


def by_class(rivals: Rivals) -> Table:
    """T12: movers by data set, with their ratio to Penstock."""
    table = Table(
        ["data set", "files", "bytes", "mover", "n", "median s", "median Gbit/s", "low", "high",
         "cover %", "files/s", "CPU s/GiB", "ratio to Penstock", "ratio low", "ratio high",
         "verdict", "failed", "verified"],
        "Rates of whole data sets; data sets in the order of their files' mean size. Ratios are "
        "those of rates within rounds, by logarithms. `faster` and `slower` are said of a mover, "
        f"only where the interval excludes 1 and the median differs by {100 * stats.PRACTICAL:.0f} "
        "% or more. CPU is user and system time of both ends, as far as it was counted.",
    )  # fmt: skip
    for name in rivals.sets:
        for mover in rivals.movers:
            every = [item for item in rivals.transfers if (item.set, item.mover) == (name, mover)]
            if every:
                head: list[Value] = [name, every[0].files, every[0].bytes, mover]
                table.rows.append([*head, *_figures(rivals, name, mover), *_ends_of(every)])
    return table


def _figures(rivals: Rivals, name: str, mover: str) -> list[Value]:
    found = rivals.select(name, mover)
    if not found:
        return [0, *[None] * 10, "no run succeeded"]
    rates = stats.summary([units.gigabits(item.rate) for item in found])
    used = [item.cpu_s / item.bytes * 1024**3 for item in found if item.cpu_s and item.bytes]
    return [
        rates.count,
        stats.median([item.seconds or 0.0 for item in found]),
        rates.median,
        *ends(rates),
        stats.median([item.files_per_s for item in found]),
        stats.median(used) if used else None,
        *_ratio(rivals, name, mover),
    ]


def _ratio(rivals: Rivals, name: str, mover: str) -> list[Value]:
    if mover == OURS:
        return [None, None, None, "what others are compared with"]
    ratios = rivals.ratios(name, mover)
    if not ratios:
        return [None, None, None, "no round has both"]
    found = stats.ratio_summary(ratios)
    low, high, _ = ends(found)
    return [found.median, low, high, stats.verdict(found)]


def _ends_of(every: list[Transfer]) -> list[Value]:
    counted = [item for item in every if item.round > 0]
    failed = sum(item.error is not None for item in counted)
    looked = [item for item in counted if item.verified is not None]
    right = sum(item.verified is True for item in looked)
    return [failed, f"{right} of {len(looked)}" if looked else "not looked at"]


def properties(rivals: Rivals) -> Table:
    """T19: what each mover does and does not do, and what could not run."""
    names = ["version", "encrypted", "verifies", "resumes", "durable"]
    table = Table(
        ["mover", *names, "not run"],
        "As the comparison found them. A mover that verifies or syncs less has less to do.",
    )
    for mover, known in rivals.about["movers"].items():
        table.rows.append([mover, *(known.get(name) for name in names), ""])
    missing: dict[str, list[str]] = rivals.about.get("missing") or {}
    for mover, why in missing.items():
        table.rows.append([mover, *[None] * len(names), "; ".join(why)])
    return table
