"""Every operation of the API: its path, its method, and whether it may be repeated."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from urllib.parse import quote

_BASE = "/api/v1"


class Repeat(Enum):
    """Effect of sending a request again when its answer was lost."""

    HARMLESS = auto()
    """The request reads, sets or removes, or names what it begins: doing it twice does it once."""
    ONCE = auto()
    """The second request may do more: only one that was certainly not sent is sent again."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the API. Its name is that of its method, after that of its resource."""

    name: str
    method: str
    template: str
    repeat: Repeat

    def path(self, segments: Mapping[str, str]) -> str:
        """Returns the path for these segments, each escaped.

        Raises:
            ValueError: A segment is empty, or `.` or `..`.
        """
        for key, value in segments.items():
            if value in {"", ".", ".."}:
                raise ValueError(f"{self.name}: `{value}` cannot be the {key}")
        quoted = {key: quote(value, safe="") for key, value in segments.items()}
        return _BASE + self.template.format(**quoted)


OPERATIONS: dict[str, Operation] = {}


def _operation(
    name: str, method: str, template: str, repeat: Repeat = Repeat.HARMLESS
) -> Operation:
    operation = Operation(name, method, template, repeat)
    OPERATIONS[name] = operation
    return operation


TRANSFERS_LIST = _operation("transfers.list", "GET", "/transfers")
TRANSFERS_SUBMIT = _operation("transfers.submit", "POST", "/transfers")
TRANSFERS_GET = _operation("transfers.get", "GET", "/transfers/{id}")
TRANSFERS_CHANGE = _operation("transfers.change", "PATCH", "/transfers/{id}")
TRANSFERS_PAUSE = _operation("transfers.pause", "POST", "/transfers/{id}/pause")
TRANSFERS_RESUME = _operation("transfers.resume", "POST", "/transfers/{id}/resume")
TRANSFERS_CANCEL = _operation("transfers.cancel", "POST", "/transfers/{id}/cancel")
TRANSFERS_RETRY = _operation("transfers.retry", "POST", "/transfers/{id}/retry", Repeat.ONCE)
TRANSFERS_LIMIT = _operation("transfers.limit", "POST", "/transfers/{id}/limits")
"""Deprecated: `transfers.change` does it."""
TRANSFERS_FAILURES = _operation("transfers.failures", "GET", "/transfers/{id}/failures")
TRANSFERS_FLIGHT = _operation("transfers.flight", "GET", "/transfers/{id}/flight")
TRANSFERS_PIECES = _operation("transfers.pieces", "GET", "/transfers/{id}/pieces")
TRANSFERS_RECEIPT = _operation("transfers.receipt", "GET", "/transfers/{id}/receipt")
TRANSFERS_DIGESTS = _operation("transfers.digests", "GET", "/transfers/{id}/digests")
TRANSFERS_CHECKSUMS = _operation("transfers.checksums", "GET", "/transfers/{id}/checksums/{kind}")
TRANSFERS_EVENTS = _operation("transfers.events", "GET", "/transfers/{id}/events")
TRANSFERS_ALL_EVENTS = _operation("transfers.all_events", "GET", "/events")
TRANSFERS_PATHS = _operation("transfers.paths", "GET", "/transfers/{id}/paths")
TRANSFERS_SERIES = _operation("transfers.series", "GET", "/transfers/{id}/series")
TRANSFERS_STATISTICS = _operation("transfers.statistics", "GET", "/transfers/{id}/statistics")
TRANSFERS_ACT_ON_MANY = _operation(
    "transfers.act_on_many", "POST", "/transfer-actions", Repeat.ONCE
)
TRANSFERS_SET_DEADLINE = _operation("transfers.set_deadline", "PUT", "/transfers/{id}/deadline")
TRANSFERS_REMOVE_DEADLINE = _operation(
    "transfers.remove_deadline", "DELETE", "/transfers/{id}/deadline"
)
TRANSFERS_SET_URGENT = _operation("transfers.set_urgent", "PUT", "/transfers/{id}/urgent")
TRANSFERS_REMOVE_URGENT = _operation("transfers.remove_urgent", "DELETE", "/transfers/{id}/urgent")

