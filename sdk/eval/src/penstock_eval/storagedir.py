"""Directories of `penstock bench storage`: one result, read into records."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from penstock_eval import formats
from penstock_eval.rundir import Json, many

FILE = "storage.json"


@dataclass(frozen=True)
class Step:
    """An operation on files of one size with one number of threads, over its repeats."""

    operation: str
    size: int
    """Size of each file in bytes; 0 of an operation on names."""
    threads: int
    """Threads of the peer that had the most; 0 in results of earlier releases."""
    rates: list[float]
    """Bytes per second of each run, until all was durable; empty where no bytes moved."""
    files_per_s: list[float]
    passes: list[int]
    caches: list[str]
    """Words on the caches before a read, each once."""
    marks: list[str]
    """Reasons why its figures say less than they seem to."""


class StorageResult:
    """A result of the benchmark of a store."""

    def __init__(self, path: Path) -> None:
        """Reads it.

        Raises:
            BrokenFileError: `storage.json` is missing or broken.
        """
        self.path = path
        self.about: Json = formats.document(path / FILE, "benchmark")

    @property
    def title(self) -> str:
        """The store and the directory within it."""
        path = self.about.get("path") or ""
        return f"Storage: {self.about['store']}{f':{path}' if path else ''}"

    @cached_property
    def steps(self) -> list[Step]:
        """Steps that have a run, by operation, size and threads."""
        found = [_step(item) for item in self.about["points"] if item["runs"]]
        order = list(dict.fromkeys(step.operation for step in found))
        return sorted(found, key=lambda s: (order.index(s.operation), s.size, s.threads))

    def threads(self, operation: str) -> list[int]:
        """Numbers of threads with which an operation moved bytes."""
        return sorted({s.threads for s in self.steps if s.operation == operation and s.rates})

    def select(self, operation: str, threads: int) -> list[Step]:
        """Steps of an operation that moved bytes with so many threads, by the size of files."""
        return [
            step
            for step in self.steps
            if (step.operation, step.threads) == (operation, threads) and step.rates
        ]


def parts(path: Path) -> list[tuple[Path, str]]:
    """The file of a result, with its part of the schema."""
    return [(path / FILE, "benchmark")]


def _step(item: Json) -> Step:
    runs: list[Json] = item["runs"]
    moved = item["size_bytes"] > 0
    return Step(
        operation=item["operation"],
        size=item["size_bytes"],
        threads=item.get("threads") or 0,
        rates=[run["bytes"] / run["durable_s"] for run in runs] if moved else [],
        files_per_s=[run["files"] / run["durable_s"] for run in runs],
        passes=[run["passes"] for run in runs if run.get("passes")],
        caches=sorted({run["cache"] for run in runs if run.get("cache")}),
        marks=sorted(set(many(item, "marks"))),
    )
