"""The interface against real daemons."""

import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import anyio
import pytest

from penstock import (
    AsyncPenstock,
    ChecksumKind,
    ErrorEvent,
    IfExists,
    Limits,
    Penstock,
    Proof,
    SummaryEvent,
    TransferEvent,
    TransferFailed,
    TransferOptions,
    UpdateOptions,
    WaitTimeout,
)
from penstock._operations import OPERATIONS
from penstock.errors import ApiError, PeerProblem, StoreProblem, TransferProblem
from penstock.models import View
from tests.live.conftest import Pair
from tests.live.sites import assert_same, data_set, program

_WITHOUT_BODY = {"GET", "DELETE"}
SLOW = TransferOptions(limits=Limits(rate_bits_per_s=500_000))


def test_a_transfer_is_moved_and_told(sites: Pair, hpc: Penstock, run7: Path) -> None:
    """Promise: the figures of a transfer are those of the command line, and its bytes arrive."""
    data_set(run7, files=40, size=100_000)
    seen: list[TransferEvent] = []
    transfer = hpc.transfers.submit(f"lab:raw/{run7.name}", "hpc:scratch/")
    end = transfer.wait(timeout=120, progress=seen.append)
    assert_same(run7, sites.hpc.store / run7.name)
    assert isinstance(seen[-1], SummaryEvent)
    shown = json.loads(sites.hpc.run("transfer", "show", end.id, "--json"))
    assert end.progress.bytes == shown["progress"]["bytes"] == 4_000_000
    assert end.progress.seconds == pytest.approx(shown["progress"]["seconds"], rel=0.01)
    assert (end.state, end.exit and end.exit.value, end.has_ended) == ("done", "done", True)
    assert list(end.failures()) == []
    assert end.id in [one.id for one in hpc.transfers.list(page_size=1)]
    assert hpc.transfers.get(end.id[:12]).id == end.id
    again = hpc.transfers.submit(f"lab:raw/{run7.name}", "hpc:scratch/", id=end.id)
    assert again.state == "done"
    with pytest.raises(TransferProblem) as raised:
        hpc.transfers.submit(f"lab:raw/{run7.name}", "hpc:scratch/other", id=end.id)
    assert raised.value.code == "id-taken"


def test_no_view_loses_a_field(sites: Pair, hpc: Penstock, run7: Path) -> None:
    """Promise: all that daemons tell today has a name and a type."""
    data_set(run7, files=1, size=100_000)
    transfer = hpc.transfers.submit(f"lab:raw/{run7.name}", "hpc:scratch/").wait()
    views: list[View] = [
        transfer,
        transfer.paths(),
        transfer.receipt(),
        hpc.site.status(),
        hpc.site.health(),
        hpc.peers.list(),
        hpc.me(),
        hpc.queue.show(),
        hpc.sites.paths("lab"),
        hpc.sites.doctor("lab"),
        *hpc.site.doctor(),
        *hpc.site.events(limit=50),
        *hpc.site.events(transfer=transfer.id),
        *hpc.stores.list(),
        hpc.stores.get("scratch"),
        *hpc.stores.entries("scratch").pages(),
        *hpc.sites.stores("lab"),
        *hpc.audit.list().pages(),
        *hpc.sites.list(),
        *hpc.orphans.list(),
        *hpc.transfers.events(transfer.id),
        *hpc.plans.make(f"lab:raw/{run7.name}", "hpc:scratch/"),
    ]
    assert hpc.site.openapi()["openapi"] == "3.1.0"
    assert hpc.version() == sites.hpc.run("--version").split()[-1]

    def unknown(value: object) -> list[str]:
        if isinstance(value, View):
            extra = [f"{type(value).__name__}.{name}" for name in value.model_extra or {}]
            return extra + [name for _, inner in value for name in unknown(inner)]
        items = cast("list[object]", value) if isinstance(value, list) else []
        return [name for inner in items for name in unknown(inner)]

    lines = {"PlanHead.type", "PlanItem.type", "PlanEnd.type"}
    assert {name for view in views for name in unknown(view)} <= lines


