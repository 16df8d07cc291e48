"""Events of transfers."""

from typing import Any, cast

from pydantic import model_validator

from .base import View
from .problem import ProblemDetails
from .transfer import Exit, FailedItem, Progress, TransferState


class Event(View):
    """An event; of this very class if its type is not known to this release of the SDK."""

    type: str
    """The type, as on the wire."""
    event_id: str | None = None
    """Position in the stream of all events, for `all_events(after=…)`; none in that of one."""


class TransferEvent(Event):
    """State and figures of a transfer."""

    v: int = 1
    """Version of the objects in the event stream."""
    id: str
    """The transfer."""
    state: TransferState
    """State."""
    reason: str = ""
    """Reason of the state, or what the transfer waits for."""
    progress: Progress
    """Figures."""
    durable_by: str = ""
    """Method by which the data was made durable, in words."""
    exit: Exit | None = None
    """Exit status of the command, once the transfer has ended."""
    failures: list[FailedItem] = []
    """The first failed items; in a summary only."""

    @model_validator(mode="before")
    @classmethod
    def _gather_progress(cls, data: Any) -> Any:
        """Moves the figures, which are fields of the event on the wire, into `progress`."""
        if not isinstance(data, dict) or "progress" in data:
            return cast("Any", data)
        fields = cast("dict[str, Any]", data)
        figures = {name: fields[name] for name in Progress.model_fields if name in fields}
        others = {name: value for name, value in fields.items() if name not in figures}
        return {**others, "progress": figures}


class StatusEvent(TransferEvent):
    """State of a transfer; about once a second while it runs, and on every change."""


class SummaryEvent(TransferEvent):
    """End of a transfer. `progress.rate_bits_per_s` is the mean over the run."""


class ErrorEvent(Event, ProblemDetails):
    """Failure of an item, of an attempt, or of the transfer."""

    v: int = 1
    """Version of the objects in the event stream."""
    id: str
    """The transfer."""


class ResetEvent(Event):
    """Events are gone that the client has not received, so read the state anew."""

    type: str = "reset"


EVENT_TYPES: dict[str, type[Event]] = {
    "status": StatusEvent,
    "summary": SummaryEvent,
    "error": ErrorEvent,
    "reset": ResetEvent,
}
"""The class of each type; others are an `Event`."""
