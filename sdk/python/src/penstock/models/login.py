"""Log-ins: sessions, one-time links, and programs that are let in."""

from datetime import datetime

from pydantic import Field

from .access import Scope
from .base import OpenEnum, View


class ProviderMethod(View):
    """Log-in at the site's OpenID provider, by a browser."""

    name: str = ""
    """Name of the provider, for the text of a button."""
    start: str = ""
    """Path that a browser opens to log in; `return` names the path of the site to return to."""


class AuthMethods(View):
    """The ways to log in that a site offers."""

    password: bool = False
    """Name and password."""
    device: bool = False
    """The device grant of RFC 8628."""
    oidc: ProviderMethod | None = None
    """The site's OpenID provider; none if it has none."""
    url: str | None = None
    """Address of the HTTPS API of the peer that answers; none if it serves none."""


class SessionView(View):
    """A session as its user sees it."""

    id: str
    """Its identifier, which is no secret."""
    user: str
    """The user."""
    created_at: datetime
    """Time of the log-in."""
    expires_at: datetime
    """Time at which it ends. It ends earlier when it is not used."""
    from_: str = Field(default="", alias="from")
    """Address from which its user logged in."""
    client: str = ""
    """The program that logged in, as it names itself."""
    is_current: bool = False
    """True for the session of the request itself."""
    at_provider: bool = False
    """True if its user logged in at the site's OpenID provider."""


class LinkView(View):
    """A one-time link, as its maker sees it, once."""

    code: str = Field(repr=False)
    """The code: a secret, which the site cannot show again."""
    link: str = Field(repr=False)
    """Path and fragment of the link, behind the address of the site's HTTPS API."""
    expires_at: datetime
    """Time at which it expires."""


class DeviceAuthorization(View):
    """The codes of a log-in (RFC 8628, 3.2)."""

    device_code: str = Field(repr=False)
    """The code by which the program asks for its token: a secret."""
    user_code: str
    """The code that its user approves."""
    verification_uri: str = ""
    """The page at which the user does so."""
    verification_uri_complete: str = ""
    """The same with the code filled in."""
    expires_in: int = 0
    """Seconds for which both codes are good."""
    interval: int = 5
    """Fewest seconds between two requests for the token."""


class DeviceToken(View):
    """The token of a program that was let in (RFC 6749, 5.1)."""

    access_token: str = Field(repr=False)
    """The text of the token."""
    token_type: str = ""
    """`Bearer`."""
    expires_in: int = 0
    """Seconds until it expires."""
    scope: str | None = None
    """Its scopes, with spaces between; none for all rights of the user."""


class DeviceErrorCode(OpenEnum):
    """The reason why there is no token, or not yet (RFC 8628, 3.5)."""

    AUTHORIZATION_PENDING = "authorization_pending"
    """Nobody has approved the code yet."""
    SLOW_DOWN = "slow_down"
    """The program asks too often: its interval grows by five seconds."""
    EXPIRED_TOKEN = "expired_token"  # noqa: S105
    """The time of the code is over."""
    ACCESS_DENIED = "access_denied"
    """The user has refused."""
    INVALID_GRANT = "invalid_grant"
    """The device code was never issued, or its token was taken."""
    INVALID_REQUEST = "invalid_request"
    """The request lacks a part, or has a wrong one."""
    INVALID_SCOPE = "invalid_scope"
    """The request asks for scopes that do not exist."""
    UNSUPPORTED_GRANT_TYPE = "unsupported_grant_type"
    """The grant type is not the one of RFC 8628."""


class DeviceError(View):
    """The answer without a token."""

    error: DeviceErrorCode
    """The reason."""
    error_description: str = ""
    """The reason in words."""


class DeviceView(View):
    """A log-in that waits for a decision."""

    user_code: str
    """The code."""
    client: str = ""
    """The program, as it names itself."""
    from_: str = Field(default="", alias="from")
    """Address of the host that it runs on; empty if it is not known."""
    scopes: list[Scope] | None = None
    """Scopes that it asks for; none for all rights of the user."""
    expires_at: datetime
    """Time at which the code expires."""