QUEUE_SHOW = _operation("queue.show", "GET", "/queue")
QUEUE_SET_LIMIT = _operation("queue.set_limit", "PUT", "/queue/limits/{kind}/{name}")
QUEUE_REMOVE_LIMIT = _operation("queue.remove_limit", "DELETE", "/queue/limits/{kind}/{name}")
QUEUE_SET_SHARE = _operation("queue.set_share", "PUT", "/queue/shares/{user}")
QUEUE_REMOVE_SHARE = _operation("queue.remove_share", "DELETE", "/queue/shares/{user}")
QUEUE_SET_GROUP_SHARE = _operation("queue.set_group_share", "PUT", "/queue/group-shares/{group}")
QUEUE_REMOVE_GROUP_SHARE = _operation(
    "queue.remove_group_share", "DELETE", "/queue/group-shares/{group}"
)
QUEUE_SET_WINDOW = _operation("queue.set_window", "PUT", "/queue/windows/{name}")
QUEUE_REMOVE_WINDOW = _operation("queue.remove_window", "DELETE", "/queue/windows/{name}")
QUEUE_HOLD = _operation("queue.hold", "PUT", "/queue/pause-rules/{name}")
QUEUE_RELEASE = _operation("queue.release", "DELETE", "/queue/pause-rules/{name}")

PLANS_MAKE = _operation("plans.make", "POST", "/plans")
PLANS_UPLOAD = _operation("plans.upload", "POST", "/plans/{id}")

STORES_LIST = _operation("stores.list", "GET", "/stores")
STORES_GET = _operation("stores.get", "GET", "/stores/{store}")
STORES_ENTRIES = _operation("stores.entries", "GET", "/stores/{store}/entries")
STORES_MAKE_DIRECTORY = _operation("stores.make_directory", "POST", "/stores/{store}/directories")
STORES_BENCHMARKS = _operation("stores.benchmarks", "GET", "/stores/{store}/benchmarks")
STORES_START_BENCHMARK = _operation(
    "stores.start_benchmark", "POST", "/stores/{store}/benchmarks", Repeat.ONCE
)
STORES_END_BENCHMARK = _operation(
    "stores.end_benchmark", "DELETE", "/stores/{store}/benchmarks/{id}"
)
STORES_CLEAN_BENCHMARKS = _operation(
    "stores.clean_benchmarks", "POST", "/stores/{store}/benchmark-cleanups"
)

SITES_LIST = _operation("sites.list", "GET", "/sites")
SITES_OFFER = _operation("sites.offer", "POST", "/pairing-offers")
SITES_PAIR = _operation("sites.pair", "POST", "/pairings", Repeat.ONCE)
SITES_UNPAIR = _operation("sites.unpair", "DELETE", "/sites/{site}")
SITES_STORES = _operation("sites.stores", "GET", "/sites/{site}/stores")
SITES_ENTRIES = _operation("sites.entries", "GET", "/sites/{site}/stores/{store}/entries")
SITES_USAGE = _operation("sites.usage", "GET", "/sites/{site}/stores/{store}/usage")
SITES_MAKE_DIRECTORY = _operation(
    "sites.make_directory", "POST", "/sites/{site}/stores/{store}/directories"
)
SITES_PATHS = _operation("sites.paths", "GET", "/sites/{site}/paths")
SITES_DOCTOR = _operation("sites.doctor", "GET", "/sites/{site}/doctor")

PEERS_LIST = _operation("peers.list", "GET", "/peers")
PEERS_INVITE = _operation("peers.invite", "POST", "/peer-invitations")
PEERS_DRAIN = _operation("peers.drain", "POST", "/peers/{peer}/drain")
PEERS_FORGET = _operation("peers.forget", "POST", "/peers/{peer}/forget")

