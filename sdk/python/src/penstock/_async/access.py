"""Users of the site, and their tokens."""

from collections.abc import Mapping, Sequence

from .. import _operations as operations
from ..errors import ApiError
from ..models.access import Scope, StoreGrant, TokenView, UserRole, UserView
from ..models.login import LinkView
from ..models.page import Page
from .connection import AsyncConnection
from .pages import all_of

# `list` is a method below.
_UserViews = list[UserView]
_TokenViews = list[TokenView]


class AsyncUsers:
    """The users of the site. For administrators."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self) -> _UserViews:
        """Returns the users, by name."""
        return await all_of(self._connection, operations.USERS_LIST, Page[UserView])

    async def get(self, name: str) -> UserView:
        """Returns a user."""
        return await self._connection.call(operations.USERS_GET, UserView, {"name": name})

    async def set(
        self,
        name: str,
        *,
        role: UserRole | str | None = None,
        disabled: bool | None = None,
        grants: Mapping[str, StoreGrant] | None = None,
        account: str | None = None,
        group: str | None = None,
        subject: str | None = None,
    ) -> UserView:
        """Makes a user, or changes one; what is not given stays as it is.

        Args:
            name: The user.
            role: The role. A new user is a `user`.
            disabled: True locks the user out; false ends that.
            grants: All the rights in single stores; those in stores that it leaves out end.
            account: Account of the hosts as which its transfers use mapped stores. An empty text
                takes it away.
            group: Group with which it shares the queue. An empty text takes it away.
            subject: Identifier of the user at the site's OpenID provider, by which it logs in
                there. An empty text takes it away.
        """
        if role is None or disabled is None:
            known = await self._known(name)
            role = role or (known.role if known else UserRole.USER)
            if disabled is None:
                disabled = known is not None and known.disabled
        body: dict[str, object] = {"role": str(role), "disabled": disabled}
        if grants is not None:
            body["grants"] = {store: grant.model_dump() for store, grant in grants.items()}
        if account is not None:
            body["account"] = account
        if group is not None:
            body["group"] = group
        if subject is not None:
            body["subject"] = subject
        operation = operations.USERS_SET
        return await self._connection.call(operation, UserView, {"name": name}, json=body)

    async def remove(self, name: str) -> None:
        """Removes a user and all its tokens."""
        await self._connection.read(operations.USERS_REMOVE, {"name": name})

    async def set_password(self, name: str, password: str, *, current: str | None = None) -> None:
        """Sets a password, and ends the other sessions of its user.

        Args:
            name: The user.
            password: The new password, of at least 12 characters.
            current: The present one, which a user needs for its own.
        """
        body = {"password": password, "current": current}
        await self._connection.read(operations.USERS_SET_PASSWORD, {"name": name}, json=body)

    async def invite(self, name: str) -> LinkView:
        """Makes a link by which the user sets its own password, once within three days."""
        return await self._connection.call(operations.USERS_INVITE, LinkView, {"name": name})

    async def _known(self, name: str) -> UserView | None:
        try:
            return await self.get(name)
        except ApiError as error:
            if error.code == "user-unknown":
                return None
            raise


class AsyncTokens:
    """The tokens of the caller, and for administrators those of all users."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self, *, user: str | None = None) -> _TokenViews:
        """Returns the tokens of `user`; without it the caller's, for administrators all."""
        query = {} if user is None else {"user": user}
        return await all_of(self._connection, operations.TOKENS_LIST, Page[TokenView], query=query)

    async def create(
        self,
        *,
        user: str | None = None,
        label: str = "",
        scopes: Sequence[Scope | str] | None = None,
        days: int | None = None,
    ) -> TokenView:
        """Makes a token, and returns it with its text: the site cannot show that again.

        Args:
            user: The user it acts for; none for the caller. At a socket a user must be named.
            label: A note that `list` returns.
            scopes: Leaves only these rights of the user; none leaves all of them.
            days: Days until it expires, 1 to 366; none for 90.
        """
        body: dict[str, object] = {"user": user, "label": label, "days": days}
        body["scopes"] = None if scopes is None else [str(scope) for scope in scopes]
        return await self._connection.call(operations.TOKENS_CREATE, TokenView, json=body)

    async def revoke(self, id: str) -> None:
        """Revokes a token: within two seconds no peer accepts it."""
        await self._connection.read(operations.TOKENS_REVOKE, {"id": id})
