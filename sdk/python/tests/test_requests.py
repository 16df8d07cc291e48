"""Requests: tries, errors, and where they go."""

import json
import ssl
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import anyio
import httpx2
import pytest

from penstock import (
    ApiError,
    AsyncPenstock,
    ConnectionFailed,
    Penstock,
    PenstockError,
    ReplyUnreadable,
    RetryPolicy,
    Scope,
    StoreGrant,
    TransferState,
    UserRole,
)
from penstock import _address as address_module
from penstock._address import Address, url_of
from penstock._credentials import Credentials
from penstock._operations import OPERATIONS, SITES_PAIR, TRANSFERS_GET
from penstock.errors import RequestProblem, StoreProblem, TransferProblem
from penstock.models.login import DeviceErrorCode
from penstock.models.problem import ProblemDocument
from penstock.models.settings import FaultLevel, TakenBy
from tests.samples import ID, Script, listed, problem, view

REFUSED = httpx2.ConnectError("refused")
BROKEN = httpx2.RemoteProtocolError("the server hung up")


def test_a_submission_is_sent_again_under_one_id() -> None:
    """Promise: a lost answer never starts a second transfer."""
    busy = problem(503, "maybe-done", **{"Retry-After": "0"})
    script = Script(REFUSED, BROKEN, busy, httpx2.Response(201, json=view()))
    with script.client() as client:
        client.transfers.submit("lab:raw/a", "hpc:s/")
    ids = {json.loads(request.content)["id"] for request in script.requests}
    assert len(script.requests) == 4
    assert len(ids) == 1


def test_the_error_of_a_submission_tells_its_id() -> None:
    """Promise: a program can find out about a transfer whose submission failed."""
    with Script(*[REFUSED] * 5).client() as client, pytest.raises(ConnectionFailed) as raised:
        client.transfers.submit("lab:raw/a", "hpc:s/", id=ID)
    assert raised.value.transfer_id == ID


def test_a_pause_says_when_it_ends() -> None:
    """Promise: the end of a pause is sent as it was given, and only if it was."""
    script = Script(*[httpx2.Response(200, json=view()) for _ in range(2)])
    at = datetime(2030, 1, 2, 3, 4, 5, 6, timezone(timedelta(hours=1)))
    with script.client() as client:
        client.transfers.pause(ID)
        client.transfers.pause(ID, until=at)
    queries = [dict(request.url.params) for request in script.requests]
    assert queries == [{}, {"until": "2030-01-02T02:04:06.000+00:00"}]


def test_what_may_act_twice_is_sent_once() -> None:
    """Promise: only a request that certainly did not arrive is repeated if it is not harmless."""
    script = Script(REFUSED, BROKEN)
    with script.client() as client, pytest.raises(ConnectionFailed) as raised:
        client.sites.pair("pst1:x")
    assert raised.value.was_sent
    assert len(script.requests) == 2
    script = Script(problem(503, "busy"))
    with script.client() as client, pytest.raises(ApiError):
        client.transfers.retry(ID)


def test_a_submission_says_when_its_turn_is() -> None:
    """Promise: label, priority and time are sent as they were given, and only those."""
    script = Script(*[httpx2.Response(201, json=view()) for _ in range(3)])
    at = datetime(2030, 1, 2, 3, 4, 5, 6, timezone(timedelta(hours=1)))
    with script.client() as client:
        client.transfers.submit("lab:raw/a", "hpc:s/", label="run 7", priority=0, not_before=at)
        client.transfers.submit("lab:raw/a", "hpc:s/", not_before=7.5)
        client.transfers.submit("lab:raw/a", "hpc:s/")
    fields = ("label", "priority", "not_before")
    bodies = [json.loads(request.content) for request in script.requests]
    assert [[body.get(field) for field in fields] for body in bodies] == [
        ["run 7", 0, "2030-01-02T02:04:06.000+00:00"],
        [None, None, "1970-01-01T00:00:08.000+00:00"],
        [None, None, None],
    ]
    assert not set(fields) & bodies[2].keys()


