"""Listeners for `https`."""

import ssl
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from penstock import ConnectionFailed, Penstock, RetryPolicy


class _Listener(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_known = self.headers["Authorization"] == "Bearer pst-secret"
        body = b'{"items": []}' if is_known else b"{}"
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for this host, which is its own authority, with its key."""
    path = tmp_path / "authority.pem"
    made = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=x"
    )
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", path, "-out", tmp_path / "cert"]
    subprocess.run([*made.split(), *names], check=True, capture_output=True)
    path.write_text(path.read_text() + (tmp_path / "cert").read_text())
    return path


@pytest.fixture
def url(certificate: Path) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with HTTPServer(("127.0.0.1", 0), _Listener) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_listener_is_asked_with_its_authority_and_a_token(url: str, certificate: Path) -> None:
    """Promise: a client for `https` trusts the authority that its caller names."""
    with Penstock(url, token="pst-secret", ca=certificate) as client:
        assert client.stores.list() == []


def test_the_environment_names_the_authority(
    url: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: the variables of the command line are enough for a program."""
    monkeypatch.setenv("PENSTOCK_URL", url)
    monkeypatch.setenv("PENSTOCK_TOKEN", "pst-secret")
    monkeypatch.setenv("PENSTOCK_CA", str(certificate))
    with Penstock.from_env() as client:
        assert client.stores.list() == []


def test_an_unknown_authority_is_refused(url: str) -> None:
    """Promise: no token goes to a host that cannot prove who it is; the error says what to do."""
    retries = RetryPolicy(tries=1)
    with (
        Penstock(url, token="pst-secret", retries=retries) as client,
        pytest.raises(ConnectionFailed, match="ca=") as raised,
    ):
        client.stores.list()
    assert not raised.value.was_sent
