"""Statistics of few repeats: medians, order-statistic intervals and paired ratios.

A handful of runs on shared machines has outliers, and machines drift within an hour. So the centre
is the median, an interval is a pair of order statistics with its exact cover, and a ratio is taken
within a block of runs. Nothing is dropped, and nothing is resampled.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
"""Cover that an interval has at least."""
PRACTICAL = 0.03
"""Least change of a rate that is called a change: below it, nobody would act."""


@dataclass(frozen=True)
class Interval:
    """An interval of a median, between two of the sorted values."""

    low: float
    high: float
    cover: float
    """Probability that such an interval holds the true median."""


@dataclass(frozen=True)
class Summary:
    """A sample in the figures that tables print."""

    count: int
    median: float
    least: float
    greatest: float
    mean: float
    deviation: float | None
    """Standard deviation of a sample (n - 1); unknown of a single value."""
    interval: Interval | None
    """Interval of the median; none below six values."""

    def times(self, factor: float) -> "Summary":
        """The same in another unit; the deviation too."""
        inside = self.interval
        return Summary(
            self.count,
            self.median * factor,
            self.least * factor,
            self.greatest * factor,
            self.mean * factor,
            None if self.deviation is None else self.deviation * factor,
            inside and Interval(inside.low * factor, inside.high * factor, inside.cover),
        )


@dataclass(frozen=True)
class Line:
    """A fitted line `y = start + slope * x`."""

    start: float
    slope: float


def median(values: Sequence[float]) -> float:
    """Median; the mean of the two in the middle where their number is even.

    Raises:
        ValueError: There are no values.
    """
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean."""
    return math.fsum(values) / len(values)


def deviation(values: Sequence[float]) -> float | None:
    """Standard deviation of a sample, by n - 1; None of fewer than two values."""
    if len(values) < 2:
        return None
    centre = mean(values)
    return math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (len(values) - 1))


def cover(count: int, rank: int) -> float:
    """Probability that the true median is between the `rank`-th value from either end.

    Each value is below the true median with probability one half, so the number of those below is
    binomial (H. A. David and H. N. Nagaraja, Order Statistics, section 7.1).
    """
    below = sum(math.comb(count, i) for i in range(rank))
    return 1 - 2 * below / 2**count


def interval(values: Sequence[float]) -> Interval | None:
    """Narrowest symmetric pair of order statistics that covers the median by 95 % or more.

    Returns:
        None below six values: even the least and the greatest of five cover it by 93.75 % only.
    """
    count = len(values)
    ranks = [rank for rank in range(1, count // 2 + 1) if cover(count, rank) >= CONFIDENCE]
    if not ranks:
        return None
    ordered = sorted(values)
    rank = ranks[-1]
    return Interval(ordered[rank - 1], ordered[-rank], cover(count, rank))


def summary(values: Sequence[float]) -> Summary:
    """All figures of a sample."""
    return Summary(
        count=len(values),
        median=median(values),
        least=min(values),
        greatest=max(values),
        mean=mean(values),
        deviation=deviation(values),
        interval=interval(values),
    )


def paired_ratios(above: Mapping[int, float], below: Mapping[int, float]) -> list[float]:
    """Ratios `above / below` within each block that both have, in the order of `above`."""
    return [value / below[key] for key, value in above.items() if below.get(key)]


def ratio_summary(ratios: Sequence[float]) -> Summary:
    """Figures of ratios: centre and interval of the logarithms, so that 2 and 1/2 weigh alike."""
    logs = summary([math.log(ratio) for ratio in ratios])
    bounds = logs.interval
    return Summary(
        count=logs.count,
        median=math.exp(logs.median),
        least=math.exp(logs.least),
        greatest=math.exp(logs.greatest),
        mean=math.exp(logs.mean),
        deviation=deviation(ratios),
        interval=bounds and Interval(math.exp(bounds.low), math.exp(bounds.high), bounds.cover),
    )


def verdict(ratio: Summary) -> str:
    """Words for a ratio of rates: `faster` and `slower` need the interval and 3 % on their side."""
    if ratio.interval is None:
        return "no claim: fewer than six pairs"
    if ratio.interval.low > 1 and ratio.median >= 1 + PRACTICAL:
        return "faster"
    if ratio.interval.high < 1 and ratio.median <= 1 - PRACTICAL:
        return "slower"
    return "no difference shown"


def quantile(values: Sequence[float], share: float) -> float:
    """Quantile, linear between the neighbours (the default of numpy and R)."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def fit(x: Sequence[float], y: Sequence[float]) -> Line:
    """Least-squares line of relative errors: each point weighs by `1 / y²`.

    Times of a sweep span decades. Without weights the longest would alone make the line.
    """
    weight = [1 / v**2 for v in y]
    total = math.fsum(weight)
    cx = math.fsum(w * v for w, v in zip(weight, x, strict=True)) / total
    cy = math.fsum(w * v for w, v in zip(weight, y, strict=True)) / total
    spread = math.fsum(w * (v - cx) ** 2 for w, v in zip(weight, x, strict=True))
    joint = math.fsum(w * (a - cx) * (b - cy) for w, a, b in zip(weight, x, y, strict=True))
    slope = joint / spread
    return Line(cy - slope * cx, slope)


def interpolate(x: float, points: Sequence[tuple[float, float]]) -> float | None:
    """Value at `x`, by straight lines between points in double logarithmic scale.

    Returns:
        None outside of the points: a measurement says nothing beyond its ends.
    """
    ordered = sorted(points)
    for (x0, y0), (x1, y1) in itertools.pairwise(ordered):
        if x0 <= x <= x1:
            share = math.log(x / x0) / math.log(x1 / x0)
            return math.exp(math.log(y0) + share * (math.log(y1) - math.log(y0)))
    return next((y for at, y in ordered if at == x), None)
