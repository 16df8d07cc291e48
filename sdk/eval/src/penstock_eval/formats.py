"""Reading of files that measurements leave: JSON by schemas of format 1, with place in errors."""

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from penstock_eval import __version__

SCHEMAS = (
    "run-format-1.schema.json",
    "soak-format-1.schema.json",
    "rivals-format-1.schema.json",
)
"""Names of the schemas within the package: of a sweep, of a soak, and of other movers."""
VERSION = {"run": "format", "soak": "v", "proof": "v", "bench": "format"}
"""Keys of the format, by the kind of record that has one."""


class BrokenFileError(Exception):
    """A file cannot be read, or breaks the schema."""


@cache
def schema(name: str) -> dict[str, Any]:
    """JSON Schema by its name, with one definition for each kind of record."""
    return json.loads(files("penstock_eval").joinpath(name).read_text("utf-8"))


@cache
def _validator(part: str) -> Draft202012Validator:
    found = next(known for known in map(schema, SCHEMAS) if part in known["$defs"])
    return Draft202012Validator({"$ref": f"#/$defs/{part}", "$defs": found["$defs"]})


def _depth(error: ValidationError) -> int:
    return len(error.absolute_path)


def complaint(part: str, value: Any, place: str) -> str | None:
    """Sentence on what breaks the schema of a part first, with its place, if any does."""
    if later := _later(part, value):
        return f"{place}: {later}"
    error = next(_validator(part).iter_errors(value), None)
    if error is None:
        return None
    # Of alternatives, such as a record or null, the one that fits deepest is what was meant.
    while error.context:
        error = max(error.context, key=_depth)
    where = ".".join(str(step) for step in error.absolute_path)
    message = error.message if len(error.message) <= 200 else f"{error.message[:200]} …"
    return f"{place}: {f'`{where}`: ' if where else ''}{message}"


def _later(part: str, value: Any) -> str | None:
    """Sentence on a format that only a later release can read."""
    key = VERSION.get(part)
    found: Any = cast("dict[str, Any]", value).get(key) if key and isinstance(value, dict) else None
    if type(found) is not int or found <= 1:
        return None
    return (
        f"`{key}` is {found}, and this penstock-eval ({__version__}) reads 1: install the "
        "penstock-eval of the release that measured"
    )


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise BrokenFileError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BrokenFileError(f"{path}: not UTF-8 at byte {error.start}") from error


def _constant(text: str) -> float:
    raise ValueError(f"`{text}` is no number of JSON")


def _parsed(text: str) -> Any:
    """Value of a JSON text, without the numbers that are none, such as NaN."""
    return json.loads(text, parse_constant=_constant)


def document(path: Path, part: str) -> Any:
    """Contents of a JSON file that obeys the schema.

    Raises:
        BrokenFileError: It cannot be read, is no JSON, or breaks the schema.
    """
    text = _read(path)
    if not text.strip():
        raise BrokenFileError(f"{path}: empty: its writer was cut off before it wrote anything")
    try:
        value = _parsed(text)
    except json.JSONDecodeError as error:
        raise BrokenFileError(f"{path}:{error.lineno}: no JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise BrokenFileError(f"{path}: no JSON: {error}") from error
    return _valid(part, value, str(path))


def lines(path: Path, part: str | None = None) -> Iterator[Any]:
    """Values of a file with one JSON text a line, each by the schema of a part if one is named.

    Raises:
        BrokenFileError: The file cannot be read; a line is no JSON, or breaks the schema.
    """
    # Not splitlines: it also splits at signs that JSON has within its strings, such as U+2028.
    *rows, rest = _read(path).split("\n")
    for at, row in enumerate([*rows, rest] if rest else rows, start=1):
        place = f"{path}:{at}"
        try:
            value = _parsed(row)
        except (ValueError, RecursionError) as error:
            text = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            cut = at > len(rows)
            hint = "; its writer was cut off here: the same command continues" if cut else ""
            raise BrokenFileError(f"{place}: no JSON: {text}{hint}") from error
        yield _valid(part, value, place) if part else value


def _valid(part: str, value: Any, place: str) -> Any:
    found = complaint(part, value, place)
    if found:
        raise BrokenFileError(found)
    return value
