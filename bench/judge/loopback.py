"""The targets as data, and the judging of a run by them."""

import os
import statistics
from dataclasses import dataclass

from bench.movers.rivals import FEW_FILES, RIVALS

GIB = 2**30
BOUND_SHARE = 0.9
"""A row counts as met, too, from this share of its bound."""


@dataclass(frozen=True)
class Target:
    """What one mode has to reach on some data sets.

    `kind` says of what `must` and `stretch` are limits:
    rate: least share of a rival's bytes per second. The rival is one mover or a class of them;
    cpu:  least share of another mover's CPU efficiency (bytes per CPU second);
    s/GiB: most CPU of both ends; MiB: most memory of a daemon.
    """

    sets: tuple
    mode: str
    kind: str
    rival: str
    must: float
    stretch: float | None = None


def rate(sets, mode, rival, must, stretch=None):
    return Target(sets, mode, "rate", rival, must, stretch)


ESNET, MID, SMALL, MEM, BOTH = ("esnet",), ("mid",), ("small",), ("mem",), ("both",)
TARGETS = [
    rate(FEW_FILES, "clear xxh3", "gridftp", 1.0, 1.4),
    rate(FEW_FILES, "clear xxh3", "rsync daemon", 1.35),
    Target(FEW_FILES, "clear xxh3", "s/GiB", "", 1.10, 0.9),
    rate(FEW_FILES, "clear blake3", "gridftp", 0.75, 1.0),
    rate(FEW_FILES, "clear blake3", "rsync daemon", 1.0, 1.3),
    rate(FEW_FILES, "clear blake3", "gridftp md5", 4),
    Target(FEW_FILES, "clear blake3", "s/GiB", "", 1.50, 1.25),
    rate(FEW_FILES, "tls blake3", "escp", 0.9, 1.15),
    rate(FEW_FILES, "tls blake3", "xrootd tls", 1.3, 1.7),
    Target(FEW_FILES, "tls blake3", "s/GiB", "", 1.72, 1.46),
    rate(FEW_FILES, "tls xxh3", "escp", 1.05, 1.4),
    rate(FEW_FILES, "tls xxh3", "xrootd tls", 1.7, 2.1),
    Target(FEW_FILES, "tls xxh3", "s/GiB", "", 1.32, 1.07),
    rate(FEW_FILES, "tls blake3", "penstock clear blake3", 0.85),
    rate(FEW_FILES, "tls xxh3", "penstock clear xxh3", 0.85),
    rate(ESNET, "clear blake3", "fastest rival", 0.75, 1.0),
    rate(ESNET, "tls blake3", "escp", 0.9, 1.2),
    rate(ESNET, "tls blake3", "fastest other encrypted", 1.4, 1.7),
    rate(MID, "clear blake3", "tar over nc", 1.0, 1.3),
    rate(MID, "clear blake3", "rsync daemon", 1.15),
    rate(MID, "tls blake3", "fastest encrypted", 1.0, 1.3),
    rate(MEM, "clear xxh3", "fastest iperf3", 0.8, 0.9),
    *[
        Target(BOTH, mode, "cpu", f"penstock {mode}, one way", 0.9)
        for mode in ("clear xxh3", "clear blake3", "tls blake3", "tls xxh3")
    ],
    Target((*FEW_FILES, *ESNET, *MID, *SMALL, *MEM, *BOTH), "all", "MiB", "", 256),
]
CLASSES = {
    "fastest rival": lambda rival: rival.network,
    "fastest encrypted": lambda rival: rival.encrypted,
    "fastest other encrypted": lambda rival: rival.encrypted and rival is not RIVALS["escp"],
}


@dataclass
class Figures:
    """Medians of a mover's verified runs on one data set."""

    rate: float
    """Bytes a second."""
    wall: float
    files_rate: float
    """Files a second."""
    cpu_gib: float | None
    cpu_file: float | None
    good: int
    runs: int


def medians(rows):
    """Figures by mover, from the counted rows of one data set; None where no run is verified."""
    result = {}
    for mover in dict.fromkeys(row["mover"] for row in rows):
        runs = [row for row in rows if row["mover"] == mover]
        good = [row for row in runs if row["verified"]]
        if not good:
            result[mover] = None
            continue
        cpu = [row for row in good if row["cpu_s"] is not None]
        result[mover] = Figures(
            statistics.median(row["bytes"] / row["wall_s"] for row in good),
            statistics.median(row["wall_s"] for row in good),
            statistics.median(row["files"] / row["wall_s"] for row in good),
            statistics.median(row["cpu_s"] / row["bytes"] * GIB for row in cpu) if cpu else None,
            statistics.median(row["cpu_s"] / row["files"] * 1e6 for row in cpu) if cpu else None,
            len(good),
            len(runs),
        )
    return result


