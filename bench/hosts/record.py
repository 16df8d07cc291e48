"""The file `rivals.jsonl`: JSON Lines, one object each, in the order in which things happened.

The first line has `"kind": "bench"` and the fields of `Bench`; every other `"kind": "run"` and the
fields of `Run`. Readers ignore fields that they do not know. Seconds are of a monotonic clock.
"""

from dataclasses import asdict, dataclass

FORMAT = 1
"""Raised when a field changes its meaning or goes."""


@dataclass(frozen=True)
class Bench:
    """What holds for all runs of a file."""

    format: int
    begun: str
    """UTC, as in 2026-11-26T20:15:00Z."""
    command: list[str]
    seed: int
    """The order of the movers in each round follows from it."""
    source: str
    target: str
    """As given: PATH, or [user@]HOST:PATH."""
    durable: bool
    """Whether the time ends when the data would outlive a power cut."""
    verify: str
    """`all`, `sample` or `none`: how contents are compared after each run."""
    repeats: int
    hosts: dict[str, str]
    """By end, `source` and, with two hosts, `target`: kernel, processors, memory, file system."""
    movers: dict[str, dict[str, str]]
    """By mover: version, encrypted, verifies, resumes, durable."""
    missing: dict[str, list[str]]
    """By mover that was asked for and not run: why."""


@dataclass(frozen=True)
class Run:
    """One transfer by one mover. A run that failed has an `error`, and figures that are null."""

    set: str
    files: int
    """Regular files of the data set."""
    bytes: int
    """Bytes of their contents."""
    mover: str
    round: int
    """0 is the warm-up, which no figure of the table contains."""
    position: int
    """Place within the round, from 0."""
    command: str
    """Of the client; OUT, SOURCE and WORK are the directories of the run."""
    begun: str
    wall_s: float | None
    """Seconds of the client, of what had to end at the target, and of a sync that is timed."""
    sync_s: float | None
    """Seconds of `sync -f` at the target, a part of `wall_s`; null without one."""
    cpu_source_s: float | None
    cpu_target_s: float | None
    """CPU seconds, user and system; that of the target is null if both ends are one host."""
    cpu_source_by: str
    cpu_target_by: str | None
    """`processes`: of this run alone, by a control group; `host`: of all that the host did."""
    verified: bool | None
    """Whether the target has the same names, sizes and, as asked, contents; null: not looked at."""
    error: str | None


def line(kind: str, record: Bench | Run) -> dict[str, object]:
    """A record as the object of a line."""
    return {"kind": kind, **asdict(record)}
