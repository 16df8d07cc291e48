"""Rates against the size of files, beside measured storage."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from penstock_eval import file_systems, measures, stats, style, units
from penstock_eval.drawing import Drawn, LeftOutError, Request, band
from penstock_eval.measures import Bound, Point
from penstock_eval.rundir import Cell, Dataset, Run

GOAL = 80
"""Share of measured storage, in percent, that the published reports call good."""
BANDS = ((1 << 20, "many small files"), (1 << 30, "medium"), (1 << 60, "large"))
"""Ends of the ranges of sizes in the published reports, and their names."""


def effective(cell: Cell) -> float:
    """Effective rate of a cell in bytes per second."""
    return cell.effective


def edges(summary: stats.Summary) -> tuple[float, float]:
    """Ends of the interval, or least and greatest without one."""
    if summary.interval:
        return summary.interval.low, summary.interval.high
    return summary.least, summary.greatest


def line(axes: Axes, x: Sequence[float], values: list[stats.Summary], index: int) -> None:
    """Medians as a line with a band, in the colour and marker of a series."""
    tint = style.colour(index)
    axes.fill_between(
        x, [edges(v)[0] for v in values], [edges(v)[1] for v in values], color=tint, alpha=0.2, lw=0
    )
    axes.plot(x, [v.median for v in values], color=tint, marker=style.marker(index))


def beside_storage(request: Request) -> Drawn:
    """F15: rates of the modes beside measured storage, and their ratio to it."""
    run = request.run
    datasets = measures.uniform(run)
    if len(datasets) < 2:
        raise LeftOutError("it needs data sets of two sizes of files, such as 16384x4KiB")
    shown = [way for way in run.directions if measures.bound(run, way)]
    if not shown:
        source, target = run.ends("forward")
        raise LeftOutError(
            f"no measured storage of both ends ({source}, {target}): run `penstock bench storage` "
            "on both, or set `measure = true` below `[storage]` in the matrix"
        )
    made, panels = style.figure(
        2, len(shown), style.TALL, sharex="col", sharey="row", height_ratios=[1.7, 1]
    )
    counts: list[int] = []
    for column, way in enumerate(shown):
        above, below = panels[0][column], panels[1][column]
        counts += _rates(above, run, datasets, way)
        _ratios(below, run, datasets, way)
        above.set_title(" → ".join(run.ends(way)))
        sizes = [item.file_size for item in datasets] + [b.size for b in measures.bound(run, way)]
        style.size_axis(below, sizes, 8 // len(shown))
    tops = [axes.get_ylim()[1] for axes in panels[0]]
    style.from_zero(panels[0][0], "Gbit/s", max(tops))
    panels[1][0].set_ylabel("% of storage")
    panels[1][0].set_ylim(0, max(110.0, panels[1][0].get_ylim()[1]))
    for row, axes in enumerate((panels[0][-1], panels[1][-1])):
        _label(axes, run, datasets, shown[-1], storage=row == 0)
    return Drawn(made, _caption(run, shown, counts))


def _caption(run: Run, shown: list[str], counts: list[int]) -> str:
    notes = {
        "cached": " Some reads may have come from a cache, so storage may be slower than shown.",
        "one": " Both ends are one file system: T6 has the bound of reading and writing there.",
        "short": " Some steps of the storage benchmark were short.",
    }
    marks = {
        mark
        for way in shown
        for store, operation in zip(run.ends(way), ("read", "write"), strict=True)
        for point in measures.storage(run, store, operation)
        for mark in point.marks
    }
    if file_systems.sharing(run).is_one:
        marks.add("one")
    return (
        "Effective rate against the size of files, beside what storage was measured to do: the "
        "slower of reading at the source and writing at the target, grey from its least to its "
        f"greatest run. Of transfers, {band(counts)}. Below: the same as a share of storage; the "
        f"dashed line is {GOAL} %." + "".join(notes[mark] for mark in sorted(marks & set(notes)))
    )


def _bounds(axes: Axes, bounds: list[Bound]) -> None:
    sizes = [item.size for item in bounds]
    axes.fill_between(
        sizes,
        [units.gigabits(item.least) for item in bounds],
        [units.gigabits(item.greatest) for item in bounds],
        color=style.STORAGE,
        alpha=0.35,
        lw=0,
    )
    axes.plot(
        sizes,
        [units.gigabits(item.median) for item in bounds],
        color=style.STORAGE,
        lw=1.6,
        ls=(0, (5, 2)),
    )


def _rates(axes: Axes, run: Run, datasets: list[Dataset], way: str) -> list[int]:
    _bounds(axes, measures.bound(run, way))
    counts: list[int] = []
    for index, mode in enumerate(run.modes):
        found = measures.points(
            run, datasets, mode.name, way, lambda cell: units.gigabits(cell.effective)
        )
        if found:
            line(axes, [p.dataset.file_size for p in found], [p.summary for p in found], index)
            counts += [len(point.values) for point in found]
    return counts


def _shares(
    run: Run, datasets: list[Dataset], mode: str, way: str
) -> list[tuple[Point, stats.Summary]]:
    found = measures.points(run, datasets, mode, way, effective)
    shares = [(point, measures.share_of_storage(run, point, way)) for point in found]
    return [(point, share) for point, share in shares if share]


def _ratios(axes: Axes, run: Run, datasets: list[Dataset], way: str) -> None:
    axes.axhline(100, color=style.STORAGE, lw=1.2)
    axes.axhline(GOAL, color=style.INK, lw=1.2, ls=(0, (4, 3)))
    for index, mode in enumerate(run.modes):
        found = _shares(run, datasets, mode.name, way)
        if found:
            sizes = [point.dataset.file_size for point, _ in found]
            line(axes, sizes, [share.times(100) for _, share in found], index)


def _label(axes: Axes, run: Run, datasets: list[Dataset], way: str, *, storage: bool) -> None:
    labels: list[tuple[float, str, str]] = []
    for index, mode in enumerate(run.modes):
        if storage:
            found = measures.points(run, datasets, mode.name, way, effective)
            if found:
                value = units.gigabits(found[-1].summary.median)
                labels.append((value, mode.name, style.colour(index)))
        elif shares := _shares(run, datasets, mode.name, way):
            value = shares[-1][1].median * 100
            labels.append((value, f"{value:.0f} %", style.colour(index)))
    if storage:
        end = measures.bound(run, way)[-1]
        labels.append((units.gigabits(end.median), "storage", style.STORAGE))
    style.end_labels(axes, labels, 0.075 if storage else 0.14)


def by_volume(request: Request) -> Drawn:
    """F6: rates by size of files, a line for each total volume, a panel for each mode."""
    run = request.run
    items = [item for item in run.datasets if item.is_uniform]
    volumes: dict[int, list[Dataset]] = {}
    for item in sorted(items, key=lambda item: item.file_size):
        volumes.setdefault(item.bytes, []).append(item)
    lines = {volume: found for volume, found in sorted(volumes.items()) if len(found) > 1}
    if not lines:
        raise LeftOutError("it needs data sets of the same volume in files of several sizes")
    way = run.directions[0]
    modes = [mode for mode in run.modes if any(c.mode == mode.name for c in run.counted)][:4]
    made, panels = style.figure(1, len(modes), style.WIDE, sharey=True)
    counts: list[int] = []
    for axes, mode in zip(panels[0], modes, strict=True):
        labels: list[tuple[float, str, str]] = []
        for index, (volume, datasets) in enumerate(lines.items()):
            found = measures.points(
                run, datasets, mode.name, way, lambda cell: units.gigabits(cell.effective)
            )
            if not found:
                continue
            sizes = [point.dataset.file_size for point in found]
            line(axes, sizes, [point.summary for point in found], index)
            counts += [len(point.values) for point in found]
            labels.append((found[-1].summary.median, units.size(volume), style.colour(index)))
        axes.set_title(mode.name)
        sizes = [item.file_size for found in lines.values() for item in found]
        style.size_axis(axes, sizes, max(2, 8 // len(modes)))
        if mode is modes[-1]:
            style.from_zero(panels[0][0], "Gbit/s", max(a.get_ylim()[1] for a in panels[0]))
            style.end_labels(axes, labels)
    caption = (
        f"Effective rate by size of files, {' → '.join(run.ends(way))}, a line for each volume of "
        f"the data set: {band(counts)}."
    )
    return Drawn(made, caption)


def by_dataset(request: Request) -> Drawn:
    """F14: all data sets in the order of their files' size: Gbit/s, and files a second."""
    run = request.run
    way = run.directions[0]
    datasets = sorted(run.datasets, key=lambda item: (item.file_size, item.bytes))
    datasets = [d for d in datasets if any(run.select(d.name, m.name, way) for m in run.modes)]
    made, panels = style.figure(2, 1, style.TALL, sharex=True)
    upper, lower = panels[0][0], panels[1][0]
    step = min(0.6 / max(len(run.modes) - 1, 1), 0.22)
    for index, mode in enumerate(run.modes):
        for at, item in enumerate(datasets):
            cells = run.select(item.name, mode.name, way)
            if not cells:
                continue
            x = at + (index - (len(run.modes) - 1) / 2) * step
            rates = [units.gigabits(cell.effective) for cell in cells]
            _dots(upper, x, rates, index, step)
            _dots(lower, x, [cell.files_per_s for cell in cells], index, step)
    style.from_zero(upper, "Gbit/s")
    lower.set_yscale("log")
    style.plain(lower.yaxis)
    lower.set_ylabel("files/s")
    many = len(datasets) > 6
    lower.set_xticks(
        range(len(datasets)),
        [item.name for item in datasets],
        rotation=40 if many else 0,
        ha="right" if many else "center",
        rotation_mode="anchor",
    )
    if not many:
        lower.tick_params(axis="x", pad=10)
    _ranges(upper, datasets)
    style.legend_above(made, [(m.name, style.colour(i)) for i, m in enumerate(run.modes)])
    caption = (
        f"Each run as a dot, {' → '.join(run.ends(way))}, the bar is the median. Data sets in the "
        "order of their files' mean size. Below the same runs in files per second (logarithmic), "
        "where small files can be seen."
    )
    return Drawn(made, caption)


