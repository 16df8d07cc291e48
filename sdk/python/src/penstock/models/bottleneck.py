"""Causes that limit the rate of a transfer, and where the time of its threads goes."""

from .base import OpenEnum, View


class BottleneckCode(OpenEnum):
    """Cause that limits the rate of a transfer."""

    SCAN = "scan"
    """The scan of the source finds no more files."""
    COMPARE = "compare"
    """Files at the target are compared with those of the source before anything is fetched."""
    GRANT = "grant"
    """The controller grants no more work."""
    LIMIT = "limit"
    """A limit that a user has set."""
    READ = "read"
    """The storage of the source: it is read."""
    WRITE = "write"
    """The storage of the target: it is written."""
    METADATA = "metadata"
    """Opening, making and naming files, of which there are many for their bytes."""
    CPU = "cpu"
    """The processors: they hash, encrypt and copy."""
    LINK = "link"
    """The network."""
    NETWORK_OR_SOURCE = "network-or-source"
    """The network, or the source, which reports no times: it is of an earlier release."""
    DURABILITY = "durability"
    """The target: it makes durable what is written."""
    READBACK = "readback"
    """The target: it reads again what it has written."""
    FORMER_PEER = "former-peer"
    """A peer that took part before, and may still write."""
    SEVERAL = "several"
    """Several peers are limited by different causes; the text names them."""


class Side(OpenEnum):
    """Side of a transfer."""

    SOURCE = "source"
    """The site, or host, that is read."""
    TARGET = "target"
    """The site, or host, that is written."""


class Bottleneck(View):
    """Cause that limits the rate of a transfer; of one that has ended, for all of its time."""

    code: BottleneckCode
    """The cause, for programs."""
    at: Side | None = None
    """Side of it; none where it is between both, or of neither."""
    share: float | None = None
    """Part of the time of lanes that the cause takes, from 0 to 1.

    Of ``cpu``: the part of the side's processors that is in use or waited for. None where it was
    not measured.
    """
    peer: str | None = None
    """Peer of that side of whose time the cause takes a clearly greater part than of that of all
    others; none where none stands out.
    """
    text: str = ""
    """The cause, for people, as it follows "limited by"."""


class ActivitySeconds(View):
    """Seconds of threads by activity: those of several threads are added up."""

    read: float = 0.0
    """Source: reading bytes of files."""
    hash: float = 0.0
    """Source: hashing."""
    seal: float = 0.0
    """Source: encrypting, or authenticating."""
    send: float = 0.0
    """Handing bytes to the network, with the time in which it takes none."""
    receive: float = 0.0
    """Target: taking the bytes of a frame that has begun to arrive."""
    open: float = 0.0
    """Target: decrypting and checking records."""
    compare: float = 0.0
    """Target: hashing, and comparing with the digests of the source."""
    write: float = 0.0
    """Target: writing bytes to files."""
    metadata: float = 0.0
    """Opening and making files, looking at them, setting attributes, closing."""
    sync: float = 0.0
    """Target: making data durable."""
    publish: float = 0.0
    """Target: giving complete files their names."""
    wait_source: float = 0.0
    """Target: waiting for an answer of the source."""
    wait_target: float = 0.0
    """Source: waiting for a request of the target."""
    wait_grant: float = 0.0
    """Target: waiting for work, with nothing left to ask for."""
    wait_disk: float = 0.0
    """Target: waiting until what was written is durable and named."""
    wait_limit: float = 0.0
    """Sleeping under a limit that a user has set."""
    wait_memory: float = 0.0
    """Waiting for a buffer."""
    idle: float = 0.0
    """Target: nothing to do, as other lanes do all that there is."""
    other: float = 0.0
    """The rest."""
    cpu: float = 0.0
    """Processor time, a part of all of the above."""
    cpu_wait: float = 0.0
    """Waiting for a processor, a part of all of the above."""


class PeerTime(View):
    """Time that a peer's threads spend on a transfer."""

    peer: str = ""
    """Its name; empty for the only peer of a target site, and in copies."""
    cores: int = 0
    """Processors that it may use; 0 if that is not known."""
    lanes: ActivitySeconds = ActivitySeconds()
    """Time of its lanes."""
    publishers: ActivitySeconds = ActivitySeconds()
    """Time of the threads that make durable and name what lanes have written."""


class TransferTime(View):
    """Time that the threads of a transfer spend on it, since it began."""

    is_local: bool = False
    """True if one thread reads and writes, at one host."""
    source: list[PeerTime] = []
    """Peers of the source; none where it reports no times, being of an earlier release."""
    target: list[PeerTime] = []
    """Peers of the target."""
