"""Transfers: submits, follows and steers them."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import Self

import anyio
from pydantic import PrivateAttr

from .. import _operations as operations
from .._patience import Deadline
from .._reply import parsed
from .._requests import (
    deadline_body,
    new_id,
    options_body,
    scheduling,
    series_query,
    start_text,
    time_text,
    transfer_body,
    with_receipt,
)
from ..errors import PenstockError, TransferFailed, WaitTimeout
from ..models.base import View
from ..models.event import Event, SummaryEvent, TransferEvent
from ..models.options import ChecksumKind, TransferOptions
from ..models.page import Page
from ..models.peer import TransferPaths
from ..models.pieces import PieceMap
from ..models.place import Location
from ..models.queue import BulkReply, QueueFilter
from ..models.receipt import Receipt
from ..models.statistics import TransferSeries, TransferStatistics
from ..models.transfer import (
    DeadlinePolicy,
    Exit,
    FailedItem,
    FlightRecord,
    TransferState,
    TransferSummary,
    TransferView,
)
from .connection import AsyncConnection
from .documents import AsyncDocument
from .following import follow
from .pages import AsyncTransferPages

_SILENCE_S = 10.0
"""The daemon tells the state of a transfer every second."""
_SILENCE_OF_ALL_S = 45.0
"""The daemon sends a sign of life every 15 s."""
_LAST_LOOKS = 5
"""Attempts to read a transfer after it has ended, each with the client's retries."""
_LOOK_AGAIN_S = 0.2
_ENDED = frozenset({TransferState.DONE, TransferState.FAILED, TransferState.CANCELLED})


class _AsyncBound(View):
    """What can be done with a transfer, whichever answer it is from."""

    id: str
    target: Location
    state: TransferState
    exit: Exit | None = None
    _transfers: "AsyncTransfers" = PrivateAttr()

    def bound_to(self, transfers: "AsyncTransfers") -> Self:
        """Returns the transfer with its methods asking through `transfers`."""
        self._transfers = transfers
        return self

    @property
    def has_ended(self) -> bool:
        """Whether nothing more happens unless a user asks for it."""
        return self.state in _ENDED or self.exit is not None

    async def refresh(self) -> "AsyncTransfer":
        """Returns the transfer as it is now."""
        return await self._transfers.get(self.id)

    async def wait(
        self,
        *,
        timeout: float | None = None,
        progress: Callable[[TransferEvent], object] | None = None,
        check: bool = True,
    ) -> "AsyncTransfer":
        """Waits for the end; see `transfers.wait`."""
        return await self._transfers.wait(self.id, timeout=timeout, progress=progress, check=check)

    async def pause(self, *, until: datetime | float | None = None) -> "AsyncTransfer":
        """Stops it, until a time if that is given; its progress is kept."""
        return await self._transfers.pause(self.id, until=until)

    async def resume(self) -> "AsyncTransfer":
        """Continues it after a pause."""
        return await self._transfers.resume(self.id)

    async def cancel(self) -> "AsyncTransfer":
        """Cancels it, and removes its temporary files."""
        return await self._transfers.cancel(self.id)

    async def retry(self) -> "AsyncTransfer":
        """Starts it again after it has failed, with what is missing."""
        return await self._transfers.retry(self.id)

    async def change(
        self,
        *,
        label: str | None = None,
        priority: int | None = None,
        not_before: datetime | float | None = None,
    ) -> "AsyncTransfer":
        """Changes what decides when it starts, and its label; see `transfers.change`."""
        return await self._transfers.change(
            self.id, label=label, priority=priority, not_before=not_before
        )

    async def limit(self, rate_bits_per_s: int | None) -> "AsyncTransfer":
        """Sets its rate limit, also while it runs; none removes it."""
        return await self._transfers.limit(self.id, rate_bits_per_s)

    def failures(self) -> AsyncGenerator[FailedItem]:
        """Iterates over all failed items, however many they are."""
        return self._transfers.failures(self.id)

    def flight(self) -> AsyncGenerator[FlightRecord]:
        """Iterates over the last decisions about it, oldest first; see `transfers.flight`."""
        return self._transfers.flight(self.id)

    async def pieces(self) -> PieceMap:
        """Returns what became of its bytes, in planned order; see `transfers.pieces`."""
        return await self._transfers.pieces(self.id)

    async def receipt(self) -> Receipt:
        """Returns the signed receipt."""
        return await self._transfers.receipt(self.id)

    def digests(self) -> AsyncDocument:
        """Returns the digest list, for `b3sum --check`, if it was asked for."""
        return self._transfers.digests(self.id)

    def checksums(self, kind: ChecksumKind | str) -> AsyncDocument:
        """Returns the list of another checksum, if it was asked for."""
        return self._transfers.checksums(self.id, kind)

    def events(self) -> AsyncGenerator[Event]:
        """Iterates over its events until its end; see `transfers.events`."""
        return self._transfers.events(self.id)

    async def paths(self) -> TransferPaths:
        """Returns the shares of all peers in it, and the paths that carry it."""
        return await self._transfers.paths(self.id, owner=self.target.site)

    async def statistics(self) -> TransferStatistics:
        """Returns quantiles of its figures; see `transfers.statistics`."""
        return await self._transfers.statistics(self.id)


