"""Stores, the entries of their directories, and the audit log."""

from datetime import datetime

from pydantic import Field

from .access import StoreGrant
from .base import OpenEnum, View
from .place import PathText
from .plan import ItemKind
from .site import StoreView


class StoreState(OpenEnum):
    """State of a store at a peer."""

    ONLINE = "online"
    """It can be used."""
    OFFLINE = "offline"
    """It cannot be used now."""
    HUNG = "hung"
    """A call to it does not return."""


class StoreSpace(View):
    """Room in the file system of a store."""

    free_bytes: int = 0
    """Bytes that can still be written."""
    total_bytes: int = 0
    """Bytes that the file system holds in all."""
    free_files: int | None = None
    """Files that can still be made; none where their number has no limit of its own."""


class StoreUsage(View):
    """How full a store is."""

    space: StoreSpace | None = None
    """Room in its file system; none of a store without one."""


class StorePeer(View):
    """A peer that has a store."""

    peer: str
    """Its name."""
    is_: str = Field(default="", alias="is")
    """The store there beside the other peers': `same`, `alone`, `new`, `other` or `offline`."""
    why: str = ""
    """Reason why it is offline there; empty if it is not."""


class StoreDetails(View):
    """A store of the own site, and how it is now."""

    store: StoreView
    """The store as it is configured."""
    state: StoreState
    """Its state at the peer that looked."""
    why: str = ""
    """Reason of the state; empty if it can be used."""
    identity: str = ""
    """Its identity in hex; empty until it is first written to."""
    space: StoreSpace | None = None
    """Room in its file system; none if that is not known."""
    peers: list[StorePeer] = []
    """The peers that have it."""
    rights: StoreGrant = StoreGrant()
    """Rights of the caller in it."""


class SiteStoreView(View):
    """A store of a paired site, with the rights of the own site in it."""

    name: str
    """Its name."""
    read: bool = False
    """True if transfers to the own site may read from it."""
    write: bool = False
    """True if transfers of the own site may make new files in it."""
    delete: bool = False
    """True if they may also replace and delete what is there."""
    remove: bool = False
    """True if they may remove there what was moved to the own site."""


class EntryOwner(View):
    """Owner of an entry."""

    uid: int
    """Number of the user."""
    gid: int
    """Number of the group."""
    user: str | None = None
    """Name of the user at the host that answers; none if it knows none."""
    group: str | None = None
    """Name of the group at the host that answers; none if it knows none."""


class EntryView(View):
    """An entry of a directory. A link is shown, never followed."""

    name: PathText
    """Its name: one component of a path."""
    kind: ItemKind
    """Its kind."""
    bytes: int | None = None
    """Size of a file; none of other kinds, and if it cannot be looked at."""
    mtime: datetime | None = None
    """Time of the last modification, to the microsecond; none if it cannot be looked at."""
    mode: str | None = None
    """Permission bits as four octal digits; none if it cannot be looked at."""
    owner: EntryOwner | None = None
    """Its owner; none if it cannot be looked at."""
    target: PathText | None = None
    """Target of a link, as it is written there."""


class EntryList(View):
    """A part of the entries of a directory."""

    items: list[EntryView]
    """The entries. A slow store gives fewer than were asked for."""
    next: str | None = None
    """The cursor of the next part; none at the end."""
    sorted: bool = True
    """False if the entries come in the order of the file system."""


class AuditResult(OpenEnum):
    """Result of a request."""

    DONE = "done"
    """It was carried out."""
    REFUSED = "refused"
    """The user lacked a right to it."""
    FAILED = "failed"
    """It failed for another reason."""


class AuditEntry(View):
    """A line of the audit log of a peer."""

    at: datetime
    """Time of the request."""
    peer: str
    """The peer that took the request."""
    actor: str
    """The user."""
    via: str = ""
    """The user id at the socket, or the token."""
    from_: str = Field(default="", alias="from")
    """Address of the client; empty for the socket."""
    action: str = ""
    """Id of the operation, such as `submit_transfer`; empty if the API has no such operation."""
    object: str = ""
    """Names in the path of the request, joined by `/`; empty if it has none."""
    result: AuditResult
    """The result."""
    status: int = 0
    """HTTP status of the answer."""
    request: str = ""
    """Method and path of the request."""
    request_id: str = ""
    """Identifier of the request, as the client was told."""
    digest: str = ""
    """Digest of the line in the chain of that peer."""


class AuditList(View):
    """A part of the audit log, newest first."""

    items: list[AuditEntry]
    """The lines."""
    next: str | None = None
    """The cursor of the next part; none at the end."""
    silent: list[str] = []
    """Peers that did not answer: their lines are missing."""
