"""Streams of events that survive a restart of the daemon."""

from collections.abc import AsyncGenerator, Mapping

import anyio
import httpx2

from .._operations import Operation
from .._patience import Deadline, Outage
from .._reply import parsed_event
from ..errors import PenstockError
from ..models.event import Event, ResetEvent, SummaryEvent
from .connection import AsyncConnection

_EVENT_BYTES_MAX = 64 << 20
"""Longest event that is read: a summary names failed items."""
_LEAST_PATIENCE_S = 1.0
"""Wait for the first event at the least, so that a look without patience gets an answer."""


async def follow(
    connection: AsyncConnection,
    operation: Operation,
    segments: Mapping[str, str],
    *,
    deadline: Deadline,
    silence: float,
    after: str | None = None,
) -> AsyncGenerator[Event]:
    """Iterates over events until a summary if `operation` is of one transfer, or the deadline.

    The stream is opened again when it breaks, or is silent for `silence` seconds. That of one
    transfer begins with its state each time. That of all goes on after the last event, or after
    the one that `after` names. A `ResetEvent` comes where the daemon has lost some since; also
    where none had come before the stream broke, as nothing tells then what is missed.

    Raises:
        PenstockError: The daemon refuses, or has not answered for the client's
            `reconnect_timeout`.
    """
    outage = Outage(connection.settings.reconnect_timeout)
    is_of_one = bool(segments)
    has_begun = False
    while True:
        patience = max(_LEAST_PATIENCE_S, deadline.left(silence))
        try:
            async with connection.stream(
                operation,
                segments,
                timeout=patience,
                once=True,
                headers={"Last-Event-ID": after} if after else {},
            ) as response:
                outage.connected()
                if has_begun and not is_of_one and not after:
                    yield ResetEvent()
                has_begun = True
                source = httpx2.EventSource(response, max_event_size=_EVENT_BYTES_MAX)
                async for sent in source:
                    outage.answered()
                    if not sent.data:
                        continue
                    event = parsed_event(operation, sent.data, sent.id)
                    after = event.event_id or after
                    yield event
                    if deadline.is_over or (is_of_one and isinstance(event, SummaryEvent)):
                        return
        except PenstockError as error:
            if deadline.is_over:
                return
            if not error.retryable or outage.is_too_long:
                raise
        outage.disconnected()
        await anyio.sleep(deadline.left(outage.next_wait()))
