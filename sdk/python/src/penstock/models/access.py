"""Users, tokens, and the caller itself."""

from datetime import datetime

from pydantic import Field

from .base import OpenEnum, View


class UserRole(OpenEnum):
    """Role of a user.

    A later role has every right of an earlier one, but that a viewer sees all transfers and a user
    the own ones.
    """

    VIEWER = "viewer"
    """Sees the site and its transfers."""
    USER = "user"
    """Submits transfers between stores that grants name, and steers them."""
    OPERATOR = "operator"
    """Submits and steers all transfers, and operates queue and peers."""
    ADMINISTRATOR = "administrator"
    """Also administers users, grants, tokens and pairings."""


class Scope(OpenEnum):
    """Scope of a token, which leaves some rights of its user."""

    SITE_READ = "site:read"
    """Seeing the site."""
    TRANSFERS_READ = "transfers:read"
    """Seeing transfers."""
    TRANSFERS_WRITE = "transfers:write"
    """Submitting and steering transfers. It includes seeing them."""
    STORES_LIST = "stores:list"
    """Listing entries of stores."""
    SITE_OPERATE = "site:operate"
    """Operating queue and peers."""
    SITE_ADMIN = "site:admin"
    """Administering users, grants, pairings."""
    AUDIT_READ = "audit:read"
    """Reading the audit log."""
    METRICS_READ = "metrics:read"
    """Reading metrics."""


class StoreGrant(View):
    """Rights of a user in one store of the site."""

    list: bool = False
    """Listing entries."""
    read: bool = False
    """Reading files: transfers from the store."""
    write: bool = False
    """Writing files: transfers to the store."""


class ProviderIdentity(View):
    """The identity of a user at an OpenID provider.

    Issuer and subject together name one person for good.
    """

    issuer: str
    """The provider, as it names itself."""
    subject: str
    """The identifier of the person there."""
    has_role: bool = True
    """False after a log-in at which no group of the person had a role: until a later one gives a
    role, no token, password or session of the user is accepted."""


class UserView(View):
    """A user as an administrator sees it."""

    name: str
    """The name."""
    role: UserRole
    """The role."""
    created_at: datetime
    """Time of its creation."""
    disabled: bool = False
    """True if the user is locked out: no token, password or session of it is accepted."""
    grants: dict[str, StoreGrant] = {}
    """Rights in single stores, for the roles viewer and user."""
    account: str | None = None
    """Account of the hosts as which its transfers use mapped stores; none if it has none."""
    group: str | None = None
    """Group with which it shares the queue; none if it has none."""
    tokens: int = 0
    """Number of its tokens that are valid now."""
    sessions: int = 0
    """Number of its sessions that are not over."""
    has_password: bool = False
    """True if it has a password."""
    identity: ProviderIdentity | None = None
    """Its identity at the site's OpenID provider; none for a user that logs in otherwise."""


class TokenView(View):
    """A token as its user sees it."""

    id: str
    """Its identifier, which is no secret."""
    user: str
    """The user it acts for."""
    label: str = ""
    """The note."""
    scopes: list[Scope] | None = None
    """Scopes; none leaves all rights of the user."""
    created_at: datetime
    """Time of its creation."""
    expires_at: datetime
    """Time at which it expires."""
    token: str | None = Field(default=None, repr=False)
    """Text of the token, only in what `create` returns: the site cannot show it again."""


class MeView(View):
    """The caller itself."""

    user: str
    """The user's name."""
    role: UserRole
    """The role."""
    via: str = ""
    """Way by which the caller proved its identity: `socket`, `token` or `session`."""
    via_id: str | None = None
    """Identifier of the token or the session; at the socket the account of the host that is mapped
    to the user, and none for root and the daemon's own user."""
    scopes: list[Scope] | None = None
    """Scopes of the token; none where nothing is taken away."""
    rights: list[str] = []
    """Names of the rights that the caller has."""
    grants: dict[str, StoreGrant] = {}
    """Rights in single stores. An operator needs none."""
