"""Network paths between two sites."""

from pydantic import Field

from .base import View
from .site import Finding


class PathView(View):
    """A pair of addresses."""

    peer: str
    """The peer that dials."""
    to_peer: str = ""
    """The peer that is dialled."""
    from_: str = Field(default="", alias="from")
    """Address and interface of the end that dials, as `10.50.1.1%eth1`."""
    to: str = ""
    """Address of the end that is dialled."""
    network: str = ""
    """Name of the network; empty if it has none."""
    reachable: bool = False
    """True if it was reached just now."""
    proven: bool = False
    """True if the far end showed the site's certificate just now."""
    why: str = ""
    """Reason why it was not reached, in words."""
    large: str = ""
    """Reason why 64 KiB could not be sent there and back, in words; empty if they could, or if
    it was not reached.
    """
    clock_ahead_ms: float | None = None
    """Milliseconds by which the other end's clock is ahead. The error is at most half a round
    trip.
    """
    rtt_us: int | None = None
    """Least round trip seen, in microseconds."""
    rtt_now_us: int | None = None
    """Round trip just now, in microseconds; none if it was not reached. Unlike the least one it
    follows a path that became longer.
    """
    rate_bits_per_s: float | None = None
    """Rate of transfers over it when they last measured."""
    state: str = ""
    """State in the last transfer: `untried`, `carrying`, `standby`, `on trial`, `crawling` or
    `dead`.
    """
    since: int = 0
    """Start of that state, in seconds since 1970; 0 if the path was never used."""
    last_failure: str = ""
    """Reason why a lane over it was lost or did not open, if none has opened since."""


class PathsView(View):
    """The paths between this site and another, tried from both ends."""

    site: str
    """The other site."""
    outward: list[PathView] = []
    """Paths from here to there. They carry data from there to here, since the target dials."""
    inward: list[PathView] = []
    """Paths from there to here, as the other site has tried them."""
    inward_problem: str = ""
    """Reason why the other site has tried none; empty if it has."""


class PeerProbe(View):
    """Result of one peer: its own description, and the addresses that it reaches."""

    peer: str
    """The peer."""
    release: str = ""
    """Release of the program."""
    protocol: tuple[int, int]
    """Versions of the lane protocol that it speaks, the oldest and the newest."""
    certificate_expires: int = 0
    """Expiry of its certificate, in seconds since 1970."""
    capability_key: str = ""
    """BLAKE3 of the public key with which it checks capabilities, in hex."""
    paths: list[PathView] = []
    """The paths that it has tried."""
    listening: list[tuple[str, str]] = []
    """Its own addresses for data, each with the reason why it cannot connect to that itself;
    empty if it can.
    """


class SiteProbe(View):
    """Results of the peers of one site for another site's addresses."""

    site: str
    """The site whose peers have tried."""
    peers: list[PeerProbe] = []
    """The peers that were probed."""
    silent: list[tuple[str, str]] = []
    """Peers that are there and did not answer, with the reason."""


class PairReport(View):
    """Match of two sites, as `penstock doctor --pair` shows it."""

    paths: PathsView
    """The paths."""
    ours: SiteProbe
    """Results of the peers here."""
    theirs: SiteProbe | None = None
    """Results of the other site's peers; none if it did not answer."""
    findings: list[Finding] = []
    """Conclusions from both views."""
