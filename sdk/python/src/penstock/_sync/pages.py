# Written by tools/generate.py from _async/pages.py: change that file.
"""Lists that arrive in pages."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from .._operations import Operation
from ..models.page import Page
from .connection import Connection

if TYPE_CHECKING:
    from .transfers import ListedTransfer, Transfers

_T = TypeVar("_T")


def all_of(
    connection: Connection,
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
        part = connection.call(operation, page, query=chosen, timeout=timeout)
        items += part.items
        if part.next is None:
            return items
        chosen["cursor"] = part.next


class TransferPages:
    """The chosen transfers of a site. Iterating fetches a page when it is needed."""

    def __init__(self, transfers: "Transfers", query: Mapping[str, str]) -> None:
        self._transfers = transfers
        self._query = dict(query)

    def pages(self) -> Iterator[list["ListedTransfer"]]:
        """Iterates over the pages."""
        cursor = None
        while True:
            page, cursor = self._transfers.page(self._query, cursor)
            yield page
            if cursor is None:
                return

    def __iter__(self) -> Iterator["ListedTransfer"]:
        for page in self.pages():
            for transfer in page:
                yield transfer

    def first(self, count: int) -> list["ListedTransfer"]:
        """Returns the first transfers, `count` at most."""
        found: list[ListedTransfer] = []
        if count > 0:
            for transfer in self:
                found.append(transfer)
                if len(found) == count:
                    break
        return found
