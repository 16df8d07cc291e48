"""The resources of the API beside transfers and plans."""

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal

from .. import _operations as operations
from .._operations import Operation
from .._requests import series_query, time_text
from ..models.base import View
from ..models.benchmark import Benchmark, BenchmarkCleaned
from ..models.cluster import RecoveredView
from ..models.entry import AuditResult, SiteStoreView, StoreDetails, StoreUsage
from ..models.page import Page
from ..models.path import PairReport, PathsView
from ..models.peer import PeersView, PeerView
from ..models.place import PathText
from ..models.plan import ItemKind
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
from ..models.statistics import SiteStatistics
from .connection import AsyncConnection
from .pages import AsyncAuditPages, AsyncEntryPages, all_of

_SLOW_S = 300.0
"""Seconds for what asks other hosts, one after another."""

# `list` is a method below.
_StoreViews = list[StoreView]
_Benchmarks = list[Benchmark]
_SiteStoreViews = list[SiteStoreView]
_SiteViews = list[SiteView]
_SiteEvents = list[SiteEventView]
_Findings = list[Finding]
_Orphans = list[Orphan]
_Names = list[str]
_JsonObject = dict[str, object]


Path = str | bytes | os.PathLike[str] | PathText
"""A path within a store, or the begin of a name."""
EntryOrder = Literal["name", "-mtime", "-size"]
"""By name, the newest first, the largest first."""
BenchmarkKind = Literal["write", "read", "meta"]
"""What a benchmark can measure."""


class _BenchmarkList(View):
    items: _Benchmarks


def _entries(
    connection: AsyncConnection,
    operation: Operation,
    segments: Mapping[str, str],
    path: Path,
    prefix: Path,
    kind: ItemKind | str | None,
    sort: EntryOrder,
    page_size: int | None,
) -> AsyncEntryPages:
    query = {"path": str(PathText.of(path)), "prefix": str(PathText.of(prefix)), "sort": sort}
    if kind is not None:
        query["kind"] = str(kind)
    if page_size is not None:
        query["limit"] = str(page_size)
    return AsyncEntryPages(connection, operation, segments, query)


class AsyncStores:
    """The stores of the own site."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self) -> _StoreViews:
        """Returns the stores, with the rights of paired sites to them."""
        return await all_of(self._connection, operations.STORES_LIST, Page[StoreView])

    async def get(self, store: str) -> StoreDetails:
        """Returns a store: its state, its room, the peers that have it, the caller's rights."""
        segments = {"store": store}
        return await self._connection.call(operations.STORES_GET, StoreDetails, segments)

    def entries(
        self,
        store: str,
        path: Path = "",
        *,
        prefix: Path = "",
        kind: ItemKind | str | None = None,
        sort: EntryOrder = "name",
        page_size: int | None = None,
    ) -> AsyncEntryPages:
        """Lists a directory; nothing is asked before the first entry is.

        A directory of more than 20,000 names comes in the order of its file system.

        Args:
            store: The store.
            path: The directory within it; the root if it is empty.
            prefix: Only names that begin with this.
            kind: Only entries of this kind.
            sort: The order.
            page_size: Entries that one request fetches, 1 to 1000.
        """
        operation, segments = operations.STORES_ENTRIES, {"store": store}
        return _entries(self._connection, operation, segments, path, prefix, kind, sort, page_size)

    async def make_directory(self, store: str, path: Path) -> None:
        """Makes a directory whose parent exists. One that exists is an error `entry-exists`."""
        operation, body = operations.STORES_MAKE_DIRECTORY, {"path": str(PathText.of(path))}
        await self._connection.read(operation, {"store": store}, json=body)

    async def benchmarks(self, store: str) -> _Benchmarks:
        """Returns the benchmark of a store that runs, then the results, newest first."""
        operation, segments = operations.STORES_BENCHMARKS, {"store": store}
        return (await self._connection.call(operation, _BenchmarkList, segments)).items

    async def start_benchmark(
        self,
        store: str,
        path: Path = "",
        *,
        peers: int | None = None,
        kinds: Iterable[BenchmarkKind] = (),
        sizes: Iterable[int] = (),
        threads: Iterable[int] = (),
        seconds: int | None = None,
        repeats: int | None = None,
        budget_bytes: int | None = None,
        with_load: bool = False,
        drop_caches: bool = False,
    ) -> Benchmark:
        """Measures what a store can do, on peers of the site at once. For operators.

        Returns when it has begun; `stores.benchmarks` shows how far it is.

        Args:
            store: The store.
            path: The directory within it for the files, which exists.
            peers: Number of peers that measure together; all that reach the store if it is none.
            kinds: What to measure; all if it is empty.
            sizes: Sizes of files in bytes; the site chooses if it is empty.
            threads: Numbers of threads of each peer, each of which is measured; the site chooses
                if it is empty.
            seconds: Longest time for which a step grants files, and extents of large ones.
            repeats: Number of times that each step is done.
            budget_bytes: Bytes that the files may take at a time.
            with_load: True to measure although transfers use the store.
            drop_caches: True to have the hosts give up all their caches before they read.
        """
        body: dict[str, object] = {
            "path": str(PathText.of(path)),
            "operations": list(kinds),
            "sizes": list(sizes),
            "threads": list(threads),
            "with_load": with_load,
            "drop_caches": drop_caches,
        }
        chosen = {
            "peers": peers,
            "seconds": seconds,
            "repeats": repeats,
            "budget_bytes": budget_bytes,
        }
        body |= {name: value for name, value in chosen.items() if value is not None}
        operation, segments = operations.STORES_START_BENCHMARK, {"store": store}
        return await self._connection.call(
            operation, Benchmark, segments, json=body, timeout=_SLOW_S
        )

    async def end_benchmark(self, store: str, id: str) -> None:
        """Ends a benchmark that runs, or removes a result. For operators."""
        operation, segments = operations.STORES_END_BENCHMARK, {"store": store, "id": id}
        await self._connection.read(operation, segments)

    async def clean_benchmarks(self, store: str, path: Path = "") -> BenchmarkCleaned:
        """Removes what benchmarks that broke off have left in a directory. For operators."""
        operation, body = operations.STORES_CLEAN_BENCHMARKS, {"path": str(PathText.of(path))}
        segments = {"store": store}
        return await self._connection.call(
            operation, BenchmarkCleaned, segments, json=body, timeout=_SLOW_S
        )


