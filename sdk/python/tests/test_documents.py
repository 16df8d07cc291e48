"""Documents: failed items, digests, receipts and plans, however long they are."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from penstock import ConnectionFailed, Limits, ReplyUnreadable, TransferOptions
from penstock._lines import Lines
from penstock.models import FlightKind, PlanEnd, PlanHead, PlanItem, UpdateOptions
from tests.samples import ID, Script, view

PLAN: list[dict[str, object]] = [
    {
        "type": "plan",
        "v": 1,
        "source": "lab:raw/run\\xff/",
        "target": "hpc:scratch/",
        "root": "run7",
        "store": "abcd",
        "made": 1,
        "options": {"update": {"sync": True}, "lanes": 3, "unheard_of": 1},
    },
    {"type": "item", "action": "copy", "path": "a", "kind": "file", "size": 3, "mtime": [1, 2]},
    {"type": "end", "totals": {"copy": {"items": 1, "bytes": 3}}, "digest": "d1"},
]


def _text(lines: list[dict[str, object]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _reply(*parts: bytes | Exception) -> httpx2.Response:
    def sent() -> Iterator[bytes]:
        for part in parts:
            if isinstance(part, Exception):
                raise part
            yield part

    return httpx2.Response(200, content=sent())


def test_lines_are_cut_wherever_parts_end() -> None:
    """Promise: a line is one line, whatever characters it holds and however it arrives."""
    text = 'a\r\n"\u2028\x85\x0b"\n\nend'.encode()
    for at in range(len(text) + 1):
        cut = Lines()
        lines = cut.of(text[:at]) + cut.of(text[at:]) + cut.last()
        assert lines == [b"a\r", '"\u2028\x85\x0b"'.encode(), b"", b"end"]


_READER = r"""
import httpx2
from penstock import Penstock

