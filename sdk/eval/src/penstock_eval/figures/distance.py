"""Rates against the round-trip time between the sites."""

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from penstock_eval import distances, style, units
from penstock_eval.distances import Place
from penstock_eval.drawing import Drawn, LeftOutError, Request, whiskers
from penstock_eval.figures.rates import BANDS, edges
from penstock_eval.rundir import FORWARD, Dataset
from penstock_eval.stats import Summary

MOST = 6
"""Lines that can be told apart; of more data sets, the largest of each class stands for it."""
LEAST_MS = 0.01
"""Least round trip of the axis: a logarithmic one has no zero."""
APART = 0.07
"""Least distance of labels, as share of the axis."""


def _chosen(found: list[tuple[Dataset, list[Place]]]) -> list[tuple[Dataset, list[Place]]]:
    if len(found) <= MOST:
        return found
    classes: dict[int, tuple[Dataset, list[Place]]] = {}
    for item, rows in found:
        kind = next(at for at, (end, _) in enumerate(BANDS) if item.file_size < end)
        known = classes.get(kind)
        if known is None or _weight(item, rows) > _weight(*known):
            classes[kind] = (item, rows)
    return [classes[kind] for kind in sorted(classes)]


def _weight(item: Dataset, rows: list[Place]) -> tuple[bool, int, int]:
    """Order of data sets of a class: files of one size first, then more distances, more bytes."""
    return item.is_uniform, len(rows), item.bytes


def round_trips(request: Request) -> Drawn:
    """F18: rates by round-trip time, a line for each data set, over all runs given."""
    runs = request.runs
    mode = request.run.baseline.name
    known = distances.distances(runs)
    rows = [
        (item, distances.places(known, item.name, mode, FORWARD))
        for item in distances.datasets(runs)
    ]
    every = [(item, found) for item, found in rows if len(found) > 1]
    if not every:
        raise LeftOutError(distances.NEEDED)
    shown = _chosen(every)
    made, panels = style.figure(2, 1, style.TALL, sharex=True, height_ratios=[1.4, 1])
    upper, lower = panels[0][0], panels[1][0]
    labels: list[tuple[float, str, str]] = []
    shares: list[tuple[float, str, str]] = []
    for index, (item, found) in enumerate(shown):
        trips = [max(row.rtt_ms, LEAST_MS) for row in found]
        percents = [row.share.times(100) for row in found]
        _line(upper, trips, [row.rate for row in found], index)
        _line(lower, trips, percents, index)
        labels.append((found[-1].rate.median, item.name, style.colour(index)))
        shares.append((percents[-1].median, f"{percents[-1].median:.0f} %", style.colour(index)))
    trips = sorted({max(row.rtt_ms, LEAST_MS) for _, found in shown for row in found})
    _axis(lower, trips)
    style.from_zero(upper, "Gbit/s")
    style.from_zero(lower, "% of the shortest")
    style.end_labels(upper, labels)
    style.end_labels(lower, shares, 0.12)
    counts = [row.rate.count for _, found in shown for row in found]
    fewer = "" if shown == every else " Of each class of sizes, the largest data set is shown."
    return Drawn(
        made,
        f"Effective rate by round-trip time (logarithmic), {mode}: {whiskers(counts)}. Below, the "
        "same in percent of the median over the shortest round trip, where small files can be "
        f"seen. T15 has all data sets, modes and directions.{fewer}",
    )


def _line(axes: Axes, trips: list[float], values: list[Summary], index: int) -> None:
    below = [value.median - edges(value)[0] for value in values]
    above = [edges(value)[1] - value.median for value in values]
    axes.errorbar(
        trips,
        [value.median for value in values],
        yerr=[below, above],
        color=style.colour(index),
        marker=style.marker(index),
        capsize=4,
        elinewidth=1.4,
    )


def _axis(axes: Axes, trips: list[float]) -> None:
    """Logarithmic axis with the round trips that were measured as its ticks."""
    axes.set_xscale("log")
    wide = (trips[-1] / trips[0]) ** 0.06
    axes.set_xlim(trips[0] / wide, trips[-1] * wide)
    gap = (trips[-1] / trips[0]) ** APART
    ticks: list[float] = []
    for trip in trips:
        if not ticks or trip > ticks[-1] * gap:
            ticks.append(trip)

    def label(value: float, _: int | None) -> str:
        return units.number(float(f"{value:.2g}"))

    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(label))
    axes.set_xlabel("Round-trip time, ms")
