"""Reduction of cells: medians by data set and mode, ratios within blocks, measured storage."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock_eval import stats
from penstock_eval.rundir import Cell, Dataset, Run

Measure = Callable[[Cell], float]


@dataclass(frozen=True)
class Point:
    """Repeats of one data set in one mode and direction."""

    dataset: Dataset
    values: list[float]

    @property
    def summary(self) -> stats.Summary:
        """Figures of the repeats."""
        return stats.summary(self.values)


@dataclass(frozen=True)
class Storage:
    """What storage can do at one size of files, in bytes per second."""

    size: int
    runs: list[float]
    files_per_s: list[float]
    marks: frozenset[str]

    @property
    def summary(self) -> stats.Summary:
        """Figures of the runs."""
        return stats.summary(self.runs)


@dataclass(frozen=True)
class Bound:
    """The slower of reading at the source and writing at the target, at one size of files."""

    size: float
    median: float
    least: float
    greatest: float
    slower: str
    """`read` or `write`."""


def points(
    run: Run, datasets: list[Dataset], mode: str, direction: str, measure: Measure
) -> list[Point]:
    """Repeats of each data set that has any, in the order given."""
    found = [
        Point(item, [measure(cell) for cell in run.select(item.name, mode, direction)])
        for item in datasets
    ]
    return [point for point in found if point.values]


def uniform(run: Run) -> list[Dataset]:
    """Data sets of files of one size by that size, the largest volume where sizes repeat.

    Single files are left to figures of their own, unless there is nothing else.
    """
    largest: dict[float, Dataset] = {}
    several = [item for item in run.datasets if item.files > 1]
    for item in several or run.datasets:
        known = largest.get(item.file_size)
        if item.is_uniform and (known is None or known.bytes < item.bytes):
            largest[item.file_size] = item
    return sorted(largest.values(), key=lambda item: item.file_size)


def mode_ratios(run: Run, dataset: str, mode: str, direction: str) -> list[float]:
    """Ratios of a mode's rate to the baseline's, within blocks."""
    above = {cell.block: cell.effective for cell in run.select(dataset, mode, direction)}
    base = run.select(dataset, run.baseline.name, direction)
    return stats.paired_ratios(above, {cell.block: cell.effective for cell in base})


def storage(run: Run, store: str, operation: str) -> list[Storage]:
    """Measured rates of a store by size of files; empty if none were kept."""
    found: dict[int, Storage] = {}
    for result in run.benchmarks(store):
        for point in result["points"]:
            if point["operation"] != operation or not point["runs"] or not point["size_bytes"]:
                continue
            size = point["size_bytes"]
            known = found.get(size, Storage(size, [], [], frozenset()))
            found[size] = Storage(
                size,
                known.runs + [item["bytes"] / item["durable_s"] for item in point["runs"]],
                known.files_per_s + [item["files"] / item["durable_s"] for item in point["runs"]],
                known.marks | set(point.get("marks") or []),
            )
    return [found[size] for size in sorted(found)]


def bound(run: Run, direction: str) -> list[Bound]:
    """Measured storage of a direction, at each size that either end was measured at.

    A size that one end lacks is interpolated between its neighbours, in logarithms.
    """
    source, target = run.ends(direction)
    ends = {"read": storage(run, source, "read"), "write": storage(run, target, "write")}
    sizes = sorted({point.size for end in ends.values() for point in end})
    bounds: list[Bound] = []
    for size in sizes:
        found = [at(name, end, size) for name, end in ends.items()]
        known = [item for item in found if item]
        if len(known) == len(ends):
            bounds.append(min(known, key=lambda item: item.median))
    return bounds


def at(name: str, end: list[Storage], size: float) -> Bound | None:
    """One end at a size of files, interpolated in logarithms; None beyond the sizes measured."""

    def value(figure: Callable[[stats.Summary], float]) -> float | None:
        points = [(float(point.size), figure(point.summary)) for point in end]
        return stats.interpolate(size, points)

    median = value(lambda item: item.median)
    least, greatest = value(lambda item: item.least), value(lambda item: item.greatest)
    if median is None or least is None or greatest is None:
        return None
    return Bound(size, median, least, greatest, name)


def slower(run: Run, direction: str, size: float) -> float | None:
    """Median of the slower end at a size of files; None beyond the sizes measured."""
    return stats.interpolate(size, [(item.size, item.median) for item in bound(run, direction)])


def share_of_storage(run: Run, point: Point, direction: str) -> stats.Summary | None:
    """Ratio of each repeat to the median of measured storage; None beyond the sizes measured."""
    limit = slower(run, direction, point.dataset.file_size)
    if limit is None:
        return None
    return stats.ratio_summary([value / limit for value in point.values])


def volume(item: Dataset) -> tuple[int, float]:
    """Order of data sets by bytes, then by the size of files."""
    return item.bytes, item.file_size


def typical(cells: list[Cell]) -> Cell:
    """Cell of the median rate; the lower one of two."""
    ordered = sorted(cells, key=lambda cell: (cell.effective, cell.order))
    return ordered[(len(ordered) - 1) // 2]


def largest(run: Run, direction: str) -> list[Cell]:
    """Cells of the data set with the most bytes, in the baseline's mode."""
    for item in sorted(run.datasets, key=volume, reverse=True):
        if cells := run.select(item.name, run.baseline.name, direction):
            return cells
    return []
