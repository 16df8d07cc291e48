"""Sites, stores and findings."""

from datetime import datetime

from .base import OpenEnum, View
from .cluster import ClusterView
from .peer import PeersView
from .place import PathText


class SiteView(View):
    """A site: this one, or one that it is paired with."""

    name: str
    """Its name."""
    own: bool = False
    """True if it is the site that answers."""
    fingerprint: str = ""
    """SHA-256 of its CA's key, in hex."""
    addresses: list[str] = []
    """Addresses at which its peers listen for data, and its controller for requests."""
    paired_at: datetime | None = None
    """Time of the pairing; none for the own site."""
    keys: int = 0
    """Number of its keys: rotations since it was set up."""
    unheard: bool = False
    """Set until it has confirmed that it trusts the newest keys of the own site."""


class StatusView(View):
    """State of the daemon."""

    site: SiteView
    """The own site."""
    peer: str
    """The own peer's name."""
    version: str = ""
    """Version of the program."""
    listen: str = ""
    """Address at which it listens for peers and data."""
    pid: int = 0
    """Process number of the daemon."""
    running: int = 0
    """Transfers that run now."""
    queued: int = 0
    """Transfers that wait to be started or for their next attempt."""
    cluster: ClusterView | None = None
    """The site's peers, where there are several."""


class TokenReply(View):
    """A pairing token, to be handed to the operator of the other site."""

    token: str
    """The token: a secret until it is used."""
    expires_at: datetime
    """Time after which it is void."""
    fingerprint: str = ""
    """Fingerprint of the own site's CA."""


class JoinReply(View):
    """Answer to a site that was paired."""

    site: SiteView
    """The other site."""
    own_fingerprint: str = ""
    """Fingerprint of the own site's CA, as the other side sees it."""


class StoreView(View):
    """A store of the own site."""

    name: str
    """Its name."""
    place: str = ""
    """A directory, or `null:`, or `mem:…`."""
    read_only: bool = False
    """True if nothing may be written there."""
    read: list[str] = []
    """Sites that may read: names, or `*` for all that are paired."""
    write: list[str] = []
    """Sites whose data may be written there on their own request."""
    delete: list[str] = []
    """Sites of `write` whose transfers may also replace and delete what is there."""
    remove: list[str] = []
    """Sites that may remove there what was moved to them, or `*`."""


class OrphanKind(OpenEnum):
    """Kind of an orphan."""

    JOURNAL = "journal"
    """A journal directory whose transfer the database does not know."""
    LEDGER = "ledger"
    """The ledger, and possibly temporary files, of a transfer that has ended."""
    STUB = "stub"
    """A transfer of another site that the other site does not know any more."""


class Orphan(View):
    """An orphan: a leftover of a transfer."""

    id: str
    """The transfer to which it belongs."""
    kind: OrphanKind
    """Kind."""
    place: str = ""
    """Place, in words."""
    root: PathText | None = None
    """The target's root, where that is known."""
    removed: bool = False
    """True if it was removed now."""


class Level(OpenEnum):
    """Severity of a finding."""

    OK = "ok"
    """In order."""
    NOTE = "note"
    """Worth knowing; no action needed."""
    WARNING = "warning"
    """Works, but costs rate, safety or patience."""
    BAD = "bad"
    """Does not work, or will not for long."""


class Finding(View):
    """A finding about one matter, for operators of a site."""

    code: str
    """Stable, for programs: `clock`, `nofile`, `path`, …."""
    level: Level
    """Severity."""
    peer: str = ""
    """The peer concerned; empty if there is none."""
    what: str = ""
    """The observation."""
    why: str = ""
    """Reason why it matters; empty if all is well."""
    action: str = ""
    """Action to take; empty if there is none."""


class SiteHealthView(View):
    """Health of a site, as `penstock site status` shows it."""

    level: Level
    """The worst of the findings."""
    findings: list[Finding] = []
    """The findings."""
    peers: PeersView
    """The site's peers."""
    cluster: ClusterView | None = None
    """The leader and the state of etcd; none at a site of one peer."""


class RotateReply(View):
    """The outcome of a rotation."""

    sequence: int = 0
    """Number of the new keys."""
    fingerprint: str = ""
    """Fingerprint of the new authority."""
    left_behind: list[str] = []
    """Peers of the own site that did not answer and have the old keys only."""


class SiteEventView(View):
    """An event at a site."""

    at: datetime
    """Time by the clock of the reporting peer."""
    peer: str
    """The reporting peer."""
    kind: str = ""
    """Stable: `peer-joined`, `peer-left`, `peer-lost`, `controller`, `no-controller`, `drain`,
    `undrain`, `path-dead`, `path-crawling`, `path-back`, `store-offline`, `store-back`,
    `peer-in`, `peer-out`, `scan-in`, `scan-out` (of a transfer), `etcd`, `etcd-lost`,
    `etcd-back`, `etcd-member-lost`, `etcd-member-back`, `format`, `transfer`, `problem`.
    """
    subject: str = ""
    """Subject of the event: a peer, a path, a store, an id."""
    transfer: str | None = None
    """The transfer that the event concerns, if any."""
    text: str = ""
    """The event in words."""