def test_a_change_of_a_user_leaves_the_rest() -> None:
    """Promise: new grants do not let in a user who is locked out, and a new user is none."""
    anna = {
        "name": "anna",
        "role": "operator",
        "disabled": True,
        "created_at": "2026-11-26T07:08:09.000Z",
    }
    replies = [httpx2.Response(200, json=anna) for _ in range(4)]
    script = Script(*replies[:2], problem(404, "user-unknown"), *replies[2:])
    with script.client() as client:
        client.users.set("anna", grants={"raw": StoreGrant(read=True)})
        client.users.set("ben")
        client.users.set("anna", role=UserRole.VIEWER, disabled=False)
    puts = [json.loads(one.content) for one in script.requests if one.method == "PUT"]
    assert puts == [
        {
            "role": "operator",
            "disabled": True,
            "grants": {"raw": {"list": False, "read": True, "write": False}},
        },
        {"role": "user", "disabled": False},
        {"role": "viewer", "disabled": False},
    ]
    assert len(script.requests) == 5


def test_the_configuration_is_shown_checked_and_reloaded() -> None:
    """Promise: a fault has its line, a setting its layer, and a reload what it has taken."""
    fault = {"level": "error", "place": "/p.toml", "line": 3, "column": 1, "text": "lisen = 1"}
    fault |= {"message": "unknown key `lisen`", "nearest": "listen"}
    setting = {"key": "running_max", "value": 4, "taken_by": "reload"}
    shown = {"files": ["/p.toml"], "settings": [setting | {"source": {"kind": "default"}}]}
    done = {"reloaded": True, "taken": ["running_max"], "kept": ["listen"], "faults": []}
    replies = [{"faults": [fault]}, shown, done]
    script = Script(*[httpx2.Response(200, json=reply) for reply in replies])
    with script.client() as client:
        found = client.settings.check("lisen = 1").faults[0]
        assert (found.level, found.line, found.nearest) == (FaultLevel.ERROR, 3, "listen")
        value = client.settings.get().settings[0]
        assert (value.value, value.source.kind, value.taken_by) == (4, "default", TakenBy.RELOAD)
        assert client.settings.reload().kept == ["listen"]
    assert json.loads(script.requests[0].content) == {"text": "lisen = 1"}


def _error(status: int, retry_after: float | None = None) -> ApiError:
    return ApiError(ProblemDocument(detail="t", status=status), retry_after)


@pytest.mark.parametrize(
    ("error", "tries", "wait"),
    [
        (_error(503), 1, 0.125),
        (_error(429), 4, 1.0),
        (_error(504), 5, None),
        (_error(503, 7.0), 1, 7.125),
        (_error(503, 61.0), 1, None),
        (_error(500), 1, None),
        (_error(409), 1, None),
        (PenstockError(), 1, None),
    ],
)
def test_waits_grow_and_end(error: PenstockError, tries: int, wait: float | None) -> None:
    """Promise: what may pass is tried five times, with growing waits or those asked for."""
    assert RetryPolicy().wait_before_next(TRANSFERS_GET, error, tries, 0.5) == wait
    assert RetryPolicy(longest_wait=0.5).wait_before_next(TRANSFERS_GET, _error(503), 4, 1) == 0.5
    assert RetryPolicy().wait_before_next(SITES_PAIR, error, tries, 0.5) is None


def test_a_timeout_is_not_tried_again() -> None:
    """Promise: a call takes no longer than the time that its caller allows."""
    script = Script(httpx2.ReadTimeout("slow"))
    with script.client() as client, pytest.raises(ConnectionFailed, match="no answer in time"):
        client.stores.list()


