# Written by tools/generate.py from _async/login.py: change that file.
"""Log-ins: sessions, one-time links, and programs that are let in."""

from collections.abc import Sequence

from .. import _operations as operations
from .._reply import parsed
from ..models.access import Scope
from ..models.login import (
    AuthMethods,
    DeviceAuthorization,
    DeviceToken,
    DeviceView,
    LinkView,
    SessionView,
)
from ..models.page import Page
from .connection import Connection
from .pages import all_of

# `list` is a method below.
_SessionViews = list[SessionView]

_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class Sessions:
    """Sessions: a client that begins one needs no token. Its cookie is kept by the client."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def begin(self, name: str, password: str) -> SessionView:
        """Logs in by name and password: what this client sends from now on is of that user."""
        body = {"name": name, "password": password}
        return self._connection.call(operations.SESSIONS_BEGIN, SessionView, json=body)

    def list(self, *, user: str | None = None) -> _SessionViews:
        """Returns the caller's sessions, oldest first; `user` names another one."""
        query = {} if user is None else {"user": user}
        operation = operations.SESSIONS_LIST
        return all_of(self._connection, operation, Page[SessionView], query=query)

    def end(self, id: str = "current") -> None:
        """Ends a session, that of this client if none is named."""
        self._connection.read(operations.SESSIONS_END, {"id": id})


class Auth:
    """The ways to log in, beside names and passwords."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def methods(self) -> AuthMethods:
        """Returns the ways to log in that the site offers."""
        return self._connection.call(operations.AUTH_METHODS, AuthMethods)

    def make_setup_link(self) -> LinkView:
        """Makes a link for a new administrator, valid for one use. For root, at a socket."""
        return self._connection.call(operations.AUTH_MAKE_SETUP_LINK, LinkView)

    def set_up(self, code: str, name: str, password: str) -> SessionView:
        """Makes an administrator by the code of a link, and logs in as it."""
        body = {"code": code, "name": name, "password": password}
        return self._connection.call(operations.AUTH_SET_UP, SessionView, json=body)

    def accept_invitation(self, code: str, password: str) -> SessionView:
        """Sets the password of the user of a link, and logs in as it."""
        body = {"code": code, "password": password}
        return self._connection.call(operations.AUTH_ACCEPT, SessionView, json=body)

    def begin_device(
        self, client_id: str, *, scopes: Sequence[Scope | str] | None = None
    ) -> DeviceAuthorization:
        """Begins a log-in that a user approves elsewhere by the code that is returned.

        Args:
            client_id: Name of the program, as its user is to read it.
            scopes: Leaves only these rights of the user; none leaves all of them.
        """
        form = {"client_id": client_id}
        if scopes:
            form["scope"] = " ".join(str(scope) for scope in scopes)
        operation = operations.AUTH_BEGIN_DEVICE
        body = self._connection.read(operation, form=form)
        return parsed(operation, DeviceAuthorization, body)

    def device_token(self, device_code: str) -> DeviceToken:
        """Returns the token of a log-in that was approved.

        Raises:
            ApiError: There is none, or not yet: its `code` is a `DeviceErrorCode`.
        """
        form = {"grant_type": _DEVICE_GRANT, "device_code": device_code}
        operation = operations.AUTH_DEVICE_TOKEN
        body = self._connection.read(operation, form=form)
        return parsed(operation, DeviceToken, body)

    def show_device(self, user_code: str) -> DeviceView:
        """Returns the log-in that waits under a code."""
        query = {"user_code": user_code}
        return self._connection.call(operations.AUTH_SHOW_DEVICE, DeviceView, query=query)

    def approve_device(
        self, user_code: str, *, user: str | None = None, deny: bool = False
    ) -> None:
        """Lets a program in, or refuses it.

        Args:
            user_code: The code that the program shows.
            user: The user that it acts for; none for the caller. At a socket one must be named.
            deny: True refuses it.
        """
        decision = "deny" if deny else "approve"
        body = {"user_code": user_code, "user": user, "decision": decision}
        self._connection.read(operations.AUTH_APPROVE_DEVICE, json=body)
