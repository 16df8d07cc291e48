"""Heads of the sections of a report: what was measured, where, and how far."""

from dataclasses import dataclass

from penstock_eval import distances, gaps, measures, stats, units
from penstock_eval.rivals import Rivals
from penstock_eval.rundir import Json, Run, inner, many
from penstock_eval.soakdir import Soak
from penstock_eval.storagedir import StorageResult


@dataclass(frozen=True)
class Headline:
    """The head of a section."""

    kind: str
    title: str
    facts: list[tuple[str, str]]
    """Names and values."""


def _minute(text: str) -> str:
    return text[:16].replace("T", " ") + " UTC"


def of_run(run: Run) -> Headline:
    """Head of a sweep."""
    planned, counted = len(run.about["cells"]), len(run.cells)
    failed = sum(cell.error is not None for cell in run.cells)
    flagged = sum(bool(cell.flags) for cell in run.counted)
    checked = [cell for cell in run.counted if inner(cell.raw, "verify").get("ok")]
    entries = [
        ("Between", f"{run.about.get('source')} and {run.about.get('target')}"),
        ("Begun", _minute(str(run.about["begun"]))),
        ("Runs", f"{counted} of {planned}, {failed} failed, {flagged} flagged and kept"),
        ("Verified", f"{len(checked)} of {len(run.counted)} runs without error"),
        ("Repeats", f"{run.about.get('repeats')} blocks in random order, seed {run.about['seed']}"),
        ("Penstock", str(run.about.get("penstock"))),
        ("Run", str(run.about["id"])),
    ]
    if lacking := gaps.words(run):
        entries.insert(5, ("Time series", lacking))
    if cells := [c for way in run.directions for c in measures.largest(run, way)]:
        best = max(
            units.gigabits(stats.median([c.effective for c in group]))
            for group in (measures.largest(run, way) for way in run.directions)
            if group
        )
        name = cells[0].dataset
        entries.insert(0, ("Largest data set", f"{name}: {units.number(best)} Gbit/s (median)"))
    return Headline("Evaluation of a transfer path", run.title, entries)


def of_all(runs: list[Run]) -> Headline:
    """Head of several sweeps together."""
    trips = [f"{units.number(item.rtt_ms)} ms" for item in distances.distances(runs)]
    facts = [
        ("Sweeps", str(len(runs))),
        ("Round trips", ", ".join(trips) or "not recorded"),
        ("Runs", str(sum(len(run.counted) for run in runs))),
    ]
    return Headline("Evaluation over several distances", "All sweeps together", facts)


def of_soak(soak: Soak) -> Headline:
    """Head of a soak."""
    moved = sum(item.bytes for item in soak.good)
    facts = [
        ("Moved and verified", f"{units.number(moved / 1e12)} TB"),
        ("Time", units.seconds(soak.about["seconds"])),
        ("Rounds", f"{len(soak.good)} of {len(soak.rounds)} good"),
        ("Faults", f"{sum(f.survived for f in soak.by_name)} of {len(soak.faults)} survived"),
        ("Begun", _minute(str(soak.about["began"]))),
        ("Seed", str(soak.about["seed"])),
        ("Penstock", ", ".join(many(soak.about, "versions")) or "?"),
        ("Soak", str(soak.about["id"])),
    ]
    return Headline("Soak", soak.title, facts)


def of_rivals(rivals: Rivals) -> Headline:
    """Head of a comparison of movers."""
    counted = len(rivals.counted)
    tried = sum(item.round > 0 for item in rivals.transfers)
    facts = [
        ("Movers", ", ".join(rivals.movers)),
        ("Begun", _minute(str(rivals.about["begun"]))),
        ("Transfers", f"{counted} of {tried} good, in an order by seed {rivals.about['seed']}"),
        ("Ends when durable", "yes" if rivals.about.get("durable") else "no"),
        ("Verified", str(rivals.about.get("verify") or "?")),
    ]
    return Headline("Comparison of movers", rivals.title, facts)


def of_storage(result: StorageResult) -> Headline:
    """Head of a result of the storage benchmark."""
    about = result.about
    system = inner(about, "file_system")
    total = system.get("total_bytes")
    kind = str(system.get("kind") or "?")
    facts = [
        ("State", f"{about['state']}, {len(result.steps)} steps with figures"),
        ("Begun", _minute(str(about.get("began") or "?"))),
        ("Hosts", "; ".join(_host(peer) for peer in many(about, "peers")) or "?"),
        ("File system", f"{kind}, {units.size(total)}" if total else kind),
        ("Mounted", str(system.get("options") or "?")),
        ("Durable by", str(system.get("durable_by") or "?")),
        ("Penstock", str(about.get("version") or "?")),
        ("Benchmark", str(about["id"])),
    ]
    if about.get("with_load"):
        facts.insert(0, ("Beside transfers", "yes: this is not what the store can do"))
    if threads := many(about, "threads_asked"):
        facts.append(("Threads asked for", ", ".join(map(str, threads))))
    if others := about.get("peers_left_out"):
        facts.append(("Peers left out", f"{others}: this is not what the store can do"))
    for name, key in (("Sizes beyond the budget", "left_out"), ("Sizes not read", "unread")):
        if sizes := [units.size(size) for size in many(about, key)]:
            facts.append((name, ", ".join(sizes)))
    for name, key in (("Stale", "stale"), ("Problem", "problem")):
        if text := about.get(key):
            facts.append((name, str(text)))
    return Headline("Storage", result.title, facts)


def _host(peer: Json) -> str:
    words = [str(peer.get("peer") or "?")]
    if processors := peer.get("processors"):
        words.append(f"{processors} processors")
    if memory := peer.get("memory_bytes"):
        words.append(units.size(memory))
    if threads := peer.get("threads"):
        words.append(f"{threads} threads")
    return ", ".join(words)