@pytest.mark.parametrize(
    ("reply", "family", "code", "retryable"),
    [
        (problem(404, "transfer-unknown"), TransferProblem, "transfer-unknown", False),
        (problem(409, "store-read-only"), StoreProblem, "store-read-only", False),
        (problem(500, "of-a-later-release"), ApiError, "of-a-later-release", False),
        (httpx2.Response(404, text="<html>not here</html>"), RequestProblem, "http", True),
        (httpx2.Response(418, json=["tea"]), RequestProblem, "http", True),
    ],
)
def test_errors_have_the_class_of_their_family(
    reply: httpx2.Response, family: type[ApiError], code: str, retryable: bool
) -> None:
    """Promise: a program can tell kinds of errors apart; unknown codes are errors too."""
    with Script(reply).client() as client, pytest.raises(ApiError) as raised:
        client.transfers.get("1")
    error = raised.value
    assert (type(error), error.code, error.status) == (family, code, reply.status_code)
    assert error.retryable is retryable
    assert code in str(error)


def test_a_reply_that_makes_no_sense_is_an_error_of_this_package() -> None:
    """Promise: whoever catches `PenstockError` catches what replies can cause."""
    reply = httpx2.Response(200, json={"id": 7})
    with Script(reply).client() as client, pytest.raises(ReplyUnreadable, match=r"transfers\.get"):
        client.transfers.get(ID)


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_cannot_change_the_path(name: str) -> None:
    """Promise: a request goes to the operation that was called, whatever the name in it."""
    with Script().client() as client, pytest.raises(ValueError, match="cannot be the site"):
        client.sites.unpair(name)
    assert OPERATIONS["sites.unpair"].path({"site": "a/../b?c"}) == "/api/v1/sites/a%2F..%2Fb%3Fc"


def test_a_missing_daemon_is_told_with_its_socket() -> None:
    """Promise: the error names the socket, and says what to do."""
    script = RetryPolicy(tries=1)
    with (
        Penstock("unix:///nonexistent/penstock.sock", retries=script) as client,
        pytest.raises(ConnectionFailed) as raised,
    ):
        client.site.status()
    text = str(raised.value)
    assert "unix:///nonexistent/penstock.sock" in text
    assert "No such file" in text
    assert "penstock daemon" in text
    assert not raised.value.was_sent


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({}, "unix:///var/lib/penstock/penstock.sock"),
        ({"PENSTOCK_DIR": "/srv/p"}, "unix:///srv/p/penstock.sock"),
        ({"PENSTOCK_DIR": "/srv/p", "PENSTOCK_URL": "https://h:7443"}, "https://h:7443"),
    ],
)
def test_the_environment_names_the_daemon(environment: dict[str, str], url: str) -> None:
    """Promise: a program asks the daemon that the command line asks."""
    assert url_of(environment) == url
    assert str(Address.parse(url)) == url


def test_a_closed_site_directory_leads_to_the_socket_for_accounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: a user to whom the default site directory is closed has the socket for accounts."""
    socket = tmp_path / "penstock.sock"
    monkeypatch.setattr(address_module, "_ACCOUNT_SOCKET", str(socket))

    def is_closed(_path: Path) -> bool:
        return True

    monkeypatch.setattr(address_module, "_is_closed", is_closed)
    assert url_of({}) == "unix:///var/lib/penstock/penstock.sock"
    socket.touch()
    assert url_of({}) == f"unix://{socket}"
    assert url_of({"PENSTOCK_DIR": "/site"}) == "unix:///site/penstock.sock"


@pytest.mark.parametrize("url", ["http://hpc:7443", "penstock.sock", "unix://host/s", "https://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """Promise: no token travels in clear, and a wrong address is told at once."""
    with pytest.raises(ValueError, match=url):
        Penstock(url)
    assert Address.parse("http://127.0.0.1:7443").socket is None


def test_a_token_is_sent_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: a listener gets the token of the environment, and logs do not."""
    script = Script(httpx2.Response(200, json={"items": []}))
    client = Penstock(
        "https://hpc:7443",
        token="pst-secret",
        ca=ssl.create_default_context(),
        transport=httpx2.MockTransport(script),
    )
    with client:
        client.stores.list()
    (request,) = script.requests
    assert request.headers["authorization"] == "Bearer pst-secret"
    assert str(request.url) == "https://hpc:7443/api/v1/stores"
    assert "secret" not in repr(client)
    assert "secret" not in repr(client.stores.__dict__["_connection"].settings)
    monkeypatch.setenv("PENSTOCK_URL", "https://hpc:7443")
    monkeypatch.setenv("PENSTOCK_TOKEN", "pst-secret")
    with Penstock.from_env() as client:
        assert repr(client) == "Penstock('https://hpc:7443')"


