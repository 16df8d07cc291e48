"""Directories of `penstock bench sweep`, read into records."""

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from penstock_eval import formats

FORWARD = "forward"
_NUMBERS = (int, float, type(None))
_UNIFORM = re.compile(r"[0-9]+x[0-9]+[KMGTP]?(iB|B)?")
Json = dict[str, Any]


def inner(record: Json, key: str) -> Json:
    """Record within a record; empty where it is null or missing."""
    return record.get(key) or {}


def many(record: Json, key: str) -> list[Any]:
    """List within a record; empty where it is null or missing."""
    return record.get(key) or []


@dataclass(frozen=True)
class Dataset:
    """A data set of the matrix."""

    name: str
    files: int
    bytes: int
    histogram: tuple[tuple[int, int, int], ...] = ()
    """Classes by powers of two: least size, files, bytes."""

    @property
    def is_uniform(self) -> bool:
        """True if all files have one size, which is not 0: empty files have no rate."""
        return self.bytes > 0 and _UNIFORM.fullmatch(self.name) is not None

    @property
    def file_size(self) -> float:
        """Mean size of its files in bytes."""
        return self.bytes / max(self.files, 1)


@dataclass(frozen=True)
class Mode:
    """A combination of options that a cell was run with."""

    name: str
    lanes: int | None = None
    piece_size: int | None = None
    others: str = ""
    """Its other options, such as encryption and networks, as JSON."""


@dataclass(frozen=True)
class Cell:
    """A run of one data set in one mode and direction, once in a block."""

    id: str
    block: int
    order: int
    warmup: bool
    dataset: str
    direction: str
    mode: str
    raw: Json = field(repr=False)

    @property
    def error(self) -> str | None:
        """Text of the error that ended it."""
        error: Json | None = self.raw.get("error")
        return error["text"] if error else None

    @property
    def counts(self) -> bool:
        """True if figures use it: it succeeded, moved bytes, and was no warm-up."""
        moved = self.error is None and self.bytes > 0 and self.effective > 0
        return moved and not self.warmup

    @property
    def bytes(self) -> int:
        """Bytes that it moved."""
        return self.raw.get("bytes") or 0

    @property
    def effective(self) -> float:
        """Effective rate in bytes per second: all bytes by the time from submission to the end."""
        return self.raw["rate"]["effective"]

    @property
    def greatest(self) -> float | None:
        """Greatest rate over a second, in bytes per second."""
        return self.raw["rate"].get("max_1s")

    @property
    def steady(self) -> float | None:
        """Rate between 20 % and 80 % of the bytes, in bytes per second."""
        return self.raw["rate"].get("steady_20_80")

    @property
    def submitted(self) -> float | None:
        """Submission in seconds since 1970; None if the run has none of a refused transfer."""
        text = self.raw["t"].get("submitted")
        return datetime.fromisoformat(text).timestamp() if text else None

    @property
    def duration(self) -> float:
        """Seconds from submission to the end."""
        return self.raw["t"]["done"]

    @property
    def files_per_s(self) -> float:
        """Files by the time from submission to the end."""
        return self.raw["files"] / self.duration

    @property
    def rtt_ms(self) -> float | None:
        """Least round-trip time between the sites before its block, in milliseconds."""
        return self.raw.get("rtt_ms")

    @property
    def flags(self) -> list[str]:
        """Sentences on what may have disturbed it."""
        return self.raw.get("flags") or []


@dataclass(frozen=True)
class Sample:
    """Figures of one peer over a second, or some where points were put together."""

    site: str
    peer: str
    role: str
    at: float
    t: float
    seconds: float
    values: dict[str, float | None]

    @property
    def host(self) -> str:
        """Site and peer."""
        return f"{self.site}/{self.peer}"

    def devices(self, figure: str) -> dict[str, float]:
        """Values of a figure by device: `card_in_bits_per_s` has `eth0` and so on."""
        head = f"{figure}:"
        return {
            name.removeprefix(head): value
            for name, value in self.values.items()
            if name.startswith(head) and value is not None
        }


