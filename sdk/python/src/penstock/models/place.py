"""Paths and places in stores."""

import os
import re
from typing import Any, Self

from pydantic import GetCoreSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from .base import View

_ESCAPE = re.compile(rb"\\(n|t|r|\\|x[0-9a-fA-F]{2})")
_NAMED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"\\": b"\\"}
_NAMES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\"}


class PathText(str):
    r"""A path of any bytes as Penstock writes it: readable, on one line, and reversible.

    Backslashes, control characters and bytes that are not UTF-8 are escaped as `\\`, `\n`, `\t`,
    `\r` or `\xHH`. Calling the class takes such a text; `PathText.of` takes a path.
    """

    __slots__ = ()

    @classmethod
    def of(cls, path: "str | bytes | os.PathLike[str] | PathText") -> Self:
        """Returns the text of a path; strings are read as `os.fsencode` reads them."""
        if isinstance(path, PathText):
            return cls(path)
        text = os.fsencode(path).decode("utf-8", "surrogateescape")
        return cls("".join(map(_escaped, text)))

    @property
    def raw(self) -> bytes:
        """The bytes of the path, for calls of the operating system."""
        return _ESCAPE.sub(_unescaped, self.encode("utf-8", "surrogateescape"))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(
            cls._validated, serialization=core_schema.to_string_ser_schema(when_used="json")
        )

    @classmethod
    def _validated(cls, value: Any, info: ValidationInfo) -> Self:
        """Reads the text of a reply, or a path of a program."""
        if info.mode == "json" and isinstance(value, str):
            return cls(value)
        if isinstance(value, str | bytes | os.PathLike):
            return cls.of(value)  # pyright: ignore[reportUnknownArgumentType]
        raise ValueError("a path is a string, bytes or a path-like object")


def _escaped(character: str) -> str:
    if character in _NAMES:
        return _NAMES[character]
    if character.isprintable():
        return character
    raw = character.encode("utf-8", "surrogateescape")
    return "".join(f"\\x{byte:02x}" for byte in raw)


def _unescaped(match: re.Match[bytes]) -> bytes:
    escape = match[1]
    return _NAMED.get(escape) or bytes([int(escape[1:], 16)])


class Location(View):
    """A place in a store of a site: `SITE:STORE/PATH`."""

    site: str
    """The site."""
    store: str
    """The store at the site."""
    path: PathText = PathText()
    """Relative path within the store, without slashes at its ends; empty for the store's root."""
    slash: bool = False
    """True if it was written with a slash at its end.

    For a source this means its contents; for a target, a directory to put the source into.
    """

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `SITE:STORE/PATH`. The daemon checks the names and the path.

        Raises:
            ValueError: The text has no `:`, or no store.
        """
        site, colon, rest = text.partition(":")
        store, _, path = rest.partition("/")
        if not (site and colon and store):
            raise ValueError(f"`{text}` is not SITE:STORE/PATH")
        trimmed = PathText.of(path.strip("/"))
        return cls(site=site, store=store, path=trimmed, slash=rest.endswith("/"))

    @classmethod
    def of(cls, place: "str | Location") -> "Location":
        """Returns the place as a location."""
        return place if isinstance(place, Location) else cls.parse(place)

    def __str__(self) -> str:
        end = "/" if self.slash and self.path else ""
        return f"{self.site}:{self.store}/{self.path}{end}"
