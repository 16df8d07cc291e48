import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from penstock_eval import appendix, cli, formats, rundir, subjects
from penstock_eval.drawing import Request
from penstock_eval.rundir import Run
from tests import golden


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    for name in ("run.json", "facts.json", "cells.jsonl"):
        shutil.copy(folder / name, path / name)
    return path


def _edit(path: Path, line: int, **change: Any) -> None:
    rows = path.read_text().splitlines()
    rows[line - 1] = json.dumps(json.loads(rows[line - 1]) | change)
    path.write_text("\n".join(rows) + "\n")


def test_a_right_run_passes(folder: Path, capsys: pytest.CaptureFixture[str]):
    """Promise: `check` says that a complete run is right, and how much of it there is."""
    assert cli.main(["check", str(folder)]) == 0
    assert "right, 422 of 422 runs" in capsys.readouterr().out


def test_schema_is_one():
    """Promise: the committed schemas are valid ones of their draft, and share no kind of record."""
    kinds: list[str] = []
    for name in formats.SCHEMAS:
        Draft202012Validator.check_schema(formats.schema(name))
        kinds += formats.schema(name)["$defs"]
    shared = {kind for kind in kinds if kinds.count(kind) > 1}
    assert shared == {"moment"}


def test_a_broken_line_is_named(copy: Path, capsys: pytest.CaptureFixture[str]):
    """Promise: a line that is no JSON is named by file and line, by both commands."""
    rows = (copy / "cells.jsonl").read_text().splitlines()
    rows[6] = rows[6][:40]
    (copy / "cells.jsonl").write_text("\n".join(rows) + "\n")
    for command in ("check", "report"):
        assert cli.main([command, str(copy)]) == 1
        assert f"{copy / 'cells.jsonl'}:7: no JSON" in capsys.readouterr().err


def test_a_cut_last_line_says_what_to_do(copy: Path):
    """Promise: a sweep that was cut off within a line is told from a broken file."""
    text = (copy / "cells.jsonl").read_text()
    (copy / "cells.jsonl").write_text(text[:-30])
    with pytest.raises(formats.BrokenFileError, match="cut off here: the same command continues"):
        Run(copy)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"block": 0}, "`block`: 0 is less than the minimum"),
        ({"rate": None}, "`rate`: None is not of type 'object'"),
        ({"rate": {"effective": -1}}, "`rate.effective`"),
        ({"direction": "up"}, "`direction`: 'up' is not one of"),
        ({"dataset": {"name": "x"}}, "`dataset`: 'files' is a required property"),
    ],
)
def test_a_wrong_field_is_named(copy: Path, change: dict[str, Any], words: str):
    """Promise: a field that breaks the schema is named with file and line."""
    _edit(copy / "cells.jsonl", 3, **change)
    with pytest.raises(formats.BrokenFileError) as caught:
        Run(copy)
    assert str(caught.value).startswith(f"{copy / 'cells.jsonl'}:3: ")
    assert words in str(caught.value)


def test_unknown_keys_are_fine(copy: Path):
    """Promise: a later release may add fields."""
    _edit(copy / "cells.jsonl", 1, weather="rain")
    assert subjects.complaints(copy) == []


def test_another_format_is_refused(copy: Path):
    """Promise: a directory of a later format is not read as this one."""
    about = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(about | {"format": 2}))
    with pytest.raises(
        formats.BrokenFileError, match=r"`format` is 2, and this penstock-eval .* reads 1: install"
    ):
        Run(copy)


def test_a_failed_run_is_counted_apart(copy: Path):
    """Promise: a failed run needs no rate, is in no figure, and stays in the list."""
    rows = [json.loads(row) for row in (copy / "cells.jsonl").read_text().splitlines()]
    line = next(at for at, row in enumerate(rows, start=1) if not row["warmup"])
    failure = {"code": "target-full", "text": "no space at hpc:scratch"}
    _edit(copy / "cells.jsonl", line, error=failure, rate=None, verify=None)
    run = Run(copy)
    cell = next(cell for cell in run.cells if cell.error)
    assert cell not in run.counted
    assert cell.error == "no space at hpc:scratch"


def test_a_run_without_bytes_has_no_rate(copy: Path):
    """Promise: a data set of empty files is in no figure, and the list of odd runs says why."""
    rows = [json.loads(row) for row in (copy / "cells.jsonl").read_text().splitlines()]
    line = next(at for at, row in enumerate(rows, start=1) if not row["warmup"])
    _edit(copy / "cells.jsonl", line, bytes=0, rate={"effective": 0})
    run = Run(copy)
    assert len(run.counted) == 359
    table = appendix.odd_runs(Request(run))
    assert "moved no bytes: it has no rate" in [row[-1] for row in table.rows]


