import math

import pytest

from penstock_eval import stats, units
from penstock_eval.usage import usage
from tests import golden


def test_published_runs_of_storage():
    """Promise: figures of a sample are computed: the published mean of these runs is a slip."""
    found = stats.summary(golden.STORAGE_RUNS)
    assert round(found.mean, 2) == 82.13
    assert found.median == 82.4
    assert round(found.deviation or 0, 2) == 2.01
    assert found.interval is None
    # 77.25 Gbit/s of transfers beside it: by the printed mean of 82.67 it was 93.44 %.
    assert round(100 * 77.25 / found.mean, 1) == 94.1


@pytest.mark.parametrize(
    ("count", "rank", "percent"),
    [(3, 1, 75.0), (5, 1, 93.75), (6, 1, 96.9), (9, 2, 96.1), (12, 3, 96.1)],
)
def test_cover(count: int, rank: int, percent: float):
    """Promise: an interval's cover is the exact one of order statistics."""
    assert 100 * stats.cover(count, rank) == pytest.approx(percent, abs=0.05)


def test_no_interval_below_six():
    """Promise: five values give no interval; six give the least and the greatest."""
    assert stats.interval([1, 2, 3, 4, 5]) is None
    assert stats.interval([]) is None
    six = stats.interval([6, 1, 5, 2, 4, 3])
    assert six == stats.Interval(1, 6, 0.96875)


def test_nine_leave_the_extremes_out():
    """Promise: the interval is the narrowest that covers 95 %."""
    nine = stats.interval([9, 1, 8, 2, 7, 3, 6, 4, 5])
    assert nine is not None
    assert (nine.low, nine.high) == (2, 8)


def test_outliers_stay():
    """Promise: an outlier moves the mean and the extremes, and hardly the median."""
    calm, wild = [10.0, 11, 12, 13, 14, 15], [10.0, 11, 12, 13, 14, 1500]
    assert stats.median(calm) == stats.median(wild) == 12.5
    assert stats.summary(wild).greatest == 1500
    assert stats.summary(wild).count == 6


def test_nothing_has_no_median():
    """Promise: no figure is made up from no values."""
    with pytest.raises(ValueError, match="no values"):
        stats.median([])
    assert stats.deviation([1.0]) is None


def test_ratios_are_taken_within_blocks():
    """Promise: a drift that both share cancels, and a block that one lacks is left out."""
    above = {1: 90.0, 2: 45.0, 3: 180.0, 9: 1.0}
    below = {3: 200.0, 1: 100.0, 2: 50.0, 8: 7.0}
    assert stats.paired_ratios(above, below) == [0.9, 0.9, 0.9]


def test_ratios_weigh_alike_both_ways():
    """Promise: the middle of 1/2 and 2 is 1."""
    found = stats.ratio_summary([0.5, 2.0])
    assert found.median == pytest.approx(1.0)
    assert found.mean == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ([1.10, 1.12, 1.09, 1.11, 1.13, 1.10], "faster"),
        ([0.90, 0.88, 0.91, 0.89, 0.90, 0.92], "slower"),
        ([1.01, 1.02, 1.01, 1.02, 1.01, 1.02], "no difference shown"),
        ([1.10, 1.12, 0.99, 1.11, 1.13, 1.10], "no difference shown"),
        ([1.5, 1.5, 1.5, 1.5, 1.5], "no claim: fewer than six pairs"),
    ],
)
def test_verdict(ratios: list[float], words: str):
    """Promise: `faster` needs the interval beyond 1 and 3 %, and six pairs."""
    assert stats.verdict(stats.ratio_summary(ratios)) == words


def test_quantiles():
    """Promise: quantiles are those of numpy and R."""
    values = [4.0, 1.0, 3.0, 2.0]
    assert [stats.quantile(values, q) for q in (0, 0.25, 0.5, 1)] == [1.0, 1.75, 2.5, 4.0]


def test_fit_finds_the_line():
    """Promise: a planted cost of 0.6 s and 5 GB/s come out of times over four decades."""
    sizes = [1e6, 1e8, 1e10]
    line = stats.fit(sizes, [0.6 + size / 5e9 for size in sizes])
    assert line.start == pytest.approx(0.6)
    assert 1 / line.slope == pytest.approx(5e9)


def test_interpolation_ends_at_its_points():
    """Promise: logarithmic between points, exact at them, and nothing beyond."""
    points = [(1.0, 10.0), (100.0, 1000.0)]
    assert stats.interpolate(10, points) == pytest.approx(100)
    assert stats.interpolate(100, points) == pytest.approx(1000)
    assert stats.interpolate(101, points) is None
    assert stats.interpolate(5, [(5.0, 7.0)]) == 7.0
    assert stats.interpolate(5, []) is None


def test_stolen_time_is_told_apart():
    """Promise: htop's share has own work and stolen time in it."""
    found = usage(busy_s=6.0, steal_s=1.0, iowait_s=0.5, cores=2, seconds=5.0)
    assert found is not None
    assert (found.busy, found.steal, found.own, found.iowait) == (0.7, 0.1, 0.6, 0.05)


def test_counters_that_step_back():
    """Promise: shares stay between 0 and 1."""
    found = usage(busy_s=-0.1, steal_s=0.2, iowait_s=11.0, cores=2, seconds=5.0)
    assert found is not None
    assert (found.busy, found.steal, found.own, found.iowait) == (0.02, 0.02, 0, 1)
    assert usage(1, 0, 0, 0, 5) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(4096, "4 KiB"), (1.5 * 2**30, "1.5 GiB"), (0, "0 B"), (2**50, "1 PiB"), (1023, "1023 B")],
)
def test_sizes(value: float, text: str):
    """Promise: sizes are in powers of 1,024."""
    assert units.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (82.4, "82.4"), (1234.5, "1,230"), (0.00012345, "0.000123"), (1e6, "1,000,000"),
     (999.9, "1,000"), (12, "12")],
)  # fmt: skip
def test_numbers(value: float, text: str):
    """Promise: three figures, no exponent for what readers compare."""
    assert units.number(value) == text


def test_columns_align():
    """Promise: numbers of a table have three figures, zeros included."""
    shown = [units.number(value, zeros=True) for value in (36.0, 4.0, 100.0, 0.03, 20712.0)]
    assert shown == ["36.0", "4.00", "100", "0.0300", "20,700"]


def test_units_of_the_published_reports():
    """Promise: 80 Gbit/s are 864 TB a day and 6 PB a week, as the reports say."""
    day = units.terabytes_per_day(80e9 / 8)
    assert day == pytest.approx(864)
    assert math.floor(day * 7 / 1000) == 6
    assert units.seconds(200) == "3 min 20 s"
    assert units.seconds(7500) == "2 h 05 min"
    assert units.clock(3725, hours=True) == "1:02:05"
    assert units.clock(65, hours=False) == "1:05"
