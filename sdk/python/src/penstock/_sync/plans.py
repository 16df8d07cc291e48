# Written by tools/generate.py from _async/plans.py: change that file.
"""Plans: what a transfer would do, and transfers that do just that."""

import os
from collections.abc import Iterator
from datetime import datetime

from .. import _operations as operations
from .._files import beside
from .._lines import Lines
from .._plan_file import PlanFile, read_line
from .._requests import new_id, options_body, scheduling, transfer_body, with_receipt
from ..errors import ReplyUnreadable
from ..models.options import TransferOptions
from ..models.place import Location
from ..models.plan import PlanEnd, PlanHead, PlanItem
from .connection import Connection
from .transfers import Transfer, Transfers

_PART_BYTES = 4 << 20
_PLANNING_S = 3600.0
"""Seconds that the target's site may take to compare both sides."""


class Plans:
    """Plans of transfers."""

    def __init__(self, connection: Connection, transfers: Transfers) -> None:
        self._connection = connection
        self._transfers = transfers

    def make(
        self,
        source: str | Location,
        target: str | Location,
        *,
        options: TransferOptions | None = None,
        timeout: float = _PLANNING_S,
    ) -> Iterator[PlanHead | PlanItem | PlanEnd]:
        """Makes a plan, and iterates over it: its head, its items, its end.

        Nothing is written at the target. `timeout` is for the site to begin its answer.
        """
        body = transfer_body(new_id(), source, target, options_body(options))
        operation = operations.PLANS_MAKE
        for line in self._connection.lines(operation, json=body, timeout=timeout):
            yield read_line(line)

    def save(
        self,
        path: str | os.PathLike[str],
        source: str | Location,
        target: str | Location,
        *,
        options: TransferOptions | None = None,
        timeout: float = _PLANNING_S,
    ) -> PlanEnd:
        """Makes a plan and writes it to a file, for `apply`. Returns its end, with the totals."""
        body = transfer_body(new_id(), source, target, options_body(options))
        operation = operations.PLANS_MAKE
        cut, last = Lines(), b""
        with beside(path) as temporary:
            with (
                self._connection.stream(operation, json=body, timeout=timeout) as response,
                open(temporary, "wb") as file,
            ):
                for part in response.iter_bytes():
                    file.write(part)
                    last = [last, *cut.of(part)][-1]
            end = read_line(last)
            if not isinstance(end, PlanEnd):
                raise ReplyUnreadable(operation.name, "the plan has no end")
        return end

    def apply(
        self,
        path: str | os.PathLike[str],
        *,
        options: TransferOptions | None = None,
        label: str = "",
        priority: int | None = None,
        not_before: datetime | float | None = None,
        id: str | None = None,
    ) -> Transfer:
        """Submits a transfer that does what a plan in a file says, and nothing else.

        The plan says what is done; `options` may say how, `limits` for example. If the plan was
        edited, or no longer holds, the transfer fails and does nothing. `label`, `priority` and
        `not_before` are those of `transfers.submit`.

        Raises:
            ValueError: The file is no plan of a transfer.
        """
        plan = PlanFile.read(path)
        id, target = id or new_id(), plan.target
        chosen = with_receipt(plan.options(options_body(options)))
        with open(path, "rb") as file:
            offset = 0
            while part := file.read(_PART_BYTES):
                self.upload(id, part, offset=offset, site=target.site, store=target.store)
                offset += len(part)
        body = transfer_body(id, plan.source, target, chosen)
        body.update(scheduling(label, priority, not_before))
        return self._transfers.submit_body(id, body)

    def upload(
        self, id: str, part: bytes, *, offset: int, store: str, site: str | None = None
    ) -> None:
        """Sends a part of the plan that the transfer `id` will follow; `apply` does all of it."""
        query = {"store": store, "offset": str(offset)}
        if site is not None:
            query["site"] = site
        operation = operations.PLANS_UPLOAD
        self._connection.read(operation, {"id": id}, query=query, content=part)
