"""Lists in parts."""

from typing import Generic, TypeVar

from .base import View

_T = TypeVar("_T")


class Page(View, Generic[_T]):
    """A part of a list."""

    items: list[_T]
    """The items."""
    next: str | None = None
    """The cursor of the next part; none at the end."""
