"""Rates over time: of cards, of disks, and of the whole sweep."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from penstock_eval import measures, stats, style, units
from penstock_eval.drawing import Drawn, LeftOutError, Request, band
from penstock_eval.figures.rates import line
from penstock_eval.rundir import Cell, Run, Sample

SENT = ("source", "card_out_bits_per_s")
RECEIVED = ("target", "card_in_bits_per_s")
FIRST = 15
"""Seconds of a run that F9 shows."""
FEWEST = 5
"""Seconds of a run, below which there is no course of it."""
IDLE_SHARE = 0.02
"""Share of the traffic below which a card is not for data: it would blur the evenness."""


@dataclass(frozen=True)
class History:
    """Values of devices over time, on one grid of seconds."""

    seconds: list[float]
    devices: dict[str, list[float]]
    """Values by `host device`, 0 where there is none."""


def history(samples: list[Sample], role: str, figure: str, duration: float) -> History:
    """Values of a figure by device at the hosts of a role, while the transfer ran."""
    grid: dict[int, dict[str, float]] = {}
    names: set[str] = set()
    for sample in samples:
        if sample.role != role or not -1 < sample.t <= duration:
            continue
        for device, value in sample.devices(figure).items():
            name = f"{sample.peer} {device}"
            names.add(name)
            grid.setdefault(round(sample.t), {})[name] = value
    seconds = sorted(grid)
    return History(
        [float(second) for second in seconds],
        {name: [grid[second].get(name, 0.0) for second in seconds] for name in sorted(names)},
    )


def for_data(found: History) -> History:
    """History of the devices that carried a share of it worth the name."""
    totals = {name: sum(values) for name, values in found.devices.items()}
    least = IDLE_SHARE * sum(totals.values())
    kept = {name: found.devices[name] for name, total in totals.items() if total > least}
    return History(found.seconds, kept)


def example(run: Run) -> Cell:
    """Cell for pictures over time: the median run of the data set with the most bytes."""
    for way in run.directions:
        if cells := [c for c in measures.largest(run, way) if run.series(c)]:
            return measures.typical(cells)
    raise LeftOutError("no time series (`series/`) of the largest data set is in the run")


def _stack(axes: Axes, found: History, title: str, factor: float, label: str) -> None:
    layers = [[value * factor for value in values] for values in found.devices.values()]
    tints = [style.colour(i) for i in range(len(layers))]
    axes.stackplot(found.seconds, layers, colors=tints, alpha=0.85, lw=0.4, edgecolor="white")
    axes.set_title(title)
    axes.set_xlim(found.seconds[0], found.seconds[-1])
    style.time_axis(axes, "")
    style.from_zero(axes, label, max(map(sum, zip(*layers, strict=True))))
    if len(layers) > 8:
        return
    # A label in the middle of each layer, at the end of the time.
    labels: list[tuple[float, str, str]] = []
    below = 0.0
    tail = max(1, len(found.seconds) // 5)
    for name, values, tint in zip(found.devices, layers, tints, strict=True):
        mean = sum(values[-tail:]) / tail
        labels.append((below + mean / 2, name, tint))
        below += mean
    style.end_labels(axes, labels, 0.085)


def cards(request: Request) -> Drawn:
    """F10: traffic of each card, stacked, of the sending and the receiving side."""
    run = request.run
    cell = example(run)
    samples = run.series(cell)
    sides = [
        (role, for_data(history(samples, role, figure, cell.duration)))
        for role, figure in (SENT, RECEIVED)
    ]
    sides = [(role, found) for role, found in sides if found.devices]
    if not sides:
        raise LeftOutError(f"the series of {cell.id} has no traffic of cards")
    made, panels = style.figure(len(sides), 1, (11, 2.2 + 2.5 * len(sides)), sharex=True)
    words = {"source": "Sent by the source", "target": "Received by the target"}
    for row, (role, found) in zip(panels, sides, strict=True):
        _stack(row[0], found, words[role], 1e-9, "Gbit/s")
    panels[-1][0].set_xlabel("Time since submission, min:s")
    caption = (
        f"Traffic of each card, stacked, while {cell.id} ran: the median run of the largest data "
        "set in the first mode. Bits that the kernel counts at the card, so with headers, and all "
        "that other programs sent. T5 says how even it is."
    )
    return Drawn(made, caption)


def disks(request: Request) -> Drawn:
    """F11: bytes that disks read and wrote, by device."""
    run = request.run
    cell = example(run)
    samples = run.series(cell)
    wanted = [
        ("source", "disk_read_bytes_per_s", "Read by the source"),
        ("target", "disk_written_bytes_per_s", "Written by the target"),
    ]
    sides = [
        (title, for_data(history(samples, role, figure, cell.duration)))
        for role, figure, title in wanted
    ]
    sides = [(title, found) for title, found in sides if found.devices]
    if not sides:
        raise LeftOutError(f"the series of {cell.id} has no disks")
    made, panels = style.figure(len(sides), 1, (11, 2.2 + 2.5 * len(sides)), sharex=True)
    for row, (title, found) in zip(panels, sides, strict=True):
        _stack(row[0], found, title, 1e-9, "GB/s")
    panels[-1][0].set_xlabel("Time since submission, min:s")
    caption = (
        f"Bytes by disk, stacked, while {cell.id} ran, as the kernel counts them. What the cache "
        "of the source had in it is not read from disks. The daemon keeps neither the share of "
        "time that disks are busy nor the length of their queues."
    )
    return Drawn(made, caption)


def _places(run: Run) -> dict[str, float]:
    """Seconds from the first submission to that of each cell, by id; refused cells have none."""
    known = {cell.id: cell.submitted for cell in run.cells}
    times = {name: at for name, at in known.items() if at is not None}
    begin = min(times.values(), default=0.0)
    return {name: at - begin for name, at in times.items()}


def _totals(run: Run, cell: Cell, figure: str = "rate_bits_per_s") -> list[tuple[float, float]]:
    """Sum of a figure over the target's peers, by second since submission."""
    totals: dict[int, float] = {}
    for sample in run.series(cell):
        value = sample.values.get(figure)
        if sample.role == "target" and value is not None and 0 <= sample.t < cell.duration:
            totals[round(sample.t)] = totals.get(round(sample.t), 0.0) + value
    return [(float(second), value) for second, value in sorted(totals.items())]


