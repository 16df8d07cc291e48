"""Addresses of daemons."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

_DIRECTORY = "/var/lib/penstock"
"""The site directory of a daemon that was started without `--dir`."""
_SOCKET = "penstock.sock"
"""Name of the daemon's socket in its site directory."""
_ACCOUNT_SOCKET = "/run/penstock/penstock.sock"
"""The socket for accounts of the host, of a daemon that names no other one."""


@dataclass(frozen=True, slots=True)
class Address:
    """A Unix socket, or the URL of an HTTPS listener."""

    url: str
    """Beginning of the URL of each request."""
    socket: str | None
    """Path of the socket; none for a listener."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `unix:///PATH` or `https://HOST[:PORT][/PREFIX]`.

        Raises:
            ValueError: It is neither, or `http` to another host than this one.
        """
        parts = urlsplit(text)
        if parts.scheme == "unix" and parts.path and not parts.netloc:
            return cls(url="http://penstock", socket=parts.path)
        if parts.scheme == "https" and parts.hostname:
            return cls(url=text.rstrip("/"), socket=None)
        if parts.scheme == "http" and parts.hostname:
            if _is_loopback(parts.hostname):
                return cls(url=text.rstrip("/"), socket=None)
            raise ValueError(f"`{text}` would send the token in clear: use `https://`")
        raise ValueError(f"`{text}` is neither `unix:///PATH` nor `https://HOST:PORT`")

    def __str__(self) -> str:
        return self.url if self.socket is None else f"unix://{self.socket}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def url_of(environment: Mapping[str, str], last: str | None = None) -> str:
    """Returns the URL that an environment names: `PENSTOCK_URL`, else of `PENSTOCK_DIR`.

    Without both it is `last`, the address that the user has logged in to last; then the socket of
    the default site directory, or the one for accounts where that directory is closed to the user.
    """
    url = environment.get("PENSTOCK_URL")
    if url:
        return url
    if last and not environment.get("PENSTOCK_DIR"):
        return last
    named = environment.get("PENSTOCK_DIR")
    if not named and _is_closed(Path(_DIRECTORY) / _SOCKET) and Path(_ACCOUNT_SOCKET).exists():
        return f"unix://{_ACCOUNT_SOCKET}"
    return f"unix://{Path(named or _DIRECTORY).absolute() / _SOCKET}"


def _is_closed(path: Path) -> bool:
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return False
