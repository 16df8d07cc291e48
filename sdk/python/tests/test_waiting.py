"""Waits and streams of events, when daemons restart, hang and refuse."""

import time

import anyio
import httpx2
import pytest

from penstock import (
    ApiError,
    AsyncPenstock,
    ConnectionFailed,
    ResetEvent,
    StatusEvent,
    SummaryEvent,
    TransferEvent,
    TransferFailed,
    WaitTimeout,
)
from tests.samples import ID, Script, event, problem, stream, view

RUNNING = event("status", "running")
DONE = event("summary", "done")
BROKEN = httpx2.ReadError("reset by peer")
REFUSED = httpx2.ConnectError("refused")


def _view(**changes: object) -> httpx2.Response:
    return httpx2.Response(200, json=view(**changes))


ENDED = _view(state="done", exit="done")


def test_a_wait_survives_restarts() -> None:
    """Promise: whatever breaks while a daemon restarts, the end of a transfer is not missed."""
    script = Script(
        stream(RUNNING, BROKEN),
        REFUSED,
        problem(503, "not-controller"),
        stream(RUNNING),
        stream(RUNNING, b": keep-alive\n\n", DONE),
        *[REFUSED] * 5,
        stream(DONE),
        ENDED,
    )
    seen: list[TransferEvent] = []
    with script.client() as client:
        end = client.transfers.wait(ID, progress=seen.append)
    assert end.state == "done"
    assert [type(one) for one in seen] == [StatusEvent] * 3 + [SummaryEvent] * 2
    assert seen[0].progress.rate_bits_per_s == 8000.0


def test_a_failed_transfer_is_an_error_unless_asked() -> None:
    """Promise: no program takes a failed transfer for one that is done."""
    failed = event("summary", "failed")
    lost = view(state="failed", exit="some-failed", reason="2 of 3 items failed")
    script = Script(stream(failed), _view(**lost), stream(failed), _view(**lost))
    with script.client() as client:
        with pytest.raises(TransferFailed, match="2 of 3 items failed") as raised:
            client.transfers.wait(ID)
        assert raised.value.transfer.exit == "some-failed"
        assert raised.value.transfer_id == ID
        assert client.transfers.wait(ID, check=False).state == "failed"


def test_a_wait_goes_on_when_a_user_has_retried() -> None:
    """Promise: a transfer that runs again has not ended."""
    failed = event("summary", "failed")
    script = Script(stream(failed), _view(), stream(RUNNING, DONE), ENDED)
    with script.client() as client:
        assert client.transfers.wait(ID).state == "done"


def test_a_wait_ends_in_time() -> None:
    """Promise: a timeout tells the last state, and leaves the transfer alone."""
    script = Script(*[stream(RUNNING) for _ in range(100)])
    with script.client() as client, pytest.raises(WaitTimeout, match="is running") as raised:
        client.transfers.wait(ID, timeout=0.3)
    assert isinstance(raised.value, TimeoutError)
    assert raised.value.last is not None
    assert {request.method for request in script.requests} == {"GET"}
    script = Script(stream(DONE), ENDED)
    with script.client() as client:
        assert client.transfers.wait(ID, timeout=0).state == "done"


def test_a_wait_for_nothing_fails_at_once() -> None:
    """Promise: an unknown transfer is an error, not a long wait."""
    script = Script(problem(404, "transfer-unknown"))
    with script.client() as client, pytest.raises(ApiError):
        client.transfers.wait(ID)


@pytest.mark.parametrize("answer", ["refused", "opened and closed"])
def test_a_daemon_that_stays_away_is_told(answer: str) -> None:
    """Promise: no wait is endless: a daemon that tells nothing ends it."""
    began = time.monotonic()
    answers = [REFUSED if answer == "refused" else stream(BROKEN) for _ in range(100)]
    script = Script(*answers)
    with script.client(reconnect_timeout=0.3) as client, pytest.raises(ConnectionFailed):
        client.transfers.wait(ID)
    assert time.monotonic() - began < 30


def test_events_of_one_end_with_its_summary() -> None:
    """Promise: an iteration over one transfer always comes to its end."""
    script = Script(stream(RUNNING, RUNNING, BROKEN), stream(RUNNING), stream(DONE, RUNNING))
    with script.client() as client:
        seen = [type(one) for one in client.transfers.events(ID)]
    assert seen == [StatusEvent] * 3 + [SummaryEvent]


def test_the_events_of_all_go_on_where_they_broke_off() -> None:
    """Promise: no event is missed or told twice, and what the daemon lost is told."""
    script = Script(
        stream(BROKEN),
        stream(event("status", "running", "a-4"), event("summary", "done", "a-5"), BROKEN),
        REFUSED,
        stream(event("status", "running", "a-6")),
        stream(b'data: {"type":"reset"}\n\n', BROKEN),
        stream(b'data: {"type":"reset"}\n\n', event("summary", "done", "b-0")),
    )
    with script.client() as client:
        events = client.transfers.all_events(after="a-3")
        seen = [next(events) for _ in range(6)]
    status, summary = StatusEvent, SummaryEvent
    assert [type(one) for one in seen] == [
        status, summary, status, ResetEvent, ResetEvent, summary,
    ]  # fmt: skip
    assert [one.event_id for one in seen] == ["a-4", "a-5", "a-6", None, None, "b-0"]
    asked = [request.headers.get("last-event-id") for request in script.requests]
    assert asked == ["a-3", "a-3", "a-5", "a-5", "a-6", "a-6"]


def test_a_gap_in_the_events_of_all_is_marked() -> None:
    """Promise: a program is told of a gap that the daemon cannot know, as no event had an id."""
    script = Script(stream(RUNNING, DONE, BROKEN), REFUSED, stream(RUNNING))
    with script.client() as client:
        events = client.transfers.all_events()
        seen = [type(next(events)) for _ in range(4)]
    assert seen == [StatusEvent, SummaryEvent, ResetEvent, StatusEvent]


def test_the_asynchronous_wait_survives_likewise() -> None:
    """Promise: `async` code waits as other code does."""
    script = Script(_view(), stream(RUNNING), REFUSED, stream(DONE), ENDED)
    transport = httpx2.MockTransport(script.answer)

    async def main() -> str:
        async with AsyncPenstock("unix:///s", transport=transport) as client:
            transfer = await client.transfers.get(ID)
            return (await transfer.wait(timeout=60)).state

    assert anyio.run(main) == "done"
