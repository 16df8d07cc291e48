"""The log-ins of a user of this host, as `penstock login` keeps them."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_PORT = 7443
"""Port of the HTTPS API unless an address names another one."""


@dataclass(frozen=True, slots=True)
class Login:
    """A log-in at one daemon."""

    token: str = field(repr=False)
    """The bearer token."""
    ca: str = field(repr=False)
    """The authority of the daemon's certificate, PEM."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """All log-ins."""

    default: str | None = None
    """Address of the daemon that was logged in to last."""
    logins: Mapping[str, Login] = field(default_factory=dict[str, Login])
    """The log-ins, by the addresses of the daemons."""

    @classmethod
    def load(cls, environment: Mapping[str, str]) -> "Credentials":
        """Reads the file of the user that an environment is of; none has no log-ins.

        Raises:
            ValueError: The file is damaged, or others may read it.
        """
        path = _path(environment)
        if path is None:
            return cls()
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return cls()
        if mode & 0o077:
            raise ValueError(f"others may read `{path}`, which has tokens: `chmod 600 {path}`")
        stored: dict[str, Any] = tomllib.loads(path.read_text())
        sites: dict[str, dict[str, str]] = stored.get("sites", {})
        try:
            logins = {url: Login(token=one["token"], ca=one["ca"]) for url, one in sites.items()}
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"`{path}` is damaged: remove it, and log in again") from error
        return cls(default=stored.get("default"), logins=logins)

    def of(self, url: str) -> Login | None:
        """Returns the log-in at an address, however that is written."""
        parts = urlsplit(url)
        if parts.scheme != "https" or parts.hostname is None:
            return None
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return self.logins.get(f"https://{host}:{parts.port or _PORT}")


def _path(environment: Mapping[str, str]) -> Path | None:
    config = environment.get("XDG_CONFIG_HOME", "")
    if config.startswith("/"):
        return Path(config, "penstock/credentials")
    home = environment.get("HOME", "")
    return Path(home, ".config/penstock/credentials") if home.startswith("/") else None
