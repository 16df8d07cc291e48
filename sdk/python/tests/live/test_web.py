"""The API over HTTPS: users, their tokens, and what is theirs."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    ApiError,
    Limits,
    Penstock,
    ResetEvent,
    Scope,
    StoreGrant,
    SummaryEvent,
    TransferEvent,
    TransferOptions,
    UserRole,
)
from penstock.errors import RightsProblem, TransferProblem
from tests.live.conftest import Pair
from tests.live.sites import assert_same, data_set

REVOKED_WITHIN_S = 2.0
Users = Callable[..., Penstock]


@pytest.fixture
def ca(sites: Pair, tmp_path: Path) -> Path:
    """The authority of the site."""
    path = tmp_path / "ca.pem"
    path.write_text(sites.hpc.run("site", "ca"))
    return path


@pytest.fixture
def users(sites: Pair, hpc: Penstock, ca: Path) -> Iterator[Users]:
    """Makes users, each with a client of a token of its own."""
    clients: dict[str, Penstock] = {}

    def make(name: str, scopes: list[Scope] | None = None, **user: Any) -> Penstock:
        hpc.users.set(name, **user)
        token = hpc.tokens.create(user=name, label="of a test", scopes=scopes).token
        clients[name] = Penstock(sites.hpc.web_url, token=token, ca=ca)
        return clients[name]

    yield make
    for name, client in clients.items():
        client.close()
        hpc.users.remove(name)


def _refused(call: Callable[[], object]) -> tuple[str, int]:
    with pytest.raises(RightsProblem) as raised:
        call()
    assert not raised.value.retryable
    return raised.value.code, raised.value.status


def _accepts(client: Penstock) -> bool:
    """Whether the site accepts the token of a client."""
    try:
        client.me()
    except RightsProblem as error:
        return error.code != "unauthenticated"
    return True


def test_a_user_moves_what_is_its_own(sites: Pair, users: Users, run7: Path) -> None:
    """Promise: a user submits and waits over HTTPS, as its grants say, and nobody else sees it."""
    data_set(run7, files=3, size=1000)
    anna = users("anna", grants={"scratch": StoreGrant(write=True)})
    ben = users("ben")
    source, target = f"lab:raw/{run7.name}", "hpc:scratch/"
    assert _refused(lambda: ben.transfers.submit(source, target)) == ("not-authorised", 403)
    transfer = anna.transfers.submit(source, target, label="run 7", priority=70)
    seen: list[TransferEvent] = []
    end = transfer.wait(timeout=60, progress=seen.append)
    assert isinstance(seen[-1], SummaryEvent)
    assert (end.owner, end.label, end.priority, end.state) == ("anna", "run 7", 70, "done")
    assert end.receipt().receipt.facts.files == 3
    assert_same(run7, sites.hpc.store / run7.name)
    assert end.id in [one.id for one in anna.transfers.list()]
    assert {one.owner for one in anna.transfers.list()} == {"anna"}
    assert list(ben.transfers.list()) == []
    theirs: list[Callable[[str], object]] = [
        ben.transfers.get,
        ben.transfers.cancel,
        ben.transfers.receipt,
        lambda id: list(ben.transfers.events(id)),
    ]
    for call in theirs:
        with pytest.raises(TransferProblem) as raised:
            call(end.id)
        assert (raised.value.code, raised.value.status) == ("transfer-unknown", 404)


def test_a_caller_learns_what_it_may(sites: Pair, hpc: Penstock, ca: Path, users: Users) -> None:
    """Promise: a caller sees its role and rights, and what it lacks is an error of its class."""
    grants = {"scratch": StoreGrant(list=True, read=True)}
    anna = users("anna", scopes=[Scope.SITE_READ], grants=grants)
    me = anna.me()
    assert (me.user, me.role, me.via, me.grants) == ("anna", UserRole.USER, "token", grants)
    assert me.scopes == [Scope.SITE_READ]
    assert "see-site" in me.rights
    assert "submit" not in me.rights
    assert (hpc.me().via, hpc.me().role) == ("socket", UserRole.ADMINISTRATOR)
    assert _refused(anna.users.list) == ("not-authorised", 403)
    assert _refused(anna.queue.show) == ("not-authorised", 403)
    with Penstock(sites.hpc.web_url, ca=ca) as nobody:
        assert _refused(nobody.me) == ("unauthenticated", 401)


def test_users_and_tokens_are_kept_and_end(hpc: Penstock, users: Users) -> None:
    """Promise: an administrator makes, changes and ends users and tokens."""
    anna = users("anna", role="operator")
    made = anna.tokens.create(label="laptop", days=1)
    assert made.token is not None
    assert made.token not in repr(made)
    assert (made.user, made.label) == ("anna", "laptop")
    assert made.expires_at - made.created_at == timedelta(days=1)
    listed = hpc.tokens.list(user="anna")
    assert {(one.label, one.token) for one in listed} == {("of a test", None), ("laptop", None)}
    assert [one.id for one in anna.tokens.list()] == [one.id for one in listed]
    shown = hpc.users.set("anna", grants={"scratch": StoreGrant(read=True)})
    assert (shown.role, shown.tokens, shown.disabled) == ("operator", 2, False)
    assert hpc.users.get("anna") == shown
    assert shown in hpc.users.list()
    assert anna.me().role == UserRole.OPERATOR
    for token in listed:
        hpc.tokens.revoke(token.id)
    since = time.monotonic()
    while _accepts(anna):
        assert time.monotonic() - since < REVOKED_WITHIN_S
    with pytest.raises(ApiError) as raised:
        hpc.users.get("nobody")
    assert raised.value.code == "user-unknown"


def test_a_transfer_waits_for_its_time(hpc: Penstock, run7: Path) -> None:
    """Promise: what waits is in the queue, with the reason and until when."""
    data_set(run7, files=1, size=1000)
    at = int(time.time()) + 3600
    transfer = hpc.transfers.submit(
        f"lab:raw/{run7.name}", "hpc:scratch/", label="later", not_before=at
    )
    # The daemon tells the state each second; it gives the reason once it has looked at the queue.
    states = (transfer.refresh().waiting for _ in transfer.events())
    waiting = next(found for found in states if found and found.until)
    (entry,) = [one for one in hpc.queue.show().transfers if one.id == transfer.id]
    assert (entry.label, entry.owner, str(entry.target)) == ("later", None, "hpc:scratch/")
    assert entry.waiting.until == datetime.fromtimestamp(at, UTC)
    assert waiting.code == entry.waiting.code
    transfer.cancel()


def test_events_go_on_after_one(hpc: Penstock, run7: Path) -> None:
    """Promise: a program that was away reads what it has missed, each event once."""
    data_set(run7, files=1, size=1_000_000)
    slow = TransferOptions(limits=Limits(rate_bits_per_s=500_000))
    transfer = hpc.transfers.submit(f"lab:raw/{run7.name}", "hpc:scratch/", options=slow)
    before = next(hpc.transfers.all_events())
    transfer.cancel()
    assert transfer.wait(timeout=60, check=False).state == "cancelled"
    for event in hpc.transfers.all_events(after=before.event_id):
        assert event.event_id not in {None, before.event_id}
        if isinstance(event, SummaryEvent):
            assert (event.id, event.state) == (transfer.id, "cancelled")
            break
    gone = hpc.transfers.all_events(after="00000000-0")
    assert isinstance(next(gone), ResetEvent)
    with pytest.raises(ApiError, match="not the id of an event"):
        next(hpc.transfers.all_events(after="yesterday"))
