"""Tables that let others check a report: runs of storage, counters, settings, what was odd."""

from penstock_eval import gaps, measures, stats, units
from penstock_eval.drawing import LeftOutError, Request
from penstock_eval.figures import traffic
from penstock_eval.rundir import Cell, Run, inner, many
from penstock_eval.storagedir import StorageResult
from penstock_eval.tables import Table, ends
from penstock_eval.usage import usage

RUNS = 12
"""Runs of storage that T7 prints one by one."""


def storage_runs(request: Request) -> Table:
    """T7: all runs of storage, with mean, median, standard deviation and interval."""
    run = request.run
    table = Table(
        ["store", "operation", "file size", "n", "median Gbit/s", "low", "high", "cover %", "mean",
         "std dev", "files/s", "marks", "runs, Gbit/s"],
        "Each run of `penstock bench storage`, until all bytes were durable. Without a cover, "
        "`low` and `high` are the least and the greatest of too few runs.",
    )  # fmt: skip
    for store in dict.fromkeys(run.ends("forward")):
        for operation in ("read", "write"):
            for point in measures.storage(run, store, operation):
                rates = [units.gigabits(value) for value in point.runs]
                found = stats.summary(rates)
                text = " ".join(units.number(rate) for rate in rates[:RUNS])
                table.rows.append(
                    [store, operation, units.size(point.size), found.count, found.median,
                     *ends(found), found.mean, found.deviation, stats.median(point.files_per_s),
                     ", ".join(sorted(point.marks)), text]
                )  # fmt: skip
    if not table.rows:
        raise LeftOutError("no measured storage (`storage/`) is in the run")
    return table


def storage_steps(result: StorageResult) -> Table:
    """T20: all steps of a storage benchmark."""
    table = Table(
        ["operation", "file size", "threads", "n", "median Gbit/s", "low", "high", "cover %",
         "files/s", "least", "greatest", "passes", "cache", "marks", "runs, Gbit/s"],
        "Each step until all of it was durable. Without a cover, `low` and `high` are the least "
        "and the greatest of too few runs. Operations on names move no bytes. `passes` are the "
        "most of a run over its set of files. `cache` is what is known of the readers' caches; a "
        "step with a mark says less than it seems to.",
    )  # fmt: skip
    for step in result.steps:
        rates = [units.gigabits(rate) for rate in step.rates]
        found = stats.summary(rates) if rates else None
        spread = [found.median, *ends(found)] if found else [None] * 4
        files = stats.summary(step.files_per_s)
        table.rows.append(
            [step.operation, units.size(step.size) if rates else None, step.threads or None,
             len(step.files_per_s), *spread, files.median, files.least, files.greatest,
             max(step.passes, default=None), ", ".join(step.caches), ", ".join(step.marks),
             " ".join(units.number(rate) for rate in rates[:RUNS])]
        )  # fmt: skip
    return table


def classes(request: Request) -> Table:
    """T8: data sets by class of size, classes without files left out."""
    table = Table(
        ["data set", "from", "to below", "files", "files %", "bytes", "total", "bytes %"],
        "Powers of two of the size. Classes without files are left out.",
    )
    for item in request.run.datasets:
        if len(item.histogram) < 2:
            continue
        for low, files, total in item.histogram:
            if files:
                ends = (units.size(low), units.size(2 * low)) if low else ("0 B", "1 B")
                share = 100 * total / item.bytes if item.bytes else 0.0
                table.rows.append(
                    [item.name, *ends, files, 100 * files / item.files, total, units.size(total),
                     share]
                )  # fmt: skip
    if not table.rows:
        raise LeftOutError("each data set has files of one size: T3 says all of them")
    return table


def counters(request: Request) -> Table:
    """T9: bytes of transfers beside those that the kernel counted at the cards."""
    run = request.run
    table = Table(
        ["direction", "data set", "mode", "side", "n", "median ratio", "least", "greatest"],
        "What all cards carried while a run went on, by the bytes of its files. Headers of TCP/IP "
        "and TLS make about 1 to 6 %; more is other traffic, less is a card that is not counted, "
        "or runs of so few seconds that their ends weigh.",
    )
    for way in run.directions:
        for item in run.datasets:
            for mode in run.modes:
                cells = run.select(item.name, mode.name, way)
                for role, figure in (traffic.SENT, traffic.RECEIVED):
                    known = [_carried(run, cell, role, figure) for cell in cells]
                    if ratios := [ratio for ratio in known if ratio]:
                        found = stats.ratio_summary(ratios)
                        row = [found.count, found.median, found.least, found.greatest]
                        table.rows.append([way, item.name, mode.name, role, *row])
    if not table.rows:
        raise LeftOutError("no time series (`series/`) with cards is in the run")
    return table


