"""Receiving side of webhooks: checks that a request comes from the site, and reads it.

    from penstock.webhooks import read

    message = read(request.headers, request.body, secret)
    print(message.kind, message.data.label)

The form is Standard Webhooks 1.0 (standardwebhooks.com).
"""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping

from pydantic import ValidationError

from .errors import PenstockError
from .models.webhook import EndedTransfer, WebhookKind, WebhookMessage

__all__ = ["EndedTransfer", "NotAuthentic", "WebhookKind", "WebhookMessage", "read"]

_PREFIX = "whsec_"
_AGE_MAX_S = 300


class NotAuthentic(PenstockError):
    """A request does not come from a site that has the secret, or is an old one."""


def read(
    headers: Mapping[str, str], body: bytes, secret: str, *, age_max: float = _AGE_MAX_S
) -> WebhookMessage:
    """Returns the message of a request, once its signature and its age are checked.

    The header `webhook-id` tells which messages a receiver has had: a message may come again.

    Args:
        headers: The headers of the request, whatever their case.
        body: The body, as it came.
        secret: The secret, `whsec_…`.
        age_max: Most seconds between the time of the request and the clock of this host.

    Raises:
        NotAuthentic: The request is not signed with the secret, or its time is another one.
        ValueError: The secret is none.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    try:
        id, sent = lower["webhook-id"], int(lower["webhook-timestamp"])
        signatures = lower["webhook-signature"].split(" ")
    except (KeyError, ValueError) as error:
        raise NotAuthentic(f"the request lacks a header of Standard Webhooks: {error}") from error
    if abs(time.time() - sent) > age_max:
        raise NotAuthentic("the request is too old, or the clocks differ")
    signed = f"{id}.{sent}.".encode() + body
    digest = hmac.new(_key(secret), signed, hashlib.sha256).digest()
    expected = f"v1,{base64.b64encode(digest).decode()}"
    if not any(hmac.compare_digest(one.encode(), expected.encode()) for one in signatures):
        raise NotAuthentic("the request is not signed with this secret")
    try:
        return WebhookMessage.model_validate_json(body)
    except ValidationError as error:
        raise NotAuthentic(f"the body is no message of Penstock: {error}") from error


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not secret.startswith(_PREFIX) or not key:
        raise ValueError("the secret of a webhook is `whsec_` and base64")
    return key
