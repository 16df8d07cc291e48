# Written by tools/generate.py from _async/pages.py: change that file.
"""Lists that arrive in pages."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .transfers import Transfer, Transfers


class TransferPages:
    """The transfers of a site, newest first. Iterating fetches a page when it is needed."""

    def __init__(self, transfers: "Transfers", page_size: int | None) -> None:
        self._transfers = transfers
        self._page_size = page_size

    def pages(self) -> Iterator[list["Transfer"]]:
        """Iterates over the pages."""
        cursor = None
        while True:
            page, cursor = self._transfers.page(cursor, self._page_size)
            yield page
            if cursor is None:
                return

    def __iter__(self) -> Iterator["Transfer"]:
        for page in self.pages():
            for transfer in page:
                yield transfer

    def first(self, count: int) -> list["Transfer"]:
        """Returns the first transfers, `count` at most."""
        found: list[Transfer] = []
        if count > 0:
            for transfer in self:
                found.append(transfer)
                if len(found) == count:
                    break
        return found
