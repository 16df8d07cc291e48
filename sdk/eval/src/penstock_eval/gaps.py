"""Time series that a sweep lacks: its figures over time are drawn without them."""

from dataclasses import dataclass, field

from penstock_eval.rundir import Cell, Run, inner, many

ROLES = ("source", "target")


@dataclass(frozen=True)
class Gaps:
    """Time series that are not in a run directory."""

    never: dict[str, str]
    """Sites without samples in any run, with the reason, which may be empty."""
    cells: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Sites, and hosts as `site/peer`, without samples, by the id of the run."""


def gaps(run: Run) -> Gaps:
    """Looks at all runs that count."""
    lacking = {cell.id: _of_cell(run, cell) for cell in run.counted}
    sites = {end.partition(":")[0] for way in run.directions for end in run.ends(way)}
    never = {
        site: _reason(run, site)
        for site in sorted(sites)
        if all(site in found for found in lacking.values())
    }
    some = {name: [at for at in found if at not in never] for name, found in lacking.items()}
    return Gaps(never, {name: found for name, found in some.items() if found})


def _of_cell(run: Run, cell: Cell) -> list[str]:
    # Of a transfer within a site, all samples have the role of the target.
    seen = {(sample.site, sample.peer) for sample in run.series(cell)}
    lacking: list[str] = []
    for role, end in zip(ROLES, run.ends(cell.direction), strict=True):
        site = end.partition(":")[0]
        there = {peer for at, peer in seen if at == site}
        if there:
            peers = many(inner(cell.raw, "peers"), role)
            lacking += [f"{site}/{peer}" for peer in peers if peer not in there]
        else:
            lacking.append(site)
    return list(dict.fromkeys(lacking))


def _reason(run: Run, site: str) -> str:
    """What could not be asked of a site, by the facts of the run."""
    known = [item for item in many(run.facts or {}, "sites") if item["site"] == site]
    return "; ".join(text for item in known for text in many(item, "missing"))


def words(run: Run) -> str | None:
    """Sentence for the head of a report; None where nothing is missing."""
    found = gaps(run)
    sites = {end.partition(":")[0] for way in run.directions for end in run.ends(way)}
    if found.never.keys() == sites:
        return "none in the directory"
    parts = [
        f"none of {site} in any run{f' ({reason})' if reason else ''}"
        for site, reason in found.never.items()
    ]
    if found.cells:
        count = len(found.cells)
        parts.append(f"incomplete for {count} of {len(run.counted)} runs, which T14 lists")
    return "; ".join(parts) or None
