"""Bodies of requests."""

import math
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from .models.options import TransferOptions
from .models.place import Location
from .models.transfer import DeadlinePolicy


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


def start_text(time: datetime | float | None) -> str | None:
    """Returns a time, or seconds since 1970, as the API has it: in whole seconds, rounded up.

    Without a zone it is of this host's.
    """
    at = time.timestamp() if isinstance(time, datetime) else time
    return None if at is None else time_text(datetime.fromtimestamp(math.ceil(at), UTC))


def deadline_body(
    at: datetime | float, policy: DeadlinePolicy | str | None, expected_bytes: int | None
) -> dict[str, Any]:
    """Returns a deadline: what was given of it."""
    given = {
        "at": start_text(at),
        "policy": None if policy is None else str(policy),
        "bytes": expected_bytes,
    }
    return {key: value for key, value in given.items() if value is not None}


def scheduling(
    label: str,
    priority: int | None,
    not_before: datetime | float | None,
    urgent: bool = False,
) -> dict[str, Any]:
    """Returns the fields of a submission about its turn: those that were given.

    A time without a zone is of this host's zone. No transfer starts in the second before its time.
    """
    given = {
        "label": label or None,
        "priority": priority,
        "not_before": start_text(not_before),
        "urgent": urgent or None,
    }
    return {key: value for key, value in given.items() if value is not None}


def time_text(time: datetime) -> str:
    """Returns a time as the API reads it. One without a zone is of this host's zone."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds")


def series_query(
    peer: str | None,
    columns: Iterable[str] | None,
    since: datetime | float | None,
    until: datetime | float | None,
    points: int | None,
) -> dict[str, str]:
    """Returns the query for figures over time."""
    query: dict[str, str] = {}
    if peer is not None:
        query["peer"] = peer
    if columns is not None:
        query["columns"] = ",".join(columns)
    for name, time in (("since", since), ("until", until)):
        if time is not None:
            at = time if isinstance(time, datetime) else datetime.fromtimestamp(time, UTC)
            query[name] = time_text(at)
    if points is not None:
        query["points"] = str(points)
    return query


def with_receipt(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options with a receipt asked for, unless they say whether there is to be one."""
    return {**options, "proof": {"receipt": True, **options.get("proof", {})}}