class Run:
    """A run directory. Cells are read at once, series and statistics when asked for."""

    def __init__(self, path: Path) -> None:
        """Reads what was planned and the cells.

        Raises:
            BrokenFileError: `run.json` or `cells.jsonl` is missing or broken.
        """
        self.path = path
        self._series: dict[str, list[Sample]] = {}
        self._statistics: dict[str, Json | None] = {}
        self._benchmarks: dict[str, list[Json]] = {}
        self.about: Json = formats.document(path / "run.json", "run")
        self.datasets = [_dataset(item) for item in self.about["datasets"]]
        self.modes = [_mode(item) for item in self.about["modes"]]
        if not (path / "cells.jsonl").exists():
            raise formats.BrokenFileError(
                f"{path / 'cells.jsonl'}: not there: no run has ended yet; `penstock bench sweep` "
                "with the same --out continues"
            )
        self.cells = [_cell(item) for item in formats.lines(path / "cells.jsonl", "cell")]
        self.cells.sort(key=lambda cell: cell.order)
        self._check()

    def _check(self) -> None:
        """Checks cells against the plan.

        Raises:
            BrokenFileError: A cell stands twice, or belongs to another sweep.
        """
        place = self.path / "cells.jsonl"
        names = {item.name for item in self.datasets} | {item.name for item in self.modes}
        known: set[str] = set()
        for cell in self.cells:
            if unknown := {cell.dataset, cell.mode} - names:
                raise formats.BrokenFileError(
                    f"{place}: cell {cell.id}: `{min(unknown)}` is not in run.json"
                )
            if cell.id in known:
                raise formats.BrokenFileError(f"{place}: cell {cell.id} has two lines")
            known.add(cell.id)

    @property
    def title(self) -> str:
        """Title of the matrix, or its two ends."""
        return self.about.get("title") or f"{self.about.get('source')} → {self.about.get('target')}"

    @property
    def baseline(self) -> Mode:
        """Mode that ratios are to."""
        return self.modes[0]

    @property
    def counted(self) -> list[Cell]:
        """Cells that figures use."""
        return [cell for cell in self.cells if cell.counts]

    @cached_property
    def directions(self) -> list[str]:
        """Directions in which any cell succeeded, forward first."""
        return sorted({cell.direction for cell in self.counted})

    @cached_property
    def facts(self) -> Json | None:
        """Facts of both sites; None without the file."""
        path = self.path / "facts.json"
        return formats.document(path, "facts") if path.exists() else None

    def dataset(self, name: str) -> Dataset:
        """Data set of that name."""
        return next(item for item in self.datasets if item.name == name)

    def round_trip(self, cell: Cell) -> float | None:
        """Round-trip time of a cell in milliseconds; that of the facts where it has none."""
        if cell.rtt_ms is not None:
            return cell.rtt_ms
        paths = inner(self.facts or {}, "paths")
        tried = [*many(paths, "outward"), *many(paths, "inward")]
        trips = [
            path.get("rtt_now_us") or path.get("rtt_us") for path in tried if path["reachable"]
        ]
        known = [trip for trip in trips if trip]
        return min(known) / 1000 if known else None

    def ends(self, direction: str) -> tuple[str, str]:
        """Stores that bytes come from and go to, as `site:store`."""
        ends = [str(self.about.get(end) or "?").partition("/")[0] for end in ("source", "target")]
        return (ends[0], ends[1]) if direction == FORWARD else (ends[1], ends[0])

    def select(self, dataset: str, mode: str, direction: str) -> list[Cell]:
        """Cells that count, of one data set, mode and direction."""
        return [
            cell
            for cell in self.counted
            if (cell.dataset, cell.mode, cell.direction) == (dataset, mode, direction)
        ]

    def series(self, cell: Cell) -> list[Sample]:
        """Samples of a cell; empty without the file."""
        if cell.id not in self._series:
            path = self.path / "series" / f"{cell.id}.jsonl"
            if not path.exists():
                return []
            self._series[cell.id] = [_sample(item, path) for item in formats.lines(path)]
        return self._series[cell.id]

    def statistics(self, cell: Cell) -> Json | None:
        """Quantiles of a cell by site and peer; None without the file."""
        if cell.id not in self._statistics:
            path = self.path / "statistics" / f"{cell.id}.json"
            found = formats.document(path, "statistics") if path.exists() else None
            self._statistics[cell.id] = found
        return self._statistics[cell.id]

    def benchmarks(self, store: str) -> list[Json]:
        """Results of `penstock bench storage` of a store (`site:store`): those of this sweep.

        Without these the newest kept one that says what the store can do: it was completed, no
        transfer has disturbed it, it is not stale, and all peers measured with the threads of
        transfers.
        """
        if store not in self._benchmarks:
            self._benchmarks[store] = self._read_benchmarks(store)
        return self._benchmarks[store]

    def _read_benchmarks(self, store: str) -> list[Json]:
        stem = store.replace(":", "-")
        folder = self.path / "storage"
        own = [folder / f"{stem}.{when}.json" for when in ("before", "after")]
        measured = [formats.document(path, "benchmark") for path in own if path.exists()]
        measured = [item for item in measured if item["points"]]
        kept = folder / f"{stem}.json"
        if measured or not kept.exists():
            return measured
        items: list[Json] = formats.document(kept, "benchmarks")["items"]
        return [item for item in items if _is_usable(item)][:1]


