"""Comparisons of movers by `penstock-bench rivals`, read into records."""

from dataclasses import dataclass
from pathlib import Path

from penstock_eval import formats, stats
from penstock_eval.rundir import Json

FILE = "rivals.jsonl"
OURS = "penstock"


@dataclass(frozen=True)
class Transfer:
    """One transfer by one mover."""

    set: str
    files: int
    bytes: int
    mover: str
    round: int
    """0 is the warm-up."""
    seconds: float | None
    cpu_s: float | None
    """CPU seconds of both ends, as far as they were counted."""
    verified: bool | None
    error: str | None

    @property
    def counts(self) -> bool:
        """True if figures use it: it succeeded, and was no warm-up."""
        return self.error is None and self.round > 0 and bool(self.seconds)

    @property
    def rate(self) -> float:
        """Bytes per second; of a run that counts."""
        return self.bytes / (self.seconds or float("nan"))

    @property
    def files_per_s(self) -> float:
        """Files per second; of a run that counts."""
        return self.files / (self.seconds or float("nan"))


class Rivals:
    """A comparison of movers."""

    def __init__(self, path: Path) -> None:
        """Reads its lines.

        Raises:
            BrokenFileError: A line is missing or broken.
        """
        self.path = path
        file = path / FILE
        found = list(formats.lines(file))
        if not found:
            raise formats.BrokenFileError(f"{file}: empty: the comparison has not begun")
        for at, item in enumerate(found, start=1):
            part = "bench" if at == 1 else "rival"
            if wrong := formats.complaint(part, item, f"{file}:{at}"):
                raise formats.BrokenFileError(wrong)
        self.about: Json = found[0]
        self.transfers = [_transfer(item) for item in found[1:]]

    @property
    def title(self) -> str:
        """What was compared."""
        return f"Movers beside each other: {self.about.get('source')} → {self.about.get('target')}"

    @property
    def counted(self) -> list[Transfer]:
        """Transfers that figures use."""
        return [item for item in self.transfers if item.counts]

    @property
    def movers(self) -> list[str]:
        """Movers that ran, Penstock first."""
        names = dict.fromkeys(item.mover for item in self.transfers)
        return sorted(names, key=lambda name: name != OURS)

    @property
    def sets(self) -> list[str]:
        """Data sets in the order of their files' mean size."""
        sizes = {item.set: item.bytes / max(item.files, 1) for item in self.transfers}
        return sorted(sizes, key=lambda name: sizes[name])

    def select(self, name: str, mover: str) -> list[Transfer]:
        """Transfers that count, of one data set by one mover."""
        return [item for item in self.counted if (item.set, item.mover) == (name, mover)]

    def ratios(self, name: str, mover: str) -> list[float]:
        """Rates of a mover by those of Penstock in the same round."""
        above = {item.round: item.rate for item in self.select(name, mover)}
        return stats.paired_ratios(above, {i.round: i.rate for i in self.select(name, OURS)})


def parts(path: Path) -> list[tuple[Path, str]]:
    """The file of a comparison; its first line is of another kind than the others."""
    return [(path / FILE, "rivals")]


def _transfer(item: Json) -> Transfer:
    used = [item.get("cpu_source_s"), item.get("cpu_target_s")]
    known = [value for value in used if value is not None]
    return Transfer(
        set=item["set"],
        files=item["files"],
        bytes=item["bytes"],
        mover=item["mover"],
        round=item["round"],
        seconds=item["wall_s"],
        cpu_s=sum(known) if known else None,
        verified=item.get("verified"),
        error=item["error"],
    )