class AsyncSites:
    """The own site and those that it is paired with."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self) -> _SiteViews:
        """Returns the own site, then those that it is paired with."""
        return await all_of(self._connection, operations.SITES_LIST, Page[SiteView])

    async def offer(self) -> TokenReply:
        """Makes a token with which another site pairs itself with this one, once."""
        return await self._connection.call(operations.SITES_OFFER, TokenReply)

    async def pair(self, token: str) -> JoinReply:
        """Pairs this site with the one that made the token. Compare both fingerprints."""
        operation, body = operations.SITES_PAIR, {"token": token}
        return await self._connection.call(operation, JoinReply, json=body, timeout=_SLOW_S)

    async def unpair(self, site: str) -> None:
        """Ends a pairing."""
        await self._connection.read(operations.SITES_UNPAIR, {"site": site})

    async def stores(self, site: str) -> _SiteStoreViews:
        """Returns the stores of a paired site that it lets this one read or write."""
        segments = {"site": site}
        operation, page = operations.SITES_STORES, Page[SiteStoreView]
        return (await self._connection.call(operation, page, segments)).items

    def entries(
        self,
        site: str,
        store: str,
        path: Path = "",
        *,
        prefix: Path = "",
        kind: ItemKind | str | None = None,
        sort: EntryOrder = "name",
        page_size: int | None = None,
    ) -> AsyncEntryPages:
        """Lists a directory in a store of a paired site, as `stores.entries` does."""
        operation, segments = operations.SITES_ENTRIES, {"site": site, "store": store}
        return _entries(self._connection, operation, segments, path, prefix, kind, sort, page_size)

    async def usage(self, site: str, store: str) -> StoreUsage:
        """Returns how full a store of a paired site is."""
        operation, segments = operations.SITES_USAGE, {"site": site, "store": store}
        return await self._connection.call(operation, StoreUsage, segments)

    async def make_directory(self, site: str, store: str, path: Path) -> None:
        """Makes a directory in a store of a paired site, as `stores.make_directory` does."""
        operation, body = operations.SITES_MAKE_DIRECTORY, {"path": str(PathText.of(path))}
        await self._connection.read(operation, {"site": site, "store": store}, json=body)

    async def paths(self, site: str) -> PathsView:
        """Tries the network paths between this site and another, from both ends."""
        segments = {"site": site}
        return await self._connection.call(
            operations.SITES_PATHS, PathsView, segments, timeout=_SLOW_S
        )

    async def doctor(self, site: str) -> PairReport:
        """Examines whether this site and another fit each other."""
        segments = {"site": site}
        return await self._connection.call(
            operations.SITES_DOCTOR, PairReport, segments, timeout=_SLOW_S
        )


class AsyncAudit:
    """The audit logs of all peers. Users without the right to them see their own lines."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    def list(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        object: str | None = None,
        result: AuditResult | str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        page_size: int | None = None,
    ) -> AsyncAuditPages:
        """Lists lines, newest first; nothing is asked before the first line is.

        Args:
            actor: Only requests of this user.
            action: Only this operation, such as `submit_transfer`.
            object: Only requests whose path names this object.
            result: Only requests with this result.
            since: Only requests at this time or later.
            until: Only requests before this time.
            page_size: Lines that one request fetches, 1 to 500.
        """
        query: dict[str, str] = {}
        words = {"actor": actor, "action": action, "object": object, "result": result}
        query.update({key: str(value) for key, value in words.items() if value is not None})
        for key, time in (("since", since), ("until", until)):
            if time is not None:
                query[key] = time_text(time)
        if page_size is not None:
            query["limit"] = str(page_size)
        return AsyncAuditPages(self._connection, operations.AUDIT_LIST, query)


