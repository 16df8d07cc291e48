"""The receiving side of webhooks."""

import base64
import hashlib
import hmac
import time

import pytest

from penstock.webhooks import NotAuthentic, WebhookKind, read

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
BODY = (
    b'{"type":"transfer.done","timestamp":"2026-11-26T07:08:09.000Z","site":"hpc","data":{"id":"9f","source":"lab:raw",'
    b'"target":"hpc:scratch","state":"done","label":"run 7"}}'
)


def _headers(body: bytes = BODY, *, sent: int | None = None) -> dict[str, str]:
    sent = int(time.time()) if sent is None else sent
    digest = hmac.new(bytes(range(32)), f"msg_1.{sent}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(b'other').decode()} v1,{base64.b64encode(digest).decode()}"
    return {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": str(sent),
        "Webhook-Signature": signature,
    }


def test_a_message_is_read() -> None:
    """Promise: what a site has signed is read, also while it changes its secret."""
    message = read(_headers(), BODY, SECRET)
    assert message.kind is WebhookKind.DONE
    assert message.data is not None
    assert message.data.label == "run 7"


def test_what_no_site_has_signed_is_refused() -> None:
    """Promise: a body, a secret or a time that is another one is not authentic."""
    other = "whsec_" + base64.b64encode(bytes(32)).decode()
    for headers, body, secret in [
        (_headers(), BODY + b" ", SECRET),
        (_headers(), BODY, other),
        (_headers(sent=int(time.time()) - 600), BODY, SECRET),
        ({}, BODY, SECRET),
        (_headers(b"[]"), b"[]", SECRET),
    ]:
        with pytest.raises(NotAuthentic):
            read(headers, body, secret)
    with pytest.raises(ValueError, match="whsec_"):
        read(_headers(), BODY, "password")