def _carried(run: Run, cell: Cell, role: str, figure: str) -> float | None:
    """Ratio of what the cards of a side carried to the bytes of a cell."""
    total = sum(
        value * sample.seconds / 8
        for sample in run.series(cell)
        if sample.role == role and -1 < sample.t <= cell.duration
        for value in sample.devices(figure).values()
    )
    return total / cell.bytes if cell.bytes else None


def settings(request: Request) -> Table:
    """T10: settings with their origin, and what the doctors found."""
    facts = request.run.facts
    if facts is None:
        raise LeftOutError("no facts (`facts.json`) are in the run")
    table = Table(
        ["site", "kind", "name", "value", "origin"],
        "Settings of each daemon with the place that they come from, findings of `penstock doctor` "
        "that are not well, and what could not be asked, when the run began.",
    )
    for site in facts["sites"]:
        name = site["site"]
        for item in many(site, "settings"):
            source = inner(item, "source")
            place = ":".join(str(source[key]) for key in ("path", "line") if source.get(key))
            origin = place or str(source.get("kind") or "")
            table.rows.append([name, "setting", item["key"], str(item.get("value")), origin])
        for item in many(site, "findings"):
            if item["level"] != "ok":
                where = str(item.get("peer") or "")
                text = str(item.get("what") or "")
                table.rows.append([name, item["level"], item["code"], text, where])
        for text in many(site, "missing"):
            table.rows.append([name, "not asked", "", text, ""])
    if not table.rows:
        raise LeftOutError("the facts have neither settings nor findings")
    return table


def odd_runs(request: Request) -> Table:
    """T14: runs that were flagged or failed, or lack a time series: kept, and listed here."""
    table = Table(
        ["run", "order", "Gbit/s", "stolen % of CPU", "bytes sent again", "what"],
        "A flagged run is in all figures and tables. A run that failed is in none but T3 and F16. "
        "The stolen share is that of the worst host. Figures over time and of processors lack the "
        "runs and hosts without a time series; a run of less than a second may have no sample.",
    )
    lacking = gaps.gaps(request.run).cells
    for cell in request.run.cells:
        what = [*cell.flags, *([f"failed: {cell.error}"] if cell.error else [])]
        if inner(cell.raw, "verify").get("ok") is False:
            what.append("VERIFICATION FAILED")
        if not cell.bytes and not cell.error:
            what.append("moved no bytes: it has no rate")
        if found := lacking.get(cell.id):
            what.append(f"no time series of {', '.join(found)}")
        if cell.warmup and not cell.error:
            continue
        if what:
            rate = None if cell.error else units.gigabits(cell.effective)
            again = cell.raw.get("resent_bytes")
            table.rows.append([cell.id, cell.order, rate, stolen(cell), again, "; ".join(what)])
    return table


def stolen(cell: Cell) -> float | None:
    """Stolen share of the processors' time at the worst host, in percent."""
    done = cell.raw["t"].get("done")
    shares = [
        usage(
            host["busy_s"],
            host["steal_s"],
            host.get("iowait_s") or 0.0,
            host["cores"],
            (host.get("available_s") or host["cores"] * done) / host["cores"],
        )
        for host in inner(cell.raw, "cpu").values()
        if done
        and host.get("busy_s") is not None
        and host.get("steal_s") is not None
        and host.get("cores")
    ]
    return max((100 * share.steal for share in shares if share), default=None)


def tails(request: Request) -> Table:
    """T13: ends of the runs: first peer done, last peer done, durable, and done."""
    run = request.run
    table = Table(
        ["direction", "data set", "mode", "n", "first byte s", "first done s", "last byte s",
         "durable s", "done s"],
        "Medians of seconds since submission. A wide gap from the first to the last peer is a "
        "straggler; one from the last byte to durable is the sync of the target.",
    )  # fmt: skip
    for way in run.directions:
        for item in run.datasets:
            for mode in run.modes:
                if cells := run.select(item.name, mode.name, way):
                    names = ("first_byte", "first_done", "last_byte", "durable", "done")
                    row = [_moment(cells, name) for name in names]
                    table.rows.append([way, item.name, mode.name, len(cells), *row])
    return table


def _moment(cells: list[Cell], name: str) -> float | None:
    values = [cell.raw["t"][name] for cell in cells if cell.raw["t"].get(name) is not None]
    return stats.median(values) if values else None