class AsyncPeers:
    """The peers of the own site."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self) -> PeersView:
        """Returns the peers and their work."""
        return await self._connection.call(operations.PEERS_LIST, PeersView)

    async def invite(self) -> TokenReply:
        """Makes a token with which a host joins this site, once."""
        return await self._connection.call(operations.PEERS_INVITE, TokenReply)

    async def drain(self, peer: str, *, undo: bool = False, force: bool = False) -> PeerView:
        """Gives a peer no new work; `undo` takes that back.

        `force` drains it although no other peer reaches a store of a running transfer.
        """
        operation, body = operations.PEERS_DRAIN, {"undo": undo, "force": force}
        return await self._connection.call(operation, PeerView, {"peer": peer}, json=body)

    async def forget(self, peer: str, *, stolen: bool = False) -> RotateReply:
        """Forgets a peer that is gone, and makes new keys, so that it is shut out.

        `stolen` says that its host is in other hands: it may be up then.
        """
        operation, body = operations.PEERS_FORGET, {"stolen": stolen}
        return await self._connection.call(
            operation, RotateReply, {"peer": peer}, json=body, timeout=_SLOW_S
        )


class AsyncSite:
    """The own site."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def status(self) -> StatusView:
        """Returns the state of the daemon that answers."""
        return await self._connection.call(operations.SITE_STATUS, StatusView)

    async def health(self) -> SiteHealthView:
        """Returns the health of the site: what is wrong, and what to do."""
        return await self._connection.call(operations.SITE_HEALTH, SiteHealthView)

    async def events(self, *, transfer: str | None = None, limit: int | None = None) -> _SiteEvents:
        """Returns the last events of the site, or those of one transfer; oldest first."""
        query: dict[str, str] = {}
        if transfer is not None:
            query["transfer"] = transfer
        if limit is not None:
            query["limit"] = str(limit)
        return await all_of(
            self._connection, operations.SITE_EVENTS, Page[SiteEventView], query=query
        )

    async def statistics(
        self,
        *,
        peer: str | None = None,
        columns: Iterable[str] | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        points: int | None = None,
    ) -> SiteStatistics:
        """Returns the figures of the peers over time, of the last hour unless `since` is given.

        `columns` are names of figures, as `cpu_busy_percent`; all unless given. Neighbouring points
        are put together until each peer has at most `points`, 600 unless given.
        """
        query = series_query(peer, columns, since, until, points)
        return await self._connection.call(operations.SITE_STATISTICS, SiteStatistics, query=query)

    async def doctor(self) -> _Findings:
        """Examines the hosts of the site."""
        return await all_of(
            self._connection, operations.SITE_DOCTOR, Page[Finding], timeout=_SLOW_S
        )

    async def openapi(self) -> _JsonObject:
        """Returns the OpenAPI 3.1 document of the API."""
        return await self._connection.call(operations.SITE_OPENAPI, _JsonObject)

    async def rotate_keys(self) -> RotateReply:
        """Gives the site new keys, and tells them to its peers and paired sites."""
        return await self._connection.call(
            operations.SITE_ROTATE_KEYS, RotateReply, timeout=_SLOW_S
        )


class AsyncOrphans:
    """What abandoned transfers left."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self) -> _Orphans:
        """Returns what is left over."""
        return await all_of(self._connection, operations.ORPHANS_LIST, Page[Orphan])

    async def remove(self) -> _Orphans:
        """Removes what is left over, and returns it."""
        return (await self._connection.call(operations.ORPHANS_REMOVE, Page[Orphan])).items


class AsyncCluster:
    """Recovery of a site of several peers. For a host whose site is broken."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def take_over(self, fenced: _Names) -> RecoveredView:
        """Continues alone with the site's etcd, as the hosts of all other members are lost.

        `fenced` names the hosts that are known to be off, or to reach neither stores nor network.
        """
        operation, body = operations.CLUSTER_TAKE_OVER, {"fenced": fenced}
        return await self._connection.call(operation, RecoveredView, json=body, timeout=_SLOW_S)

    async def recover(self, *, new_etcd: bool = False) -> RecoveredView:
        """Gives the site's records another incarnation.

        `new_etcd` starts a new etcd at this host first: all members of the old one are lost.
        """
        operation, body = operations.CLUSTER_RECOVER, {"new_etcd": new_etcd}
        return await self._connection.call(operation, RecoveredView, json=body, timeout=_SLOW_S)

    async def remove_host(self, host: str) -> None:
        """Removes a host from those that run the site's etcd."""
        await self._connection.read(operations.CLUSTER_REMOVE_HOST, {"host": host})