def _dots(axes: Axes, x: float, values: list[float], index: int, step: float) -> None:
    tint, half = style.colour(index), min(0.09, 0.42 * step)
    axes.plot([x] * len(values), values, ls="", marker="o", ms=5, mfc="none", mec=tint, alpha=0.8)
    axes.plot([x - half, x + half], [stats.median(values)] * 2, color=tint, lw=3)


def _ranges(axes: Axes, datasets: list[Dataset]) -> None:
    low = 0
    for at, (end, name) in enumerate(BANDS):
        inside = [i for i, item in enumerate(datasets) if low <= item.file_size < end]
        low = end
        if not inside:
            continue
        if at % 2 == 0:
            axes.axvspan(inside[0] - 0.5, inside[-1] + 0.5, color="#F3F5F7", lw=0, zorder=0)
        axes.annotate(
            name,
            ((inside[0] + inside[-1]) / 2, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=12,
            color=style.FAINT,
        )
    axes.set_xlim(-0.5, len(datasets) - 0.5)


def _singles(run: Run) -> list[Dataset]:
    found = sorted(
        (d for d in run.datasets if d.files == 1 and d.bytes), key=lambda item: item.bytes
    )
    if len(found) < 3:
        raise LeftOutError("it needs three data sets of a single file, such as 1x1GiB")
    return found


def _against_size(request: Request, *, logarithmic: bool) -> Drawn:
    run = request.run
    singles = _singles(run)
    way = run.directions[0]
    made, panels = style.figure(2, 1, style.TALL, sharex=True)
    upper, lower = panels[0][0], panels[1][0]
    labels: list[tuple[float, str, str]] = []
    fits: list[str] = []
    counts: list[int] = []
    for index, mode in enumerate(run.modes):
        rate = measures.points(
            run, singles, mode.name, way, lambda cell: units.gigabits(cell.effective)
        )
        time = measures.points(run, singles, mode.name, way, lambda cell: cell.duration)
        if len(rate) < 3:
            continue
        sizes = [float(point.dataset.bytes) for point in rate]
        line(upper, sizes, [point.summary for point in rate], index)
        line(lower, sizes, [point.summary for point in time], index)
        counts += [len(point.values) for point in rate]
        labels.append((rate[-1].summary.median, mode.name, style.colour(index)))
        fitted = stats.fit(sizes, [point.summary.median for point in time])
        x = [sizes[0] * (sizes[-1] / sizes[0]) ** (i / 99) for i in range(100)]
        y = [fitted.start + fitted.slope * size for size in x]
        lower.plot(x, y, color=style.colour(index), lw=1, ls=":")
        fits.append(
            f"{mode.name}: t = {units.number(fitted.start)} s + size / "
            f"{units.number(units.gigabits(1 / fitted.slope))} Gbit/s"
        )
    if not labels:
        raise LeftOutError("no mode has three sizes of a single file")
    style.from_zero(upper, "Gbit/s")
    style.end_labels(upper, labels)
    sizes = [float(item.bytes) for item in singles]
    if logarithmic:
        lower.set_yscale("log")
        style.plain(lower.yaxis)
        lower.set_ylabel("seconds")
        style.size_axis(lower, sizes)
    else:
        style.from_zero(lower, "seconds")
        ticks = [max(sizes) * i / 4 for i in range(5)]
        lower.set_xticks(ticks, [units.size(tick) for tick in ticks])
        lower.set_xlabel("File size")
    caption = (
        f"A single file, {' → '.join(run.ends(way))}: effective rate and time against its size; "
        f"{band(counts)}. Dotted: a fit of the medians, {'; '.join(fits)}. The first term is what "
        "each transfer costs, the second the rate of an endless file."
    )
    return Drawn(made, caption)


def single_file(request: Request) -> Drawn:
    """F4: a single file's rate and time, by the logarithm of its size."""
    return _against_size(request, logarithmic=True)


def single_file_linear(request: Request) -> Drawn:
    """F5: the same by its size."""
    return _against_size(request, logarithmic=False)