def _is_usable(item: Json) -> bool:
    """True if a kept result says what the store can do, as the command line judges it too."""
    faults = ("with_load", "stale", "threads_asked", "peers_left_out")
    return item["state"] == "done" and not any(item.get(fault) for fault in faults)


def parts(path: Path) -> list[tuple[Path, str]]:
    """Files of a run directory, each with its part of the schema."""
    found = [(path / "run.json", "run"), (path / "cells.jsonl", "cell")]
    if (path / "facts.json").exists():
        found.append((path / "facts.json", "facts"))
    found += [(file, "sample") for file in sorted(path.glob("series/*.jsonl"))]
    found += [(file, "statistics") for file in sorted(path.glob("statistics/*.json"))]
    for file in sorted(path.glob("storage/*.json")):
        single = file.stem.endswith((".before", ".after"))
        found.append((file, "benchmark" if single else "benchmarks"))
    return found


def _dataset(item: Json) -> Dataset:
    classes: list[Json] = item.get("histogram") or []
    histogram = tuple((c["from_bytes"], c["files"], c["bytes"]) for c in classes)
    return Dataset(item["name"], item["files"], item["bytes"], histogram)


def _mode(item: Json) -> Mode:
    known = ("name", "suite", "lanes", "piece_size")
    others = {key: value for key, value in item.items() if key not in known and value is not None}
    texts = json.dumps(others, sort_keys=True)
    return Mode(item["name"], item.get("lanes"), item.get("piece_size"), texts)


def _cell(item: Json) -> Cell:
    return Cell(
        id=item["id"],
        block=item["block"],
        order=item["order"],
        warmup=item["warmup"],
        dataset=item["dataset"]["name"],
        direction=item["direction"],
        mode=item["mode"]["name"],
        raw=item,
    )


def _sample(item: Any, path: Path) -> Sample:
    # The schema would take ten times as long as all figures: `penstock-eval check` has it.
    try:
        values: dict[str, Any] = dict(item["values"])
        if any(type(value) not in _NUMBERS for value in values.values()):
            raise TypeError("a value is no number")
        return Sample(
            site=item["site"],
            peer=item["peer"],
            role=item.get("role") or "?",
            at=float(item["at"]),
            t=float(item["t"]),
            seconds=float(item["seconds"]),
            values=values,
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise formats.BrokenFileError(
            f"{path}: no sample of a peer; `penstock-eval check` names the line"
        ) from error