def test_the_daemon_has_every_operation(hpc: Penstock) -> None:
    """Promise: no method asks for a path that the daemon does not have."""
    connection = hpc.site.__dict__["_connection"]
    names = ("id", "kind", "site", "peer", "host", "name", "user", "group", "store")
    not_to_be_called = {"orphans.remove", "site.rotate_keys", "transfers.all_events"}
    missing: list[str] = []
    for name, operation in OPERATIONS.items():
        if name in not_to_be_called:
            continue
        segments = {key: "nothing" for key in names if f"{{{key}}}" in operation.template}
        try:
            connection.read(
                operation, segments, json=None if operation.method in _WITHOUT_BODY else {}
            )
        except ApiError as error:
            missing += [name] if error.code == "not-found" else []
    assert missing == []


def test_failed_items_are_iterated(sites: Pair, hpc: Penstock, run7: Path) -> None:
    """Promise: each failed item has a path and a code, and the transfer is not done."""
    data_set(run7, files=5, size=1000)
    for name in ("0001", "0003"):
        target = sites.hpc.store / run7.name / name
        target.parent.mkdir(exist_ok=True)
        target.write_text("mine")
    options = TransferOptions(update=UpdateOptions(if_exists=IfExists.FAIL))
    transfer = hpc.transfers.submit(f"lab:raw/{run7.name}", "hpc:scratch/", options=options)
    with pytest.raises(TransferFailed) as raised:
        transfer.wait(timeout=60)
    assert raised.value.transfer.exit == "some-failed"
    failed = list(transfer.failures())
    assert [(item.path, item.code) for item in failed] == [("0001", "exists"), ("0003", "exists")]
    for item in failed:
        (sites.hpc.store / run7.name / item.path.raw.decode()).unlink()
    assert transfer.retry().wait(timeout=60).state == "done"
    assert_same(run7, sites.hpc.store / run7.name)


def test_a_transfer_is_steered(hpc: Penstock, run7: Path) -> None:
    """Promise: pause, resume, limit and cancel do what they say, at any moment."""
    data_set(run7, files=4, size=1_000_000)
    transfer = hpc.transfers.submit(f"lab:raw/{run7.name}", "hpc:scratch/", options=SLOW)
    with pytest.raises(WaitTimeout) as raised:
        transfer.wait(timeout=0.2)
    assert raised.value.transfer_id == transfer.id
    transfer.pause()
    paused = next(
        event
        for event in transfer.events()
        if isinstance(event, TransferEvent) and event.state == "paused"
    )
    assert paused.progress.bytes < 4_000_000
    assert transfer.resume().state in {"queued", "running"}
    assert transfer.limit(900_000).options.limits.rate_bits_per_s == 900_000
    transfer.cancel()
    end = transfer.wait(timeout=60, check=False)
    assert end.state == "cancelled"
    with pytest.raises(TransferProblem) as refused:
        end.resume()
    assert (refused.value.code, refused.value.status) == ("wrong-state", 409)


def test_proofs_are_had(hpc: Penstock, run7: Path, tmp_path: Path) -> None:
    """Promise: digests and receipts are those that other programs accept."""
    data_set(run7, files=3, size=10_000)
    options = TransferOptions(digest_list=True, proof=Proof(also_digests=[ChecksumKind.MD5]))
    transfer = hpc.transfers.submit(f"lab:raw/{run7.name}", "hpc:scratch/", options=options)
    end = transfer.wait(timeout=60)
    sums = end.checksums(ChecksumKind.MD5).save(tmp_path / "md5")
    subprocess.run(["md5sum", "--check", "--quiet", sums], cwd=run7, check=True)
    digests = end.digests().save(tmp_path / "digests")
    assert len(list(end.digests().lines())) == 3
    (tmp_path / "receipt").write_bytes(end.receipt().raw)
    check = [program(), "receipt", "check", tmp_path / "receipt", "--digest-list", digests]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert "ok      signature of the target" in done.stdout, done.stdout


