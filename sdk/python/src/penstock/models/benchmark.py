"""Benchmarks of stores, and what they have measured."""

from datetime import datetime

from .base import OpenEnum, View
from .place import PathText


class BenchmarkOperation(OpenEnum):
    """An operation that a benchmark measures."""

    WRITE = "write"
    """Files are written as a target does."""
    READ = "read"
    """Files are read as a source does."""
    CREATE = "create"
    """Empty files are made under temporary names."""
    RENAME = "rename"
    """These files get their final names."""
    STAT = "stat"
    """The attributes of each are asked for."""
    LIST = "list"
    """The directories are listed."""
    UNLINK = "unlink"
    """The files are removed."""


class CacheState(OpenEnum):
    """State of the reader's cache before files were read."""

    DROPPED = "dropped"
    """The host gave up the caches of all files."""
    DONTNEED = "dontneed"
    """The host gave up its cache of these files, and a sample showed that it had."""
    UNKNOWN = "unknown"
    """Bytes may have come from a cache."""


class BenchmarkMark(OpenEnum):
    """A reason why a measurement says less than it seems to."""

    SHORT = "short"
    """It took less than 5 s, or a thread had fewer than 16 files or extents."""
    CACHED = "cached"
    """The bytes may have come from a cache."""


class BenchmarkState(OpenEnum):
    """State of a benchmark."""

    RUNNING = "running"
    """It measures, or removes its files."""
    DONE = "done"
    """It has measured all steps."""
    CANCELLED = "cancelled"
    """A user has ended it."""
    FAILED = "failed"
    """It has ended early; `problem` says why."""


class BlockDeviceKind(OpenEnum):
    """The kind of a block device."""

    DISK = "disk"
    """A disk, or another device with no device below it that the kernel knows."""
    PARTITION = "partition"
    """A part of a disk."""
    MD = "md"
    """An array of the kernel's software RAID (md)."""
    DM = "dm"
    """A device of the device mapper, as a logical volume."""
    LOOP = "loop"
    """A file that is used as a device."""


class BenchmarkDevice(View):
    """A block device below the files of a benchmark."""

    name: str
    """Its name, as the kernel has it, such as `nvme0n1` or `dm-3`."""
    kind: BlockDeviceKind
    """Its kind."""
    label: str = ""
    """The level of an array; the origin and the name of a mapped device; empty of others."""
    depth: int
    """Number of devices between it and the file system."""


class BenchmarkTraffic(View):
    """Work of a block device in a run, which the kernel counts for the whole host."""

    peer: str
    """The peer that has the device."""
    device: str
    """The name of the device among those of the peer."""
    read_bytes: int
    """Bytes read from it."""
    written_bytes: int
    """Bytes written to it."""
    busy_ms: int
    """Time with at least one request in work, in milliseconds."""


class BenchmarkPeer(View):
    """A host that has measured."""

    peer: str
    """The peer."""
    processors: int
    """Its processors."""
    memory_bytes: int
    """Its memory in bytes; 0 if that is not known."""
    threads: int
    """Most threads that read or wrote at a time; those on names where no bytes moved."""
    caches_kept: str | None = None
    """Reason why the host could not give up the caches of all its files; none if it did."""
    devices: list[BenchmarkDevice] = []
    """The block devices below the files, by depth; empty where the store is on none."""


class BenchmarkFileSystem(View):
    """The file system of a store, as a benchmark found it."""

    kind: str
    """Its kind, such as `XFS`."""
    options: str = ""
    """Options of its mount; empty if they are not known."""
    fingerprint: str
    """The store's fingerprint: another one means another file system."""
    durable_by: str
    """Calls that made data durable, in words."""
    direct: bool
    """True if whole blocks of large files were written past the page cache."""
    free_bytes: int
    """Bytes that could be written before the benchmark."""
    total_bytes: int
    """Bytes that it holds in all."""
    free_files: int | None = None
    """Files that could be made before the benchmark; none without a limit."""


class BenchmarkRun(View):
    """One run of a step, with times since the barrier at which all peers began.

    A step that was done early was repeated: times and numbers are sums over its passes.
    """

    bytes: int
    """Bytes that all peers moved."""
    files: int
    """Files that all peers completed, or names that they dealt with."""
    first_done_s: float
    """Time until the first peer was done, in seconds."""
    last_done_s: float
    """Time until the last peer was done, in seconds."""
    durable_s: float
    """Time until all was durable under final names, in seconds."""
    passes: int
    """Number of passes over a set of files."""
    cache: CacheState | None = None
    """State of the readers' caches before."""
    marks: list[BenchmarkMark] = []
    """Reasons why it says less than it seems to."""
    traffic: list[BenchmarkTraffic] = []
    """Work of the block devices below the store, until all was durable."""


class BenchmarkRate(View):
    """The median of the runs of a step, with both ends."""

    median: float
    """The median."""
    least: float
    """The least."""
    greatest: float
    """The greatest."""


class BenchmarkPoint(View):
    """A measured point: an operation on files of one size, with one number of threads."""

    operation: BenchmarkOperation
    """The operation."""
    size_bytes: int
    """Size of each file in bytes; 0 for operations on names."""
    threads: int = 0
    """Threads of the peer that had the most; 0 if they were not recorded."""
    bytes_per_s: BenchmarkRate
    """Bytes per second until all was durable; zeros for operations on names."""
    files_per_s: BenchmarkRate
    """Files per second until all was durable."""
    marks: list[BenchmarkMark] = []
    """The marks that any of its runs has."""
    runs: list[BenchmarkRun]
    """Its runs, oldest first."""


class Benchmark(View):
    """A benchmark of a store: one that runs, or a result that the site keeps."""

    id: str
    """Its id."""
    store: str
    """The store."""
    path: PathText
    """The directory within which its files were."""
    state: BenchmarkState
    """Its state."""
    user: str
    """The user who began it."""
    began: datetime
    """Its begin."""
    ended: datetime | None = None
    """Its end."""
    version: str
    """Release of the program."""
    steps_done: int
    """Steps that are done."""
    steps: int
    """Number of all steps."""
    step: str = ""
    """The present step in words; empty once it has ended."""
    seconds: int
    """Longest time for which a step granted files, and extents of large ones, in seconds."""
    repeats: int
    """Number of repeats of each step."""
    budget_bytes: int
    """Bytes that its files might take at a time."""
    with_load: bool
    """True if transfers used the store when it began, or before one of its steps."""
    peers: list[BenchmarkPeer]
    """The hosts that measured together."""
    threads_asked: list[int] = []
    """Numbers of threads that the request wanted; empty where the peers chose."""
    peers_left_out: int = 0
    """Number of peers that reached the store, and did not measure on request."""
    file_system: BenchmarkFileSystem
    """The file system."""
    left_out: list[int] = []
    """Sizes of which the budget of a peer holds no file."""
    unread: list[int] = []
    """Sizes of which a read was left out: no file was written whole within `seconds`."""
    points: list[BenchmarkPoint]
    """The points that are measured by now."""
    problem: str | None = None
    """Reason of an early end, and of files that could not be removed yet."""
    stale: str | None = None
    """Reason why the result is not true any more; none if it is."""


class BenchmarkCleaned(View):
    """What a cleanup has removed."""

    files: int
    """Files that were removed."""
    directories: int
    """Directories that were removed."""