ITEMS, PART = 1_000_000, 1000
LINE = b'{"path":"run7/frame\\\\xff.h5","code":"denied","message":"cannot open"}\n'
reply = httpx2.Response(200, content=(LINE * PART for _ in range(ITEMS // PART)))
with Penstock("unix:///s", transport=httpx2.MockTransport(lambda _: reply)) as client:
    count = sum(item.path.raw == b"run7/frame\xff.h5" for item in client.transfers.failures("9f"))
assert count == ITEMS, count
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM:")))
"""
"""Program that reads a long list of failed items, and prints the KiB that it needed at most."""


def test_failures_need_no_memory() -> None:
    """Promise: a program reads a million failed items, and needs less than 60 MiB in all."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _READER]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 60 << 10


def test_decisions_are_read_as_they_come() -> None:
    """Promise: decisions are typed, those of another release too, and absent fields are empty."""
    known = (
        b'{"at":"2026-11-26T10:00:00Z","count":2,"attempt":1,"kind":"phase","text":"files move"}'
    )
    newer = known.replace(b"phase", b"from-the-future").replace(b"}", b',"peer":"h1"}')
    with Script(_reply(known + b"\n", newer + b"\n")).client() as client:
        first, second = client.transfers.flight(ID)
    assert (first.kind, first.count, first.peer) == (FlightKind.PHASE, 2, "")
    assert (second.kind, second.peer) == ("from-the-future", "h1")


def test_a_piece_map_is_typed() -> None:
    """Promise: a map of another release is read, with its origin as a text."""
    bytes_ = {"done": 5, "written": 0, "in_hand": 1, "again": 0, "failed": 0, "left": 2}
    column = {key: [value] for key, value in bytes_.items()}
    known = {
        "at": "2026-11-26T10:00:00Z",
        "basis": "from-the-future",
        "listed": True,
        "bytes": 8,
        "totals": bytes_,
        "failures": 3,
        "buckets": {**column, "failures": [3]},
        "files": [{"path": "a", "bytes": bytes_, "failed": True}],
    }
    script = Script(_reply(json.dumps(known).encode()))
    with script.client() as client:
        pieces = client.transfers.pieces(ID)
    assert script.requests[0].url.path == f"/api/v1/transfers/{ID}/pieces"
    assert (pieces.basis, pieces.totals.done) == ("from-the-future", 5)
    assert (pieces.buckets.left, pieces.files[0].failed) == ([2], True)


def test_a_list_that_breaks_off_is_no_list() -> None:
    """Promise: half a list is an error, not a short list."""
    broken = httpx2.RemoteProtocolError("incomplete")
    reply = _reply(b'{"path":"a","code":"x","message":""}\n', broken)
    with Script(reply).client() as client, pytest.raises(ConnectionFailed):
        list(client.transfers.failures(ID))


def test_a_document_is_saved_whole_or_not_at_all(tmp_path: Path) -> None:
    """Promise: a file has its name when it is complete; a broken one leaves nothing."""
    good, broken = _reply(b"d1  ", b"a\n"), _reply(b"d2", httpx2.ReadError("reset"))
    with Script(good, broken).client() as client:
        digests = client.transfers.digests(ID)
        assert digests.save(tmp_path / "digests").read_bytes() == b"d1  a\n"
        with pytest.raises(ConnectionFailed):
            digests.save(tmp_path / "digests")
    assert (tmp_path / "digests").read_bytes() == b"d1  a\n"
    assert [path.name for path in tmp_path.iterdir()] == ["digests"]


def test_a_receipt_keeps_its_text() -> None:
    """Promise: the text whose signature can be checked is at hand."""
    place = {"site": "lab", "store": "raw", "path": "", "slash": False}
    body = {
        "id": ID,
        "state": "done",
        "exit": "done",
        "source": place,
        "target": place,
        "root": "",
        "facts": {"root_digest": "ab", "manifest_digest": "cd"},
    }
    text = json.dumps({"receipt": body, "signatures": []}, indent=1).encode()
    with Script(httpx2.Response(200, content=text)).client() as client:
        receipt = client.transfers.receipt(ID)
    assert receipt.raw == text
    assert receipt.receipt.facts.root_digest == "ab"


def test_a_plan_is_read_and_saved(tmp_path: Path) -> None:
    """Promise: a plan is told line by line, and one without an end is not kept."""
    whole = _text(PLAN)
    script = Script(_reply(whole[:50], whole[50:]), _reply(whole), _reply(_text(PLAN[:2])))
    with script.client() as client:
        lines = list(client.plans.make("lab:raw/run7", "hpc:scratch/"))
        assert [type(line) for line in lines] == [PlanHead, PlanItem, PlanEnd]
        end = client.plans.save(tmp_path / "plan", "lab:raw/run7", "hpc:scratch/")
        assert (end.totals.copy_.bytes, end.digest) == (3, "d1")
        with pytest.raises(ReplyUnreadable, match="has no end"):
            client.plans.save(tmp_path / "other", "lab:raw/run7", "hpc:scratch/")
    assert (tmp_path / "plan").read_bytes() == whole
    assert not (tmp_path / "other").exists()


def test_a_plan_is_followed_as_it_says(tmp_path: Path) -> None:
    """Promise: a plan decides what is done; only how it is done can be said beside it."""
    path = tmp_path / "plan"
    path.write_bytes(_text(PLAN))
    script = Script(httpx2.Response(204), httpx2.Response(201, json=view()))
    with script.client() as client:
        client.plans.apply(path, options=TransferOptions(limits=Limits(rate_bits_per_s=500_000)))
        with pytest.raises(ValueError, match="contains update"):
            client.plans.apply(path, options=TransferOptions(update=UpdateOptions(delete=True)))
    upload, submission = script.requests
    assert dict(upload.url.params) == {"store": "scratch", "site": "hpc", "offset": "0"}
    assert upload.content == path.read_bytes()
    body = json.loads(submission.content)
    assert upload.url.path == f"/api/v1/plans/{body['id']}"
    assert body["source"] == {"site": "lab", "store": "raw", "path": "run\\xff", "slash": True}
    assert body["target"]["slash"] is False
    assert body["options"] == {
        "limits": {"rate_bits_per_s": 500_000},
        "update": {"sync": True},
        "plan": {"follow": {"digest": "d1"}},
        "proof": {"receipt": True},
    }


@pytest.mark.parametrize("text", [b"", b"{}\n", _text(PLAN[:1]), b"\xff\n", _text(PLAN[1:])])
def test_what_is_no_plan_is_refused(tmp_path: Path, text: bytes) -> None:
    """Promise: nothing is submitted by half a plan."""
    (tmp_path / "plan").write_bytes(text)
    script = Script()
    with script.client() as client, pytest.raises(ValueError, match="is no plan"):
        client.plans.apply(tmp_path / "plan")