def find_rival(name, figures):
    """The mover that a target means, and its figures; None where it has not run."""
    if name in CLASSES:
        meant = [mover for mover in figures if mover in RIVALS and CLASSES[name](RIVALS[mover])]
    elif name == "fastest iperf3":
        meant = [mover for mover in figures if mover.startswith("iperf3")]
    else:
        meant = [name]
    there = [mover for mover in meant if figures.get(mover)]
    if not there:
        return name, None
    best = max(there, key=lambda mover: figures[mover].rate)
    return (best if best == name else f"{name}: {best}"), figures[best]


def bound(mode, files, size, primitives):
    """CPU s/GiB that the steps of a mode's path cost on this machine by themselves, for a data set
    of so many files and bytes, and the sum in words; None where they were not measured."""
    costs = {name: row["cost"] for name, row in primitives.items() if "cost" in row}
    if not costs:
        return None
    small = size / files <= 8192
    digest = "xxh3-128" if "xxh3" in mode else "blake3"
    parts = [
        ("socket", costs["socket s/GiB"]),
        ("digest", 2 * costs[f"{digest} of 4 KiB s/GiB" if small else f"{digest} s/GiB"]),
    ]
    if mode.startswith("tls"):
        parts.append(("cipher", 2 * costs["aes-128-gcm s/GiB"]))
    kib = 4 if small or size / files > 131072 else 64
    each = sum(
        costs[f"{step} of {kib} KiB us/file"] for step in ("list", "read", "write", "rename")
    )
    parts.append(("files", each * files / 1e6 / (size / GIB)))
    if size / files > 131072:
        parts.append(("bytes of files", costs["file s/GiB"]))
    total = sum(seconds for _, seconds in parts)
    words = " + ".join(f"{name} {seconds:.2f}" for name, seconds in parts)
    words = f"{words} = {total:.2f} CPU s/GiB"
    if small:
        words += f" = {total * size / GIB / files * 1e6:.1f} us/file"
    return total, words


def judge(name, rows, peaks, primitives):
    """The rows of targets of one data set, judged: dictionaries for the report."""
    figures = medians(rows)
    judged = []
    for target in (target for target in TARGETS if name in target.sets):
        ours = figures.get(f"penstock {target.mode}")
        row = {
            "set": name,
            "mode": target.mode,
            "kind": target.kind,
            "rival": target.rival,
            "must": target.must,
            "stretch": target.stretch,
            "figure": None,
            "ratio": None,
            "of_bound": None,
            "met": "not run",
        }
        if target.kind == "MiB" and peaks:
            value = max(peaks)
            row |= {"figure": f"{value:.0f} MiB", "ratio": value}
        elif target.kind in ("rate", "cpu") and ours:
            row |= compare(target, ours, figures)
        elif target.kind == "s/GiB" and ours and ours.cpu_gib is not None:
            row |= {"figure": f"{ours.cpu_gib:.2f} s/GiB", "ratio": ours.cpu_gib}
        limit = None
        if name not in (*MEM, *BOTH) and rows:
            limit = bound(target.mode, rows[0]["files"], rows[0]["bytes"], primitives)
        if limit and ours and ours.cpu_gib and target.kind in ("rate", "s/GiB"):
            best_rate = len(os.sched_getaffinity(0)) / limit[0] * GIB
            is_rate = target.kind == "rate"
            row["of_bound"] = ours.rate / best_rate if is_rate else limit[0] / ours.cpu_gib
        if limit and row["ratio"] and target.rival.startswith("penstock "):
            # Of a ratio of two modes the bound is that of their bounds.
            other = bound(
                target.rival.removeprefix("penstock "),
                rows[0]["files"],
                rows[0]["bytes"],
                primitives,
            )
            row["of_bound"] = row["ratio"] * limit[0] / other[0]
        row["met"] = verdict(target, row)
        judged.append(row)
    return judged


def compare(target, ours, figures):
    rival, theirs = find_rival(target.rival, figures)
    result = {"rival": rival}
    if target.kind == "cpu":
        if theirs and ours.cpu_gib and theirs.cpu_gib:
            result["ratio"] = theirs.cpu_gib / ours.cpu_gib
            result["figure"] = f"{ours.cpu_gib:.2f} s/GiB"
        return result
    result["figure"] = f"{ours.rate / 1e9:.2f} GB/s"
    if theirs:
        result["ratio"] = ours.rate / theirs.rate
    return result


def verdict(target, row):
    """Whether a judged row meets its target, and how."""
    value = row["ratio"]
    if value is None:
        return "not run"
    least = target.kind in ("rate", "cpu")
    if target.stretch is not None and reaches(value, target.stretch, least):
        return "yes, stretch"
    if reaches(value, target.must, least):
        return "yes"
    if (row["of_bound"] or 0) >= BOUND_SHARE:
        return "yes, by its bound"
    return "no"


def reaches(value, limit, least):
    return value >= limit if least else value <= limit
