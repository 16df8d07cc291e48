"""Bounds of each class of sizes: measured storage of both ends, and their processors.

A transfer reads at one end and writes at the other at the same time, so it is bound by the slower
end. Where one local file system serves both, a byte takes the time of reading it and that of
writing it. Processors that were busy all the time are a bound too.
"""

from dataclasses import dataclass

from penstock_eval import file_systems, measures, stats, units
from penstock_eval.drawing import LeftOutError, Request
from penstock_eval.file_systems import Sharing
from penstock_eval.rundir import Cell, Dataset, Json, Run, inner
from penstock_eval.tables import Table, Value

REACHED = 0.95
"""Share of a bound from which it is reached."""
BEYOND = 1.05
"""Share from which a rate is above the bound by storage, which is then none."""
SHORTEST_S = 5.0
"""Seconds of the shortest run whose samples of processors count. They cover whole seconds: in a
run of 2.5 s, two sites on the same processors had 98 % and 71 %."""


@dataclass(frozen=True)
class Limits:
    """Measured storage of a direction at one size of files, in bytes per second."""

    size: float
    read: float | None
    """Median at the source; None where it was not measured around this size."""
    write: float | None
    """Median at the target."""
    slower: float | None
    bound: float | None
    marks: str


@dataclass(frozen=True)
class Busy:
    """Use of the processors of a site while a class was moved."""

    site: str
    share: float
    """Median over the runs, from 0 to 1."""
    example: str
    """Arithmetic of one run."""


def limits(run: Run, way: str, size: float, sharing: Sharing) -> Limits:
    """Measured storage at a size, interpolated between measured ones."""
    source, target = run.ends(way)
    ends = {
        "read": measures.storage(run, source, "read"),
        "write": measures.storage(run, target, "write"),
    }
    read, write = (_median(name, end, size) for name, end in ends.items())
    measured = [point for end in ends.values() for point in end if point.size == size]
    marks = {mark for point in measured for mark in point.marks}
    if len(measured) < sum(rate is not None for rate in (read, write)):
        marks.add("interpolated")
    slower = measures.slower(run, way, size)
    bound = slower
    if sharing.is_one and read and write:
        bound = in_turn(read, write)
    return Limits(size, read, write, slower, bound, ", ".join(sorted(marks)))


def in_turn(read: float, write: float) -> float:
    """Rate at which one device reads and writes each byte."""
    return 1 / (1 / read + 1 / write)


def _median(name: str, end: list[measures.Storage], size: float) -> float | None:
    found = measures.at(name, end, size)
    return found.median if found else None


