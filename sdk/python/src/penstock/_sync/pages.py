# Written by tools/generate.py from _async/pages.py: change that file.
"""Lists that arrive in pages."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from .._operations import Operation
from ..models.entry import AuditEntry, AuditList, EntryList, EntryView
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


class EntryPages:
    """The entries of a directory. Iterating fetches a page when it is needed."""

    def __init__(
        self,
        connection: Connection,
        operation: Operation,
        segments: Mapping[str, str],
        query: Mapping[str, str],
    ) -> None:
        self._connection = connection
        self._operation = operation
        self._segments = segments
        self._query = query

    def pages(self) -> Iterator[EntryList]:
        """Iterates over the pages. One may have fewer entries than were asked for, even none."""
        query = dict(self._query)
        while True:
            page = self._connection.call(self._operation, EntryList, self._segments, query=query)
            yield page
            if page.next is None:
                return
            query["cursor"] = page.next

    def __iter__(self) -> Iterator[EntryView]:
        for page in self.pages():
            for entry in page.items:
                yield entry


class AuditPages:
    """Lines of the audit log, newest first. Iterating fetches a page when it is needed."""

    def __init__(
        self, connection: Connection, operation: Operation, query: Mapping[str, str]
    ) -> None:
        self._connection = connection
        self._operation = operation
        self._query = query

    def pages(self) -> Iterator[AuditList]:
        """Iterates over the pages, which name peers that are silent."""
        query = dict(self._query)
        while True:
            page = self._connection.call(self._operation, AuditList, query=query)
            yield page
            if page.next is None:
                return
            query["cursor"] = page.next

    def __iter__(self) -> Iterator[AuditEntry]:
        for page in self.pages():
            for entry in page.items:
                yield entry