def test_a_log_in_of_the_command_line_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: after `penstock login` a program needs no settings, and reads no file of others."""
    file = tmp_path / "penstock/credentials"
    file.parent.mkdir()
    stored = {"https://hpc:7443": "pst-one", "https://[::1]:9": "pst-two"}
    sites = [
        f'[sites."{url}"]\nuser = "anna"\ntoken = "{token}"\nexpires = 1\nca = "{url}"\n'
        for url, token in stored.items()
    ]
    file.write_text("\n".join(['default = "https://hpc:7443"', *sites]))
    file.chmod(0o600)
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    found = Credentials.load(environment)
    assert url_of(environment, found.default) == "https://hpc:7443"
    assert url_of({"PENSTOCK_DIR": "/s"}, found.default) == "unix:///s/penstock.sock"
    for url, token in {"https://HPC": "pst-one", "https://[::1]:9/": "pst-two"}.items():
        login = found.of(url)
        assert login is not None
        assert login.token == token
        assert token not in repr(login)
    assert found.of("https://hpc:1") is None
    assert found.of("unix:///s") is None
    assert Credentials.load({"HOME": "/nonexistent"}) == Credentials()
    file.chmod(0o640)
    with pytest.raises(ValueError, match="others may read"):
        Credentials.load(environment)
    for name in ("PENSTOCK_URL", "PENSTOCK_DIR", "PENSTOCK_TOKEN", "PENSTOCK_CA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")
    with Penstock.from_env() as client:
        assert repr(client) == "Penstock('unix:///var/lib/penstock/penstock.sock')"


def test_a_program_is_let_in_by_a_form() -> None:
    """Promise (RFC 8628): requests of the device grant are forms, errors have its codes."""
    pending = {"error": "authorization_pending", "error_description": "nobody has approved it"}
    begun = {"device_code": "d", "user_code": "CMGR-HMLT", "expires_in": 600, "interval": 5}
    script = Script(
        httpx2.Response(200, json=begun),
        httpx2.Response(400, json=pending),
        httpx2.Response(200, json={"access_token": "pst-x", "token_type": "Bearer"}),
    )
    with script.client() as client:
        codes = client.auth.begin_device("a test", scopes=[Scope.SITE_READ])
        assert (codes.user_code, "'d'" in repr(codes)) == ("CMGR-HMLT", False)
        with pytest.raises(ApiError) as raised:
            client.auth.device_token(codes.device_code)
        assert raised.value.code == DeviceErrorCode.AUTHORIZATION_PENDING
        assert client.auth.device_token(codes.device_code).access_token == "pst-x"
    kinds = {request.headers["content-type"] for request in script.requests}
    assert kinds == {"application/x-www-form-urlencoded"}
    assert script.requests[0].content == b"client_id=a+test&scope=site%3Aread"


def test_the_asynchronous_client_asks_likewise() -> None:
    """Promise: `async` code is answered as other code is."""
    script = Script(REFUSED, httpx2.Response(200, json={"items": [listed()]}))
    transport = httpx2.MockTransport(script.answer)

    async def main() -> list[str]:
        retries = RetryPolicy(first_wait=0.001)
        async with AsyncPenstock("unix:///s", retries=retries, transport=transport) as client:
            return [transfer.id async for transfer in client.transfers.list()]

    assert anyio.run(main) == [ID]


def test_lists_are_fetched_page_by_page() -> None:
    """Promise: a list of any length needs the memory of one page."""
    pages = [
        httpx2.Response(200, json={"items": [listed(id="1"), listed(id="2")], "next": "c 1"}),
        httpx2.Response(200, json={"items": [listed(id="3")]}),
    ]
    script = Script(*pages)
    with script.client() as client:
        found = client.transfers.list(page_size=2)
        assert [transfer.id for transfer in found] == ["1", "2", "3"]
        assert [dict(request.url.params) for request in script.requests] == [
            {"limit": "2"},
            {"limit": "2", "cursor": "c 1"},
        ]
        script.answers = [pages[0]]
        assert [transfer.id for transfer in client.transfers.list().first(2)] == ["1", "2"]


def test_a_list_is_asked_for_by_its_filter() -> None:
    """Promise: a choice of transfers is made by the daemon, in each page."""
    pages = [
        httpx2.Response(200, json={"items": [listed(id="1")], "next": "c"}),
        httpx2.Response(200, json={"items": []}),
    ]
    script = Script(*pages)
    since = datetime(2030, 1, 2, tzinfo=UTC)
    states = [TransferState.QUEUED, TransferState.PAUSED]
    with script.client() as client:
        chosen = client.transfers.list(state=states, owner="anna", since=since, attention=True)
        (one,) = list(chosen)
    asked = {
        "state": "queued,paused",
        "owner": "anna",
        "since": "2030-01-02T00:00:00.000+00:00",
        "attention": "true",
    }
    sent = [dict(request.url.params) for request in script.requests]
    assert sent == [asked, {**asked, "cursor": "c"}]
    assert (one.progress.bytes, one.failure_count.count) == (2000, 0)


def test_a_transfer_is_changed_by_what_is_given() -> None:
    """Promise: a change names only what changes, and takes away what is to go."""
    script = Script(*[httpx2.Response(200, json=view()) for _ in range(3)])
    with script.client() as client:
        transfer = client.transfers.change(ID, priority=7)
        transfer.change(label="")
        transfer.limit(None)
    assert {request.method for request in script.requests} == {"PATCH"}
    assert [json.loads(request.content) for request in script.requests] == [
        {"priority": 7},
        {"label": None},
        {"limits": {"rate_bits_per_s": None}},
    ]


def test_an_error_tells_the_field_and_the_request() -> None:
    """Promise: a program learns which field is wrong, and an operator which request it was."""
    body = {
        "type": "urn:penstock:problem:request",
        "code": "request",
        "title": "The request makes no sense.",
        "detail": "a priority is from 0 to 100",
        "status": 400,
        "exit": "usage",
        "request_id": "7f",
        "errors": [{"pointer": "/priority", "code": "request", "detail": "too high"}],
        "object": {"kind": "transfer", "name": ID},
    }
    script = Script(httpx2.Response(400, json=body))
    with script.client() as client, pytest.raises(ApiError) as raised:
        client.transfers.change(ID, priority=101)
    error = raised.value
    assert (error.request_id, error.faults[0].pointer) == ("7f", "/priority")
    assert str(error).startswith("a priority is from 0 to 100 (request)")
    assert not error.retryable


def test_figures_over_time_are_asked_for_in_parts() -> None:
    """Promise: columns, times and the number of points go into the query, and nothing unsaid."""
    series: dict[str, object] = {"transfer": ID, "peers": [], "silent": []}
    script = Script(httpx2.Response(200, json=series), httpx2.Response(200, json=series))
    with script.client() as client:
        begin = datetime(2026, 11, 26, 7, tzinfo=UTC)
        columns = ["lanes", "rate_bits_per_s"]
        client.transfers.series(ID, columns=columns, since=begin, until=1.5, points=9)
        assert client.transfers.series(ID).peers == []
    queries = [dict(request.url.params) for request in script.requests]
    assert queries == [
        {
            "columns": "lanes,rate_bits_per_s",
            "since": "2026-11-26T07:00:00.000+00:00",
            "until": "1970-01-01T00:00:01.500+00:00",
            "points": "9",
        },
        {},
    ]
