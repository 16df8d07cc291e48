"""Turns replies of the daemon into objects and errors."""

from functools import cache
from typing import Any, TypeVar

import httpx2
from pydantic import TypeAdapter, ValidationError

from ._address import Address
from ._codes import AREAS
from ._operations import Operation
from .errors import FAMILIES, ApiError, ConnectionFailed, ReplyUnreadable
from .models.event import EVENT_TYPES, Event
from .models.login import DeviceError
from .models.problem import ProblemDocument

_T = TypeVar("_T")
_QUOTED_CHARACTERS = 200


@cache
def _adapter(answer: Any) -> TypeAdapter[Any]:
    return TypeAdapter(answer)


def parsed(operation: Operation, answer: type[_T], body: bytes) -> _T:
    """Returns what the JSON of a reply, or of a line of it, says."""
    try:
        return _adapter(answer).validate_json(body)
    except ValidationError as cause:
        raise ReplyUnreadable(operation.name, cause) from cause


def parsed_event(operation: Operation, data: str, event_id: str = "") -> Event:
    """Returns the event that the data of a server-sent event holds, with the id beside them."""
    body = data.encode()
    kind = parsed(operation, Event, body).type
    event = parsed(operation, EVENT_TYPES.get(kind, Event), body)
    return event.model_copy(update={"event_id": event_id}) if event_id else event


def api_error(response: httpx2.Response) -> ApiError:
    """Returns the error of a reply whose body was read."""
    try:
        problem = ProblemDocument.model_validate_json(response.content)
    except ValidationError:
        problem = ProblemDocument()
    if "code" not in problem.model_fields_set:
        problem = _other_problem(response)
    problem = problem.model_copy(update={"status": response.status_code})
    family = FAMILIES.get(AREAS.get(problem.code, ""), ApiError)
    return family(problem, _retry_after(response))


def _other_problem(response: httpx2.Response) -> ProblemDocument:
    """Returns the problem of a reply that is none by the form of the API."""
    try:
        # The device grant has the form of RFC 6749, 5.2.
        refused = DeviceError.model_validate_json(response.content)
    except ValidationError:
        detail = f"the reply is HTTP {response.status_code}, and not by a daemon of Penstock"
        said = response.text[:_QUOTED_CHARACTERS]
        return ProblemDocument(code="http", detail=detail, cause=said)
    return ProblemDocument(code=str(refused.error), detail=refused.error_description)


def connection_failed(address: Address, cause: httpx2.TransportError) -> ConnectionFailed:
    """Returns the error of a request without a whole reply."""
    not_sent = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
    return ConnectionFailed(address, cause, was_sent=not isinstance(cause, not_sent))


def _retry_after(response: httpx2.Response) -> float | None:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None
