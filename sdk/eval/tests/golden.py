"""A run directory with known answers, made by arithmetic and a seed.

The rate of a cell is that of storage at its size of files, times a share of the mode, times a
factor of its block, so ratios within blocks are exact, and medians can be computed by hand.
"""

import json
import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

GBIT = 1e9 / 8
BLOCKS = [1.00, 0.97, 1.03, 0.99, 1.02, 0.90]
"""Factors of the six blocks: one is an hour in which the machines were slow."""
SHARES = {"off-blake3": 0.95, "tls-blake3": 0.90}
"""Share of measured storage that each mode gets."""
SIZES = [(1 << 20, 4 << 10), (1 << 16, 64 << 10), (1 << 12, 1 << 20), (1 << 8, 16 << 20),
         (1 << 4, 256 << 20), (1 << 16, 1 << 20), (1 << 12, 16 << 20), (1 << 8, 256 << 20),
         (1 << 6, 1 << 30)]  # fmt: skip
"""Numbers and sizes of files: 4 GiB and 64 GiB, each in files of several sizes."""
SINGLES = [1 << 28, 1 << 30, 1 << 32, 1 << 34, 1 << 36]
START = 0.6
"""Seconds that each transfer takes before it moves."""
MIXED = [(0, 12, 0), (1024, 52000, 78_000_000), (1 << 14, 21000, 500_000_000),
         (1 << 20, 3400, 5_200_000_000), (1 << 28, 22, 8_900_000_000),
         (1 << 31, 3, 9_400_000_000)]  # fmt: skip
BEGUN = datetime(2026, 11, 26, 20, 40, tzinfo=UTC)
STORAGE_RUNS = [82.4, 80.0, 84.0]
"""Runs of storage that a published report prints, in Gbit/s; it gives their mean as 82.67."""
Json = dict[str, Any]


def storage_rate(size: float) -> float:
    """Rate of storage in bytes per second by size of files: slow for small ones."""
    return 40 * GBIT / (1 + (600_000 / size) ** 0.8)


def _name(size: int) -> str:
    power = int(math.log2(size)) // 10
    return f"{size >> 10 * power}{['B', 'KiB', 'MiB', 'GiB'][power]}"


def datasets() -> list[Json]:
    """Data sets: six of one size of files, single files, and one of many sizes."""
    pairs = [*SIZES, *((1, size) for size in SINGLES)]
    found: list[Json] = [
        {"name": f"{files}x{_name(size)}", "files": files, "bytes": files * size,
         "histogram": [{"from_bytes": size, "files": files, "bytes": files * size}]}
        for files, size in pairs
    ]  # fmt: skip
    classes = [{"from_bytes": low, "files": n, "bytes": total} for low, n, total in MIXED]
    found.append(
        {"name": "esnet@24GB", "files": sum(n for _, n, _ in MIXED),
         "bytes": sum(total for *_, total in MIXED), "histogram": classes}
    )  # fmt: skip
    return found


def modes() -> list[Json]:
    """Two modes; the one without encryption is the baseline."""
    return [
        {"name": name, "encryption": name.partition("-")[0], "digest": "blake3", "lanes": None,
         "piece_size": None, "durability": "batch",
         "suite": "clear" if name.startswith("off") else "AES-128-GCM"}
        for name in SHARES
    ]  # fmt: skip


def rate(dataset: Json, mode: str, direction: str, block: int) -> float:
    """Effective rate of a cell in bytes per second."""
    way = 1.0 if direction == "forward" else 0.92
    share = SHARES[mode] * way * BLOCKS[(block - 1) % len(BLOCKS)]
    classes = [(c["files"], c["bytes"]) for c in dataset["histogram"] if c["bytes"]]
    stored = sum(total / storage_rate(total / files) for files, total in classes)
    return dataset["bytes"] / (START + stored / share)


FILE_SYSTEMS = {"lab-raw": ("XFS", "58465342-801-80"), "hpc-scratch": ("Lustre", "bd00bd0-5f1-2")}
"""Kinds and fingerprints of the two stores."""


DEVICES = [("dm-3", "dm", "LVM vg-data", 0), ("md0", "md", "raid0", 1),
           *((f"nvme{n}n1", "disk", "", 2) for n in range(4))]  # fmt: skip
"""Devices below the XFS of each peer."""
OVERHEAD = {"write": 1.05, "read": 0.8}
"""Bytes of devices by bytes of files."""


