"""Movers beside each other."""

from penstock_eval import stats, style, units
from penstock_eval.drawing import Drawn, LeftOutError, repeats
from penstock_eval.rivals import Rivals


def by_dataset(rivals: Rivals) -> Drawn:
    """F23: movers by data set: Gbit/s, and files a second."""
    movers, sets = rivals.movers, rivals.sets
    if len(movers) < 2:
        raise LeftOutError("only one mover ran")
    made, panels = style.figure(2, 1, style.TALL, sharex=True)
    upper, lower = panels[0][0], panels[1][0]
    step = 0.8 / len(movers)
    counts: list[int] = []
    for index, mover in enumerate(movers):
        tint = style.colour(index)
        for at, name in enumerate(sets):
            found = rivals.select(name, mover)
            if not found:
                continue
            counts.append(len(found))
            x = at + (index - (len(movers) - 1) / 2) * step
            for axes, values in (
                (upper, [units.gigabits(item.rate) for item in found]),
                (lower, [item.files_per_s for item in found]),
            ):
                axes.plot(
                    [x] * len(values), values, ls="", marker=style.marker(index), ms=5, mfc="none",
                    mec=tint, alpha=0.8,
                )  # fmt: skip
                half = 0.4 * step
                axes.plot([x - half, x + half], [stats.median(values)] * 2, color=tint, lw=3)
    style.from_zero(upper, "Gbit/s")
    lower.set_yscale("log")
    style.plain(lower.yaxis)
    lower.set_ylabel("files/s")
    for at in range(1, len(sets)):
        for axes in (upper, lower):
            axes.axvline(at - 0.5, color=style.GRID, lw=1)
    lower.set_xlim(-0.5, len(sets) - 0.5)
    lower.set_xticks(range(len(sets)), sets)
    style.legend_above(made, [(name, style.colour(i)) for i, name in enumerate(movers)])
    return Drawn(
        made,
        f"Each transfer as a mark, bars are medians ({repeats(counts)}). Data sets in the order "
        "of their files' mean size. Below the same in files per second (logarithmic), where small "
        "files can be seen. T12 has the ratios, T19 what each mover does and does not do.",
    )
