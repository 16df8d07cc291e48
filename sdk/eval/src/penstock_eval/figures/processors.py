"""Use of processors: by core, by host and by mode, and the energy it took."""

from collections.abc import Iterator, Mapping
from typing import Any

from penstock_eval import stats, style, units
from penstock_eval.drawing import Drawn, LeftOutError, Request
from penstock_eval.rundir import Run, inner, many

Core = tuple[str, int]
"""Host and number of a core."""
FEWEST = 20
"""Samples that a box needs: one of fewer hides the data."""


def samples(run: Run, figure: str, mode: str, role: str) -> list[float]:
    """All samples of a figure while transfers of a mode ran, at the peers of a role."""
    found = [values.get(figure) for values in _samples(run, mode, role)]
    return [value for value in found if value is not None]


def busy_samples(run: Run, mode: str, role: str) -> list[float]:
    """Samples of all that is not idle, in percent of all cores, stolen time included."""
    found: list[float] = []
    for values in _samples(run, mode, role):
        own, steal = values.get("cpu_busy_percent"), values.get("cpu_steal_percent")
        if own is not None:
            found.append(min(own + (steal or 0.0), 100.0))
    return found


def _samples(run: Run, mode: str, role: str) -> Iterator[Mapping[str, float | None]]:
    for cell in run.counted:
        if cell.mode == mode:
            for sample in run.series(cell):
                if sample.role == role and 0 <= sample.t < cell.duration:
                    yield sample.values


def cores(run: Run, mode: str) -> dict[Core, list[dict[str, Any]]]:
    """Quantiles of each core in each cell of a mode."""
    found: dict[Core, list[dict[str, Any]]] = {}
    for cell in run.counted:
        known = run.statistics(cell) if cell.mode == mode else None
        for site in many(known or {}, "sites"):
            for peer in site["peers"]:
                for core in many(peer, "cores"):
                    key = (f"{site['site']}/{peer['peer']}", core["core"])
                    found.setdefault(key, []).append(core["busy_percent"])
    enough = {key: spreads for key, spreads in found.items() if _seconds(spreads) >= FEWEST}
    return dict(sorted(enough.items()))


def _seconds(spreads: list[dict[str, Any]]) -> float:
    return sum(spread.get("seconds") or 0 for spread in spreads)


def middle(spreads: list[dict[str, Any]], name: str) -> float:
    """Median over cells of a quantile."""
    values = [spread[name] for spread in spreads if spread.get(name) is not None]
    return stats.median(values) if values else 0.0


def core_heat(request: Request) -> Drawn:
    """F2: which cores work, by mode."""
    run = request.run
    found = {mode.name: cores(run, mode.name) for mode in run.modes}
    keys = sorted({key for mode in found.values() for key in mode})
    if not keys:
        raise LeftOutError(
            f"no statistics of cores of {FEWEST} seconds (`statistics/`) are in the run"
        )
    hosts = sorted({host for host, _ in keys})
    names = [name for name, mode in found.items() if mode]
    height = min(8.0, 2.2 + 0.32 * len(keys))
    made, panels = style.figure(1, len(names), (11, height), sharey=True)
    image: Any = None
    for axes, name in zip(panels[0], names, strict=True):
        columns = ("q1", "median", "q3", "p95")
        grid = [[middle(found[name].get(key, []), c) for c in columns] for key in keys]
        image = axes.imshow(grid, aspect="auto", cmap="viridis", vmin=0, vmax=100)
        axes.set_title(name)
        axes.set_xticks(range(4), ["q1", "median", "q3", "p95"])
        axes.grid(visible=False)
        for host in hosts[1:]:
            axes.axhline(keys.index((host, min(c for h, c in keys if h == host))) - 0.5, color="w")
        if len(keys) <= 16:
            for row, values in enumerate(grid):
                for column, value in enumerate(values):
                    tint = "white" if value < 60 else "black"
                    axes.text(column, row, f"{value:.0f}", ha="center", va="center", color=tint)
    few = len(keys) <= 32
    shown = [i for i, (_, core) in enumerate(keys) if few or core % 8 == 0]
    panels[0][0].set_yticks(shown, [f"{keys[i][0]} core {keys[i][1]}" for i in shown])
    bar = made.colorbar(image, ax=panels[0], shrink=0.9, pad=0.02)
    bar.set_label("busy, %")
    caption = (
        "Use of each core while transfers ran, stolen time left out: quartiles and 95th percentile "
        "of the samples of a second, each the median over all runs of the mode. One scale for all."
    )
    return Drawn(made, caption)