SITE_STATUS = _operation("site.status", "GET", "/status")
SITE_HEALTH = _operation("site.health", "GET", "/site/health")
SITE_EVENTS = _operation("site.events", "GET", "/site/events")
SITE_STATISTICS = _operation("site.statistics", "GET", "/statistics")
SITE_DOCTOR = _operation("site.doctor", "GET", "/doctor")
SITE_OPENAPI = _operation("site.openapi", "GET", "/openapi.json")
SITE_ROTATE_KEYS = _operation("site.rotate_keys", "POST", "/site/rotate-keys")

SETTINGS_GET = _operation("settings.get", "GET", "/settings")
SETTINGS_CHECK = _operation("settings.check", "POST", "/settings/check")
SETTINGS_RELOAD = _operation("settings.reload", "POST", "/settings/reload")

ORPHANS_LIST = _operation("orphans.list", "GET", "/orphans")
ORPHANS_REMOVE = _operation("orphans.remove", "DELETE", "/orphans")

ME = _operation("me", "GET", "/me")

USERS_LIST = _operation("users.list", "GET", "/users")
USERS_GET = _operation("users.get", "GET", "/users/{name}")
USERS_SET = _operation("users.set", "PUT", "/users/{name}")
USERS_REMOVE = _operation("users.remove", "DELETE", "/users/{name}")

TOKENS_LIST = _operation("tokens.list", "GET", "/tokens")
TOKENS_CREATE = _operation("tokens.create", "POST", "/tokens")
TOKENS_REVOKE = _operation("tokens.revoke", "DELETE", "/tokens/{id}")

WEBHOOKS_LIST = _operation("webhooks.list", "GET", "/webhooks")
WEBHOOKS_GET = _operation("webhooks.get", "GET", "/webhooks/{name}")
WEBHOOKS_SET = _operation("webhooks.set", "PUT", "/webhooks/{name}")
WEBHOOKS_REMOVE = _operation("webhooks.remove", "DELETE", "/webhooks/{name}")
WEBHOOKS_TEST = _operation("webhooks.test", "POST", "/webhooks/{name}/test", Repeat.ONCE)
WEBHOOKS_ROTATE = _operation("webhooks.rotate", "POST", "/webhooks/{name}/rotate", Repeat.ONCE)
WEBHOOKS_DELIVERIES = _operation("webhooks.deliveries", "GET", "/webhooks/{name}/deliveries")
WEBHOOKS_REDELIVER = _operation(
    "webhooks.redeliver", "POST", "/webhooks/{name}/deliveries/{id}/redeliver", Repeat.ONCE
)
USERS_SET_PASSWORD = _operation("users.set_password", "PUT", "/users/{name}/password")
USERS_INVITE = _operation("users.invite", "POST", "/users/{name}/invite")

AUTH_METHODS = _operation("auth.methods", "GET", "/auth/methods")
AUTH_MAKE_SETUP_LINK = _operation("auth.make_setup_link", "POST", "/auth/setup-links")
AUTH_SET_UP = _operation("auth.set_up", "POST", "/auth/setup", Repeat.ONCE)
AUTH_ACCEPT = _operation("auth.accept_invitation", "POST", "/auth/invitation", Repeat.ONCE)
AUTH_BEGIN_DEVICE = _operation("auth.begin_device", "POST", "/auth/device")
AUTH_DEVICE_TOKEN = _operation("auth.device_token", "POST", "/auth/device/token", Repeat.ONCE)
AUTH_SHOW_DEVICE = _operation("auth.show_device", "GET", "/auth/device")
AUTH_APPROVE_DEVICE = _operation("auth.approve_device", "POST", "/auth/device/approve")

SESSIONS_BEGIN = _operation("sessions.begin", "POST", "/sessions")
SESSIONS_LIST = _operation("sessions.list", "GET", "/sessions")
SESSIONS_END = _operation("sessions.end", "DELETE", "/sessions/{id}")

AUDIT_LIST = _operation("audit.list", "GET", "/audit")

CLUSTER_TAKE_OVER = _operation("cluster.take_over", "POST", "/cluster/takeover", Repeat.ONCE)
CLUSTER_RECOVER = _operation("cluster.recover", "POST", "/cluster/recover", Repeat.ONCE)
CLUSTER_REMOVE_HOST = _operation("cluster.remove_host", "DELETE", "/cluster/hosts/{host}")
