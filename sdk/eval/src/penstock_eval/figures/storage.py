"""Results of the storage benchmark, and transfers above them."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from penstock_eval import layers, measures, stats, style, units
from penstock_eval.drawing import Drawn, LeftOutError, Request, band
from penstock_eval.figures.rates import edges, line
from penstock_eval.stats import Summary
from penstock_eval.storagedir import Step, StorageResult

OPERATIONS = ("read", "write")
DEVICES_APART = 3
"""Devices of one kind and depth that have a bar each; more of them have one together."""
DEVICE = "#C3C8CE"
"""Light grey of devices below a store."""
Bar = tuple[str, tuple[float, float, float], str, str]
"""Name of a bar, its rate with both ends in bytes per second, its colour, words behind the rate."""


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


def by_layer(request: Request) -> Drawn:
    """F12: devices, the file system on them and the mover above it, for the largest files."""
    run = request.run
    items = measures.uniform(run)
    way = run.directions[0]
    source, target = run.ends(way)
    read, write = measures.storage(run, source, "read"), measures.storage(run, target, "write")
    if not items or not read or not write:
        raise LeftOutError("it needs measured storage of both ends and files of one size")
    item = items[-1]
    size = item.file_size
    ends = [measures.at("read", read, size), measures.at("write", write, size)]
    known = [end for end in ends if end]
    if len(known) < len(ends):
        raise LeftOutError(f"storage was not measured with files of {units.size(size)} or more")
    bars: list[Bar] = []
    for end, store in zip(known, (source, target), strict=True):
        below = layers.largest(run.benchmarks(store), end.slower)
        if below:
            bars += _devices(below, store)
        name = f"{end.slower} {store}\n{units.size(size)}"
        bars.append((name, (end.median, end.least, end.greatest), style.STORAGE, ""))
    has_devices = len(bars) > len(known)
    slower = min(end.median for end in known)
    for index, mode in enumerate(run.modes):
        cells = run.select(item.name, mode.name, way)
        if cells:
            rates = stats.summary([cell.effective for cell in cells])
            share = stats.ratio_summary([cell.effective / slower for cell in cells])
            words = f", {100 * share.median:.0f} % of the slower end"
            figures = (rates.median, *edges(rates))
            bars.append((f"{mode.name}\n{item.name}", figures, style.colour(index), words))
    return Drawn(_bars(bars), _layers_caption(item.file_size, has_devices=has_devices))


def _bars(bars: list[Bar]) -> Figure:
    """Bars from the top to the bottom, with lines between both ends of each."""
    made, panels = style.figure(1, 1, (11, 1.4 + 0.8 * len(bars)))
    axes = panels[0][0]
    for row, (_, rates, tint, words) in enumerate(bars):
        value, low, high = (units.gigabits(rate) for rate in rates)
        axes.barh(row, value, color=tint, height=0.62, alpha=0.9)
        axes.plot([low, high], [row, row], color=style.INK, lw=1.4, marker="|", ms=9)
        axes.annotate(
            f"{units.number(value)} Gbit/s{words}",
            (max(value, high), row),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
        )
    axes.set_yticks(range(len(bars)), [name for name, *_ in bars])
    axes.invert_yaxis()
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, max(units.gigabits(rates[2]) for _, rates, *_ in bars) * 1.6)
    axes.set_xlabel("Gbit/s")
    return made


def _devices(below: layers.Step, store: str) -> list[Bar]:
    """Bars of the devices below a store, disks first."""
    bars: list[Bar] = []
    for layer in reversed(layers.together(below.layers, DEVICES_APART)):
        if layer.device:
            rates = stats.summary(layer.rates)
            name = f"{layer.device.words}\n{below.operation}, {units.size(below.size)}, {store}"
            ratio, busy = stats.median(layer.ratios), stats.median(layer.busy)
            words = f", {ratio:.2f} × the files, {100 * busy:.0f} % busy"
            bars.append((name, (rates.median, rates.least, rates.greatest), DEVICE, words))
    return bars


def _layers_caption(size: float, *, has_devices: bool) -> str:
    below = (
        " Above each store are the block devices below it (light grey), disks first, as the kernel "
        "counted them for the whole host while the largest files were measured; T21 has all."
        if has_devices
        else " Devices below the stores are not known."
    )
    return (
        f"Storage alone, through the code that transfers use, and transfers of the largest files "
        f"({units.size(size)}) below it.{below} Bars are medians; lines go from the least to "
        "the greatest run of storage, and over the interval of transfers."
    )


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