def busy(run: Run, cells: list[Cell]) -> Busy | None:
    """Use of the processors at the busier site; None where no cell has it."""
    shares: dict[str, list[tuple[float, str]]] = {}
    for cell in cells:
        for site in dict.fromkeys(end.partition(":")[0] for end in run.ends(cell.direction)):
            if found := _busy_at(cell, site):
                shares.setdefault(site, []).append(found)
    sites = [
        Busy(site, stats.median([share for share, _ in found]), sorted(found)[len(found) // 2][1])
        for site, found in shares.items()
    ]
    return max(sites, key=lambda item: item.share, default=None)


def _busy_at(cell: Cell, site: str) -> tuple[float, str] | None:
    """Busy share of all processors of a site during a cell, with its arithmetic."""
    used = available = 0.0
    for name, host in inner(cell.raw, "cpu").items():
        seconds = _available(host, cell.duration)
        if name.partition("/")[0] == site and host.get("busy_s") is not None and seconds:
            used += host["busy_s"] + (host.get("steal_s") or 0.0)
            available += seconds
    if not available:
        return None
    # Samples may be a little longer than the run.
    share = min(used / available, 1.0)
    words = (
        f"{units.number(used)} / {units.number(available)} = {100 * share:.0f} % at {site} in "
        f"{cell.id}"
    )
    return share, words


def _available(host: Json, duration: float) -> float | None:
    """Seconds of all processors of a host during a cell; None where no busy time fits them."""
    if counted := host.get("available_s"):
        return float(counted)
    return (host.get("cores") or 0) * duration if duration >= SHORTEST_S else None


def table(request: Request) -> Table:
    """T6: measured storage by size of files, and how far each mode is from its bounds."""
    run = request.run
    sharing = file_systems.sharing(run)
    classes = {item.file_size: item for item in measures.uniform(run)}
    rows: list[list[Value]] = []
    known: list[Limits] = []
    examples: list[Busy] = []
    for way in run.directions:
        measured = _sizes(run, way)
        for size in sorted(measured | classes.keys()) if measured else ():
            at = limits(run, way, size, sharing)
            known.append(at)
            head: list[Value] = [way, units.size(size), *_gigabits(at.read, at.write), at.marks,
                                 *_gigabits(at.bound)]  # fmt: skip
            judged = _modes(run, way, at, classes.get(size), examples)
            rows += [[*head, *row] for row in judged or [[None] * 8]]
    if not rows:
        raise LeftOutError("no measured storage (`storage/`) is in the run")
    made = Table(
        ["direction", "file size", "read Gbit/s", "write Gbit/s", "marks", "bound Gbit/s", "mode",
         "n", "median Gbit/s", "% of the slower", "% of the bound", "busy %", "busier site",
         "verdict"],
        f"Medians. {_of_bound(sharing, known)} {_of_busy(examples)} A class has reached a bound "
        f"from {100 * REACHED:.0f} % on. From {100 * BEYOND:.0f} % on it is above the bound by "
        "storage: a cache took part, or the storage can do more than was measured. Classes are "
        "data sets with files of that size. `marks` are those of the storage benchmark, with which "
        "a bound is not sure, and `interpolated` between the sizes that it has.",
    )  # fmt: skip
    made.rows.extend(rows)
    return made


def _sizes(run: Run, way: str) -> set[float]:
    ends = zip(run.ends(way), ("read", "write"), strict=True)
    return {float(p.size) for store, name in ends for p in measures.storage(run, store, name)}


def _gigabits(*rates: float | None) -> list[Value]:
    return [None if rate is None else units.gigabits(rate) for rate in rates]


def _modes(
    run: Run, way: str, at: Limits, item: Dataset | None, examples: list[Busy]
) -> list[list[Value]]:
    """The rest of each row of a class; the use of processors is added to the examples."""
    rows: list[list[Value]] = []
    for mode in run.modes if item else ():
        cells = run.select(item.name, mode.name, way) if item else []
        if not cells:
            continue
        rates = [cell.effective for cell in cells]
        used = busy(run, cells)
        examples += [used] if used else []
        of_bound = _share(rates, at.bound)
        rows.append(
            [mode.name, len(cells), *_gigabits(stats.median(rates)),
             _percent(_share(rates, at.slower)), _percent(of_bound),
             _percent(used.share if used else None), used.site if used else None,
             verdict(of_bound, used.share if used else None)]
        )  # fmt: skip
    return rows


def _share(rates: list[float], limit: float | None) -> float | None:
    return stats.ratio_summary([rate / limit for rate in rates]).median if limit else None


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def verdict(of_bound: float | None, used: float | None) -> str:
    """Bounds that a class has reached, in words.

    Args:
        of_bound: Share of the bound by storage; None where it is not known.
        used: Busy share of the processors at the busier site; None where it is not known.
    """
    is_above = of_bound is not None and of_bound >= BEYOND
    reached = [
        name
        for name, share in (("storage", None if is_above else of_bound), ("processors", used))
        if share is not None and share >= REACHED
    ]
    words = ["above the bound by storage"] if is_above else []
    if reached:
        words.append(f"bound by {' and '.join(reached)}")
    if words:
        return ", ".join(words)
    lacking = [
        name
        for name, share in (("storage of this size", of_bound), ("processors", used))
        if share is None
    ]
    if lacking:
        return f"not judged: no figures of {' and '.join(lacking)}"
    return "below both bounds"


def _of_bound(sharing: Sharing, known: list[Limits]) -> str:
    """Sentences on the bound by storage, with its arithmetic for the largest size."""
    last = next((at for at in reversed(known) if at.read and at.write), None)
    if last is None or not last.read or not last.write:
        return "No size was measured at both ends, so that there is no bound by storage."
    size = units.size(last.size)
    read, write = (units.number(units.gigabits(rate)) for rate in (last.read, last.write))
    both = units.number(units.gigabits(in_turn(last.read, last.write)))
    turn = f"1 / (1 / {read} + 1 / {write}) = {both} Gbit/s for {size}"
    slower = units.number(units.gigabits(min(last.read, last.write)))
    if sharing.is_one:
        return (
            f"{sharing.reason}, where each byte is read and written, so `bound` is "
            f"1 / (1 / read + 1 / write): {turn}."
        )
    least = f"the slower end, min({read}, {write}) = {slower} Gbit/s for {size}"
    if sharing.is_one is None:
        return (
            f"{sharing.reason}. So `bound` is {least}; where one disk serves both ends, it is "
            f"{turn}."
        )
    return f"{sharing.reason}, so `bound` is {least}. Whether they share a disk is not recorded."


def _of_busy(examples: list[Busy]) -> str:
    """Sentences on the use of processors, with the arithmetic of the busiest class."""
    if not examples:
        return (
            "No run has counters of its processors (`available_s`), and no run of "
            f"{SHORTEST_S:.0f} s or more has samples of them."
        )
    most = max(examples, key=lambda item: item.share)
    return (
        "`busy` is the median of busy by available seconds of all processors at the busier site, "
        f"stolen time included, as {most.example}. Hosts count both from the submission to the "
        "end. Records of earlier releases have samples of whole seconds instead, which do not "
        f"count for runs under {SHORTEST_S:.0f} s."
    )
