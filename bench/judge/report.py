"""Tables in Markdown."""

import os

from bench.judge.loopback import BOTH, MEM, bound, medians
from bench.movers.sites import MODES


def number(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


def movers_table(what, rows, peaks):
    files, size = rows[0]["files"], rows[0]["bytes"]
    lines = [
        f"\n### {what} ({files} files, {size / 2**30:.2f} GiB)\n",
        "| mover | wall s | GB/s | files/s | CPU s/GiB | CPU us/file | ok |",
        "|---|---|---|---|---|---|---|",
    ]
    for mover, one in medians(rows).items():
        if one is None:
            runs = [row for row in rows if row["mover"] == mover]
            lines.append(f"| {mover} | - | - | - | - | - | 0/{len(runs)} {runs[-1]['error']} |")
            continue
        lines.append(
            f"| {mover} | {one.wall:.2f} | {one.rate / 1e9:.2f} | "
            f"{one.files_rate:.0f} | {number(one.cpu_gib)} | "
            f"{number(one.cpu_file, 1)} | {one.good}/{one.runs} |"
        )
    if peaks:
        lines.append(f"\nPeak memory of the two daemons: {peaks[0]:.0f} and {peaks[1]:.0f} MiB.")
    return "\n".join(lines)


def targets_table(judged):
    lines = [
        "",
        "| set | mode | figure | rival or limit | ratio | must | stretch | of bound | met |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in judged:
        sign = "≥" if row["kind"] in ("rate", "cpu") else "≤"
        stretch = "" if row["stretch"] is None else f"{sign} {row['stretch']:g}"
        against = row["rival"] or row["kind"]
        ratio = number(row["ratio"]) if row["rival"] else ""
        lines.append(
            f"| {row['set']} | {row['mode']} | {row['figure'] or '-'} | {against} | "
            f"{ratio} | {sign} {row['must']:g} | {stretch} | "
            f"{number(row['of_bound'])} | {row['met']} |"
        )
    return "\n".join(lines)


def primitives_table(primitives, rounds):
    lines = [
        f"\n### Primitives (medians of {rounds} rounds)\n",
        "| primitive | GB/s | CPU s/GiB |",
        "|---|---|---|",
    ]
    lines += [
        f"| {name} | {one['GBps']:.2f} | {number(one['cpu'], 3)} |"
        for name, one in primitives.items()
        if "GBps" in one
    ]
    lines += ["", "| step by itself | cost |", "|---|---|"]
    lines += [
        f"| {name.rsplit(' ', 1)[0]} | {one['cost']:.3f} CPU {name.rsplit(' ', 1)[1]} |"
        for name, one in primitives.items()
        if "cost" in one
    ]
    return "\n".join(lines)


def bounds_text(results, primitives):
    """The arithmetic of the bounds, for the rows of each data set."""
    lines = ["\nBounds: the steps by themselves, added up; digest and cipher at both ends.\n"]
    cores = len(os.sched_getaffinity(0))
    for name, rows in results.items():
        for mode in MODES if name not in (*MEM, *BOTH) else ():
            limit = bound(mode, rows[0]["files"], rows[0]["bytes"], primitives)
            if limit:
                rate = cores / limit[0] * 2**30 / 1e9
                lines.append(f"- {name}, {mode}: {limit[1]}; {cores} cores: {rate:.2f} GB/s")
    return "\n".join(lines)


def closing(judged):
    run = [row for row in judged if row["met"] != "not run"]
    met = [row for row in run if row["met"] != "no"]
    stretched = [row for row in run if row["met"] == "yes, stretch"]
    able = [row for row in run if row["stretch"] is not None]
    lines = [
        f"\n{len(met)} of {len(run)} targets met, {len(stretched)} of {len(able)} "
        f"stretches; {len(judged) - len(run)} not run."
    ]
    lines += [
        f"- missed: {row['set']}, {row['mode']}: {row['rival'] or row['kind']} "
        f"{number(row['ratio'])}, must {row['must']:g}"
        for row in run
        if row["met"] == "no"
    ]
    return "\n".join(lines)
