"""F1: the set-up as a drawing of boxes and lines, from the facts of the run."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from penstock_eval import stats, style, units
from penstock_eval.drawing import Drawn, LeftOutError, Request
from penstock_eval.rundir import Run, inner, many

PEERS = 6
"""Peers drawn one by one; the rest is a number."""


def _box(axes: Axes, at: tuple[float, float, float, float], fill: str, edge: str) -> None:
    x, y, width, height = at
    axes.add_patch(
        FancyBboxPatch(
            (x, y),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.012",
            facecolor=fill,
            edgecolor=edge,
            lw=1.2,
        )
    )


def _lines(axes: Axes, x: float, y: float, lines: list[tuple[str, bool]]) -> None:
    for row, (text, strong) in enumerate(lines):
        axes.text(
            x,
            y - 0.052 * row,
            text,
            va="top",
            ha="left",
            fontsize=12 if strong else 11,
            fontweight="bold" if strong else "normal",
            color=style.INK if strong else style.FAINT,
        )


def _hardware(run: Run, store: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for result in run.benchmarks(store):
        for peer in many(result, "peers"):
            memory = f", {units.size(peer['memory_bytes'])}" if peer.get("memory_bytes") else ""
            found[peer["peer"]] = f"{peer['processors']} processors{memory}"
    return found


def _site(axes: Axes, x: float, run: Run, site: dict[str, Any], store: str) -> None:
    peers: list[dict[str, Any]] = many(site, "peers")
    hardware = _hardware(run, store)
    _box(axes, (x, 0.02, 0.34, 0.9), "#F7F9FB", style.FAINT)
    axes.text(
        x + 0.17, 0.95, site["site"], ha="center", va="bottom", fontsize=15, fontweight="bold"
    )
    shown = peers[:PEERS]
    height = min(0.2, 0.5 / max(len(shown), 1) - 0.015)
    for row, peer in enumerate(shown):
        top = 0.88 - row * (height + 0.02)
        _box(axes, (x + 0.02, top - height, 0.3, height), "#DCEAF5", style.colour(0))
        extra = hardware.get(peer["peer"]) or ", ".join(many(peer, "addresses")[:1])
        lines = [(peer["peer"], True)]
        if height >= 0.12:
            lines.append((extra, False))
        _lines(axes, x + 0.035, top - 0.022, lines)
    if len(peers) > PEERS:
        axes.text(
            x + 0.17,
            0.37,
            f"and {len(peers) - PEERS} more",
            ha="center",
            va="top",
            color=style.FAINT,
        )
    if not peers:
        axes.text(x + 0.17, 0.62, "its daemon was not asked", ha="center", color=style.FAINT)
    name = store.partition(":")[2]
    known: dict[str, Any] = next(
        (item for item in many(site, "stores") if item["name"] == name), {"name": name}
    )
    measured = [inner(result, "file_system") for result in run.benchmarks(store)]
    system = inner(known, "file_system") or next(iter(measured), {"kind": None})
    total = system.get("total_bytes") or inner(known, "space").get("total_bytes")
    detail = [str(system.get("kind") or ""), units.size(total) if total else ""]
    _box(axes, (x + 0.02, 0.06, 0.3, 0.2), "#ECEFF2", style.STORAGE)
    lines = [(f"store {name}", True), (", ".join(part for part in detail if part), False)]
    _lines(axes, x + 0.035, 0.235, lines)


def drawing(request: Request) -> Drawn:
    """F1: sites, peers, stores and the path between them."""
    run = request.run
    facts = run.facts
    if facts is None:
        raise LeftOutError("no facts (`facts.json`) are in the run")
    made, panels = style.figure(1, 1, (11, 5.4))
    axes = panels[0][0]
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.03)
    axes.set_axis_off()
    for x, store in zip((0.01, 0.65), run.ends("forward"), strict=True):
        name = store.partition(":")[0]
        site: dict[str, Any] = next(
            (s for s in facts["sites"] if s["site"] == name), {"site": name}
        )
        _site(axes, x, run, site, store)
    both = len(run.directions) > 1
    axes.annotate(
        "",
        (0.645, 0.6),
        (0.355, 0.6),
        arrowprops={"arrowstyle": "<|-|>" if both else "-|>", "lw": 2, "color": style.colour(1)},
    )
    trips = [c.raw["rtt_ms"] for c in run.counted if c.raw.get("rtt_ms") is not None]
    if trips:
        axes.text(
            0.5,
            0.63,
            f"round trip {units.number(stats.median(trips))} ms",
            ha="center",
            va="bottom",
            fontweight="bold",
        )
    suites = sorted({c.raw["mode"].get("suite") or "" for c in run.counted} - {""})
    for row, suite in enumerate(suites[:4]):
        axes.text(0.5, 0.56 - 0.06 * row, suite, ha="center", va="top", color=style.FAINT)
    return Drawn(
        made,
        "The set-up as the daemons described it when the run began. The round trip is the median "
        "over all runs; below the line are the ciphers that lanes used.",
    )
