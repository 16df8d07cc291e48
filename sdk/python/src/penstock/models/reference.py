"""Objects that other objects name."""

from .base import OpenEnum, View


class ObjectKind(OpenEnum):
    """Kind of an object of the API."""

    PEER = "peer"
    """A peer of the site."""
    RULE = "rule"
    """A rule of an operator."""
    SITE = "site"
    """A site."""
    STORE = "store"
    """A store of the site."""
    TOKEN = "token"  # noqa: S105
    """A token."""
    TRANSFER = "transfer"
    """A transfer."""
    USER = "user"
    """A user."""
    OTHER = "other"
    """A thing of another kind."""


class ObjectRef(View):
    """An object that a problem or a wait is about."""

    kind: ObjectKind
    """Its kind."""
    name: str = ""
    """Its name or id."""
