"""A soak over time."""

from penstock_eval import stats, style, units
from penstock_eval.drawing import Drawn, LeftOutError
from penstock_eval.soakdir import Round, Soak

WINDOWS = 240
"""Windows of a curve, at most: more cannot be told apart."""


def over_time(soak: Soak) -> Drawn:
    """F22: the rate of each round over time, with faults as ticks."""
    if len(soak.good) < 3:
        raise LeftOutError("it needs three good rounds")
    ticks = len(soak.by_name)
    made, panels = style.figure(
        2 if ticks else 1,
        1,
        (11, 5.6 + 0.32 * ticks),
        sharex=True,
        **({"height_ratios": [8, 0.7 * ticks + 0.6]} if ticks else {}),
    )
    upper, lower = panels[0][0], panels[-1][0]
    width = _rates(soak)
    windows = _windows(soak.good, width)
    x = [(at + 0.5) * width for at in windows]
    rates = [[units.gigabits(item.rate) for item in found] for found in windows.values()]
    upper.fill_between(x, [min(r) for r in rates], [max(r) for r in rates],
                       color=style.colour(0), alpha=0.25, lw=0)  # fmt: skip
    upper.plot(x, [stats.median(r) for r in rates], color=style.colour(0), lw=1.8)
    bad = [item.ended for item in soak.rounds if not item.good]
    if bad:
        upper.plot(bad, [0] * len(bad), "x", color=style.WARN, ms=9, mew=2, clip_on=False)
    style.from_zero(upper, "", max(map(max, rates)))
    upper.set_title("Rate of rounds, Gbit/s")
    for row, found in enumerate(soak.by_name):
        tint = style.colour(row + 1)
        at = [fault.began - soak.began for fault in found.faults]
        lower.plot(at, [row] * len(at), ls="", marker="|", ms=14, mew=2, color=tint)
        lost = [fault.began - soak.began for fault in found.faults if not soak.is_survived(fault)]
        lower.plot(lost, [row] * len(lost), "x", color=style.WARN, ms=9, mew=2)
    if ticks:
        names = [f"{found.name} × {len(found.faults)}" for found in soak.by_name]
        lower.set_yticks(range(ticks), names)
        lower.set_ylim(ticks - 0.4, -0.6)
        lower.grid(visible=False)
        lower.set_title("Faults")
    length = max(soak.about["seconds"], soak.rounds[-1].ended)
    lower.set_xlim(0, length)
    style.time_axis(lower, f"Time since the begin, {'h:min:s' if length >= 3600 else 'min:s'}")
    survived = sum(found.survived for found in soak.by_name)
    words = f" Ticks are faults: {survived} of {len(soak.faults)} survived." if ticks else ""
    return Drawn(
        made,
        f"Rate of {len(soak.good)} good rounds, {soak.source} → {soak.target}: medians of windows "
        f"of {units.seconds(width)} with the least and the greatest round in them. Stalls by "
        f"faults are in the rate of their round.{words} Crosses are rounds that were not good "
        f"({len(bad)}), and faults that were not survived.",
    )


def _rates(soak: Soak) -> float:
    """Seconds of a window: four rounds in each, and not more windows than can be seen."""
    length = soak.rounds[-1].ended
    return max(length / WINDOWS, 4 * length / len(soak.rounds) if len(soak.good) > 40 else 1.0)


def _windows(rounds: list[Round], width: float) -> dict[int, list[Round]]:
    found: dict[int, list[Round]] = {}
    for item in rounds:
        middle = item.ended - item.seconds / 2
        found.setdefault(int(max(middle, 0) // width), []).append(item)
    return dict(sorted(found.items()))
