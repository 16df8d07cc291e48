"""Rates against the round-trip time between the sites."""

import re

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from penstock_eval import distances, style, units
from penstock_eval.distances import Place
from penstock_eval.drawing import Drawn, LeftOutError, Request, whiskers
from penstock_eval.figures.rates import BANDS, edges
from penstock_eval.rundir import Dataset
from penstock_eval.stats import Summary

MOST = 6
"""Lines that can be told apart; of more data sets, the largest of each class stands for it."""
COLUMNS = 4
"""Modes beside each other; further ones are in T15 only."""
TITLE = 84
"""Characters of a title that have room above all columns."""
LEAST_MS = 0.01
"""Least round trip of the axis: a logarithmic one has no zero."""
APART = 0.07
"""Least distance of labels, as share of the axis."""
APART_OF_COLUMNS = 0.05
"""The same for each column of a figure with several."""

Row = tuple[Dataset, list[Place]]
"""A data set over at least two distances."""


def _chosen(found: list[Row]) -> list[Row]:
    if len(found) <= MOST:
        return found
    classes: dict[int, Row] = {}
    for item, rows in found:
        kind = next(at for at, (end, _) in enumerate(BANDS) if item.file_size < end)
        known = classes.get(kind)
        if known is None or _weight(item, rows) > _weight(*known):
            classes[kind] = (item, rows)
    return [classes[kind] for kind in sorted(classes)]


def _weight(item: Dataset, rows: list[Place]) -> tuple[bool, int, int]:
    """Order of data sets of a class: files of one size first, then more distances, more bytes."""
    return item.is_uniform, len(rows), item.bytes


def _panels(request: Request) -> dict[tuple[str, str], list[Row]]:
    """Rows by direction and mode, where any data set went over two distances."""
    runs = request.runs
    known = distances.distances(runs)
    panels: dict[tuple[str, str], list[Row]] = {}
    for way in distances.directions(runs):
        for mode in distances.modes(runs):
            rows = [
                (item, distances.places(known, item.name, mode, way))
                for item in distances.datasets(runs)
            ]
            if rows := [(item, found) for item, found in rows if len(found) > 1]:
                panels[way, mode] = rows
    return panels


def round_trips(request: Request) -> Drawn:
    """F18: rates by round-trip time over all runs given, a line for each data set.

    Each mode has a column of panels, and each direction two rows.
    """
    panels = _panels(request)
    if not panels:
        raise LeftOutError(distances.NEEDED)
    ways, modes = (list(dict.fromkeys(place[at] for place in panels)) for at in (0, 1))
    drawn = {place: rows for place, rows in panels.items() if place[1] in modes[:COLUMNS]}
    longest: dict[str, Row] = {}
    for item, found in (row for rows in drawn.values() for row in rows):
        if item.name not in longest or len(found) > len(longest[item.name][1]):
            longest[item.name] = (item, found)
    every = sorted(longest.values(), key=lambda row: distances.by_size(row[0]))
    names = [item.name for item, _ in _chosen(every)]
    kept = {
        place: [(item, found) for item, found in rows if item.name in names]
        for place, rows in drawn.items()
    }
    made = _grid(ways, modes[:COLUMNS], kept, names)
    counts = [place.rate.count for rows in kept.values() for _, found in rows for place in found]
    fewer = "" if len(names) == len(every) else (
        " Of each class of sizes, the largest data set is shown."
    )  # fmt: skip
    others = "" if len(modes) <= COLUMNS else f" The first {COLUMNS} of {len(modes)} modes."
    return Drawn(
        made,
        f"Effective rate by round-trip time (logarithmic), {' and '.join(ways)}: "
        f"{whiskers(counts)}. Below, the same in percent of the median over the shortest round "
        "trip, where small files can be seen. T15 has all data sets, modes and directions."
        f"{fewer}{others}",
    )


def _grid(
    ways: list[str], modes: list[str], kept: dict[tuple[str, str], list[Row]], names: list[str]
) -> Figure:
    """Panels by mode and direction, with the same axes."""
    wide, high = style.TALL
    made, panels = style.figure(
        2 * len(ways),
        len(modes),
        (wide, high * (1 if len(ways) == 1 else 1.6)),
        sharex=True,
        sharey="row",
        height_ratios=[1.4, 1] * len(ways),
    )
    for (way, mode), rows in kept.items():
        at, column = 2 * ways.index(way), modes.index(mode)
        for item, found in rows:
            trips = [max(place.rtt_ms, LEAST_MS) for place in found]
            index = names.index(item.name)
            _line(panels[at][column], trips, [place.rate for place in found], index)
            percents = [place.share.times(100) for place in found]
            _line(panels[at + 1][column], trips, percents, index)
    known = {place.rtt_ms for rows in kept.values() for _, found in rows for place in found}
    trips = sorted({max(trip, LEAST_MS) for trip in known})
    for at, way in enumerate(ways):
        words = f", {way}" if len(ways) > 1 else ""
        style.from_zero(panels[2 * at][0], f"Gbit/s{words}")
        style.from_zero(panels[2 * at + 1][0], "% of the shortest")
    for column, mode in enumerate(modes):
        panels[0][column].set_title(_title(mode, TITLE // len(modes)))
        _axis(panels[-1][column], trips, max(APART, APART_OF_COLUMNS * len(modes)))
    for (way, mode), rows in kept.items():
        at, column = 2 * ways.index(way), modes.index(mode)
        labels = [(found[-1], item.name, names.index(item.name)) for item, found in rows]
        if len(kept) == 1:
            style.end_labels(
                panels[at][column],
                [(place.rate.median, name, style.colour(i)) for place, name, i in labels],
            )
        shares = [(100 * place.share.median, style.colour(i)) for place, _, i in labels]
        style.end_labels(
            panels[at + 1][column],
            [(share, f"{share:.0f} %", tint) for share, tint in shares],
            0.12,
        )
    if len(kept) > 1:
        style.legend_above(made, [(name, style.colour(i)) for i, name in enumerate(names)])
    return made


def _title(mode: str, most: int) -> str:
    """Name of a mode in lines of so many characters, which end after a hyphen."""
    lines = [""]
    for part in re.split(r"(?<=-)", mode):
        if lines[-1] and len(lines[-1]) + len(part) > most:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


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


def _axis(axes: Axes, trips: list[float], apart: float) -> None:
    """Logarithmic axis with the round trips that were measured as its ticks."""
    axes.set_xscale("log")
    wide = (trips[-1] / trips[0]) ** 0.06
    axes.set_xlim(trips[0] / wide, trips[-1] * wide)
    gap = (trips[-1] / trips[0]) ** apart
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