def core_boxes(request: Request) -> Drawn:
    """F3: a box for each core in the baseline's mode."""
    run = request.run
    mode = run.baseline.name
    found = cores(run, mode)
    if not found:
        raise LeftOutError(
            f"no statistics of cores of {FEWEST} seconds (`statistics/`) are in the run"
        )
    made, panels = style.figure(1, 1, style.WIDE)
    axes = panels[0][0]
    hosts = sorted({host for host, _ in found})
    boxes: list[dict[str, Any]] = [
        {
            "med": middle(spreads, "median"),
            "q1": middle(spreads, "q1"),
            "q3": middle(spreads, "q3"),
            "whislo": middle(spreads, "p5"),
            "whishi": middle(spreads, "p95"),
            "fliers": [],
        }
        for spreads in found.values()
    ]
    drawn = axes.bxp(boxes, showfliers=False, patch_artist=True, widths=0.6)
    for (host, _), patch in zip(found, drawn["boxes"], strict=True):
        patch.set(facecolor=style.colour(hosts.index(host)), alpha=0.55, lw=0.8)
    for bar in drawn["medians"]:
        bar.set(color=style.INK, lw=2)
    step = max(1, len(found) // 24)
    shown = list(range(0, len(found), step))
    axes.set_xticks([i + 1 for i in shown], [str(list(found)[i][1]) for i in shown])
    axes.set_xlabel("Core")
    axes.set_ylim(0, 100)
    axes.set_ylabel("busy, %")
    axes.set_title(f"Use of each core, {mode}", pad=14)
    style.legend_above(made, [(host, style.colour(i)) for i, host in enumerate(hosts)])
    caption = (
        "Boxes are quartiles with the median, whiskers the 5th and 95th percentile of the samples "
        f"of a second; each figure is the median over the runs of {mode}."
    )
    return Drawn(made, caption)


def _pooled(run: Run) -> dict[tuple[str, str], list[float]]:
    found = {
        (mode.name, role): busy_samples(run, mode.name, role)
        for mode in run.modes
        for role in ("source", "target")
    }
    kept = {key: values for key, values in found.items() if len(values) >= FEWEST}
    if not kept:
        raise LeftOutError(f"fewer than {FEWEST} samples of processors (`series/`) in each mode")
    return kept


def distribution(request: Request) -> Drawn:
    """F7: cumulative distribution of the use of processors, by mode and role."""
    run = request.run
    pooled = _pooled(run)
    roles = [role for role in ("source", "target") if any(r == role for _, r in pooled)]
    made, panels = style.figure(1, len(roles), style.WIDE, sharey=True)
    for axes, role in zip(panels[0], roles, strict=True):
        for index, mode in enumerate(run.modes):
            values = sorted(pooled.get((mode.name, role), []))
            if values:
                shares = [100 * (i + 1) / len(values) for i in range(len(values))]
                axes.step(values, shares, where="post", color=style.colour(index))
        axes.axhline(50, color=style.FAINT, lw=0.8, ls=(0, (4, 3)))
        axes.set_title(f"{role} hosts")
        axes.set_xlim(0, 100)
        axes.set_xlabel("all cores busy, %")
        axes.set_ylim(0, 100)
    panels[0][0].set_ylabel("% of seconds at or below")
    style.legend_above(made, [(m.name, style.colour(i)) for i, m in enumerate(run.modes)])
    low, high = min(map(len, pooled.values())), max(map(len, pooled.values()))
    caption = (
        "Share of seconds in which a host's processors were busy to that degree or less (htop's "
        f"formula, stolen time included), over all runs of a mode; {low:,} to {high:,} samples a "
        "line. A line further right works more."
    )
    return Drawn(made, caption)


def boxes(request: Request) -> Drawn:
    """F8: boxes of the use of processors, by mode and role."""
    run = request.run
    pooled = _pooled(run)
    made, panels = style.figure(1, 1, (11, 1.8 + 0.5 * len(pooled)))
    axes = panels[0][0]
    keys = list(pooled)
    rows: list[dict[str, Any]] = []
    for values in pooled.values():
        low, q1, med, q3, high = (stats.quantile(values, q) for q in (0.05, 0.25, 0.5, 0.75, 0.95))
        beyond = [v for v in values if v < low or v > high]
        beyond = beyond[:: max(1, len(beyond) // 60)]
        rows.append(
            {"med": med, "q1": q1, "q3": q3, "whislo": low, "whishi": high, "fliers": beyond}
        )
    drawn = axes.bxp(
        rows,
        orientation="horizontal",
        patch_artist=True,
        widths=0.6,
        flierprops={"marker": ".", "ms": 3, "mec": style.FAINT, "alpha": 0.5},
    )
    modes = [mode.name for mode in run.modes]
    for (mode, _), patch in zip(keys, drawn["boxes"], strict=True):
        patch.set(facecolor=style.colour(modes.index(mode)), alpha=0.55, lw=0.8)
    for bar in drawn["medians"]:
        bar.set(color=style.INK, lw=2)
    axes.set_yticks(range(1, len(keys) + 1), [f"{mode}, {role}" for mode, role in keys])
    axes.invert_yaxis()
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 100)
    axes.set_xlabel("all cores busy, %")
    caption = (
        "Boxes are quartiles with the median, whiskers the 5th and 95th percentile, dots some of "
        "the samples beyond; samples of a second of all runs of a mode, by the role of the host."
    )
    return Drawn(made, caption)


def joules(run: Run, mode: str) -> list[float]:
    """Joules of the processors' packages for a TiB, of each cell that measured them.

    Energy of all hosts of both ends is added. A cell counts if every host measured.
    """
    found: list[float] = []
    for cell in run.counted:
        known = run.statistics(cell) if cell.mode == mode else None
        peers = [peer for site in known["sites"] for peer in site["peers"]] if known else []
        energies = [inner(peer, "energy") for peer in peers]
        if not energies or not all(energy.get("is_available") for energy in energies):
            continue
        used = [item.get("package_joules") for e in energies for item in many(e, "ciphers")]
        if used and all(value is not None for value in used) and cell.bytes:
            found.append(sum(used) / cell.bytes * units.TIB)
    return found


def energy(request: Request) -> Drawn:
    """F20: energy for a TiB, by mode."""
    run = request.run
    found = {mode.name: joules(run, mode.name) for mode in run.modes}
    kept = {name: values for name, values in found.items() if values}
    if not kept:
        raise LeftOutError("no host counts energy (virtual machines do not show it)")
    made, panels = style.figure(1, 1, (11, 1.8 + 0.6 * len(kept)))
    axes = panels[0][0]
    for row, (name, values) in enumerate(kept.items()):
        tint = style.colour(list(found).index(name))
        axes.barh(row, stats.median(values) / 1000, color=tint, height=0.6, alpha=0.85)
        axes.plot([v / 1000 for v in values], [row] * len(values), "o", mfc="w", mec=style.INK)
    axes.set_yticks(range(len(kept)), list(kept))
    axes.invert_yaxis()
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 1.08 * max(max(values) for values in kept.values()) / 1000)
    axes.set_xlabel("kJ per TiB")
    caption = (
        "Energy of the processors' packages at both ends for a TiB: median over runs of all data "
        "sets, dots are runs. Packages only, not the whole server, and whatever else the hosts did."
    )
    return Drawn(made, caption)


def seconds_per_gib(run: Run, mode: str, role: str) -> list[float]:
    """CPU seconds of transfers' threads for a GiB, of each cell, at the source or target."""
    found: list[float] = []
    for cell in run.counted:
        if cell.mode != mode or not cell.bytes:
            continue
        peers = many(inner(cell.raw, "peers"), role)
        used = [
            value["threads_s"]
            for host, value in inner(cell.raw, "cpu").items()
            if host.rpartition("/")[2] in peers
            and value.get("threads_s") is not None
            and host.partition("/")[0] == site_of(run, cell.direction, role)
        ]
        if used:
            found.append(sum(used) / cell.bytes * 1024**3)
    return found


def site_of(run: Run, direction: str, role: str) -> str:
    """Site of the source or target in a direction."""
    return run.ends(direction)[role == "target"].partition(":")[0]
