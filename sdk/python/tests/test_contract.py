"""The parts that must agree with each other: operations, both clients, sources of the daemon."""

import inspect
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

import penstock
from penstock import AsyncPenstock, Penstock, models
from penstock._codes import AREAS
from penstock._operations import OPERATIONS, Repeat
from penstock._reply import api_error
from penstock.errors import FAMILIES
from penstock.models import OpenEnum, View
from tests.samples import problem
from tools import generate

_API = "/api/v1"
_RENAMED = {"UserRole": "Role"}
"""Names in the daemon of what has another name here."""
_FLATTENED = {
    "PauseRuleView": {"rule"},
    "QueueLimitView": {"limit"},
    "QueueWindow": {"rule"},
    "WindowView": {"window"},
}
"""Fields of the daemon whose own fields are those of the object."""
REPOSITORY = Path(__file__).resolve().parents[3]


def _resources(client: Penstock | AsyncPenstock) -> dict[str, object]:
    found = {name: value for name, value in vars(client).items() if not name.startswith("_")}
    return {"": client, **found}


def test_every_operation_has_a_method() -> None:
    """Promise: no operation of the API is missing in the interface of either client."""
    for client in (Penstock("unix:///s"), AsyncPenstock("unix:///s")):
        resources = _resources(client)
        for name in OPERATIONS:
            resource, _, method = name.rpartition(".")
            assert callable(getattr(resources[resource], method)), name


def test_the_operations_are_those_of_the_reference() -> None:
    """Promise: no operation is missing, and none is repeated that may be done once only."""
    row = re.compile(r"\| `(\w+) (/api/v1\S*)` \| .* \| .* \| (.*) \| .* \|")
    reference = (REPOSITORY / "docs/api.md").read_text()
    theirs = {
        (found[1], found[2]): Repeat.ONCE if found[3] == "once" else Repeat.HARMLESS
        for found in map(row.fullmatch, reference.splitlines())
        if found
    }
    ours = {(one.method, _API + one.template): one.repeat for one in OPERATIONS.values()}
    assert ours == theirs


def _methods(owner: type[Any]) -> dict[str, str]:
    """The signatures of the public methods of a class, in the words of the synchronous client."""
    found: dict[str, str] = {}
    for name, value in inspect.getmembers(owner):
        name = {"aclose": "close", "__aenter__": "__enter__", "__aexit__": "__exit__"}.get(
            name, name
        )
        is_public = not name.startswith("_") or name in {"__init__", "__enter__", "__exit__"}
        if is_public and inspect.isfunction(value):
            signature = str(inspect.signature(value)).replace("penstock._async", "penstock._sync")
            found[name] = generate.sync_of(signature, "").split("\n", 1)[1]
    return found


def test_both_clients_have_the_same_methods() -> None:
    """Promise: code for one client is code for the other, but for `async` and `await`."""
    pairs: list[tuple[type[Any], type[Any]]] = [
        (type(one), type(other))
        for one, other in zip(
            _resources(AsyncPenstock("unix:///s")).values(),
            _resources(Penstock("unix:///s")).values(),
            strict=True,
        )
    ]
    pairs += [
        (penstock.AsyncTransfer, penstock.Transfer),
        (penstock.AsyncListedTransfer, penstock.ListedTransfer),
        (penstock.AsyncDocument, penstock.Document),
        (penstock.AsyncTransferPages, penstock.TransferPages),
        (penstock.AsyncEntryPages, penstock.EntryPages),
        (penstock.AsyncAuditPages, penstock.AuditPages),
    ]
    for one, other in pairs:
        methods = _methods(one)
        assert methods, one
        assert methods == _methods(other)


@pytest.mark.tools
def test_what_is_written_by_the_generator_is_as_it_would_write_it() -> None:
    """Promise: the synchronous client follows the asynchronous one."""
    assert generate.differing() == []


@pytest.mark.tools
def test_what_the_generator_does_not_write_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: a synchronous module stays no longer than the one that it was written from."""
    for name in ("_async/__init__.py", "_sync/__init__.py", "_sync/gone.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(generate, "PACKAGE", tmp_path)
    assert generate.differing() == [tmp_path / "_sync/gone.py"]


def test_every_area_of_problems_has_a_class() -> None:
    """Promise: each code of the registry becomes an error of its family."""
    assert set(AREAS.values()) == set(FAMILIES)


def test_every_code_is_an_error_of_its_class() -> None:
    """Promise: each code of the registry has the class of its area; an unknown one survives."""
    listed = re.compile(r"^\| `([a-z0-9-]+)` \|", re.M)
    codes = set(listed.findall((REPOSITORY / "docs/problems.md").read_text()))
    assert len(codes) > 150
    for code in codes:
        error = api_error(problem(409, code))
        assert (type(error), error.code) == (FAMILIES[AREAS[code]], code)
    later = {"code": "molten", "exit": "melted", "detail": "too hot", "colour": "red"}
    error = api_error(httpx2.Response(418, json=later))
    assert type(error) is penstock.ApiError
    assert (error.code, error.exit, error.exit.is_known) == ("molten", "melted", False)
    assert error.problem.model_extra == {"colour": "red"}


def _rust_items(kind: str) -> dict[str, list[set[str]]]:
    """The fields of each public structure, or the words of each enumeration, of the API.

    A name may be there in several modules.
    """
    member = r"^    pub (\w+): " if kind == "struct" else r"^    (\w+)(?:,| =|\()"
    items: dict[str, list[set[str]]] = {}
    for file in sorted((REPOSITORY / "crates/penstock-api/src").rglob("*.rs")):
        name = ""
        for line in file.read_text().splitlines():
            if begun := re.match(rf"pub {kind} (\w+) {{$", line):
                name = begun[1]
                items.setdefault(name, []).append(set())
            elif line.startswith("}"):
                name = ""
            elif name and (found := re.match(member, line)):
                items[name][-1].add(found[1])
    return items


def test_views_have_the_fields_of_the_daemon() -> None:
    """Promise: what the daemon tells has a name and a type here."""
    structures = _rust_items("struct")
    lacking: dict[str, set[str]] = {}
    compared = 0
    for name, view in vars(models).items():
        if not (inspect.isclass(view) and issubclass(view, View) and name in structures):
            continue
        fields = set(view.model_fields)
        fields |= {field.alias for field in view.model_fields.values() if field.alias}
        # What is flattened on the wire is no field of its own.
        flattened = {"problem", "details", "context", "settings", *_FLATTENED.get(name, ())}
        lacks = [theirs - fields - flattened for theirs in structures[name]]
        if all(lacks):
            lacking[name] = lacks[0]
        compared += 1
    assert lacking == {}
    assert compared > 50


def test_enumerations_have_the_words_of_the_daemon() -> None:
    """Promise: a word of the daemon of this release is a member."""
    enumerations = _rust_items("enum")
    compared = 0
    for ours, words in vars(models).items():
        name = _RENAMED.get(ours, ours)
        if inspect.isclass(words) and issubclass(words, OpenEnum) and name in enumerations:
            members = {member.replace("_", "").lower() for member in words.__members__}
            theirs = [{word.lower() for word in words} for words in enumerations[name]]
            assert members in theirs, name
            compared += 1
    assert compared > 9