def _long_run(axes: Axes, rows: list[tuple[float, float]], cell: Cell) -> str:
    width = max(1.0, min(60.0, cell.duration / 240))
    windows: dict[int, list[float]] = {}
    for at, value in rows:
        windows.setdefault(int(at // width), []).append(value * 1e-9)
    x = [(key + 0.5) * width for key in windows]
    low, high = [min(w) for w in windows.values()], [max(w) for w in windows.values()]
    axes.fill_between(x, low, high, color=style.colour(0), alpha=0.25, lw=0)
    axes.plot(x, [sum(w) / len(w) for w in windows.values()], color=style.colour(0), lw=1.8)
    axes.set_xlim(0, x[-1] + width / 2)
    style.from_zero(axes, "Gbit/s", max(high))
    style.time_axis(axes, _since("submission", cell.duration))
    axes.set_title(f"The longest run: {cell.id}")
    return f"means of windows of {units.seconds(width)} with the least and greatest second"


def _since(what: str, length: float) -> str:
    return f"Time since {what}, {'h:min:s' if length >= 3600 else 'min:s'}"


def _drift(axes: Axes, run: Run, at: dict[str, float]) -> None:
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in run.counted:
        groups.setdefault((cell.dataset, cell.mode, cell.direction), []).append(cell)
    blocks: dict[int, list[tuple[float, float]]] = {}
    for cells in groups.values():
        middle = stats.median([cell.effective for cell in cells])
        for cell in (cell for cell in cells if cell.id in at):
            place = (at[cell.id], 100 * cell.effective / middle)
            blocks.setdefault(cell.block, []).append(place)
            tint, mark = (style.WARN, "v") if cell.flags else (style.STORAGE, "o")
            size = 8 if cell.flags else 4
            axes.plot(*place, ls="", color=tint, marker=mark, ms=size, alpha=0.75)
    for places in blocks.values():
        ends = [min(x for x, _ in places), max(x for x, _ in places)]
        axes.plot(ends, [stats.median([y for _, y in places])] * 2, color=style.colour(1), lw=3)
    for cell in (cell for cell in run.cells if cell.error and cell.id in at):
        axes.plot(at[cell.id], axes.get_ylim()[0], "x", color=style.WARN, ms=9, mew=2,
                  clip_on=False)  # fmt: skip
    style.time_axis(axes, _since("the first run", max(at.values())))
    axes.set_ylabel("% of its median")
    axes.set_title("All runs in their order")


def over_time(request: Request) -> Drawn:
    """F16: the longest run over time, and all runs of the sweep beside their medians."""
    run = request.run
    at = _places(run)
    if not any(cell.id in at for cell in run.counted):
        raise LeftOutError("no run has the time of its submission (`t.submitted`)")
    rows = [(cell, found) for cell in run.counted if len(found := _totals(run, cell)) >= 5]
    made, panels = style.figure(2 if rows else 1, 1, style.TALL if rows else style.WIDE)
    words = ""
    if rows:
        cell, found = max(rows, key=lambda row: row[0].duration)
        words = f"Above, {_long_run(panels[0][0], found, cell)}. Below, each"
    _drift(panels[-1][0], run, at)
    flagged = sum(bool(cell.flags) for cell in run.counted)
    failed = [cell for cell in run.cells if cell.error]
    refused = sum(cell.id not in at for cell in failed)
    apart = f" Refused runs ({refused}) have no time: T14 lists them." if refused else ""
    caption = (
        f"{words or 'Each'} run as its rate in percent of the median of all runs of its data set, "
        "mode and direction; bars are medians of blocks. A slope, or a block apart, is drift of "
        f"the machines. Triangles: {flagged} flagged runs; crosses: {len(failed) - refused} that "
        f"failed.{apart}"
    )
    return Drawn(made, caption)


def _course(run: Run, cells: list[Cell], figure: str) -> dict[float, stats.Summary]:
    """Repeats by the middle of each of the first seconds, as far as all of them went on."""
    seconds: dict[float, list[float]] = {}
    for cell in cells:
        for second, value in _totals(run, cell, figure):
            if second < FIRST and second + 1 <= cell.duration:
                seconds.setdefault(second + 0.5, []).append(value)
    most = max(map(len, seconds.values()), default=0)
    return {at: stats.summary(found) for at, found in seconds.items() if len(found) == most}


def first_seconds(request: Request) -> Drawn:
    """F9: rate and lanes in the first seconds of the largest data set, by mode."""
    run = request.run
    cell = example(run)
    groups = [run.select(cell.dataset, mode.name, cell.direction) for mode in run.modes]
    rates = [_course(run, cells, "rate_bits_per_s") for cells in groups]
    if max(map(len, rates)) < FEWEST:
        raise LeftOutError(f"no run of {cell.dataset} has a time series of {FEWEST} seconds")
    lanes = [_course(run, cells, "lanes") for cells in groups]
    has_lanes = any(lanes)
    made, panels = style.figure(
        2 if has_lanes else 1,
        1,
        style.TALL if has_lanes else style.WIDE,
        sharex=True,
        **({"height_ratios": [2, 1]} if has_lanes else {}),
    )
    upper, lower = panels[0][0], panels[-1][0]
    counts: list[int] = []
    for index, course in enumerate(rates):
        if course:
            line(upper, list(course), [value.times(1e-9) for value in course.values()], index)
            counts += [value.count for value in course.values()]
    style.from_zero(upper, "Gbit/s")
    for index, course in enumerate(lanes):
        if course:
            line(lower, list(course), list(course.values()), index)
    if has_lanes:
        style.from_zero(lower, "lanes")
        lower.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    lower.set_xlim(0, min(FIRST, max(at for course in rates for at in course) + 0.5))
    lower.set_xlabel("Seconds since submission")
    trip = run.round_trip(cell)
    words = _trips(upper, trip / 1000) if trip and trip >= 1 else ""
    style.legend_above(made, [(mode.name, style.colour(i)) for i, mode in enumerate(run.modes)])
    return Drawn(
        made,
        f"The begin of {cell.dataset}, {' → '.join(run.ends(cell.direction))}: what its peers "
        f"received in each second{', and the lanes that they had' if has_lanes else ''}; "
        f"{band(counts)}.{words} Windows of single connections are not in it: samples are of a "
        "second, and the daemon keeps none of TCP.",
    )


def _trips(axes: Axes, trip_s: float) -> str:
    """Draws an axis of round trips above a panel; returns the sentence on it."""

    def trips(seconds: ArrayLike) -> ArrayLike:
        return np.asarray(seconds, dtype=float) / trip_s

    def seconds(trips: ArrayLike) -> ArrayLike:
        return np.asarray(trips, dtype=float) * trip_s

    axes.secondary_xaxis("top", functions=(trips, seconds)).set_xlabel("Round trips")
    return " The axis above counts round trips: slow start doubles the window of a lane in each."
