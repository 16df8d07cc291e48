"""Forecasts beside what was measured."""

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from penstock_eval import stats, style
from penstock_eval.drawing import Drawn, Request, repeats
from penstock_eval.figures.rates import edges
from penstock_eval.forecasts import GOOD, forecasts


def against_measured(request: Request) -> Drawn:
    """F21: the time of each data set as the others forecast it, against what was measured."""
    run = request.run
    found = forecasts(run)
    modes = [mode.name for mode in run.modes]
    made, panels = style.figure(1, 1, (8.8, 7.2))
    axes = panels[0][0]
    for item in found:
        index = modes.index(item.mode)
        low, high = edges(item.measured)
        middle = item.measured.median
        axes.errorbar(
            item.seconds,
            middle,
            yerr=[[middle - low], [high - middle]],
            color=style.colour(index),
            marker="D" if item.is_mix else "o",
            ms=9 if item.is_mix else 7,
            mfc=style.colour(index) if item.is_mix else "white",
            mew=1.6,
            capsize=3,
            elinewidth=1.2,
        )
    times = [value for item in found for value in (item.seconds, *edges(item.measured))]
    ends = [min(times) / 1.5, max(times) * 1.5]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    axes.plot(ends, ends, color=style.INK, lw=1.2, zorder=1)
    axes.fill_between(
        ends,
        [end * (1 - GOOD) for end in ends],
        [end * (1 + GOOD) for end in ends],
        color=style.STORAGE,
        alpha=0.25,
        lw=0,
        zorder=0,
    )
    axes.grid(visible=True, axis="both")
    for axis, label in ((axes.xaxis, "forecast, s"), (axes.yaxis, "measured, s")):
        style.plain(axis)
        axis.set_label_text(label)
    kinds = [
        Line2D([], [], ls="", marker="D", ms=9, color=style.INK, label="files of many sizes"),
        Line2D([], [], ls="", marker="o", ms=7, mfc="white", color=style.INK, label="one size"),
    ]
    mixes = {item.is_mix for item in found}
    shown = [handle for handle, mix in zip(kinds, (True, False), strict=True) if mix in mixes]
    good_band = Patch(color=style.STORAGE, alpha=0.25, lw=0, label=f"± {100 * GOOD:.0f} %")
    axes.legend(handles=[*shown, good_band], loc="upper left")
    style.legend_above(made, [(name, style.colour(i)) for i, name in enumerate(modes)])
    errors = [100 * abs(item.error) for item in found]
    counts = repeats([item.measured.count for item in found])
    good = sum(error <= 100 * GOOD for error in errors)
    return Drawn(
        made,
        "Time of each data set as the others of this sweep forecast it, against what was measured: "
        "the start of a transfer and a time for each file by its size. A data set of one size is "
        f"forecast by its neighbours. Marks are medians ({counts}), error bars as in T16. {good} "
        f"of {len(found)} are within {100 * GOOD:.0f} %, the band; half of the errors are below "
        f"{stats.median(errors):.1f} %, the worst is {max(errors):.0f} %.",
    )