def test_cells_of_nothing_planned_are_refused(copy: Path):
    """Promise: lines of another sweep do not slip in."""
    item = golden.datasets()[0] | {"name": "3x3MiB"}
    _edit(copy / "cells.jsonl", 2, dataset=item)
    with pytest.raises(formats.BrokenFileError, match="`3x3MiB` is not in run"):
        Run(copy)


def test_a_missing_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Promise: a wrong path gets a sentence, not a trace."""
    assert cli.main(["report", str(tmp_path / "none")]) == 1
    printed = capsys.readouterr().err
    assert "no such directory; name a directory with one of run.json of `penstock" in printed


def test_only_warm_ups_is_nothing_to_report(copy: Path, capsys: pytest.CaptureFixture[str]):
    """Promise: a sweep that has only begun is told from an empty report."""
    rows = (copy / "cells.jsonl").read_text().splitlines()
    (copy / "cells.jsonl").write_text("\n".join(rows[:2]) + "\n")
    assert cli.main(["report", str(copy)]) == 1
    assert "nothing to report" in capsys.readouterr().err


def test_kept_results_serve_where_a_sweep_measured_none(folder: Path, copy: Path):
    """Promise: without storage of its own, a report takes the newest kept result that is done.

    A result that a transfer has disturbed, that is stale, or that some peers or other threads made,
    is none.
    """
    (copy / "storage").mkdir()
    one = json.loads((folder / "storage/lab-raw.before.json").read_text())
    bad = [{"state": "cancelled"}, {"with_load": True}, {"stale": "it is old"},
           {"threads_asked": [1]}, {"peers_left_out": 1}]  # fmt: skip
    items = [*(one | fault for fault in bad), one, one | {"id": "older"}]
    (copy / "storage/lab-raw.json").write_text(json.dumps({"items": items}))
    assert Run(copy).benchmarks("lab:raw") == [one]
    assert Run(copy).benchmarks("hpc:scratch") == []
    assert subjects.complaints(copy) == []


def test_single_sizes_are_told_from_mixes():
    """Promise: `64x1GiB` is of one size; presets and directories are not."""
    made = {d["name"]: rundir.Dataset(d["name"], d["files"], d["bytes"]) for d in golden.datasets()}
    assert made["64x1GiB"].is_uniform
    assert not made["esnet@24GB"].is_uniform
    assert made["64x1GiB"].file_size == 1 << 30


def test_an_empty_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Promise: a directory without anything, one of something else, and a file are told apart."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other/notes.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    for name, words in [
        ("empty", "empty: nothing was measured into it"),
        ("other", "none of run.json of `penstock bench sweep`, soak.json of `penstock soak`, "),
        ("other", "storage.json of `penstock bench storage` is in it; the JSON of `penstock bench"),
        ("other/notes.txt", "no directory (the JSON of `penstock bench network` has no report"),
    ]:
        for command in ("check", "report"):
            assert cli.main([command, str(tmp_path / name)]) == 1
            printed = capsys.readouterr().err
            assert printed.startswith(f"penstock-eval: {tmp_path / name}: ")
            assert words in printed


def test_a_sweep_that_has_just_begun(copy: Path, capsys: pytest.CaptureFixture[str]):
    """Promise: a sweep whose first run has not ended is told, with what to do."""
    (copy / "cells.jsonl").unlink()
    assert cli.main(["report", str(copy)]) == 1
    assert "no run has ended yet; `penstock bench sweep` with the same --out continues" in (
        capsys.readouterr().err
    )
    (copy / "cells.jsonl").write_text("")
    assert cli.main(["report", str(copy)]) == 1
    assert "cells.jsonl: no run succeeded but warm-ups" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "run.json: empty: its writer was cut off"),
        ('{"format": 1,', "run.json:1: no JSON"),
        ("[]", "run.json: [] is not of type 'object'"),
        ('{"format": NaN}', "run.json: no JSON: `NaN` is no number of JSON"),
        ("[" * 100_000, "run.json: no JSON: "),
        ('{"format": 1}', "run.json: 'id' is a required property"),
    ],
)
def test_a_half_written_plan(copy: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]):
    """Promise: a plan that was cut off, or is none, gets a sentence, never a trace."""
    (copy / "run.json").write_text(text)
    for command in ("check", "report"):
        assert cli.main([command, str(copy)]) == 1
        assert f"{copy}/{words}" in capsys.readouterr().err


def test_bytes_that_are_no_text(copy: Path, capsys: pytest.CaptureFixture[str]):
    """Promise: a damaged file is named with the byte."""
    (copy / "cells.jsonl").write_bytes(b"\x7b\xff\x00\x7d\n")
    assert cli.main(["report", str(copy)]) == 1
    assert f"{copy / 'cells.jsonl'}: not UTF-8 at byte 1" in capsys.readouterr().err


def test_a_run_directory_as_a_file_of_itself(copy: Path, capsys: pytest.CaptureFixture[str]):
    """Promise: what cannot be read is named with the reason of the system."""
    (copy / "facts.json").unlink()
    (copy / "facts.json").mkdir()
    assert cli.main(["report", str(copy)]) == 1
    assert f"{copy / 'facts.json'}: cannot be read: Is a directory" in capsys.readouterr().err


def test_a_line_that_stands_twice(copy: Path):
    """Promise: a run is not counted twice."""
    rows = (copy / "cells.jsonl").read_text().splitlines()
    (copy / "cells.jsonl").write_text("\n".join([*rows, rows[4]]) + "\n")
    with pytest.raises(formats.BrokenFileError, match=r"cell .* has two lines"):
        Run(copy)
    assert "has two lines" in subjects.complaints(copy)[0]


def test_texts_may_have_any_sign(copy: Path):
    """Promise: signs that some call ends of lines do not split a line of JSON."""
    error = {"code": "some-failed", "text": "raw/a\u2028b\x85c: gone"}
    rows = [json.loads(row) for row in (copy / "cells.jsonl").read_text().splitlines()]
    rows[9] |= {"error": error}
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    (copy / "cells.jsonl").write_text("".join(lines), "utf-8")
    assert error["text"] in [cell.error for cell in Run(copy).cells]


def test_a_name_cannot_leave_the_report(copy: Path):
    """Promise: the id of a run, which names files of a report, is no path."""
    about = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(about | {"id": "../../etc/x"}))
    with pytest.raises(formats.BrokenFileError, match=r"`id`: '../../etc/x' does not match"):
        Run(copy)


def test_a_broken_series_is_named(folder: Path, copy: Path, capsys: pytest.CaptureFixture[str]):
    """Promise: a series that was cut off, or has a text for a number, is named with its file."""
    run = Run(folder)
    cell = run.counted[0]
    (copy / "series").mkdir()
    path = copy / f"series/{cell.id}.jsonl"
    text = (folder / f"series/{cell.id}.jsonl").read_text()
    path.write_text(text[:-9])
    with pytest.raises(formats.BrokenFileError, match=r"no JSON: .*cut off here"):
        Run(copy).series(cell)
    path.write_text(text.replace('"lanes": 4', '"lanes": "four"', 1))
    with pytest.raises(formats.BrokenFileError, match="no sample of a peer"):
        Run(copy).series(cell)
    assert cli.main(["check", str(copy)]) == 1
    assert f"{path}:1: `values.lanes`: 'four' is not of type" in capsys.readouterr().err


def test_a_rate_of_nothing_is_in_no_figure(copy: Path):
    """Promise: a run that is written with a rate of 0 has no logarithm, and does not count."""
    rows = [json.loads(row) for row in (copy / "cells.jsonl").read_text().splitlines()]
    line = next(at for at, row in enumerate(rows, start=1) if not row["warmup"])
    _edit(copy / "cells.jsonl", line, rate={"effective": 0})
    assert len(Run(copy).counted) == 359


def test_the_same_run_is_given_once(copy: Path, capsys: pytest.CaptureFixture[str]):
    """Promise: a run and its copy are not taken for two: their files would have one name."""
    again = copy.parent / "again"
    shutil.copytree(copy, again)
    for other in (copy, again):
        assert cli.main(["report", str(copy), str(other)]) == 1
        assert f"{other}: the same as {copy}: give it once" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("make", "file", "change", "words"),
    [
        (golden.make_soak, "soak.json", {"v": 2}, "soak.json: `v` is 2, and this penstock-eval"),
        (golden.make_soak, "soak.json", {"id": "x"}, "soak.json: `id`: 'x' does not match"),
        (golden.make_soak, "proof.json", {"v": 3}, "proof.json: `v` is 3, and this"),
        (golden.make_soak, "rounds.jsonl", {"bytes": "many"}, "rounds.jsonl:1: `bytes`: 'many'"),
        (golden.make_soak, "faults.jsonl", {"began": "now"}, "faults.jsonl:1: `began`: 'now'"),
        (golden.make_rivals, "rivals.jsonl", {"format": 9}, "rivals.jsonl:1: `format` is 9"),
        (golden.make_rivals, "rivals.jsonl", {"kind": "run"}, "rivals.jsonl:1: `kind`: 'bench'"),
        (
            golden.make_storage,
            "storage.json",
            {"id": "../x"},
            "storage.json: `id`: '../x' does not",
        ),
        (golden.make_storage, "storage.json", {"points": 1}, "storage.json: `points`: 1 is not of"),
    ],
)
def test_broken_soaks_and_comparisons(
    tmp_path: Path,
    make: Callable[[Path], Path],
    file: str,
    change: dict[str, Any],
    words: str,
    capsys: pytest.CaptureFixture[str],
):
    """Promise: directories of soaks and comparisons are checked as those of sweeps are."""
    path = make(tmp_path / "made")
    _edit(path / file, 1, **change)
    for command in ("check", "report"):
        assert cli.main([command, str(path)]) == 1
        assert f"{path}/{words}" in capsys.readouterr().err
