"""Replies as a daemon sends them."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2

from penstock import Penstock, RetryPolicy

ID = "9f" * 16
Handler = Callable[[httpx2.Request], httpx2.Response]


def view(**changes: Any) -> dict[str, Any]:
    """A transfer that runs."""
    place = {"site": "lab", "store": "raw", "path": "run7", "slash": False}
    return {
        "id": ID,
        "source": place,
        "target": {**place, "site": "hpc"},
        "options": {},
        "state": "running",
        "reason": "",
        "direction": "out",
        "created_at": "2026-11-26T07:08:09.123Z",
        "attempt": 1,
        "files_from_count": 0,
        "progress": progress(),
        "exit": None,
        "failures": {"count": 0, "first": []},
        "durable_by": "",
        **changes,
    }


def listed(**changes: Any) -> dict[str, Any]:
    """The same as a list has it."""
    whole = view(**changes)
    left_out = {"options", "durable_by"}
    return {key: value for key, value in whole.items() if key not in left_out}


def progress(**changes: Any) -> dict[str, Any]:
    return {"files": 3, "bytes": 2000, "rate_bits_per_s": 8000.0, "seconds": 2.0, **changes}


def event(kind: str, state: str, event_id: str = "", **changes: Any) -> bytes:
    """A server-sent event about the state of a transfer."""
    data = {"type": kind, "v": 1, "id": ID, "state": state, "reason": "", **progress(), **changes}
    numbered = f"id: {event_id}\n" if event_id else ""
    return f"{numbered}data: {json.dumps(data)}\n\n".encode()


def problem(status: int, code: str, **headers: str) -> httpx2.Response:
    body = {
        "type": f"urn:penstock:problem:{code}",
        "code": code,
        "title": "A thing failed.",
        "detail": "it failed",
        "exit": "temporary",
        "status": status,
        "retryable": status == 503,
        "request_id": "7f",
    }
    return httpx2.Response(status, json=body, headers=headers)


def stream(*parts: bytes | Exception) -> httpx2.Response:
    """A stream of events that ends, or breaks, after these parts."""

    def sent() -> Iterator[bytes]:
        for part in parts:
            if isinstance(part, Exception):
                raise part
            yield part

    return httpx2.Response(200, content=sent(), headers={"content-type": "text/event-stream"})


class Script:
    """A daemon that gives one answer after another, and remembers the requests."""

    def __init__(self, *answers: httpx2.Response | Exception) -> None:
        self.answers: list[httpx2.Response | Exception] = list(answers)
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        """The same for an asynchronous client."""
        reply = self(request)
        return httpx2.Response(reply.status_code, headers=reply.headers, content=reply.read())

    def client(self, **arguments: Any) -> Penstock:
        """A client that asks this daemon, and waits for next to nothing between tries."""
        arguments = {"retries": RetryPolicy(first_wait=0.001), **arguments}
        return Penstock("unix:///s", transport=httpx2.MockTransport(self), **arguments)
