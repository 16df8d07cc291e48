"""The piece map of a transfer: what became of its bytes, in planned order."""

from datetime import datetime

from .base import OpenEnum, View


class MapBasis(OpenEnum):
    """Origin of a piece map."""

    LEDGER = "ledger"
    """The ledger in the memory of the controller. It is a second old at most, or 200 times as old
    as the map takes to be made.
    """
    END = "end"
    """The ledger as it was when the last attempt ended."""
    TOTALS = "totals"
    """The totals of the transfer alone: the order of what is done is not known."""
    OTHER = "other"
    """An origin of another release."""


class PieceBytes(View):
    """What became of bytes. Each byte is counted once."""

    done: int = 0
    """At the target on stable storage, or there before and unchanged."""
    written: int = 0
    """Written, and not durable yet; or written before a restart, and to be checked again."""
    in_hand: int = 0
    """In the hands of a peer: it fetches them, or is to."""
    again: int = 0
    """To be sent again: a peer had them, and they were given back, lost, damaged, or changed."""
    failed: int = 0
    """Failed for good. Files that fail in a pack of small files are counted as the pack is."""
    left: int = 0
    """Not asked for yet."""


class PieceBuckets(View):
    """Buckets of a map, as columns: the n-th values of all columns are of the n-th bucket.

    The buckets of a map have equal sizes up to one byte.
    """

    done: list[int] = []
    """Bytes that are done."""
    written: list[int] = []
    """Bytes that are written."""
    in_hand: list[int] = []
    """Bytes in the hands of peers."""
    again: list[int] = []
    """Bytes to be sent again."""
    failed: list[int] = []
    """Bytes that failed."""
    left: list[int] = []
    """Bytes that are left."""
    failures: list[int] = []
    """Items that failed. Those of up to 4,096 items that are all settled are in the bucket in
    which these begin.
    """


class PieceFile(View):
    """A file in a piece map."""

    path: str = ""
    """Its path below the root of the data set; a long one lacks its middle. Its name, if the file
    is the data set.
    """
    bytes: PieceBytes
    """What became of its bytes."""
    failed: bool = False
    """True if it failed."""


class PieceMap(View):
    """What became of the bytes of a transfer, in the order of the source's list."""

    at: datetime
    """Time of the map, by the clock of the controller."""
    basis: MapBasis
    """Its origin."""
    listed: bool = False
    """True if the source is listed to its end; else more may follow behind the last bucket."""
    bytes: int = 0
    """Bytes of all buckets."""
    totals: PieceBytes
    """What became of them."""
    failures: int = 0
    """Items that failed."""
    buckets: PieceBuckets
    """The buckets, 128 at most, and no more than bytes."""
    files: list[PieceFile] = []
    """The files, if there are up to 12 and the source is listed; else empty."""
