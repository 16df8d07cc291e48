"""The queue of the site."""

from collections.abc import Iterable
from datetime import datetime

from .. import _operations as operations
from .._requests import start_text
from ..models.queue import (
    Day,
    LimitKind,
    PauseRule,
    QueueFilter,
    QueueGroupShare,
    QueueLimit,
    QueueShare,
    QueueView,
    QueueWindow,
)
from .connection import AsyncConnection


class AsyncQueue:
    """The queue of the site: its order, and the rules of operators. For operators."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def show(self) -> QueueView:
        """Returns the transfers that wait, in order, users, limits, windows and pause rules."""
        return await self._connection.call(operations.QUEUE_SHOW, QueueView)

    async def set_limit(
        self,
        kind: LimitKind | str,
        name: str,
        *,
        running: int | None = None,
        rate_bits_per_s: int | None = None,
    ) -> QueueLimit:
        """Limits what the transfers of the site, or of a pair, store or user, use together.

        At least one of the two is needed. What is not given has no limit.
        """
        body = _given(running=running, rate_bits_per_s=rate_bits_per_s)
        segments = {"kind": str(kind), "name": name}
        return await self._connection.call(
            operations.QUEUE_SET_LIMIT, QueueLimit, segments, json=body
        )

    async def remove_limit(self, kind: LimitKind | str, name: str) -> None:
        """Removes a limit."""
        segments = {"kind": str(kind), "name": name}
        await self._connection.read(operations.QUEUE_REMOVE_LIMIT, segments)

    async def set_share(self, user: str, weight: int) -> QueueShare:
        """Gives the share of a user a weight from 1 to 1000; others have 1."""
        body = {"weight": weight}
        return await self._connection.call(
            operations.QUEUE_SET_SHARE, QueueShare, {"user": user}, json=body
        )

    async def remove_share(self, user: str) -> None:
        """Gives the share of a user the usual weight."""
        await self._connection.read(operations.QUEUE_REMOVE_SHARE, {"user": user})

    async def set_group_share(self, group: str, weight: int) -> QueueGroupShare:
        """Gives the share of a group of users a weight from 1 to 1000; others have 1.

        `none` is the group of the users without one.
        """
        body = {"weight": weight}
        return await self._connection.call(
            operations.QUEUE_SET_GROUP_SHARE, QueueGroupShare, {"group": group}, json=body
        )

    async def remove_group_share(self, group: str) -> None:
        """Gives the share of a group the usual weight."""
        await self._connection.read(operations.QUEUE_REMOVE_GROUP_SHARE, {"group": group})

    async def set_window(
        self,
        name: str,
        *,
        days: Iterable[Day | str],
        from_: str,
        to: str,
        zone: str,
        pair: str | None = None,
        store: str | None = None,
        user: str | None = None,
        running: int | None = None,
        rate_bits_per_s: int | None = None,
    ) -> QueueWindow:
        """Makes or changes a window: a time of the week in which other limits hold.

        Args:
            name: The window.
            days: Days on which it begins.
            from_: Its begin by the wall clock, as `08:00`.
            to: Its end; on the next day if that is not after its begin.
            zone: The time zone of both, as `Europe/Zurich`.
            pair: The paired site whose transfers it limits; or give a `store` or a `user`. Without
                any of these it limits all transfers.
            store: The store whose transfers it limits.
            user: The user whose transfers it limits.
            running: Most transfers that run at a time. With 0 none runs: those that do are stopped.
            rate_bits_per_s: Most bits of file content per second of all of them together.
        """
        body = _given(
            days=[str(day) for day in days],
            to=to,
            zone=zone,
            pair=pair,
            store=store,
            user=user,
            running=running,
            rate_bits_per_s=rate_bits_per_s,
        )
        body["from"] = from_
        return await self._connection.call(
            operations.QUEUE_SET_WINDOW, QueueWindow, {"name": name}, json=body
        )

    async def remove_window(self, name: str) -> None:
        """Removes a window."""
        await self._connection.read(operations.QUEUE_REMOVE_WINDOW, {"name": name})

    async def hold(
        self,
        name: str,
        *,
        filter: QueueFilter | None = None,
        reason: str = "",
        until: datetime | float | None = None,
    ) -> PauseRule:
        """Holds the transfers that fit a filter, all without one; those that run are stopped.

        `until` is a time or seconds since 1970; without it `release` ends the hold.
        """
        chosen = {} if filter is None else filter.model_dump(exclude_none=True)
        body = _given(filter=chosen, reason=reason, until=start_text(until))
        return await self._connection.call(
            operations.QUEUE_HOLD, PauseRule, {"name": name}, json=body
        )

    async def release(self, name: str) -> None:
        """Releases the transfers that a rule holds."""
        await self._connection.read(operations.QUEUE_RELEASE, {"name": name})


def _given(**values: object) -> dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}
