"""Lists that arrive in pages."""

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from .._operations import Operation
from ..models.entry import AuditEntry, AuditList, EntryList, EntryView
from ..models.page import Page
from .connection import AsyncConnection

if TYPE_CHECKING:
    from .transfers import AsyncListedTransfer, AsyncTransfers

_T = TypeVar("_T")


async def all_of(
    connection: AsyncConnection,
    operation: Operation,
    page: type[Page[_T]],
    *,
    query: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> list[_T]:
    """Returns all items of a list."""
    items: list[_T] = []
    chosen = dict(query or {})
    while True:
        part = await connection.call(operation, page, query=chosen, timeout=timeout)
        items += part.items
        if part.next is None:
            return items
        chosen["cursor"] = part.next


class AsyncTransferPages:
    """The chosen transfers of a site. Iterating fetches a page when it is needed."""

    def __init__(self, transfers: "AsyncTransfers", query: Mapping[str, str]) -> None:
        self._transfers = transfers
        self._query = dict(query)

    async def pages(self) -> AsyncIterator[list["AsyncListedTransfer"]]:
        """Iterates over the pages."""
        cursor = None
        while True:
            page, cursor = await self._transfers.page(self._query, cursor)
            yield page
            if cursor is None:
                return

    async def __aiter__(self) -> AsyncIterator["AsyncListedTransfer"]:
        async for page in self.pages():
            for transfer in page:
                yield transfer

    async def first(self, count: int) -> list["AsyncListedTransfer"]:
        """Returns the first transfers, `count` at most."""
        found: list[AsyncListedTransfer] = []
        if count > 0:
            async for transfer in self:
                found.append(transfer)
                if len(found) == count:
                    break
        return found


class AsyncEntryPages:
    """The entries of a directory. Iterating fetches a page when it is needed."""

    def __init__(
        self,
        connection: AsyncConnection,
        operation: Operation,
        segments: Mapping[str, str],
        query: Mapping[str, str],
    ) -> None:
        self._connection = connection
        self._operation = operation
        self._segments = segments
        self._query = query

    async def pages(self) -> AsyncIterator[EntryList]:
        """Iterates over the pages. One may have fewer entries than were asked for, even none."""
        query = dict(self._query)
        while True:
            page = await self._connection.call(
                self._operation, EntryList, self._segments, query=query
            )
            yield page
            if page.next is None:
                return
            query["cursor"] = page.next

    async def __aiter__(self) -> AsyncIterator[EntryView]:
        async for page in self.pages():
            for entry in page.items:
                yield entry


class AsyncAuditPages:
    """Lines of the audit log, newest first. Iterating fetches a page when it is needed."""

    def __init__(
        self, connection: AsyncConnection, operation: Operation, query: Mapping[str, str]
    ) -> None:
        self._connection = connection
        self._operation = operation
        self._query = query

    async def pages(self) -> AsyncIterator[AuditList]:
        """Iterates over the pages, which name peers that are silent."""
        query = dict(self._query)
        while True:
            page = await self._connection.call(self._operation, AuditList, query=query)
            yield page
            if page.next is None:
                return
            query["cursor"] = page.next

    async def __aiter__(self) -> AsyncIterator[AuditEntry]:
        async for page in self.pages():
            for entry in page.items:
                yield entry
