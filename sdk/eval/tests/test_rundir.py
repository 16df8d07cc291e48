import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from penstock_eval import appendix, cli, formats, rundir
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
    assert "right, 420 of 420 runs" in capsys.readouterr().out


def test_schema_is_one():
    """Promise: the committed schema is a valid one of its draft."""
    Draft202012Validator.check_schema(formats.schema())


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
    with pytest.raises(formats.BrokenFileError, match="run it again to complete it"):
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
    assert rundir.complaints(copy) == []


def test_another_format_is_refused(copy: Path):
    """Promise: a directory of a later format is not read as this one."""
    about = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(about | {"format": 2}))
    with pytest.raises(formats.BrokenFileError, match="`format`: 1 was expected"):
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
    assert "no such directory; name one of a sweep's --out" in capsys.readouterr().err


def test_only_warm_ups_is_nothing_to_report(copy: Path, capsys: pytest.CaptureFixture[str]):
    """Promise: a sweep that has only begun is told from an empty report."""
    rows = (copy / "cells.jsonl").read_text().splitlines()
    (copy / "cells.jsonl").write_text("\n".join(rows[:2]) + "\n")
    assert cli.main(["report", str(copy)]) == 1
    assert "nothing to report" in capsys.readouterr().err


def test_kept_results_serve_where_a_sweep_measured_none(folder: Path, copy: Path):
    """Promise: without storage of its own, a report takes the newest kept result that is done."""
    (copy / "storage").mkdir()
    one = json.loads((folder / "storage/lab-raw.before.json").read_text())
    items = [one | {"state": "cancelled"}, one, one | {"id": "older"}]
    (copy / "storage/lab-raw.json").write_text(json.dumps({"items": items}))
    assert Run(copy).benchmarks("lab:raw") == [one]
    assert Run(copy).benchmarks("hpc:scratch") == []
    assert rundir.complaints(copy) == []


def test_single_sizes_are_told_from_mixes():
    """Promise: `64x1GiB` is of one size; presets and directories are not."""
    made = {d["name"]: rundir.Dataset(d["name"], d["files"], d["bytes"]) for d in golden.datasets()}
    assert made["64x1GiB"].is_uniform
    assert not made["esnet@24GB"].is_uniform
    assert made["64x1GiB"].file_size == 1 << 30
