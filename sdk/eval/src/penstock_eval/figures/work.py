"""What transfers are made of: data sets, layers, activities, settings."""

from penstock_eval import measures, stats, style, units
from penstock_eval.drawing import Drawn, LeftOutError, Request
from penstock_eval.rundir import Dataset, Run, inner

PARTS = ("cpu", "cpu_wait")
"""Parts of all other activities, not activities of their own."""
ACTIVITIES = 7
"""Activities with a colour of their own."""
REST = "other"
"""What is put together: the activity of that name, and those without a colour."""


def capacity(request: Request) -> Drawn:
    """F0: what the pair of sites carries in a day and a week, beside the need."""
    run = request.run
    bars: list[tuple[str, float, int, int]] = []
    for way in run.directions:
        item = max(
            (d for d in run.datasets if run.select(d.name, run.baseline.name, way)),
            key=measures.volume,
            default=None,
        )
        for index, mode in enumerate(run.modes):
            cells = run.select(item.name, mode.name, way) if item else []
            if item and cells:
                rate = stats.median([cell.steady or cell.effective for cell in cells])
                name = f"{' → '.join(run.ends(way))}\n{mode.name}, {item.name}"
                bars.append((name, rate, index, len(cells)))
    if not bars:
        raise LeftOutError("no run of the first mode succeeded")
    made, panels = style.figure(1, 1, (11, 1.6 + 0.75 * len(bars)))
    axes = panels[0][0]
    top = max(units.terabytes_per_day(rate) for _, rate, _, _ in bars)
    for row, (_, rate, index, _) in enumerate(bars):
        day = units.terabytes_per_day(rate)
        axes.barh(row, day, color=style.colour(index), height=0.62)
        text = f"{units.number(day)} TB/day = {units.number(day * 7 / 1000)} PB/week"
        inside = day > 0.55 * max(top, units.terabytes_per_day(request.need or 0))
        axes.annotate(
            text, (day, row), xytext=(-8 if inside else 6, 0), textcoords="offset points",
            va="center", ha="right" if inside else "left", fontweight="bold",
            color=style.on(index) if inside else style.INK,
        )  # fmt: skip
    axes.set_yticks(range(len(bars)), [name for name, *_ in bars])
    axes.invert_yaxis()
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("TB/day")
    if request.need:
        need = units.terabytes_per_day(request.need)
        axes.axvline(need, color=style.WARN, lw=2)
        axes.annotate(
            f"need: {units.number(need)} TB/day",
            (need, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            color=style.WARN,
        )
        top = max(top, need)
    axes.set_xlim(0, top * 1.12)
    caption = (
        "What this pair of sites carries at the steady rate of its largest data set (from 20 % to "
        "80 % of the bytes; the effective rate where a run is too short for it), median of "
        f"{min(n for *_, n in bars)} runs. TB = 10¹² bytes."
        + ("" if request.need else " `--need RATE` draws the rate that is needed.")
    )
    return Drawn(made, caption)


def histogram(request: Request) -> Drawn:
    """F13: files and bytes by class of size, of data sets with files of many sizes."""
    run = request.run
    mixed = [item for item in run.datasets if len(item.histogram) > 1][:3]
    if not mixed:
        raise LeftOutError("each data set has files of one size: T3 says all of them")
    made, panels = style.figure(2, len(mixed), style.TALL, sharex="col")
    most = max(total for item in mixed for *_, total in item.histogram)
    name, unit = ("GiB", 1 << 30) if most >= 1 << 30 else ("MiB", 1 << 20)
    for column, item in enumerate(mixed):
        upper, lower = panels[0][column], panels[1][column]
        classes = [entry for entry in item.histogram if entry[1]]
        x = range(len(classes))
        upper.bar(x, [files for _, files, _ in classes], color=style.colour(0), width=0.86)
        upper.set_yscale("log")
        upper.set_ylim(0.7, max(files for _, files, _ in classes) * 2)
        style.plain(upper.yaxis, (1,))
        lower.bar(x, [total / unit for *_, total in classes], color=style.colour(1), width=0.86)
        upper.set_title(f"{item.name}: {item.files:,} files, {units.size(item.bytes)}")
        step = max(1, len(classes) * len(mixed) // 12)
        shown = list(x)[::step]
        lower.set_xticks(
            shown,
            [_from(classes[i][0]) for i in shown],
            rotation=40,
            ha="right",
            rotation_mode="anchor",
        )
        lower.set_xlabel("Size from, up to its double")
    panels[0][0].set_ylabel("files")
    panels[1][0].set_ylabel(name)
    caption = (
        "Files (logarithmic) and bytes by powers of two of the size. Classes without files are "
        "left out. Most files are small, most bytes are in large ones: both have to be fast."
    )
    return Drawn(made, caption)


def _from(size: int) -> str:
    return units.size(size) if size else "empty"


def activities(run: Run, dataset: str, way: str, role: str) -> dict[str, float]:
    """Share of the threads' time by activity, of the baseline's runs of a data set."""
    totals: dict[str, float] = {}
    for cell in run.select(dataset, run.baseline.name, way):
        for name, value in inner(inner(cell.raw, "time"), role).items():
            if name not in PARTS and value:
                totals[name] = totals.get(name, 0.0) + value
    whole = sum(totals.values())
    return {name: value / whole for name, value in totals.items()} if whole else {}


def where_time_goes(request: Request) -> Drawn:
    """F19: share of threads' time by activity, a bar for each data set, at both ends."""
    run = request.run
    way = run.directions[0]
    order = sorted(run.datasets, key=lambda item: (item.file_size, item.bytes))
    made, panels = style.figure(1, 2, (11, max(4.2, 2.4 + 0.42 * len(order))), sharey=True)
    totals: dict[str, float] = {}
    shares: dict[str, list[tuple[Dataset, dict[str, float]]]] = {}
    for role in ("source", "target"):
        shares[role] = [(item, activities(run, item.name, way, role)) for item in order]
        for _, found in shares[role]:
            for name, value in found.items():
                totals[name] = totals.get(name, 0.0) + value
    if not totals:
        raise LeftOutError("no cell has the time of its threads by activity (`time`)")
    names = sorted(totals, key=lambda name: (name == REST, -totals[name]))
    most = min(ACTIVITIES, len(names) - (REST in totals))
    shown, rest = names[:most], names[most:]
    for axes, (role, rows) in zip(panels[0], shares.items(), strict=True):
        for row, (_, found) in enumerate(rows):
            left = 0.0
            parts = [found.get(name, 0.0) for name in shown]
            for index, value in enumerate([*parts, sum(found.get(name, 0.0) for name in rest)]):
                axes.barh(row, 100 * value, left=left, color=style.colour(index), height=0.72)
                if value >= 0.12:
                    middle = left + 50 * value
                    axes.text(
                        middle,
                        row,
                        f"{100 * value:.0f}",
                        ha="center",
                        va="center",
                        color=style.on(index),
                        fontsize=11,
                    )
                left += 100 * value
        axes.set_title(role)
        axes.set_xlim(0, 100)
        axes.set_xlabel("% of the threads' time")
        axes.grid(visible=False)
    panels[0][0].set_yticks(range(len(order)), [item.name for item in order])
    panels[0][0].set_ylim(len(order) - 0.5, -0.5)
    entries = [*shown, REST] if rest else shown
    style.legend_above(made, [(name, style.colour(i)) for i, name in enumerate(entries)])
    caption = (
        f"What the transfer's threads did, {' → '.join(run.ends(way))}, in mode "
        f"{run.baseline.name}, over all repeats. Waiting counts as much as working: a bar full of "
        "one activity names the bottleneck."
    )
    return Drawn(made, caption)


def tuning(request: Request) -> Drawn:
    """F17: lanes and piece size as a heat map of ratios to the automatic choice."""
    run = request.run
    automatic = next((m for m in run.modes if m.lanes is None and m.piece_size is None), None)
    alike = [m for m in run.modes if automatic and m.others == automatic.others]
    lanes = sorted({mode.lanes for mode in alike if mode.lanes})
    pieces = sorted({mode.piece_size for mode in alike if mode.piece_size})
    if len(lanes) < 2 or len(pieces) < 2 or not automatic:
        raise LeftOutError("it needs modes with two numbers of lanes, two piece sizes, and `auto`")
    cells = measures.largest(run, run.directions[0])
    if not cells:
        raise LeftOutError("no run of the first mode succeeded")
    item = run.dataset(cells[0].dataset)
    way = cells[0].direction
    base = stats.median([c.effective for c in run.select(item.name, automatic.name, way)])
    grid: list[list[float]] = []
    for piece in pieces:
        row: list[float] = []
        for count in lanes:
            modes = [m for m in alike if (m.lanes, m.piece_size) == (count, piece)]
            rates = [c.effective for m in modes for c in run.select(item.name, m.name, way)]
            row.append(stats.median(rates) / base if rates else float("nan"))
        grid.append(row)
    made, panels = style.figure(1, 1, (8.5, 1.8 + 0.8 * len(pieces)))
    axes = panels[0][0]
    image = axes.imshow(grid, cmap="PuOr", vmin=0.5, vmax=1.5, aspect="auto")
    for y, values in enumerate(grid):
        for x, value in enumerate(values):
            tint = "white" if abs(value - 1) > 0.3 else style.INK
            axes.text(x, y, f"{value:.2f}", ha="center", va="center", color=tint)
    axes.grid(visible=False)
    axes.set_xticks(range(len(lanes)), [str(count) for count in lanes])
    axes.set_yticks(range(len(pieces)), [units.size(piece) for piece in pieces])
    axes.set_xlabel("lanes")
    axes.set_ylabel("piece size")
    made.colorbar(image, ax=axes, pad=0.02).set_label("ratio to automatic")
    return Drawn(
        made,
        f"Median rate of {item.name} by lanes and piece size, as a ratio to the automatic choice "
        f"of both, {automatic.name}. All modes have its other options. Automatic is right where no "
        "cell is much above 1.",
    )
