"""Lists that arrive in pages."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .transfers import AsyncTransfer, AsyncTransfers


class AsyncTransferPages:
    """The transfers of a site, newest first. Iterating fetches a page when it is needed."""

    def __init__(self, transfers: "AsyncTransfers", page_size: int | None) -> None:
        self._transfers = transfers
        self._page_size = page_size

    async def pages(self) -> AsyncIterator[list["AsyncTransfer"]]:
        """Iterates over the pages."""
        cursor = None
        while True:
            page, cursor = await self._transfers.page(cursor, self._page_size)
            yield page
            if cursor is None:
                return

    async def __aiter__(self) -> AsyncIterator["AsyncTransfer"]:
        async for page in self.pages():
            for transfer in page:
                yield transfer

    async def first(self, count: int) -> list["AsyncTransfer"]:
        """Returns the first transfers, `count` at most."""
        found: list[AsyncTransfer] = []
        if count > 0:
            async for transfer in self:
                found.append(transfer)
                if len(found) == count:
                    break
        return found
