"""Views: paths of any bytes, words and fields of later releases, events."""

import os
import pickle

import pytest

from penstock import Location, PathText, Selection, SelectRule, TransferOptions, TransferState
from penstock._operations import TRANSFERS_EVENTS, TRANSFERS_GET
from penstock._reply import parsed, parsed_event
from penstock._requests import options_body, transfer_body, with_receipt
from penstock.models import ErrorEvent, Event, FailedItem, StatusEvent, SummaryEvent, TransferView
from tests.samples import event, view

NAMES = [
    b"a/b",
    b"",
    "ümläut".encode(),
    b"\xff\xfe",
    b"a\\b",
    b"a\nb\tc\rd",
    b"a\x1b[2Jb",
    b"\\x41",
]


@pytest.mark.parametrize("raw", NAMES)
def test_a_path_of_any_bytes_survives(raw: bytes) -> None:
    """Promise: a name of any bytes is shown on one line, and comes back as it was."""
    text = PathText.of(raw)
    assert text.raw == raw
    assert text.isprintable()
    assert PathText.of(os.fsdecode(raw)) == text
    assert PathText.of(text) == text


def test_a_path_is_escaped_once() -> None:
    """Promise: what a reply tells is a text already, and what a program gives is a path."""
    told = FailedItem.model_validate_json(rb'{"path":"a\\\\b\\xff","code":"read","message":""}')
    assert told.path == r"a\\b\xff"
    assert told.path.raw == b"a\\b\xff"
    assert TransferOptions(files_from=[PathText.of("a\\b"), told.path]).files_from[0].raw == b"a\\b"
    assert SelectRule.model_validate({"include": False, "glob": b"*\xff"}).glob.raw == b"*\xff"
    with pytest.raises(ValueError, match="a path is"):
        SelectRule.model_validate({"include": False, "glob": 7})


@pytest.mark.parametrize(
    ("text", "path", "slash"),
    [
        ("lab:raw/run7", "run7", False),
        ("lab:raw/run7/", "run7", True),
        ("lab:raw", "", False),
        ("lab:raw/", "", True),
        ("lab:raw/a:b/c", "a:b/c", False),
    ],
)
def test_locations_are_read_as_by_the_command_line(text: str, path: str, slash: bool) -> None:
    """Promise: a location means the same here and in a command."""
    location = Location.parse(text)
    assert (location.site, location.store, location.path, location.slash) == (
        "lab",
        "raw",
        path,
        slash,
    )
    assert str(location).rstrip("/") == text.rstrip("/")


@pytest.mark.parametrize("text", ["raw/run7", ":raw/run7", "lab:", "lab:/run7", ""])
def test_what_is_no_location_is_refused(text: str) -> None:
    """Promise: half a location is an error where it was written, not an answer of a daemon."""
    with pytest.raises(ValueError, match="SITE:STORE/PATH"):
        Location.parse(text)


def test_words_and_fields_of_later_releases_survive() -> None:
    """Promise: a newer daemon breaks no program: what is unknown is kept."""
    told = view(state="thawing", exit="melted", colour={"red": 1})
    transfer = TransferView.model_validate(told)
    assert transfer.state == "thawing"
    assert isinstance(transfer.state, TransferState)
    assert not transfer.state.is_known
    assert TransferState.DONE.is_known
    assert TransferState("done") is TransferState.DONE
    assert pickle.loads(pickle.dumps(transfer)).state == "thawing"
    assert transfer.model_extra == {"colour": {"red": 1}}
    assert transfer.model_dump(mode="json", by_alias=True)["exit"] == "melted"


def test_events_are_told_apart() -> None:
    """Promise: each event has the class of its type, with its figures in one place."""
    status = parsed_event(TRANSFERS_EVENTS, event("status", "running", later=1).decode()[6:])
    assert isinstance(status, StatusEvent)
    assert (status.progress.bytes, status.model_extra) == (2000, {"later": 1})
    summary = parsed_event(TRANSFERS_EVENTS, event("summary", "done").decode()[6:])
    assert isinstance(summary, SummaryEvent)
    failure = parsed_event(
        TRANSFERS_EVENTS, '{"type":"error","v":1,"id":"9f","code":"read","detail":"t","status":503}'
    )
    assert isinstance(failure, ErrorEvent)
    assert failure.code == "read"
    other = parsed_event(TRANSFERS_EVENTS, '{"type":"snow","depth":3}')
    assert type(other) is Event
    assert other.model_extra == {"depth": 3}


def test_only_options_that_were_set_are_sent() -> None:
    """Promise: the defaults are the daemon's, also those of a later release."""
    options = TransferOptions(select=Selection(size_min_bytes=5), files_from=[PathText.of(b"\xff")])
    body = transfer_body("1", "lab:raw/a/", "hpc:s", with_receipt(options_body(options)))
    assert body["options"] == {
        "select": {"size_min_bytes": 5},
        "files_from": [r"\xff"],
        "proof": {"receipt": True},
    }
    assert body["source"] == {"site": "lab", "store": "raw", "path": "a", "slash": True}
    assert with_receipt({"proof": {"receipt": False}}) == {"proof": {"receipt": False}}


def test_a_view_is_read_back_from_its_json() -> None:
    """Promise: a view can be stored as JSON, and read again."""
    text = b'{"path":"a\\\\n","code":"x","message":"m"}'
    item = parsed(TRANSFERS_GET, FailedItem, text)
    assert FailedItem.model_validate_json(item.model_dump_json()) == item
