"""What figures and tables have in common."""

from collections.abc import Callable
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from penstock_eval.rundir import Run


class LeftOutError(Exception):
    """A figure or table lacks its data; the message says which."""


@dataclass(frozen=True)
class Request:
    """What a report is made from."""

    run: Run
    others: list[Run] = field(default_factory=list[Run])
    """Further runs of the same report, for figures across them."""
    need: float | None = None
    """Rate that the user needs, in bytes per second."""


@dataclass(frozen=True)
class Drawn:
    """A figure with its caption."""

    figure: Figure
    caption: str


@dataclass(frozen=True)
class FigureOf:
    """A figure of the report."""

    key: str
    title: str
    draw: Callable[[Request], Drawn]


def repeats(counts: list[int]) -> str:
    """`n = 6`, or `n = 3 to 6`."""
    low, high = min(counts), max(counts)
    return f"n = {low}" if low == high else f"n = {low} to {high}"


def band(counts: list[int]) -> str:
    """Sentence on what a band around medians is."""
    if min(counts) < 6:
        return (
            f"lines are medians of repeats ({repeats(counts)}), bands go from the least to the "
            "greatest; no interval is claimed below six"
        )
    return (
        f"lines are medians of repeats ({repeats(counts)}), bands are order-statistic intervals "
        "of the median (cover at least 95 %)"
    )
