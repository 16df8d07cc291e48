"""Tables of a soak: its page, its faults, and its drift. Numbers are computed from raw lines."""

from penstock_eval import stats, units
from penstock_eval.drawing import LeftOutError
from penstock_eval.rundir import many
from penstock_eval.soakdir import CALM_ROUNDS, Round, Soak
from penstock_eval.tables import Table, Value

UNITS = {"bits_per_second": (1e-9, "Gbit/s"), "bytes": (1 / 1024**2, "MiB"), "one": (1.0, "")}
"""Factor and unit of drifts, by the unit of the record."""


def page(soak: Soak) -> Table:
    """T11: what was moved, how fast, and whether anything was lost."""
    table = Table(
        ["figure", "value", "unit"],
        "Of good rounds: those that were done, and whose receipts proved all bytes. Rates are "
        "those of rounds from their begin to their end, so stalls by faults count, and the time "
        "between rounds does not.",
    )
    good, rounds = soak.good, soak.rounds
    total = sum(item.bytes for item in good)
    ended = soak.proof or {}
    survived = sum(found.survived for found in soak.by_name)
    failures = many(ended, "failures") if soak.proof else many(soak.about, "failures")
    rows: list[list[Value]] = [
        ["result", _verdict(soak), ""],
        ["moved and verified", total, "bytes"],
        ["moved and verified", total / 1e12, "TB"],
        ["files", sum(item.files for item in good), ""],
        ["time of the soak", soak.about["seconds"] / 3600, "h"],
        ["rounds", len(rounds), ""],
        ["good rounds", len(good), ""],
        *_rates(soak, good),
        ["sent again", sum(item.sent_again for item in rounds), "bytes"],
        ["attempts", sum(item.raw.get("attempts") or 0 for item in rounds), ""],
        ["retries after a failure", sum(item.raw.get("retries") or 0 for item in rounds), ""],
        ["pieces repaired", sum(item.raw.get("repairs") or 0 for item in rounds), ""],
        ["receipts signed by both", sum(bool(i.raw.get("is_countersigned")) for i in good), ""],
        ["compared again at rest", sum(bool(i.raw.get("compared")) for i in rounds), "rounds"],
        ["faults", len(soak.faults), ""],
        ["faults survived", survived, ""],
        ["failures", len(failures), ""],
    ]
    table.rows.extend(rows)
    return table


def _verdict(soak: Soak) -> str:
    if soak.proof is not None and not soak.proof["is_good"]:
        return "FAILED"
    if not all(item.good for item in soak.rounds):
        return "FAILED"
    if soak.proof is None:
        return "not ended: `penstock soak` continues it"
    if not soak.proof["is_complete"]:
        return "ended before its time"
    return "nothing was lost"


def _rates(soak: Soak, good: list[Round]) -> list[list[Value]]:
    if not good:
        return []
    rates = stats.summary([units.gigabits(item.rate) for item in good])
    seconds = sum(max(item.seconds, 1e-3) for item in good)
    mean = sum(item.bytes for item in good) / seconds
    rows: list[list[Value]] = [
        ["mean rate", units.gigabits(mean), "Gbit/s"],
        ["median of rounds", rates.median, "Gbit/s"],
        ["least of rounds", rates.least, "Gbit/s"],
        ["greatest of rounds", rates.greatest, "Gbit/s"],
    ]
    if soak.calm:
        calm = stats.median([units.gigabits(item.rate) for item in soak.calm])
        rows.append(["median of rounds without a fault", calm, "Gbit/s"])
    for item in many(soak.about, "measured"):
        name = f"{item['store']}, {item['operation']}"
        rows.append([f"{name}, as measured", units.gigabits(item["bytes_per_s"]), "Gbit/s"])
        rows.append([f"mean rate by that of {name}", 100 * mean / item["bytes_per_s"], "%"])
    return rows


def faults(soak: Soak) -> Table:
    """T17: the faults by their names."""
    if not soak.faults:
        raise LeftOutError("no fault was injected: `penstock soak --faults FILE` does that")
    table = Table(
        ["fault", "times", "survived", "open s, median", "progress after s, median", "longest",
         "sent again, bytes", "problems"],
        "Survived: the round in which it began was good, and damage at rest was found. Progress is "
        "the time from its begin until further bytes were seen to be verified.",
    )  # fmt: skip
    for item in soak.by_name:
        progress = item.progress
        table.rows.append(
            [item.name, len(item.faults), item.survived,
             stats.median([fault.open_s for fault in item.faults]),
             stats.median(progress) if progress else None, max(progress, default=None),
             item.sent_again, sum(fault.problem is not None for fault in item.faults)]
        )  # fmt: skip
    return table


def drifts(soak: Soak) -> Table:
    """T18: drift by the hour, as the soak found it."""
    if soak.proof is None:
        raise LeftOutError("there is no proof.json: `penstock soak` writes it at the end")
    table = Table(
        ["figure", "unit", "points", "median", "change per hour", "low", "high", "verdict"],
        "Slopes of Theil and Sen with 95 % by order statistics, as the soak computed them. A rate "
        f"is that of rounds without a fault, where there are {CALM_ROUNDS}.",
    )
    for item in soak.proof["drifts"]:
        factor, unit = UNITS.get(item["unit"], (1.0, item["unit"]))
        found = item["drift"]
        low, high = found["least"] * factor, found["greatest"] * factor
        verdict = "drifts" if low > 0 or high < 0 else "no drift seen"
        table.rows.append(
            [item["figure"], unit, found["points"], found["median"] * factor,
             found["per_hour"] * factor, low, high, verdict]
        )  # fmt: skip
    if not table.rows:
        raise LeftOutError("the soak was too short for a drift")
    return table