def traffic(operation: str, size: int, seconds: float) -> list[Json]:
    """What the devices of two peers carried while `size` bytes were read or written."""
    counter = {"write": "written_bytes", "read": "read_bytes"}[operation]
    found: list[Json] = []
    for peer in ("dtn1", "dtn2"):
        for name, kind, _, _ in DEVICES:
            share = OVERHEAD[operation] / 2 / (4 if kind == "disk" else 1)
            busy = (0.9 if peer == "dtn1" else 0.6) * seconds
            found.append({"peer": peer, "device": name, "read_bytes": 0, "written_bytes": 0,
                          counter: int(size * share), "busy_ms": int(1000 * busy)})  # fmt: skip
    return found


def benchmark(runs_of: list[float], seed: int, stem: str = "lab-raw") -> Json:
    """Result of a storage benchmark: at each size, runs around the known rate."""
    draw = random.Random(seed)
    points: list[Json] = []
    for size in sorted({size for _, size in SIZES}):
        files = max(1, (1 << 32) // size)
        for operation, factor in (("write", 1.0), ("read", 1.25)):
            runs: list[Json] = []
            for share in runs_of:
                seconds = files * size / (storage_rate(size) * factor * share)
                runs.append({"bytes": files * size, "files": files, "durable_s": seconds,
                             "first_done_s": seconds * 0.97, "last_done_s": seconds})  # fmt: skip
            draw.shuffle(runs)
            marks = ["short"] if size == 4096 else []
            points.append({"operation": operation, "size_bytes": size, "runs": runs,
                           "marks": marks})  # fmt: skip
    peers: list[Json] = [{"peer": name, "processors": 16, "memory_bytes": 64 << 30, "threads": 8}
             for name in ("dtn1", "dtn2")]  # fmt: skip
    kind, fingerprint = FILE_SYSTEMS[stem]
    if kind == "XFS":
        fields = ("name", "kind", "label", "depth")
        for peer in peers:
            peer["devices"] = [dict(zip(fields, item, strict=True)) for item in DEVICES]
        for point in points:
            for run in point["runs"]:
                work = traffic(point["operation"], run["bytes"], run["durable_s"])
                run["traffic"] = work
    system = {"kind": kind, "options": "rw,noatime", "fingerprint": fingerprint,
              "durable_by": f"syncfs on {kind}", "direct": True, "free_bytes": 39 << 40,
              "total_bytes": 40 << 40}  # fmt: skip
    return {"id": "c0" * 16, "store": stem.partition("-")[2], "path": "eval", "state": "done",
            "began": BEGUN.isoformat(), "version": "0.4.0", "peers": peers, "file_system": system,
            "points": points}  # fmt: skip


def make_storage(path: Path) -> Path:
    """Writes the result of `penstock bench storage --out`: bytes, and operations on names."""
    path.mkdir()
    found = benchmark([1.0, 0.97, 1.02], 3)
    for point in found["points"]:
        for run in point["runs"]:
            run |= {"passes": 2} | ({"cache": "dontneed"} if point["operation"] == "read" else {})
    names = [
        {"operation": name, "size_bytes": 0, "threads": 8, "marks": [],
         "runs": [{"bytes": 0, "files": 400_000, "durable_s": 10.0 + at, "passes": 1}]}
        for at, name in enumerate(("create", "unlink"))
    ]  # fmt: skip
    _write(path / "storage.json", found | {"points": [*found["points"], *names]})
    return path


def _samples(cell: Json, draw: random.Random) -> list[Json]:
    found: list[Json] = []
    duration, total = cell["t"]["done"], cell["rate"]["effective"] * 8
    begin = datetime.fromisoformat(cell["t"]["submitted"]).timestamp()
    ends = [("lab", "source"), ("hpc", "target")]
    if cell["direction"] == "reverse":
        ends = [("hpc", "source"), ("lab", "target")]
    for site, role in ends:
        for peer in ("dtn1", "dtn2"):
            for second in range(math.ceil(duration)):
                part = min(1.0, duration - second)
                ramp = min(1.0, 0.45 + 0.3 * second)
                here = total / 2 * ramp * draw.gauss(1, 0.03) * part
                busy = min(99.0, 34 + 30 * (cell["mode"]["name"] == "tls-blake3")
                           + draw.gauss(0, 7))  # fmt: skip
                values: Json = {"rate_bits_per_s": here, "lanes": min(4 + 2 * second, 10),
                                "cpu_busy_percent": max(busy, 1),
                                "cpu_busiest_percent": min(100, busy + 22),
                                "cpu_steal_percent": 0.4}  # fmt: skip
                side = "out" if role == "source" else "in"
                for card, share in (("eth0", 0.51), ("eth1", 0.49)):
                    values[f"card_{side}_bits_per_s:{card}"] = here * share * 1.03
                values[f"card_{side}_bits_per_s:mgmt0"] = 4e5
                word = "read" if role == "source" else "written"
                for disk in ("nvme0n1", "nvme1n1"):
                    values[f"disk_{word}_bytes_per_s:{disk}"] = here / 16
                found.append({"site": site, "peer": peer, "role": role, "at": begin + second,
                              "t": float(second), "seconds": 1, "values": values})  # fmt: skip
    return found


def _statistics(cell: Json, draw: random.Random) -> Json:
    def spread(middle: float) -> Json:
        steps = {"min": 0.1, "p5": 0.4, "q1": 0.8, "median": 1.0, "q3": 1.15, "p95": 1.35,
                 "max": 1.5}  # fmt: skip
        return {"seconds": 9, **{k: min(100.0, middle * v) for k, v in steps.items()}}

    tls = cell["mode"]["name"] == "tls-blake3"
    sites: list[Json] = []
    for site in ("hpc", "lab"):
        peers: list[Json] = []
        for peer in ("dtn1", "dtn2"):
            cores = [
                {"core": core, "busy_percent": spread((62 if tls else 34) * (core < 5) + 6
                                                      + draw.random() * 8)}
                for core in range(8)
            ]  # fmt: skip
            joules = cell["bytes"] / 2**40 * (9000 if tls else 7000) * draw.gauss(1, 0.04)
            energy = {"is_available": True,
                      "ciphers": [{"cipher": cell["mode"]["suite"], "bytes": cell["bytes"],
                                   "package_joules": joules}]}  # fmt: skip
            peers.append({"peer": peer, "columns": [], "cores": cores, "energy": energy})
        sites.append({"site": site, "peers": peers})
    return {"sites": sites}


def _cell(item: Json, mode: Json, direction: str, block: int, at: Json) -> Json:
    got = rate(item, mode["name"], direction, block)
    seconds = item["bytes"] / got
    small = item["bytes"] / item["files"] < 1 << 20
    source, target = ("lab", "hpc") if direction == "forward" else ("hpc", "lab")
    spent = {"read": 0.2, "hash": 0.15, "seal": 0.25 * (mode["encryption"] == "tls"), "wait": 0.2}
    spent |= {"open": 0.5 if small else 0.02}
    written = {"write": 0.4, "sync": 0.15, "open": 0.6 if small else 0.03, "compare": 0.1}
    name = f"{item['name']}-{mode['name']}-{direction}"
    return {
        "id": f"{'w' if at['warmup'] else 'b'}{block}-{name}", "block": block, "repeat": block,
        "order": at["order"], "warmup": at["warmup"], "dataset": item, "direction": direction,
        "mode": mode, "peers": {"source": ["dtn1", "dtn2"], "target": ["dtn1", "dtn2"]},
        "rtt_ms": 30.2,
        "t": {"submitted": at["time"], "accepted": 0.004, "first_byte": min(1.0, seconds / 2),
              "first_done": seconds * 0.93, "last_byte": seconds * 0.95, "durable": seconds * 0.99,
              "done": seconds},
        "bytes": item["bytes"], "files": item["files"],
        "rate": {"effective": got, "steady_20_80": got * 1.04 if seconds > 5 else None,
                 "max_1s": got * 1.15},
        "resent_bytes": 0, "retries": 0,
        "cpu": {f"{site}/{peer}": {"cores": 8, "busy_s": 3.2 * seconds, "iowait_s": 0.0,
                                   "steal_s": 0.03 * seconds, "available_s": 8 * seconds,
                                   "threads_s": 1.5 * seconds}
                for site in (source, target) for peer in ("dtn1", "dtn2")},
        "time": {"source": {k: v * seconds for k, v in spent.items()} | {"cpu": seconds},
                 "target": {k: v * seconds for k, v in written.items()} | {"cpu": seconds}},
        "flags": [], "verify": {"how": "sample", "ok": True}, "error": None,
    }  # fmt: skip


def tuned() -> list[Json]:
    """Modes by lanes and piece size, the first of them automatic, then those over one network."""
    pairs = [(None, None), *((lanes, 1 << size) for lanes in (4, 8, 16) for size in (22, 24, 26))]
    over_all: list[Json] = [
        {**modes()[0], "name": f"off-{lanes or 'auto'}-{size or 'auto'}", "lanes": lanes,
         "piece_size": size}
        for lanes, size in pairs
    ]  # fmt: skip
    return [*over_all, *(_over(mode, "fast0") for mode in over_all)]


def _over(mode: Json, network: str) -> Json:
    return {**mode, "name": f"{mode['name']}-{network}", "networks": [network]}


def _make_modes(
    path: Path,
    items: list[Json],
    planned: list[Json],
    ways: tuple[str, ...],
    share: dict[str, float],
) -> Path:
    """Writes a run of modes by their shares of the rate of the baseline."""
    found: list[Json] = []
    for block in range(1, 7):
        for item in items:
            for mode in planned:
                for way in ways:
                    at = {"order": len(found) + 1, "warmup": False, "time": BEGUN.isoformat()}
                    cell = _cell(item, {**mode, "name": "off-blake3"}, way, block, at)
                    got = cell["rate"]["effective"] * share[mode["name"]]
                    name = f"b{block}-{item['name']}-{mode['name']}-{way}"
                    found.append(cell | {"id": name, "mode": mode, "rate": {"effective": got}})
    found += _unsuccessful(len(found), items[0], planned[0])
    path.mkdir()
    ids = [cell["id"] for cell in found]
    _write(path / "run.json", _run(7) | {"datasets": items, "modes": planned, "cells": ids})
    _lines(path / "cells.jsonl", found)
    return path


def make_tuned(path: Path) -> Path:
    """Writes a run of one data set in many modes: eight lanes reach what automatic does, and one
    network half of it."""
    shares = {None: 1.0, 4: 0.62, 8: 1.0, 16: 0.93}
    share = {m["name"]: shares[m["lanes"]] * (0.5 if "networks" in m else 1) for m in tuned()}
    return _make_modes(path, [datasets()[8]], tuned(), ("forward",), share)


CARDS = {"off-blake3": 1.0, "off-blake3-fast0": 0.52, "off-blake3-fast1": 0.47}
"""Share of each network in the rate of both together."""


def make_cards(path: Path) -> Path:
    """Writes a run of two networks, each alone and both together, in both directions."""
    base = modes()[0]
    planned = [base, *(_over(base, network) for network in ("fast0", "fast1"))]
    ways = ("forward", "reverse")
    return _make_modes(path, [datasets()[5], datasets()[8]], planned, ways, CARDS)


def make_distant(
    path: Path,
    rtt_ms: float,
    share: float,
    items: list[Json] | None = None,
    kinds: int = 1,
    ways: tuple[str, ...] = ("forward",),
) -> Path:
    """Writes a run over a distance, of two data sets or those given, in one mode or more."""
    items = items or [datasets()[0], datasets()[8]]
    found: list[Json] = []
    for block in range(1, 7):
        for item in items:
            for mode in modes()[:kinds]:
                for way in ways:
                    at = {"order": len(found) + 1, "warmup": False, "time": BEGUN.isoformat()}
                    cell = _cell(item, mode, way, block, at)
                    got = cell["rate"]["effective"] * share
                    found.append(cell | {"rate": {"effective": got}})
    found += _unsuccessful(len(found), items[0], modes()[0])
    found = [cell | {"rtt_ms": rtt_ms} for cell in found]
    path.mkdir()
    planned = [cell["id"] for cell in found]
    known = {"id": f"rtt{rtt_ms}", "datasets": items, "modes": modes()[:kinds], "cells": planned}
    _write(path / "run.json", _run(7) | known)
    _lines(path / "cells.jsonl", found)
    return path


SOAK_ROUNDS = 60
ROUND_BYTES = 10**12
FAULTS = {"card-down": 40.0, "kill-target": 12.0}
"""Faults of the soak, and seconds that each of them costs its round."""


def make_soak(path: Path, *, ended: bool = True, good: bool = True) -> Path:
    """Writes a soak of rounds of 1 TB in 100 s, each tenth of them with a fault."""
    path.mkdir()
    rounds: list[Json] = []
    faults: list[Json] = []
    clock = 0.0
    for number in range(1, SOAK_ROUNDS + 1):
        hit = number % 10 == 0
        name = list(FAULTS)[len(faults) % len(FAULTS)]
        seconds = 100.0 + hit * FAULTS[name]
        lost = not good and number == SOAK_ROUNDS // 2
        if hit:
            began = (BEGUN + timedelta(seconds=clock + 30)).isoformat()
            faults.append({"fault": len(faults) + 1, "name": name, "round": number,
                           "at_rest": False, "began": began, "open_seconds": 10.0,
                           "progress_seconds": FAULTS[name] / 2, "problem": None})  # fmt: skip
        clock += seconds + 5
        again = [{"fault": len(faults), "bytes": 10**9}] if hit else []
        rounds.append({"round": number, "at_seconds": clock, "seconds": seconds,
                       "is_good": not lost, "files": 1000, "bytes": ROUND_BYTES, "attempts": 1,
                       "retries": 0, "repairs": 0, "faults": int(hit), "sent_again": again,
                       "is_countersigned": True, "compared": None,
                       "failures": ["digests differ"] if lost else []})  # fmt: skip
    place = {"site": "lab", "store": "raw", "path": "run7", "slash": False}
    _write(path / "soak.json", {
        "v": 1, "id": "5e" * 16, "seed": 11, "source": place, "target": "hpc:scratch/tests",
        "every_seconds": 1000, "began": BEGUN.isoformat(), "seconds": clock, "starts": 1,
        "failures": [], "versions": ["hpc/dtn1 penstock 0.4.0"],
        "measured": [{"store": "scratch", "operation": "write", "bytes_per_s": 12.5e9,
                      "at": BEGUN.isoformat()}],
    })  # fmt: skip
    _lines(path / "rounds.jsonl", rounds)
    _lines(path / "faults.jsonl", faults)
    if ended:
        drift = {"points": 54, "median": 8e10, "per_hour": 0.0, "least": -1e7, "greatest": 2e7}
        growth = {"points": 54, "median": 2**26, "per_hour": 2**20, "least": 2**19,
                  "greatest": 2**21}  # fmt: skip
        _write(path / "proof.json", {
            "v": 1, "is_complete": True, "is_good": good,
            "drifts": [{"figure": "rate of rounds without a fault", "unit": "bits_per_second",
                        "drift": drift},
                       {"figure": "memory of hpc/dtn1", "unit": "bytes", "drift": growth}],
            "failures": [] if good else ["round 30: digests differ"],
        })  # fmt: skip
    return path


MOVERS = {"penstock": 1.0, "rsync": 0.45, "gridftp": 0.8}
"""Rates of movers beside that of Penstock."""


def make_rivals(path: Path) -> Path:
    """Writes a comparison of three movers over six rounds and a warm-up; one run of one fails."""
    path.mkdir()
    sets = [("small", 100_000, 4 << 10, 0.4e9), ("medium", 4096, 1 << 20, 1.2e9),
            ("large", 16, 256 << 20, 2.4e9)]  # fmt: skip
    found: list[Json] = [{
        "kind": "bench", "format": 1, "begun": BEGUN.isoformat(), "command": [], "seed": 3,
        "source": "/scratch", "target": "me@far:/scratch", "durable": True, "verify": "all",
        "repeats": 6, "hosts": {"source": "Linux"},
        "movers": {name: {"version": "1.0", "encrypted": "TLS", "verifies": "yes",
                          "resumes": "yes", "durable": "syncs itself"} for name in MOVERS},
        "missing": {"xrootd": ["apt install xrootd-client"]},
    }]  # fmt: skip
    for name, files, size, rate in sets:
        for number in range(7):
            for mover, share in MOVERS.items():
                fails = mover == "gridftp" and name == "small" and number == 2
                seconds = files * size / (rate * share * BLOCKS[number % len(BLOCKS)])
                found.append({"kind": "run", "set": name, "files": files, "bytes": files * size,
                              "mover": mover, "round": number,
                              "wall_s": None if fails else seconds, "cpu_source_s": 2.0,
                              "cpu_target_s": 3.0, "verified": None if fails else True,
                              "error": "exit 1" if fails else None})  # fmt: skip
    _lines(path / "rivals.jsonl", found)
    return path


def cells(seed: int, warmup: int = 1) -> list[Json]:
    """Cells of a warm-up and six blocks, each in an order of its own, and two that failed."""
    draw = random.Random(seed)
    found: list[Json] = []
    clock = BEGUN
    for block in range(1 - warmup, len(BLOCKS) + 1):
        plan = [(d, m, w) for d in datasets() for m in modes() for w in ("forward", "reverse")]
        draw.shuffle(plan)
        for item, mode, way in plan:
            at = {"order": len(found) + 1, "warmup": block < 1, "time": clock.isoformat()}
            found.append(_cell(item, mode, way, max(block, 1), at))
            clock += timedelta(seconds=found[-1]["t"]["done"] + 2)
    disturbed = next(c for c in found if c["block"] == 6)
    disturbed["flags"] = ["steal 6.1 % at hpc/dtn1"]
    disturbed["cpu"]["hpc/dtn1"]["steal_s"] = 0.061 * 8 * disturbed["t"]["done"]
    return [*found, *_unsuccessful(len(found), datasets()[0], modes()[1], clock)]


def _unsuccessful(before: int, item: Json, mode: Json, clock: datetime = BEGUN) -> list[Json]:
    """Begin of a seventh block, as the command writes it: a refused and a failed transfer."""
    found = [
        _cell(item, {**mode, "name": "off-blake3"}, way, len(BLOCKS) + 1,
              {"order": before + at, "warmup": False, "time": clock.isoformat()})
        | {"id": f"b7-{item['name']}-{mode['name']}-{way}", "mode": mode}
        for at, way in enumerate(("forward", "reverse"), start=1)
    ]  # fmt: skip
    nothing: Json = {"rate": None, "files_per_s": None, "verify": None}
    refused, failed = found
    refused |= {
        **nothing, "peers": {"source": [], "target": []}, "t": dict.fromkeys(refused["t"]),
        "bytes": None, "files": None, "resent_bytes": None, "retries": None, "cpu": {},
        "time": {"source": {}, "target": {}},
        "error": {"code": "refused", "text": "store scratch takes no new transfers"},
    }  # fmt: skip
    failed |= {**nothing, "bytes": item["bytes"] // 3, "files": item["files"] // 3,
               "error": {"code": "some-failed", "text": "no space at lab:raw"}}  # fmt: skip
    return found


def facts() -> Json:
    """Facts of two sites with two peers each."""

    def site(name: str, store: str, kind: str) -> Json:
        return {
            "site": name, "asked": name == "hpc", "penstock": "0.4.0",
            "peers": [{"peer": p, "version": "0.4.0", "addresses": [f"10.0.0.{i}:7777"]}
                      for i, p in enumerate(("dtn1", "dtn2"))],
            "stores": [{"name": store, "file_system": {"kind": kind, "total_bytes": 40 << 40}}],
            "settings": [{"key": "transfer.lanes", "value": "auto", "source": {"kind": "default"}},
                         {"key": "site", "value": name,
                          "source": {"kind": "file", "path": "/etc/penstock/penstock.toml",
                                     "line": 1}}],
            "findings": [{"code": "nofile", "level": "ok", "what": "enough files"},
                         {"code": "mtu", "level": "warn", "peer": "dtn1", "what": "MTU is 1500"}],
        }  # fmt: skip

    return {"taken": BEGUN.isoformat(), "sites": [site("lab", "raw", "XFS"),
                                                  site("hpc", "scratch", "Lustre")]}  # fmt: skip


def _run(seed: int) -> Json:
    return {
        "format": 1, "id": "4f2a90c1d3e5b768", "title": "Lab to HPC, one setting",
        "begun": BEGUN.isoformat(), "ended": None, "seed": seed, "penstock": "0.4.0", "api": "v1",
        "source": "lab:raw/eval", "target": "hpc:scratch/eval", "asked": "hpc", "repeats": 7,
        "warmup": 1, "datasets": datasets(), "modes": modes(),
        "directions": ["forward", "reverse"],}  # fmt: skip


def make(path: Path, seed: int = 7) -> Path:
    """Writes a run directory and returns it."""
    draw = random.Random(seed)
    found = cells(seed)
    for folder in ("series", "statistics", "storage"):
        (path / folder).mkdir(parents=True, exist_ok=True)
    run = _run(seed) | {"cells": [cell["id"] for cell in found]}
    _write(path / "run.json", run)
    _write(path / "facts.json", facts())
    _lines(path / "cells.jsonl", found)
    for cell in found:
        if not cell["warmup"] and not cell["error"]:
            _lines(path / "series" / f"{cell['id']}.jsonl", _samples(cell, draw))
            _write(path / "statistics" / f"{cell['id']}.json", _statistics(cell, draw))
    around = [1.0, 0.98, 1.01]
    for stem in ("lab-raw", "hpc-scratch"):
        _write(path / "storage" / f"{stem}.before.json", benchmark(around, 1, stem))
        _write(path / "storage" / f"{stem}.after.json", benchmark(around, 2, stem))
    return path


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), "utf-8")


def _lines(path: Path, values: list[Json]) -> None:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), "utf-8")
