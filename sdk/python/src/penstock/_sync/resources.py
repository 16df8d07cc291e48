# Written by tools/generate.py from _async/resources.py: change that file.
"""The resources of the API beside transfers and plans."""

from .. import _operations as operations
from ..models.cluster import RecoveredView
from ..models.page import Page
from ..models.path import PairReport, PathsView
from ..models.peer import PeersView, PeerView
from ..models.site import (
    Finding,
    JoinReply,
    Orphan,
    RotateReply,
    SiteEventView,
    SiteHealthView,
    SiteView,
    StatusView,
    StoreView,
    TokenReply,
)
from .connection import Connection
from .pages import all_of

_SLOW_S = 300.0
"""Seconds for what asks other hosts, one after another."""

# `list` is a method below.
_StoreViews = list[StoreView]
_SiteViews = list[SiteView]
_SiteEvents = list[SiteEventView]
_Findings = list[Finding]
_Orphans = list[Orphan]
_Names = list[str]
_JsonObject = dict[str, object]


class Stores:
    """The stores of the own site."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> _StoreViews:
        """Returns the stores, with the rights of paired sites to them."""
        return all_of(self._connection, operations.STORES_LIST, Page[StoreView])


class Sites:
    """The own site and those that it is paired with."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> _SiteViews:
        """Returns the own site, then those that it is paired with."""
        return all_of(self._connection, operations.SITES_LIST, Page[SiteView])

    def offer(self) -> TokenReply:
        """Makes a token with which another site pairs itself with this one, once."""
        return self._connection.call(operations.SITES_OFFER, TokenReply)

    def pair(self, token: str) -> JoinReply:
        """Pairs this site with the one that made the token. Compare both fingerprints."""
        operation, body = operations.SITES_PAIR, {"token": token}
        return self._connection.call(operation, JoinReply, json=body, timeout=_SLOW_S)

    def unpair(self, site: str) -> None:
        """Ends a pairing."""
        self._connection.read(operations.SITES_UNPAIR, {"site": site})

    def paths(self, site: str) -> PathsView:
        """Tries the network paths between this site and another, from both ends."""
        segments = {"site": site}
        return self._connection.call(operations.SITES_PATHS, PathsView, segments, timeout=_SLOW_S)

    def doctor(self, site: str) -> PairReport:
        """Examines whether this site and another fit each other."""
        segments = {"site": site}
        return self._connection.call(operations.SITES_DOCTOR, PairReport, segments, timeout=_SLOW_S)


class Peers:
    """The peers of the own site."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> PeersView:
        """Returns the peers and their work."""
        return self._connection.call(operations.PEERS_LIST, PeersView)

    def invite(self) -> TokenReply:
        """Makes a token with which a host joins this site, once."""
        return self._connection.call(operations.PEERS_INVITE, TokenReply)

    def drain(self, peer: str, *, undo: bool = False, force: bool = False) -> PeerView:
        """Gives a peer no new work; `undo` takes that back.

        `force` drains it although no other peer reaches a store of a running transfer.
        """
        operation, body = operations.PEERS_DRAIN, {"undo": undo, "force": force}
        return self._connection.call(operation, PeerView, {"peer": peer}, json=body)

    def forget(self, peer: str, *, stolen: bool = False) -> RotateReply:
        """Forgets a peer that is gone, and makes new keys, so that it is shut out.

        `stolen` says that its host is in other hands: it may be up then.
        """
        operation, body = operations.PEERS_FORGET, {"stolen": stolen}
        return self._connection.call(
            operation, RotateReply, {"peer": peer}, json=body, timeout=_SLOW_S
        )


class Site:
    """The own site."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def status(self) -> StatusView:
        """Returns the state of the daemon that answers."""
        return self._connection.call(operations.SITE_STATUS, StatusView)

    def health(self) -> SiteHealthView:
        """Returns the health of the site: what is wrong, and what to do."""
        return self._connection.call(operations.SITE_HEALTH, SiteHealthView)

    def events(self, *, transfer: str | None = None, limit: int | None = None) -> _SiteEvents:
        """Returns the last events of the site, or those of one transfer; oldest first."""
        query: dict[str, str] = {}
        if transfer is not None:
            query["transfer"] = transfer
        if limit is not None:
            query["limit"] = str(limit)
        return all_of(self._connection, operations.SITE_EVENTS, Page[SiteEventView], query=query)

    def doctor(self) -> _Findings:
        """Examines the hosts of the site."""
        return all_of(self._connection, operations.SITE_DOCTOR, Page[Finding], timeout=_SLOW_S)

    def openapi(self) -> _JsonObject:
        """Returns the OpenAPI 3.1 document of the API."""
        return self._connection.call(operations.SITE_OPENAPI, _JsonObject)

    def rotate_keys(self) -> RotateReply:
        """Gives the site new keys, and tells them to its peers and paired sites."""
        return self._connection.call(operations.SITE_ROTATE_KEYS, RotateReply, timeout=_SLOW_S)


class Orphans:
    """What abandoned transfers left."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> _Orphans:
        """Returns what is left over."""
        return all_of(self._connection, operations.ORPHANS_LIST, Page[Orphan])

    def remove(self) -> _Orphans:
        """Removes what is left over, and returns it."""
        return (self._connection.call(operations.ORPHANS_REMOVE, Page[Orphan])).items


class Cluster:
    """Recovery of a site of several peers. For a host whose site is broken."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def take_over(self, fenced: _Names) -> RecoveredView:
        """Continues alone with the site's etcd, as the hosts of all other members are lost.

        `fenced` names the hosts that are known to be off, or to reach neither stores nor network.
        """
        operation, body = operations.CLUSTER_TAKE_OVER, {"fenced": fenced}
        return self._connection.call(operation, RecoveredView, json=body, timeout=_SLOW_S)

    def recover(self, *, new_etcd: bool = False) -> RecoveredView:
        """Gives the site's records another incarnation.

        `new_etcd` starts a new etcd at this host first: all members of the old one are lost.
        """
        operation, body = operations.CLUSTER_RECOVER, {"new_etcd": new_etcd}
        return self._connection.call(operation, RecoveredView, json=body, timeout=_SLOW_S)

    def remove_host(self, host: str) -> None:
        """Removes a host from those that run the site's etcd."""
        self._connection.read(operations.CLUSTER_REMOVE_HOST, {"host": host})
