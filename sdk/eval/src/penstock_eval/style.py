"""Look of all figures: one size, one scale of type, colours that all can tell apart.

Colours are those of Okabe and Ito (Color Universal Design, 2008). Each is told by a label or a
marker as well, so that figures survive a black-and-white print.
"""

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MultipleLocator, NullLocator

from penstock_eval import units

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A5195", "#6B6B6B")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LIGHT = {"#CC79A7", "#56B4E9", "#E69F00"}
STORAGE = "#8A9099"
"""Grey of measured storage."""
INK = "#1F2328"
FAINT = "#6A737D"
GRID = "#E3E6EA"
WARN = "#B42318"
MINUTE, HOUR, DAY = 60, 3600, 86_400
CLOCK = (
    *(1, 2, 5, 10, 20, 30),
    *(count * MINUTE for count in (1, 2, 5, 10, 20, 30)),
    *(count * HOUR for count in (1, 2, 4, 6, 12)),
    DAY,
)
"""Seconds between ticks of time."""
LEGEND_SQUARE = 0.62
"""Inches of a square of a legend, with the room around it."""
LEGEND_LETTER = 0.1
"""Inches of a letter of a legend."""
WIDE = (11.0, 5.6)
TALL = (11.0, 7.2)

_RC: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
    "font.size": 13,
    "axes.titlesize": 14,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.labelsize": 13,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.labelsize": 12,
    "ytick.labelsize": 12,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "lines.linewidth": 2.2,
    "lines.markersize": 6,
    "legend.frameon": False,
    "legend.fontsize": 12,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "svg.fonttype": "none",
    "savefig.dpi": 100,
}


@contextmanager
def applied(salt: str = "") -> Generator[None]:
    """Context in which figures are made and saved: `salt` makes the ids of an SVG.

    What a user has set for matplotlib does not count: equal data give equal figures everywhere.
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast(Any, {**_RC, "svg.hashsalt": salt or None}))
        yield


def figure(
    rows: int = 1, columns: int = 1, size: tuple[float, float] = WIDE, **kw: Any
) -> tuple[Figure, list[list[Axes]]]:
    """Empty figure with panels, by row and column."""
    made = Figure(figsize=size, layout="constrained")
    panels = made.subplots(rows, columns, squeeze=False, **kw)
    return made, [list(row) for row in panels]


def colour(index: int) -> str:
    """Colour of a series."""
    return COLOURS[index % len(COLOURS)]


def on(index: int) -> str:
    """Colour of text on a colour: white on dark ones, black on light ones."""
    return INK if colour(index) in LIGHT else "white"


def marker(index: int) -> str:
    """Marker of a series."""
    return MARKERS[index % len(MARKERS)]


def _size(value: float, _: int | None) -> str:
    return units.size(value)


def _number(value: float, _: int | None) -> str:
    return units.number(value)


def time_axis(axes: Axes, label: str) -> None:
    """Axis of seconds since the begin, as min:s or h:min:s."""

    def clock(value: float, _: int | None) -> str:
        return units.clock(value, hours=axes.get_xlim()[1] >= HOUR)

    low, high = axes.get_xlim()
    steps = (step for step in CLOCK if (high - low) / step <= 8)
    axes.xaxis.set_major_locator(MultipleLocator(next(steps, 7 * DAY)))
    axes.xaxis.set_major_formatter(FuncFormatter(clock))
    axes.set_xlabel(label)


def size_axis(axes: Axes, sizes: Sequence[float], most: int = 8) -> None:
    """Logarithmic axis of sizes to base 2, with at most so many ticks, all powers of two."""
    low, high = math.floor(math.log2(min(sizes))), math.ceil(math.log2(max(sizes)))
    step = next(step for step in range(1, 99) if (high - low) // step < most)
    ticks = [2.0**power for power in range(low, high + 1, step)]
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(_size))
    axes.set_xlabel("File size")


def from_zero(axes: Axes, label: str, top: float | None = None) -> None:
    """Linear y axis from 0, with room above."""
    limit = top if top is not None else axes.get_ylim()[1]
    axes.set_ylim(0, limit * 1.06)
    axes.set_ylabel(label)


def plain(axis: Axis, step: Sequence[float] = (1, 2, 5)) -> None:
    """Numbers instead of powers of ten on a logarithmic axis."""
    low, high = sorted(axis.get_view_interval())
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [factor * 10.0**power for power in powers for factor in step]
    inside = [tick for tick in ticks if low <= tick <= high]
    if len(inside) < 3:
        ticks = [factor * 10.0**power for power in powers for factor in (1, 1.5, 2, 3, 4, 6, 8)]
        inside = [tick for tick in ticks if low <= tick <= high]
    if len(inside) > 7:
        inside = [tick for tick in inside if math.isclose(math.log10(tick) % 1, 0, abs_tol=1e-9)]
    axis.set_major_locator(FixedLocator(inside))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(_number))


def apart(places: Sequence[float], gap: float) -> list[float]:
    """Places moved as little as needed to be `gap` apart, in their order."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = [places[i] for i in order]
    for _ in range(100):
        clash = False
        for i in range(len(moved) - 1):
            lack = gap - (moved[i + 1] - moved[i])
            if lack > 1e-9:
                moved[i] -= lack / 2
                moved[i + 1] += lack / 2
                clash = True
        if not clash:
            break
    back = dict(zip(order, moved, strict=True))
    return [back[i] for i in range(len(places))]


def end_labels(axes: Axes, labels: Sequence[tuple[float, str, str]], gap: float = 0.075) -> None:
    """Labels of lines right of the panel, at their last values, without overlap.

    Args:
        axes: Panel, whose limits are set already.
        labels: Value at the end, text and colour of each line.
        gap: Least distance, as share of the height; less where many lines need it.
    """
    low, high = axes.get_ylim()
    logarithmic = axes.get_yscale() == "log"

    def share(value: float) -> float:
        if logarithmic:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)

    gap = min(gap, 1 / max(len(labels), 1))
    places = apart([share(value) for value, _, _ in labels], gap)
    for place, (_, text, tint) in zip(places, labels, strict=True):
        axes.annotate(
            text,
            (1, place),
            xycoords="axes fraction",
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=tint,
            fontweight="bold",
            fontsize=12,
            annotation_clip=False,
        )


def legend_above(made: Figure, entries: Sequence[tuple[str, str]]) -> None:
    """Rows of coloured squares and names above all panels, as many as the width needs."""
    handles = [Patch(color=tint, label=name) for name, tint in entries]
    entry = LEGEND_SQUARE + LEGEND_LETTER * max(len(name) for name, _ in entries)
    fitting = max(1, int(made.get_figwidth() / entry))
    made.legend(handles=handles, loc="outside upper left", ncols=min(len(handles), 6, fitting))
