# Written by tools/generate.py from _async/webhooks.py: change that file.
"""Webhooks of the site."""

from collections.abc import Sequence

from .. import _operations as operations
from ..models.base import View
from ..models.webhook import Delivery, WebhookKind, WebhookView
from .connection import Connection

# `list` is a method below.
_WebhookViews = list[WebhookView]
_Deliveries = list[Delivery]


class _WebhookList(View):
    items: _WebhookViews


class _DeliveryList(View):
    items: _Deliveries


class Webhooks:
    """The webhooks of the site. For operators."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> _WebhookViews:
        """Returns the webhooks, by name."""
        return (self._connection.call(operations.WEBHOOKS_LIST, _WebhookList)).items

    def get(self, name: str) -> WebhookView:
        """Returns a webhook, and whether its last delivery failed."""
        return self._connection.call(operations.WEBHOOKS_GET, WebhookView, {"name": name})

    def set(
        self,
        name: str,
        url: str,
        *,
        kinds: Sequence[WebhookKind | str] = (),
        user: str | None = None,
        include_paths: bool = False,
        disabled: bool = False,
    ) -> WebhookView:
        """Makes a webhook, or replaces its settings. A new one is returned with its secret.

        Args:
            name: The webhook.
            url: The address: below an entry of `webhook.allow` in the site's configuration.
            kinds: The events to tell; none for all.
            user: Tells only of transfers of this user.
            include_paths: Includes the paths of source and target in messages.
            disabled: True tells nothing.
        """
        body: dict[str, object] = {
            "url": url,
            "kinds": [str(kind) for kind in kinds],
            "user": user,
            "include_paths": include_paths,
            "disabled": disabled,
        }
        operation = operations.WEBHOOKS_SET
        return self._connection.call(operation, WebhookView, {"name": name}, json=body)

    def remove(self, name: str) -> None:
        """Removes a webhook, and the messages that wait for it."""
        self._connection.read(operations.WEBHOOKS_REMOVE, {"name": name})

    def test(self, name: str) -> Delivery:
        """Delivers a test message now, and returns the result."""
        return self._connection.call(operations.WEBHOOKS_TEST, Delivery, {"name": name})

    def rotate(self, name: str) -> WebhookView:
        """Makes another secret, and returns it; the former one signs too for a day."""
        return self._connection.call(operations.WEBHOOKS_ROTATE, WebhookView, {"name": name})

    def deliveries(self, name: str) -> _Deliveries:
        """Returns the last attempts of the controller, the newest first."""
        operation = operations.WEBHOOKS_DELIVERIES
        return (self._connection.call(operation, _DeliveryList, {"name": name})).items

    def redeliver(self, name: str, id: str) -> Delivery:
        """Delivers a message of an ended transfer again, and returns the result."""
        segments = {"name": name, "id": id}
        return self._connection.call(operations.WEBHOOKS_REDELIVER, Delivery, segments)
