"""The client."""

import os
import ssl
from typing import Self

import httpx2

from .. import _operations as operations
from .._address import Address, url_of
from .._credentials import Credentials
from .._retry import RetryPolicy
from .._settings import Settings
from ..models.access import MeView
from .access import AsyncTokens, AsyncUsers
from .configuration import AsyncConfiguration
from .connection import AsyncConnection
from .login import AsyncAuth, AsyncSessions
from .plans import AsyncPlans
from .queue import AsyncQueue
from .resources import (
    AsyncAudit,
    AsyncCluster,
    AsyncOrphans,
    AsyncPeers,
    AsyncSite,
    AsyncSites,
    AsyncStores,
)
from .transfers import AsyncTransfers
from .webhooks import AsyncWebhooks


class AsyncPenstock:
    """A client of one daemon. Close it, or use it in a `with` block."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        ca: str | os.PathLike[str] | ssl.SSLContext | None = None,
        timeout: float = 60.0,
        retries: RetryPolicy | None = None,
        reconnect_timeout: float = 120.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Makes a client; the daemon is not asked yet.

        Args:
            url: `unix:///PATH` of a daemon's socket, or `https://HOST:PORT`.
            token: A bearer token, for `https`.
            ca: The authority of the listener's certificate, as a file or a context. Without it
                the authorities of this host are trusted.
            timeout: Seconds that one answer may take.
            retries: How often a request is sent again.
            reconnect_timeout: Seconds without a daemon that waits and streams of events survive.
            transport: Carries the requests in place of the network, for tests.

        Raises:
            ValueError: The URL is neither.
        """
        settings = Settings(
            address=Address.parse(url),
            token=token,
            ca=ca,
            timeout=timeout,
            retries=retries or RetryPolicy(),
            reconnect_timeout=reconnect_timeout,
        )
        self._connection = AsyncConnection(settings, transport)
        self.transfers = AsyncTransfers(self._connection)
        """Submits, follows and steers transfers."""
        self.plans = AsyncPlans(self._connection, self.transfers)
        """Makes plans, and transfers that follow them."""
        self.stores = AsyncStores(self._connection)
        """Stores of the own site."""
        self.sites = AsyncSites(self._connection)
        """The own site's pairings, and stores of paired sites."""
        self.peers = AsyncPeers(self._connection)
        """Peers of the own site."""
        self.site = AsyncSite(self._connection)
        """State, health and events of the own site."""
        self.queue = AsyncQueue(self._connection)
        """Order of the transfers that wait, and the rules of operators."""
        self.settings = AsyncConfiguration(self._connection)
        """Configuration of the daemon that is asked."""
        self.users = AsyncUsers(self._connection)
        """Users of the site."""
        self.tokens = AsyncTokens(self._connection)
        """Tokens of users."""
        self.webhooks = AsyncWebhooks(self._connection)
        """Webhooks of the site."""
        self.sessions = AsyncSessions(self._connection)
        """Log-ins by name and password."""
        self.auth = AsyncAuth(self._connection)
        """Other ways to log in."""
        self.audit = AsyncAudit(self._connection)
        """Audit logs of all peers."""
        self.orphans = AsyncOrphans(self._connection)
        """Leftovers of abandoned transfers."""
        self.cluster = AsyncCluster(self._connection)
        """Recovery of a site that has lost hosts."""

    @classmethod
    def from_env(
        cls,
        *,
        ca: str | os.PathLike[str] | ssl.SSLContext | None = None,
        timeout: float = 60.0,
        retries: RetryPolicy | None = None,
        reconnect_timeout: float = 120.0,
    ) -> Self:
        """Makes a client for the daemon that the environment names.

        `PENSTOCK_URL` is its URL. Without it `PENSTOCK_DIR` is the site directory that holds its
        socket; without that it is the daemon of the last `penstock login`, else the socket in
        `/var/lib/penstock`, or the one for accounts of the host where that is closed.
        `PENSTOCK_TOKEN` is the token, and `PENSTOCK_CA` the file that `ca` names otherwise; what
        is missing is taken from the log-in there.

        Raises:
            ValueError: The log-ins of this user cannot be read.
        """
        token, ca = os.environ.get("PENSTOCK_TOKEN"), ca or os.environ.get("PENSTOCK_CA")
        stored = Credentials() if token and ca else Credentials.load(os.environ)
        url = url_of(os.environ, stored.default)
        login = stored.of(url)
        if login is not None and ca is None:
            ca = ssl.create_default_context(cadata=login.ca)
        return cls(
            url,
            token=token or (login.token if login else None),
            ca=ca,
            timeout=timeout,
            retries=retries,
            reconnect_timeout=reconnect_timeout,
        )

    async def version(self) -> str:
        """Returns the release of the daemon."""
        return (await self.site.status()).version

    async def me(self) -> MeView:
        """Returns the caller: its user, role and rights."""
        return await self._connection.call(operations.ME, MeView)

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._connection.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._connection.settings.address)!r})"
