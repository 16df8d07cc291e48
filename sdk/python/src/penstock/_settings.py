"""What a client is told when it is made."""

import os
import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ._address import Address
from ._retry import RetryPolicy


@dataclass(frozen=True, slots=True)
class Settings:
    """The daemon's address, the caller's credentials, and the patience with both."""

    address: Address
    token: str | None = field(repr=False)
    """A bearer token; a socket and a session need none."""
    ca: "str | os.PathLike[str] | ssl.SSLContext | None"
    """The authority that the listener's certificate is of; none for those of this host."""
    timeout: float
    """Seconds that one answer may take."""
    retries: RetryPolicy
    reconnect_timeout: float
    """Seconds without any answer that waits and streams of events survive."""

    def ssl_context(self) -> ssl.SSLContext | bool:
        """Returns what a listener's certificate is checked with; true for this host's defaults."""
        if self.ca is None:
            return True
        if isinstance(self.ca, ssl.SSLContext):
            return self.ca
        return ssl.create_default_context(cafile=self.ca)

    def headers(self) -> dict[str, str]:
        """Returns the headers of every request."""
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.address.socket is None:
            # A request by the cookie of a session must say where it comes from.
            parts = urlsplit(self.address.url)
            headers["Origin"] = f"{parts.scheme}://{parts.netloc}"
        return headers
