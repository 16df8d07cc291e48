"""Reading of the files of a run directory: JSON by the schema of format 1, with place in errors."""

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

SCHEMA = "run-format-1.schema.json"
"""Name of the schema, within the package."""


class BrokenFileError(Exception):
    """A file of the run directory cannot be read, or breaks the schema."""


@cache
def schema() -> dict[str, Any]:
    """JSON Schema of the run directory, with one definition for each kind of file."""
    return json.loads(files("penstock_eval").joinpath(SCHEMA).read_text("utf-8"))


@cache
def _validator(part: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{part}", "$defs": schema()["$defs"]})


def _depth(error: ValidationError) -> int:
    return len(error.absolute_path)


def complaint(part: str, value: Any, place: str) -> str | None:
    """Sentence on what breaks the schema of a part first, with its place, if any does."""
    error = next(_validator(part).iter_errors(value), None)
    if error is None:
        return None
    # Of alternatives, such as a record or null, the one that fits deepest is what was meant.
    while error.context:
        error = max(error.context, key=_depth)
    where = ".".join(str(step) for step in error.absolute_path)
    message = error.message if len(error.message) <= 200 else f"{error.message[:200]} …"
    return f"{place}: {f'`{where}`: ' if where else ''}{message}"


def document(path: Path, part: str) -> Any:
    """Contents of a JSON file that obeys the schema.

    Raises:
        BrokenFileError: It cannot be read, is no JSON, or breaks the schema.
    """
    try:
        value = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BrokenFileError(f"{path}: cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise BrokenFileError(f"{path}:{error.lineno}: no JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise BrokenFileError(f"{path}: not UTF-8 at byte {error.start}") from error
    return _valid(part, value, str(path))


def lines(path: Path, part: str | None = None) -> Iterator[Any]:
    """Values of a file with one JSON text a line, each by the schema of a part if one is named.

    Raises:
        BrokenFileError: The file cannot be read; a line is no JSON, or breaks the schema.
    """
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise BrokenFileError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BrokenFileError(f"{path}: not UTF-8 at byte {error.start}") from error
    whole = text.endswith("\n")
    rows = text.splitlines()
    for at, row in enumerate(rows, start=1):
        place = f"{path}:{at}"
        try:
            value = json.loads(row)
        except json.JSONDecodeError as error:
            last = at == len(rows) and not whole
            hint = "; the sweep was cut off here: run it again to complete it" if last else ""
            raise BrokenFileError(f"{place}: no JSON: {error.msg}{hint}") from error
        yield _valid(part, value, place) if part else value


def _valid(part: str, value: Any, place: str) -> Any:
    found = complaint(part, value, place)
    if found:
        raise BrokenFileError(found)
    return value
