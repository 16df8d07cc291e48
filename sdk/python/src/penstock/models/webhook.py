"""Webhooks, and attempts to deliver their messages."""

from datetime import datetime

from pydantic import Field

from .base import OpenEnum, View


class WebhookKind(OpenEnum):
    """Kind of an event that a webhook tells."""

    DONE = "transfer.done"
    """A transfer is done."""
    FAILED = "transfer.failed"
    """A transfer has ended with failures."""
    CANCELLED = "transfer.cancelled"
    """A transfer was given up by a user."""
    TEST = "webhook.test"
    """A test that an operator has asked for."""


class DeliveryResult(OpenEnum):
    """Result of an attempt to deliver a message."""

    DELIVERED = "delivered"
    """The receiver answered with a status of 200 to 299."""
    FAILED = "failed"
    """The attempt failed, and another one follows."""
    GIVEN_UP = "given-up"
    """The attempt failed, and no other one follows."""


class WebhookView(View):
    """A webhook, as operators see it."""

    name: str
    """The name."""
    url: str
    """The address."""
    kinds: list[WebhookKind] = []
    """The events it tells; empty means all."""
    user: str | None = None
    """It tells only of transfers of this user."""
    include_paths: bool = False
    """Messages include the paths of source and target."""
    disabled: bool = False
    """True while it tells nothing."""
    created_at: datetime | None = None
    """Time of its creation."""
    pending: int = 0
    """Messages that wait for their delivery."""
    error: str | None = None
    """Failure of the last attempt; none if it succeeded."""
    secret: str | None = Field(default=None, repr=False)
    """The secret that checks signatures: in the answer that made it, and nowhere else."""


class Delivery(View):
    """An attempt to deliver a message."""

    webhook: str
    """The webhook."""
    id: str
    """Id of the message, the same for all attempts."""
    kind: WebhookKind
    """The kind of the event."""
    transfer: str | None = None
    """The transfer."""
    at: datetime
    """Time of the attempt."""
    attempt: int = 1
    """Number of the attempt, from 1."""
    result: DeliveryResult
    """The result."""
    status: int | None = None
    """Status of the receiver's answer; none if no answer came."""
    error: str = ""
    """Reason of a failure."""
    took_ms: int = 0
    """Milliseconds until the answer or the failure."""


class EndedTransfer(View):
    """A transfer that has ended, as a webhook tells it."""

    id: str
    """The transfer."""
    owner: str | None = None
    """Its user; none where another site submitted it, or the administrator of the host."""
    label: str = ""
    """Note of its user."""
    source: str
    """Source, as `SITE:STORE`, or with the path if the webhook includes paths."""
    target: str
    """Target, likewise."""
    state: str
    """State in which it has ended: `done`, `failed` or `cancelled`."""
    exit: str | None = None
    """Exit status of `--wait`."""
    reason: str = ""
    """Reason of the state; left out without paths."""
    created_at: datetime | None = None
    """Time of its submission."""
    ended_at: datetime | None = None
    """Time of its end."""
    files: int = 0
    """Files verified and written."""
    bytes: int = 0
    """Bytes verified and written."""
    errors: int = 0
    """Items that failed."""
    seconds: float = 0.0
    """Seconds for which it ran."""
    rate_bits_per_s: float = 0.0
    """Mean rate of the last run, in bits per second."""


class WebhookMessage(View):
    """The body of a request of a webhook."""

    kind: WebhookKind = Field(alias="type")
    """The kind."""
    timestamp: datetime
    """Time of the event."""
    site: str
    """The site that tells."""
    data: EndedTransfer | None = None
    """The transfer; none in a test."""
