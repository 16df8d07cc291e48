"""Lists that arrive in pages."""

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from .._operations import Operation
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