def test_a_plan_is_applied(sites: Pair, hpc: Penstock, run7: Path, tmp_path: Path) -> None:
    """Promise: what a plan says is done, and a plan that was edited does nothing."""
    data_set(run7, files=3, size=1000)
    plan = tmp_path / "plan"
    end = hpc.plans.save(plan, f"lab:raw/{run7.name}", "hpc:scratch/")
    assert end.totals.copy_.bytes == 3000
    assert not (sites.hpc.store / run7.name).exists()
    assert hpc.plans.apply(plan).wait(timeout=60).state == "done"
    assert_same(run7, sites.hpc.store / run7.name)
    plan.write_text(plan.read_text().replace("0001", "0007"))
    with pytest.raises(TransferFailed) as raised:
        hpc.plans.apply(plan).wait(timeout=60)
    assert "it was changed" in raised.value.transfer.reason


def test_recovery_is_refused_where_there_is_nothing_to_recover(hpc: Penstock) -> None:
    """Promise: an order that makes no sense is an error with a code."""
    with pytest.raises(PeerProblem) as raised:
        hpc.cluster.recover()
    assert raised.value.code == "one-peer"


def test_code_of_either_kind_gets_the_same(sites: Pair, run7: Path) -> None:
    """Promise: the asynchronous client moves and tells as the other one does."""
    data_set(run7, files=3, size=1000)
    source, seen = f"lab:raw/{run7.name}", list[object]()

    async def main() -> None:
        async with AsyncPenstock(sites.hpc.url) as client:
            transfer = await client.transfers.submit(source, "hpc:scratch/")
            async for event in transfer.events():
                assert not isinstance(event, ErrorEvent)
                seen.append(event)
            end = await transfer.wait(timeout=60)
            assert [item async for item in end.failures()] == []
            receipt = await end.receipt()
            assert receipt.receipt.facts.files == 3

    anyio.run(main)
    assert isinstance(seen[-1], SummaryEvent)


def test_stores_are_looked_into(sites: Pair, hpc: Penstock, run7: Path) -> None:
    """Promise: entries come page by page with names of any bytes, also of a paired site."""
    data_set(run7, files=5, size=1000)
    odd = b"odd \\ \xff\n"
    Path(os.fsdecode(os.fsencode(run7) + b"/" + odd)).touch()
    listed = list(hpc.sites.entries("lab", "raw", run7.name, page_size=2))
    assert len(listed) == 6
    assert [entry.name.raw for entry in listed] == sorted(
        os.fsencode(path.name) for path in run7.iterdir()
    )
    assert {entry.bytes for entry in listed} == {0, 1000}
    pages = list(hpc.sites.entries("lab", "raw", run7.name, page_size=2).pages())
    assert [len(page.items) for page in pages] == [2, 2, 2]
    found = list(hpc.sites.entries("lab", "raw", run7.name, prefix=b"odd \\"))
    assert [entry.name.raw for entry in found] == [odd]
    place = f"dir-{run7.name}"
    hpc.stores.make_directory("scratch", place)
    with pytest.raises(StoreProblem) as raised:
        hpc.stores.make_directory("scratch", place)
    assert raised.value.code == "entry-exists"
    (made,) = hpc.stores.entries("scratch", prefix=place)
    assert (made.kind, made.bytes, made.target) == ("directory", None, None)
    assert made.mtime is not None
    lines = list(hpc.audit.list(action="make_directory", object="scratch", page_size=1))
    assert [line.result for line in lines][:2] == ["failed", "done"]
    since = datetime.now(UTC) + timedelta(days=1)
    assert list(hpc.audit.list(since=since)) == []
    assert list(hpc.audit.list(since=since.replace(tzinfo=None))) == []
