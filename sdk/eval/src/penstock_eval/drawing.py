"""What figures and tables have in common."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from matplotlib.figure import Figure

from penstock_eval.rundir import Run

About = TypeVar("About", contravariant=True)
"""What a figure is drawn from."""


class LeftOutError(Exception):
    """A figure or table lacks its data; the message says which."""


@dataclass(frozen=True)
class Request:
    """Sweeps, as figures and tables see them."""

    run: Run
    others: list[Run] = field(default_factory=list[Run])
    """Further runs of the same report, for figures across them."""
    need: float | None = None
    """Rate that the user needs, in bytes per second."""

    @property
    def runs(self) -> list[Run]:
        """All runs of the report."""
        return [self.run, *self.others]


@dataclass(frozen=True)
class Drawn:
    """A figure with its caption."""

    figure: Figure
    caption: str


@dataclass(frozen=True)
class FigureOf(Generic[About]):
    """A figure of the report."""

    key: str
    title: str
    draw: Callable[[About], Drawn]


def repeats(counts: list[int]) -> str:
    """`n = 6`, or `n = 3 to 6`."""
    low, high = min(counts), max(counts)
    return f"n = {low}" if low == high else f"n = {low} to {high}"


def band(counts: list[int]) -> str:
    """Sentence on what a band around medians is."""
    return _spread(counts, "lines", "bands")


def whiskers(counts: list[int]) -> str:
    """Sentence on what error bars at medians are."""
    return _spread(counts, "marks", "error bars")


def _spread(counts: list[int], centre: str, ends: str) -> str:
    if min(counts) < 6:
        return (
            f"{centre} are medians of repeats ({repeats(counts)}), {ends} go from the least to the "
            "greatest; no interval is claimed below six"
        )
    return (
        f"{centre} are medians of repeats ({repeats(counts)}), {ends} are order-statistic "
        "intervals of the median (cover at least 95 %)"
    )
