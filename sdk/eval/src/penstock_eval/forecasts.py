"""Forecasts of a sweep's data sets from its other ones: does the time follow from the sizes?

The time of a data set is taken as the start of a transfer and a time for each file, which depends
on the size of the file alone. That time is measured by data sets of one size. Between two of them
it is a straight line: a file costs something by itself, and something for each byte. Below the
smallest a file costs what the smallest costs, beyond the largest its bytes cost what those of the
largest cost. No data set is forecast from itself.
"""

import itertools
from dataclasses import dataclass

from penstock_eval import measures, stats
from penstock_eval.drawing import LeftOutError, Request
from penstock_eval.rundir import Dataset, Run
from penstock_eval.stats import Summary
from penstock_eval.tables import Table, ends

GOOD = 0.2
"""Error that is called good, as share of what was measured."""
SIZES = 2
"""Sizes of files that a forecast needs."""


@dataclass(frozen=True)
class Forecast:
    """A data set's time, as forecast and as measured."""

    direction: str
    mode: str
    dataset: Dataset
    is_mix: bool
    """True with files of several sizes; else its size was held out, and is between others."""
    seconds: float
    measured: Summary

    @property
    def error(self) -> float:
        """Deviation from the median that was measured, as share of that."""
        return self.seconds / self.measured.median - 1


def forecasts(run: Run) -> list[Forecast]:
    """All that a run allows, by direction, mode, and size of files."""
    found: list[Forecast] = []
    for way in run.directions:
        for mode in run.modes:
            known = measures.points(run, measures.uniform(run), mode.name, way, _duration)
            known = [point for point in known if point.dataset.files > 1]
            if len(known) < SIZES:
                continue
            start = _start(run, mode.name, way, min(point.summary.median for point in known))
            costs = [(point.dataset.file_size, _cost(point, start)) for point in known]
            for item in sorted(run.datasets, key=lambda item: (item.file_size, item.bytes)):
                cells = run.select(item.name, mode.name, way)
                held_out = _held_out(item, costs)
                if cells and held_out:
                    seconds = start + sum(
                        files * _of_file(size, held_out) for size, files in _sizes(item)
                    )
                    measured = stats.summary([cell.duration for cell in cells])
                    mix = len(item.histogram) > 1
                    found.append(Forecast(way, mode.name, item, mix, seconds, measured))
    if not found:
        raise LeftOutError(
            "it needs data sets of one size in two sizes, and one of mixed sizes or of a third "
            "size between them"
        )
    return found


def _duration(cell: measures.Cell) -> float:
    return cell.duration


def _start(run: Run, mode: str, way: str, most: float) -> float:
    """Seconds that a transfer takes before it moves, by the fit of single files; 0 without it."""
    singles = [item for item in run.datasets if item.files == 1 and item.is_uniform]
    found = measures.points(run, singles, mode, way, _duration)
    sizes = [float(point.dataset.bytes) for point in found]
    if len(found) < 3 or len(set(sizes)) < 2:
        return 0.0
    fitted = stats.fit(sizes, [point.summary.median for point in found])
    return min(max(fitted.start, 0.0), 0.9 * most)


def _cost(point: measures.Point, start: float) -> float:
    return (point.summary.median - start) / point.dataset.files


def _held_out(item: Dataset, costs: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Costs of other data sets; none where the data set cannot be forecast from them."""
    if len(item.histogram) > 1:
        return costs
    sizes = [size for size, _ in costs]
    inside = item.files > 1 and sizes[0] < item.file_size < sizes[-1]
    return [pair for pair in costs if pair[0] != item.file_size] if inside else []


def _sizes(item: Dataset) -> list[tuple[float, int]]:
    """Mean size and number of files of each class."""
    if len(item.histogram) > 1:
        return [(total / files, files) for _, files, total in item.histogram if files]
    return [(item.file_size, item.files)]


def _of_file(size: float, costs: list[tuple[float, float]]) -> float:
    (least, low), (most, high) = costs[0], costs[-1]
    if size <= least:
        return low
    if size >= most:
        return high * size / most
    (x0, y0), (x1, y1) = next(pair for pair in itertools.pairwise(costs) if size <= pair[1][0])
    return y0 + (y1 - y0) * (size - x0) / (x1 - x0)


def table(request: Request) -> Table:
    """T16: forecasts beside what was measured."""
    made = Table(
        ["direction", "data set", "mode", "kind", "n", "forecast s", "median s", "low", "high",
         "cover %", "error %"],
        "Times of each data set as the others forecast them: the start of a transfer and a time "
        "for each file by its size. `held out` are data sets of one size between two others; "
        "`mixed` ones have files of many sizes. A positive error is a forecast too long.",
    )  # fmt: skip
    for item in forecasts(request.run):
        kind = "mixed" if item.is_mix else "held out"
        made.rows.append(
            [item.direction, item.dataset.name, item.mode, kind, item.measured.count, item.seconds,
             item.measured.median, *ends(item.measured), 100 * item.error]
        )  # fmt: skip
    return made
