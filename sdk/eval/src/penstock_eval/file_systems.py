"""File systems of both ends of a sweep, and whether they are one.

A fingerprint of a store begins with the type of its file system and the id that statvfs(3) has.
ext4 and tmpfs make the id from a UUID; so does Btrfs, with the subvolume in it. That of XFS is the
number of the device, which file systems of two hosts may share. Some network file systems have 0.
"""

from dataclasses import dataclass
from ipaddress import ip_address

from penstock_eval.rundir import FORWARD, Json, Run, inner, many

BY_UUID = {"ext4", "Btrfs", "tmpfs"}
"""Kinds whose ids do not repeat, but for a copy of a whole disk."""
OF_SERVERS = {"NFS", "SMB", "Lustre", "GPFS", "CephFS", "BeeGFS"}
"""Kinds that several hosts can mount."""


@dataclass(frozen=True)
class Sharing:
    """Whether one local file system serves both ends."""

    is_one: bool | None
    """None where the record does not tell."""
    reason: str
    """Sentence without a full stop, as of a note."""


@dataclass(frozen=True)
class FileSystem:
    """The file system of a store, as `penstock bench storage` found it."""

    store: str
    kind: str
    type: str
    id: int
    total_bytes: int | None

    @property
    def mount(self) -> tuple[str, int]:
        """Type and id."""
        return self.type, self.id


def sharing(run: Run) -> Sharing:
    """Whether reading at one end and writing at the other use one local file system."""
    source, target = run.ends(FORWARD)
    if source == target:
        return Sharing(True, f"Both ends are the store {source}")
    ends = [_file_system(run, store) for store in (source, target)]
    known = [end for end in ends if end]
    if len(known) < len(ends):
        lacking = [store for store, end in zip((source, target), ends, strict=True) if not end]
        return Sharing(None, f"The record has no fingerprint of {' and '.join(lacking)}")
    return _of_two(*known, is_one_host=_is_one_host(run))


def _of_two(one: FileSystem, other: FileSystem, *, is_one_host: bool) -> Sharing:
    kind = one.kind or "file system"
    if one.mount != other.mount:
        if one.type == other.type and kind == "Btrfs":
            return Sharing(None, "Both ends are Btrfs, whose subvolumes have ids of their own")
        return Sharing(False, f"{one.store} is on {kind}, {other.store} on {_apart(one, other)}")
    if kind in OF_SERVERS:
        return Sharing(None, f"Both ends are on {kind}, whose servers may serve both or not")
    if one.id == 0:
        return Sharing(None, f"Both ends are on {kind}, which has no id")
    if is_one_host:
        return Sharing(True, f"Both ends are one {kind}: it has one id, on one host")
    if kind in BY_UUID and one.total_bytes == other.total_bytes:
        return Sharing(True, f"Both ends are one {kind}: it has one id ({one.id:x}) and size")
    return Sharing(
        None, f"Both ends are on {kind} of one id, which file systems of two hosts may share"
    )


def _apart(one: FileSystem, other: FileSystem) -> str:
    name = other.kind or "a file system"
    return f"another {name}" if one.kind == other.kind else name


def _file_system(run: Run, store: str) -> FileSystem | None:
    measured = [inner(result, "file_system") for result in run.benchmarks(store)]
    site, _, name = store.partition(":")
    asked = [
        inner(known, "file_system")
        for place in many(run.facts or {}, "sites")
        if place["site"] == site
        for known in many(place, "stores")
        if known["name"] == name
    ]
    found = (_parsed(store, record) for record in [*measured, *asked])
    return next((item for item in found if item), None)


def _parsed(store: str, record: Json) -> FileSystem | None:
    """File system by its record; None where its fingerprint is missing or of another form."""
    parts = str(record.get("fingerprint") or "").split("-")
    try:
        number = int(parts[1], 16)
    except (IndexError, ValueError):
        return None
    return FileSystem(
        store, str(record.get("kind") or ""), parts[0], number, record.get("total_bytes")
    )


def _is_one_host(run: Run) -> bool:
    """True if a path between the sites was reached that does not leave a host."""
    paths = inner(run.facts or {}, "paths")
    tried = [*many(paths, "outward"), *many(paths, "inward")]
    return any(path["reachable"] and _is_within_a_host(path) for path in tried)


def _is_within_a_host(path: Json) -> bool:
    """True if both ends have one address, or the far one is of the loopback interface."""
    near = str(path.get("from") or "").partition("%")[0]
    far = str(path.get("to") or "").rpartition(":")[0].strip("[]")
    try:
        return ip_address(far).is_loopback or near == far
    except ValueError:
        return False
