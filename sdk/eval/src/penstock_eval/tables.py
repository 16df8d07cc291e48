"""Tables of the report. Each number is computed from raw lines."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic

from penstock_eval import measures, stats, units
from penstock_eval.drawing import About, LeftOutError, Request
from penstock_eval.figures import processors, traffic
from penstock_eval.rundir import Cell, Run
from penstock_eval.stats import Summary

Value = str | float | int | None


@dataclass(frozen=True)
class Table:
    """A table: exact values for CSV, and short ones for readers."""

    columns: list[str]
    note: str
    rows: list[list[Value]] = field(default_factory=list[list[Value]])

    def shown(self) -> list[list[str]]:
        """Rows as readers see them: numbers with three figures, a dash for what is not known."""
        return [[_shown(value) for value in row] for row in self.rows]

    def is_number(self, column: int) -> bool:
        """True if a column has numbers only."""
        values = [row[column] for row in self.rows if row[column] is not None]
        return bool(values) and all(isinstance(value, (int, float)) for value in values)


@dataclass(frozen=True)
class TableOf(Generic[About]):
    """A table of the report."""

    key: str
    title: str
    make: Callable[[About], Table]


def _shown(value: Value) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else units.number(value, zeros=True)


def ends(value: Summary) -> list[Value]:
    """Ends of the interval and its cover; without one, the least and the greatest."""
    if value.interval is None:
        return [value.least, value.greatest, None]
    return [value.interval.low, value.interval.high, round(100 * value.interval.cover, 1)]


def results(request: Request) -> Table:
    """T1: greatest and effective rate and time of each data set in each mode."""
    run = request.run
    table = Table(
        ["direction", "data set", "files", "bytes", "mode", "n", "max Gbit/s", "median Gbit/s",
         "low", "high", "cover %", "mean", "std dev", "median s", "files/s"],
        "Effective rate: all bytes by the time from submission to the end. `low` and `high` are "
        "the order-statistic interval of the median with its cover; without a cover, the least "
        "and the greatest of too few runs. `max` is the greatest rate over a second of any run.",
    )  # fmt: skip
    for way in run.directions:
        for item in run.datasets:
            for mode in run.modes:
                if cells := run.select(item.name, mode.name, way):
                    head: list[Value] = [way, item.name, item.files, units.size(item.bytes)]
                    table.rows.append([*head, mode.name, *_result(cells)])
    return table


def _result(cells: list[Cell]) -> list[Value]:
    rates = stats.summary([units.gigabits(cell.effective) for cell in cells])
    peaks = [cell.greatest for cell in cells if cell.greatest]
    return [
        rates.count,
        units.gigabits(max(peaks)) if peaks else None,
        rates.median,
        *ends(rates),
        rates.mean,
        rates.deviation,
        stats.median([cell.duration for cell in cells]),
        stats.median([cell.files_per_s for cell in cells]),
    ]


def use_of_processors(request: Request) -> Table:
    """T2: use of processors by mode and role, CPU seconds for a GiB, energy for a TiB."""
    run = request.run
    table = Table(
        ["mode", "role", "samples", "min", "p5", "q1", "median", "q3", "p95", "max",
         "steal, mean", "busiest core, median", "CPU s/GiB", "kJ/TiB"],
        "Percent of all cores in samples of a second while transfers ran, by htop's formula, which "
        "counts stolen time as busy: it is shown apart. CPU seconds are those of the transfer's "
        "own threads, exact. Energy is that of both ends together.",
    )  # fmt: skip
    for mode in run.modes:
        for role in ("source", "target"):
            busy = processors.busy_samples(run, mode.name, role)
            if not busy:
                continue
            steal = processors.samples(run, "cpu_steal_percent", mode.name, role)
            busiest = processors.samples(run, "cpu_busiest_percent", mode.name, role)
            exact = processors.seconds_per_gib(run, mode.name, role)
            joules = processors.joules(run, mode.name)
            shares = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
            table.rows.append(
                [mode.name, role, len(busy), *(stats.quantile(busy, share) for share in shares),
                 stats.mean(steal) if steal else None, stats.median(busiest) if busiest else None,
                 stats.median(exact) if exact else None,
                 stats.median(joules) / 1000 if joules else None]
            )  # fmt: skip
    if not table.rows:
        raise LeftOutError("no time series (`series/`) with processors is in the run")
    return table


def data_sets(request: Request) -> Table:
    """T3: counts and totals of the data sets."""
    run = request.run
    table = Table(
        ["data set", "files", "bytes", "total", "mean size", "runs", "failed"],
        "Runs without warm-ups. A run that failed is in no other figure or table.",
    )
    for item in run.datasets:
        cells = [cell for cell in run.cells if cell.dataset == item.name and not cell.warmup]
        failed = sum(cell.error is not None for cell in cells)
        table.rows.append(
            [item.name, item.files, item.bytes, units.size(item.bytes), units.size(item.file_size),
             len(cells), failed]
        )  # fmt: skip
    return table


def by_suite(request: Request) -> Table:
    """T4: modes by their cipher: median, and ratio to the first mode with its interval."""
    run = request.run
    table = Table(
        ["direction", "data set", "mode", "cipher", "median Gbit/s", "pairs", "ratio", "low",
         "high", "cover %", "verdict"],
        f"Ratios to {run.baseline.name} are taken within blocks, by logarithms. `faster` and "
        f"`slower` are said only where the interval excludes 1 and the median differs by "
        f"{100 * stats.PRACTICAL:.0f} % or more.",
    )  # fmt: skip
    for way in run.directions:
        for item in run.datasets:
            for mode in run.modes:
                if cells := run.select(item.name, mode.name, way):
                    suites = sorted({cell.raw["mode"].get("suite") or "?" for cell in cells})
                    rate = stats.median([units.gigabits(cell.effective) for cell in cells])
                    head: list[Value] = [way, item.name, mode.name, ", ".join(suites), rate]
                    table.rows.append([*head, *_ratio(run, item.name, mode.name, way)])
    return table


def _ratio(run: Run, dataset: str, mode: str, way: str) -> list[Value]:
    if mode == run.baseline.name:
        return [None, None, None, None, None, "what others are compared with"]
    ratios = measures.mode_ratios(run, dataset, mode, way)
    if not ratios:
        return [0, None, None, None, None, "no pairs"]
    ratio = stats.ratio_summary(ratios)
    return [ratio.count, ratio.median, *ends(ratio), stats.verdict(ratio)]


def evenness(request: Request) -> Table:
    """T5: mean of each card, and the largest deviation from the mean of all."""
    run = request.run
    cell = traffic.example(run)
    samples = run.series(cell)
    table = Table(
        ["side", "card", "mean Gbit/s", "deviation %"],
        f"Of {cell.id}, as in F10; cards with less than 2 % of the traffic are left out. The "
        "deviation is that of the mean of the card from the mean of all cards of its side.",
    )
    for role, figure in (traffic.SENT, traffic.RECEIVED):
        found = traffic.for_data(traffic.history(samples, role, figure, cell.duration))
        means = {name: stats.mean(values) / 1e9 for name, values in found.devices.items()}
        for name, value in means.items():
            off = 100 * (value / stats.mean(list(means.values())) - 1)
            table.rows.append([role, name, value, off])
    if not table.rows:
        raise LeftOutError(f"the series of {cell.id} has no traffic of cards")
    return table
