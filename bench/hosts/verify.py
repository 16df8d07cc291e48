"""Whether a target has what its source has: one digest of names and sizes, one of contents."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from bench.base.processes import Failed
from bench.hosts.shell import Host

SAMPLE_FILES = 200
BATCH = 256
AT_ONCE = 4


@dataclass(frozen=True)
class Manifest:
    """Digests of a tree; those of contents are empty where they are not asked for."""

    files: int
    names: str
    contents: str


def script(path: str, every: int) -> str:
    """A script of sh that prints the number of files and both digests.

    Contents are read of each `every`th file, with 0 of none. Each batch of files gives one short
    line, which no other can come into the middle of.
    """
    batch = 'sha256sum -b -- "$@" | sha256sum'
    pick = f"sed -z -n '1~{every}p' | " if every > 1 else ""
    contents = (
        f"find . -type f -print0 | sort -z | {pick}xargs -0 -r -n {BATCH} -P {AT_ONCE} "
        f"sh -c {shlex.quote(batch)} sh | sort | sha256sum"
    )
    names = "find . -type f -printf '%s %p\\0' | sort -z | sha256sum"
    parts = [
        f"cd {shlex.quote(path)}",
        "export LC_ALL=C",
        "find . -type f -printf x | wc -c",
        names,
    ]
    # In a shell of its own: the directory will be removed.
    return f"({' && '.join([*parts, contents] if every else parts)})"


def manifest(host: Host, path: str, every: int, limit_s: float) -> Manifest:
    """Reads a tree at a host."""
    told = [line.split()[0] for line in host.ask(script(path, every), limit_s).splitlines()]
    return Manifest(int(told[0]), told[1], told[2] if every else "")


def step(how: str, files: int) -> int:
    """Of which files contents are read: each, each so many-th, none (0)."""
    if how == "sample":
        return max(1, -(-files // SAMPLE_FILES))
    return {"all": 1, "none": 0}[how]


def compare(expected: Manifest, read: Callable[[], Manifest]) -> str | None:
    """What differs, in words; nothing if all is the same."""
    try:
        found = read()
    except Failed as error:
        return f"cannot be compared: {error}"
    if found.files != expected.files:
        return f"{found.files} files instead of {expected.files}"
    if found.names != expected.names:
        return "names or sizes of files differ"
    return "contents of files differ" if found.contents != expected.contents else None
