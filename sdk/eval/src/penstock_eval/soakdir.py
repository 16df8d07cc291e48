"""Directories of `penstock soak`, read into records."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from penstock_eval import formats
from penstock_eval.rundir import Json, inner, many

CALM_ROUNDS = 6
"""Rounds without a fault from which their rate stands for the soak's."""


@dataclass(frozen=True)
class Round:
    """One transfer of a soak."""

    number: int
    ended: float
    """Seconds of work of the soak at its end."""
    seconds: float
    good: bool
    files: int
    bytes: int
    faults: int
    raw: Json

    @property
    def rate(self) -> float:
        """Bytes per second, with all stalls."""
        return self.bytes / max(self.seconds, 1e-3)

    @property
    def sent_again(self) -> int:
        """Bytes that were sent again."""
        return sum(item["bytes"] for item in many(self.raw, "sent_again"))


@dataclass(frozen=True)
class Fault:
    """A fault that was injected."""

    number: int
    name: str
    round: int
    at_rest: bool
    began: float
    """Seconds since 1970."""
    open_s: float
    progress_s: float | None
    """Seconds until further bytes were seen to be verified."""
    problem: str | None


@dataclass(frozen=True)
class FaultSum:
    """The faults of one name."""

    name: str
    faults: list[Fault]
    survived: int
    sent_again: int

    @property
    def progress(self) -> list[float]:
        """Seconds until progress was seen, of those faults after which it was."""
        return [fault.progress_s for fault in self.faults if fault.progress_s is not None]


class Soak:
    """A directory of a soak."""

    def __init__(self, path: Path) -> None:
        """Reads its records.

        Raises:
            BrokenFileError: A record is missing or broken.
        """
        self.path = path
        self.about: Json = formats.document(path / "soak.json", "soak")
        self.rounds = [_round(item) for item in _lines(path / "rounds.jsonl", "round")]
        self.faults = [_fault(item) for item in _lines(path / "faults.jsonl", "fault")]
        proof = path / "proof.json"
        self.proof: Json | None = formats.document(proof, "proof") if proof.exists() else None

    @property
    def title(self) -> str:
        """Its two ends."""
        return f"Soak {self.about['id'][:8]}: {self.source} → {self.target}"

    @property
    def source(self) -> str:
        """Place that was read."""
        return _place(self.about["source"])

    @property
    def target(self) -> str:
        """Place that was written."""
        return _place(self.about["target"])

    @property
    def good(self) -> list[Round]:
        """Rounds that were done and verified."""
        return [item for item in self.rounds if item.good]

    @property
    def calm(self) -> list[Round]:
        """Good rounds without a fault."""
        return [item for item in self.good if item.faults == 0]

    @property
    def began(self) -> float:
        """First begin, in seconds since 1970."""
        return datetime.fromisoformat(self.about["began"]).timestamp()

    @cached_property
    def by_name(self) -> list[FaultSum]:
        """Its faults by their names."""
        names: dict[str, list[Fault]] = {}
        for fault in self.faults:
            names.setdefault(fault.name, []).append(fault)
        again: dict[int, int] = {}
        for item in self.rounds:
            for part in many(item.raw, "sent_again"):
                if part.get("fault") is not None:
                    again[part["fault"]] = again.get(part["fault"], 0) + part["bytes"]
        return [
            FaultSum(
                name,
                found,
                sum(self.is_survived(fault) for fault in found),
                sum(again.get(fault.number, 0) for fault in found),
            )
            for name, found in sorted(names.items())
        ]

    def is_survived(self, fault: Fault) -> bool:
        """True if the round in which it began was good, and damage at rest was found."""
        found = next((item for item in self.rounds if item.number == fault.round), None)
        if found is None or not found.good or fault.problem is not None:
            return False
        return not fault.at_rest or inner(found.raw, "compared").get("files", 0) > 0


def parts(path: Path) -> list[tuple[Path, str]]:
    """Files of a soak's directory, each with its part of the schema."""
    names = {
        "soak.json": "soak",
        "rounds.jsonl": "round",
        "faults.jsonl": "fault",
        "proof.json": "proof",
    }
    return [
        (path / name, part)
        for name, part in names.items()
        if part == "soak" or (path / name).exists()
    ]


def _lines(path: Path, part: str) -> list[Any]:
    return list(formats.lines(path, part)) if path.exists() else []


def _place(value: str | Json) -> str:
    if isinstance(value, str):
        return value
    path = value.get("path") or ""
    return f"{value['site']}:{value['store']}{f'/{path}' if path else ''}"


def _round(item: Json) -> Round:
    return Round(
        number=item["round"],
        ended=item["at_seconds"],
        seconds=item["seconds"],
        good=item["is_good"],
        files=item["files"],
        bytes=item["bytes"],
        faults=item["faults"],
        raw=item,
    )


def _fault(item: Json) -> Fault:
    return Fault(
        number=item["fault"],
        name=item["name"],
        round=item["round"],
        at_rest=item.get("at_rest") or False,
        began=datetime.fromisoformat(item["began"]).timestamp(),
        open_s=item["open_seconds"],
        progress_s=item.get("progress_seconds"),
        problem=item.get("problem"),
    )