class AsyncTransfer(_AsyncBound, TransferView):
    """A transfer as it was when it was read. Its methods ask the daemon.

    Each method that returns a transfer returns a new object; this one stays as it is.
    """


class AsyncListedTransfer(_AsyncBound, TransferSummary):
    """A transfer as a list has it; `refresh` returns all of it. Its methods ask the daemon."""


class AsyncTransfers:
    """The transfers of the site. An `id` may be the first digits of one."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def submit(
        self,
        source: str | Location,
        target: str | Location,
        *,
        options: TransferOptions | None = None,
        label: str = "",
        priority: int | None = None,
        not_before: datetime | float | None = None,
        deadline: datetime | float | None = None,
        deadline_policy: DeadlinePolicy | str | None = None,
        expected_bytes: int | None = None,
        urgent: bool = False,
        progress_timeout_s: int | None = None,
        attempts_max: int | None = None,
        id: str | None = None,
    ) -> AsyncTransfer:
        """Submits a transfer, and returns it as it was accepted.

        `label` is a note, which lists show. `priority` is among the transfers of one user, 0 to
        100; none is 50. It starts at `not_before` at the earliest: a time, or seconds since 1970.
        `urgent` puts it before all fair shares, for operators.

        It is to be done by `deadline`. The policy `promise` is the usual one: the error
        `deadline-unkeepable` has the forecast in `problem.deadline`. `expected_bytes` helps it.

        An attempt ends after `progress_timeout_s` seconds without progress, 600 unless given, and
        is retried later. `attempts_max` in a row that move nothing end the transfer.

        It gets an id before the request is sent, so that sending the request again never starts a
        second transfer. If the call fails, the error's `transfer_id` tells the id: submitting again
        with `id=` is safe too. The transfer makes a receipt unless `options` say otherwise.
        """
        id = id or new_id()
        body = transfer_body(id, source, target, with_receipt(options_body(options)))
        body.update(scheduling(label, priority, not_before, urgent))
        if deadline is not None:
            body["deadline"] = deadline_body(deadline, deadline_policy, expected_bytes)
        if progress_timeout_s is not None:
            body["progress_timeout_s"] = progress_timeout_s
        if attempts_max is not None:
            body["attempts_max"] = attempts_max
        return await self.submit_body(id, body)

    async def submit_body(self, id: str, body: dict[str, object]) -> AsyncTransfer:
        """Submits a transfer whose request is made already."""
        try:
            reply = await self._connection.call(
                operations.TRANSFERS_SUBMIT, AsyncTransfer, json=body
            )
        except PenstockError as error:
            error.transfer_id = id
            raise
        return reply.bound_to(self)

    def list(
        self,
        *,
        state: TransferState | str | Iterable[TransferState | str] = (),
        site: str | None = None,
        store: str | None = None,
        owner: str | None = None,
        label: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        attention: bool = False,
        oldest_first: bool = False,
        page_size: int | None = None,
    ) -> AsyncTransferPages:
        """Lists transfers, newest first, page by page as the caller iterates.

        Args:
            state: Only those in this state, or in one of these.
            site: Only those of which this site is the source or the target.
            store: Only those of which a store of this name is the source or the target.
            owner: Only those that this user submitted.
            label: Only those whose label has this text in it, in any case.
            since: Only those submitted then or later.
            until: Only those submitted before.
            attention: Only those that have failed, or wait for what does not come by itself.
            oldest_first: The other order.
            page_size: Transfers that are fetched at a time: 1 to 500, 100 by default.
        """
        states = [state] if isinstance(state, str) else state
        given = {
            "state": ",".join(str(one) for one in states) or None,
            "site": site,
            "store": store,
            "owner": owner,
            "label": label,
            "since": None if since is None else time_text(since),
            "until": None if until is None else time_text(until),
            "attention": "true" if attention else None,
            "sort": "created" if oldest_first else None,
            "limit": None if page_size is None else str(page_size),
        }
        query = {key: value for key, value in given.items() if value is not None}
        return AsyncTransferPages(self, query)

    async def page(
        self, query: Mapping[str, str] | None = None, cursor: str | None = None
    ) -> "tuple[list[AsyncListedTransfer], str | None]":
        """Returns one page of a list, and the cursor of the next one; none at the end."""
        chosen = dict(query or {})
        if cursor is not None:
            chosen["cursor"] = cursor
        reply = await self._connection.call(
            operations.TRANSFERS_LIST, Page[AsyncListedTransfer], query=chosen
        )
        return [transfer.bound_to(self) for transfer in reply.items], reply.next

    async def get(self, id: str, *, with_paths: bool = False) -> AsyncTransfer:
        """Returns a transfer as it is now; with `options.files_from` if that is asked for."""
        query = {"include": "options"} if with_paths else None
        return await self._one(operations.TRANSFERS_GET, id, query=query)

    async def wait(
        self,
        id: str,
        *,
        timeout: float | None = None,
        progress: Callable[[TransferEvent], object] | None = None,
        check: bool = True,
    ) -> AsyncTransfer:
        """Waits until a transfer has ended, and returns it.

        `progress` is called with its state about once a second. A restart of the daemon is
        survived, as long as it is not away for longer than the client's `reconnect_timeout`. A
        daemon that hangs may delay the timeout by up to 10 s.

        Raises:
            TransferFailed: It ended, and not as done; not with `check=False`.
            WaitTimeout: It has not ended within `timeout` seconds. It goes on.
            PenstockError: There is no such transfer, or the daemon does not answer.
        """
        deadline = Deadline(timeout)
        last: TransferEvent | None = None
        looks = 0
        while True:
            has_ended = False
            async with aclosing(self._follow(id, deadline)) as events:
                async for event in events:
                    has_ended = isinstance(event, SummaryEvent)
                    if isinstance(event, TransferEvent):
                        last = event
                        if progress is not None:
                            progress(event)
            if not has_ended:
                raise WaitTimeout(id, timeout or 0.0, last)
            try:
                transfer = await self.get(id)
                # A user may have retried it since.
                if transfer.has_ended:
                    break
            except PenstockError as error:
                looks += 1
                if not error.retryable or looks == _LAST_LOOKS:
                    raise
            await anyio.sleep(deadline.left(_LOOK_AGAIN_S))
        if check and transfer.state != TransferState.DONE:
            raise TransferFailed(transfer)
        return transfer

    async def pause(self, id: str, *, until: datetime | float | None = None) -> AsyncTransfer:
        """Stops a transfer; its progress is kept.

        It resumes by itself `until` a time, or seconds since 1970, within a year. Of a transfer
        that is paused already, this is the end from now on.
        """
        end = start_text(until)
        query = None if end is None else {"until": end}
        return await self._one(operations.TRANSFERS_PAUSE, id, query=query)

    async def resume(self, id: str) -> AsyncTransfer:
        """Continues a transfer after a pause."""
        return await self._one(operations.TRANSFERS_RESUME, id)

    async def cancel(self, id: str) -> AsyncTransfer:
        """Cancels a transfer, and removes its temporary files."""
        return await self._one(operations.TRANSFERS_CANCEL, id)

    async def retry(self, id: str) -> AsyncTransfer:
        """Starts a transfer again after it has failed, with what is missing."""
        return await self._one(operations.TRANSFERS_RETRY, id)

    async def change(
        self,
        id: str,
        *,
        label: str | None = None,
        priority: int | None = None,
        not_before: datetime | float | None = None,
    ) -> AsyncTransfer:
        """Changes the label, priority or earliest start of a transfer that has not ended.

        What is not given stays as it is; an empty label removes it.
        """
        body = scheduling(label or "", priority, not_before)
        if label == "":
            body["label"] = None
        return await self._one(operations.TRANSFERS_CHANGE, id, body)

    async def limit(self, id: str, rate_bits_per_s: int | None) -> AsyncTransfer:
        """Sets the rate limit of a transfer, also while it runs; none removes it."""
        body = {"limits": {"rate_bits_per_s": rate_bits_per_s}}
        return await self._one(operations.TRANSFERS_CHANGE, id, body)

    async def act_on_many(
        self,
        action: str,
        *,
        ids: Iterable[str] = (),
        filter: QueueFilter | None = None,
        state: TransferState | str | None = None,
        after: str | None = None,
        until: datetime | float | None = None,
    ) -> BulkReply:
        """Pauses, resumes, cancels or retries up to 500 transfers.

        They are named by their whole `ids`, or are the oldest transfers of this site that fit the
        action, `filter` and `state`. With `after`, the `next` of a reply, it acts on those behind
        them. Paused ones resume by themselves `until` a time.
        """
        body: dict[str, object] = {"action": action, "ids": list(ids)}
        if filter is not None or state is not None:
            chosen = {} if filter is None else filter.model_dump(exclude_none=True)
            body["filter"] = chosen if state is None else {**chosen, "state": str(state)}
        if after is not None:
            body["after"] = after
        if until is not None:
            body["until"] = start_text(until)
        operation = operations.TRANSFERS_ACT_ON_MANY
        return await self._connection.call(operation, BulkReply, json=body)

    async def set_deadline(
        self,
        id: str,
        at: datetime | float,
        *,
        policy: DeadlinePolicy | str | None = None,
        expected_bytes: int | None = None,
    ) -> AsyncTransfer:
        """Gives a transfer a deadline: a time, or seconds since 1970; see `submit`."""
        body = deadline_body(at, policy, expected_bytes)
        return await self._one(operations.TRANSFERS_SET_DEADLINE, id, body)

    async def remove_deadline(self, id: str) -> AsyncTransfer:
        """Removes the deadline of a transfer."""
        return await self._one(operations.TRANSFERS_REMOVE_DEADLINE, id)

    async def set_urgent(self, id: str) -> AsyncTransfer:
        """Has a transfer start before all fair shares. For operators."""
        return await self._one(operations.TRANSFERS_SET_URGENT, id)

    async def remove_urgent(self, id: str) -> AsyncTransfer:
        """Has a transfer wait for its turn as others do. For operators."""
        return await self._one(operations.TRANSFERS_REMOVE_URGENT, id)

    async def failures(self, id: str) -> AsyncGenerator[FailedItem]:
        """Iterates over all failed items of a transfer, however many they are."""
        operation = operations.TRANSFERS_FAILURES
        async for line in self._connection.lines(operation, {"id": id}):
            yield parsed(operation, FailedItem, line)

    async def flight(self, id: str) -> AsyncGenerator[FlightRecord]:
        """Iterates over the last decisions about a transfer, oldest first.

        They tell why it is slow, waits or failed: attempts, peers, lanes, paths, limits. At most
        512 are kept, of all attempts together.
        """
        operation = operations.TRANSFERS_FLIGHT
        async for line in self._connection.lines(operation, {"id": id}):
            yield parsed(operation, FlightRecord, line)

    async def pieces(self, id: str) -> PieceMap:
        """Returns the piece map of a transfer: what became of its bytes, in planned order.

        It has at most 128 buckets, whatever the size of the transfer is, and names the files of a
        transfer that has up to 12.
        """
        return await self._connection.call(operations.TRANSFERS_PIECES, PieceMap, {"id": id})

    async def receipt(self, id: str) -> Receipt:
        """Returns the signed receipt of a transfer that has ended."""
        operation = operations.TRANSFERS_RECEIPT
        body = await self._connection.read(operation, {"id": id})
        return parsed(operation, Receipt, body).read_from(body)

    def digests(self, id: str) -> AsyncDocument:
        """Returns the digest list of a transfer with `digest_list`, for `b3sum --check`."""
        return AsyncDocument(self._connection, operations.TRANSFERS_DIGESTS, {"id": id})

    def checksums(self, id: str, kind: ChecksumKind | str) -> AsyncDocument:
        """Returns a list of a checksum that the transfer's `proof.also_digests` named."""
        segments = {"id": id, "kind": str(kind)}
        return AsyncDocument(self._connection, operations.TRANSFERS_CHECKSUMS, segments)

    def events(self, id: str) -> AsyncGenerator[Event]:
        """Iterates over the events of a transfer: its state, failures, and its summary at the end.

        A restart of the daemon is survived; the state after it follows at once.
        """
        return self._follow(id, Deadline(None))

    def all_events(self, *, after: str | None = None) -> AsyncGenerator[Event]:
        """Iterates over the events of all transfers that the caller may see, without an end.

        It begins now, or after the event whose `event_id` is `after`. A connection that breaks is
        opened again, and no event is missed, as long as the daemon keeps the events since then. It
        does not after a restart: a `ResetEvent` marks the gap, and `list` tells how things are.
        """
        return follow(
            self._connection,
            operations.TRANSFERS_ALL_EVENTS,
            {},
            deadline=Deadline(None),
            silence=_SILENCE_OF_ALL_S,
            after=after,
        )

    async def paths(self, id: str, *, owner: str | None = None) -> TransferPaths:
        """Returns the shares of all peers in a transfer, and the paths that carry it.

        `id` is the whole id. `owner` is the site that the transfer's target belongs to, if that is
        another one.
        """
        query = {} if owner is None else {"owner": owner}
        return await self._connection.call(
            operations.TRANSFERS_PATHS, TransferPaths, {"id": id}, query=query
        )

    async def series(
        self,
        id: str,
        *,
        peer: str | None = None,
        columns: Iterable[str] | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        points: int | None = None,
    ) -> TransferSeries:
        """Returns the figures of a transfer over time, as the peers of this site have seen them.

        `columns` are names of figures, as `rate_bits_per_s`; all unless given. Neighbouring points
        are put together until each peer has at most `points`, 600 unless given.
        """
        query = series_query(peer, columns, since, until, points)
        operation = operations.TRANSFERS_SERIES
        return await self._connection.call(operation, TransferSeries, {"id": id}, query=query)

    async def statistics(self, id: str) -> TransferStatistics:
        """Returns quantiles of the figures of a transfer and of each processor, and its energy."""
        return await self._connection.call(
            operations.TRANSFERS_STATISTICS, TransferStatistics, {"id": id}
        )

    def _follow(self, id: str, deadline: Deadline) -> AsyncGenerator[Event]:
        return follow(
            self._connection,
            operations.TRANSFERS_EVENTS,
            {"id": id},
            deadline=deadline,
            silence=_SILENCE_S,
        )

    async def _one(
        self,
        operation: operations.Operation,
        id: str,
        body: object = None,
        query: Mapping[str, str] | None = None,
    ) -> AsyncTransfer:
        reply = await self._connection.call(
            operation, AsyncTransfer, {"id": id}, query=query, json=body
        )
        return reply.bound_to(self)
