"""Plans as files: JSON Lines with a head, items and an end."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

from ._operations import PLANS_MAKE
from ._reply import parsed
from .models.base import View
from .models.place import Location, PathText
from .models.plan import PlanEnd, PlanHead, PlanItem

_TAIL_BYTES = 64 << 10
_DECIDED = ("update", "select", "files_from", "preserve")
"""Options that a plan contains, and a transfer that follows it does not change."""


class _Line(View):
    type: str


def read_line(line: bytes) -> PlanHead | PlanItem | PlanEnd:
    """Returns what a line of a plan says."""
    kind = parsed(PLANS_MAKE, _Line, line).type
    if kind == "plan":
        return parsed(PLANS_MAKE, PlanHead, line)
    return parsed(PLANS_MAKE, PlanEnd if kind == "end" else PlanItem, line)


@dataclass(frozen=True, slots=True)
class PlanFile:
    """What a transfer must know of a plan that it follows."""

    source: Location
    target: Location
    digest: str
    _options: dict[str, Any]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Reads the first and the last line of a file; the daemon checks the lines between.

        Raises:
            ValueError: The file is no plan of a transfer.
        """
        with Path(path).open("rb") as file:
            first, last = file.readline(), _last_line(file)
        try:
            head, end = read_line(first), read_line(last)
            options = json.loads(first)["options"]
        except Exception as cause:
            raise ValueError(f"`{os.fspath(path)}` is no plan") from cause
        if not isinstance(head, PlanHead) or not isinstance(end, PlanEnd):
            raise ValueError(f"`{os.fspath(path)}` is no plan, or was cut off")
        return cls(_location(head.source), _location(head.target), end.digest, options)

    def options(self, others: dict[str, Any]) -> dict[str, Any]:
        """Returns the options of a transfer that follows the plan.

        Raises:
            ValueError: `others` decide something that the plan has decided.
        """
        decided = [name for name in _DECIDED if name in others]
        if decided:
            raise ValueError(f"the plan contains {', '.join(decided)}: leave these options out")
        planned = {name: self._options[name] for name in _DECIDED if name in self._options}
        return {**others, **planned, "plan": {"follow": {"digest": self.digest}}}


def _location(text: PathText) -> Location:
    """Returns the location that the head of a plan names, its path unescaped."""
    place = Location.parse(os.fsdecode(text.raw))
    # The head of a plan names the root of a store in one way only.
    return place if place.path else place.model_copy(update={"slash": False})


def _last_line(file: BinaryIO) -> bytes:
    end = file.seek(0, os.SEEK_END)
    length = _TAIL_BYTES
    while True:
        file.seek(max(0, end - length))
        lines = file.read().rstrip(b"\n").rsplit(b"\n", 1)
        if len(lines) == 2 or length >= end:
            return lines[-1]
        length *= 2
