"""Peers of the own site and their work."""

from pydantic import Field

from .base import OpenEnum, View


class Presence(OpenEnum):
    """Presence of a peer, as the others see it."""

    UP = "up"
    """The peer holds its lease and answers."""
    SILENT = "silent"
    """The peer holds its lease and does not answer."""
    LEFT = "left"
    """The peer was shut down in order."""
    LOST = "lost"
    """The peer is gone without having said so."""


class DrainMark(View):
    """Order that a peer gets no new work, kept until an operator takes it back."""

    peer: str
    """The peer."""
    since: int = 0
    """Time of the order, in seconds since 1970."""
    forced: bool = False
    """Set if the order was given although no other peer reaches a store of a running transfer."""


class TaskPath(View):
    """A path of a transfer at a peer."""

    from_: str = Field(default="", alias="from")
    """Address and interface here, as `10.50.1.1%eth1`."""
    to: str = ""
    """Address of the source's peer."""
    to_peer: str = ""
    """Name of that peer."""
    network: str = ""
    """Name of the network; empty if it has none."""
    state: str = ""
    """`untried`, `carrying`, `standby`, `on trial`, `crawling` or `dead`."""
    since: int = 0
    """Start of that state, in seconds since 1970; 0 if the path was never used."""
    why: str = ""
    """Reason why it does not carry; empty if it does."""
    lanes: int = 0
    """Lanes that are open over it."""
    rate_bits_per_s: float = 0.0
    """Rate over it now."""
    rtt_us: int | None = None
    """Least round trip seen, in microseconds."""


class TaskLoad(View):
    """Share of a peer in a transfer."""

    transfer: str
    """The transfer."""
    peer: str = ""
    """The peer that fetches and writes."""
    source: str | None = None
    """The site from which it fetches; none if that is its own site."""
    store: str = ""
    """The store to which it writes."""
    bytes_verified: int = 0
    """Bytes of payload that it has verified in this run."""
    rate_bits_per_s: float = 0.0
    """Rate at which it fetches now; 0 within one site, where there are no lanes."""
    lanes: int = 0
    """Lanes that are open."""
    paths: list[TaskPath] = []
    """Its paths; none if source and target are one site."""


class TransferPaths(View):
    """Reports of all peers on one transfer."""

    shares: list[TaskLoad] = []
    """Shares of the peers that have one now."""
    silent: list[str] = []
    """Peers that were asked and did not answer."""


class PeerLoad(View):
    """Work that a peer has in hand at this moment, as it reports itself."""

    peer: str
    """The peer."""
    leads: bool = False
    """True if it is the controller."""
    running: int = 0
    """Transfers that run under it as the controller."""
    queued: int = 0
    """Transfers that wait under it, as the controller, to be started or for their next
    attempt.
    """
    lanes_served: int = 0
    """Lanes that it serves as a source."""
    tasks: list[TaskLoad] = []
    """Transfers for which it writes."""
    host_load: float = 0.0
    """Load average of the host over one minute."""
    clock_ms: int = 0
    """Time by its clock when it answered, in milliseconds since 1970."""


class PeerStore(View):
    """A store as a peer reaches it, compared with the other peers."""

    store: str
    """Its name."""
    identity: str = ""
    """Its identity, in hex; empty if it has none yet or cannot be read."""
    is_: str = Field(default="", alias="is")
    """Comparison with the other peers: `same`, `other`, `new` (no identity yet anywhere),
    `offline` (it cannot be opened, or others have an identity), `alone` (no other peer has it).
    """
    why: str = ""
    """The reason why it is offline, in words; may be empty."""


class PeerView(View):
    """A peer of the site."""

    peer: str
    """Its name."""
    own: bool = False
    """True if it is the peer that answers."""
    presence: Presence
    """Its presence."""
    since: int = 0
    """Start of that presence, in seconds since 1970; 0 if it is unknown."""
    addresses: list[str] = []
    """Addresses at which it takes requests."""
    version: str = ""
    """Release of the program."""
    controller_since: int = 0
    """Start of its controllership, in seconds since 1970; 0 if it is not the controller."""
    stores: list[PeerStore] = []
    """Stores that it reaches."""
    draining: DrainMark | None = None
    """The order that it gets no new work, if there is one."""
    load: PeerLoad | None = None
    """Its work in hand, if it answers."""
    clock_ahead_ms: float | None = None
    """Milliseconds by which its clock is ahead of the clock of the peer that answers. The
    error is at most half the time that the question took.
    """
    trouble: str = ""
    """Trouble of the peer, in words; empty if there is none."""


class PeersView(View):
    """The peers of a site."""

    site: str
    """The site."""
    peers: list[PeerView] = []
    """The peers, in order of their names."""
