"""A result of the storage benchmark."""

from matplotlib.axes import Axes

from penstock_eval import stats, style, units
from penstock_eval.drawing import Drawn, LeftOutError, band
from penstock_eval.figures.rates import line
from penstock_eval.stats import Summary
from penstock_eval.storagedir import Step, StorageResult

OPERATIONS = ("read", "write")


def by_size(result: StorageResult) -> Drawn:
    """F24: what a store reads and writes by the size of files: Gbit/s, and files a second."""
    several = max(len(result.threads(name)) for name in OPERATIONS) > 1
    found = {
        f"{name}, {_threads(count)}" if several else name: result.select(name, count)
        for name in OPERATIONS
        for count in result.threads(name)
    }
    if not found:
        raise LeftOutError("no bytes were written or read: `--ops` of the benchmark left them out")
    made, panels = style.figure(2, 1, style.TALL, sharex=True, height_ratios=[1.4, 1])
    upper, lower = panels[0][0], panels[1][0]
    ends: list[tuple[float, str, str]] = []
    for index, (name, steps) in enumerate(found.items()):
        rates = [stats.summary([units.gigabits(rate) for rate in step.rates]) for step in steps]
        _line(upper, steps, rates, index)
        _line(lower, steps, [stats.summary(step.files_per_s) for step in steps], index)
        ends.append((rates[-1].median, name, style.colour(index)))
    every = [step for steps in found.values() for step in steps]
    style.from_zero(upper, "Gbit/s")
    lower.set_yscale("log")
    style.plain(lower.yaxis)
    lower.set_ylabel("files/s")
    style.size_axis(lower, [float(step.size) for step in every])
    style.end_labels(upper, ends)
    caption = (
        f"Storage by the size of files, until all bytes were durable: "
        f"{band([len(step.rates) for step in every])}. Below the same in files per second "
        f"(logarithmic).{_caches(every)}{_marks(every)}"
    )
    return Drawn(made, caption)


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _line(axes: Axes, steps: list[Step], values: list[Summary], index: int) -> None:
    """Line of an operation, with white marks where the benchmark has a mark."""
    line(axes, [float(step.size) for step in steps], values, index)
    odd = [(step.size, value.median) for step, value in zip(steps, values, strict=True)
           if step.marks]  # fmt: skip
    axes.plot(
        [size for size, _ in odd], [median for _, median in odd], ls="", marker=style.marker(index),
        mfc="white", mec=style.colour(index), mew=1.6, zorder=3,
    )  # fmt: skip


def _caches(steps: list[Step]) -> str:
    words = sorted({word for step in steps for word in step.caches})
    return f" Caches before reading: {', '.join(f'`{word}`' for word in words)}." if words else ""


def _marks(steps: list[Step]) -> str:
    words = sorted({mark for step in steps for mark in step.marks})
    if not words:
        return ""
    return f" White are the steps with a mark: {', '.join(f'`{word}`' for word in words)}."
