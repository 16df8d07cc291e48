"""Bodies of requests."""

import math
import secrets
from datetime import UTC, datetime
from typing import Any

from .models.options import TransferOptions
from .models.place import Location


def new_id() -> str:
    """Returns an id for a transfer: 128 random bits."""
    return secrets.token_hex(16)


def options_body(options: TransferOptions | None) -> dict[str, Any]:
    """Returns the options that were set: all others are left to the daemon's defaults."""
    if options is None:
        return {}
    return options.model_dump(mode="json", by_alias=True, exclude_unset=True)


def transfer_body(
    id: str, source: str | Location, target: str | Location, options: dict[str, Any]
) -> dict[str, Any]:
    """Returns the request for a transfer, or for a plan of one."""
    return {
        "id": id,
        "source": Location.of(source).model_dump(mode="json"),
        "target": Location.of(target).model_dump(mode="json"),
        "options": options,
    }


def scheduling(
    label: str, priority: int | None, not_before: datetime | float | None
) -> dict[str, Any]:
    """Returns the fields of a submission about its turn: those that were given.

    A time without a zone is of this host's zone. No transfer starts in the second before its time.
    """
    at = not_before.timestamp() if isinstance(not_before, datetime) else not_before
    start = None if at is None else datetime.fromtimestamp(math.ceil(at), UTC)
    given = {
        "label": label or None,
        "priority": priority,
        "not_before": None if start is None else time_text(start),
    }
    return {key: value for key, value in given.items() if value is not None}


def time_text(time: datetime) -> str:
    """Returns a time as the API reads it. One without a zone is of this host's zone."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds")


def with_receipt(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options with a receipt asked for, unless they say whether there is to be one."""
    return {**options, "proof": {"receipt": True, **options.get("proof", {})}}
