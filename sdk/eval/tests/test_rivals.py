from pathlib import Path

import numpy as np
import pytest

from penstock_eval import beside, cli, report, style
from penstock_eval.figures import movers
from penstock_eval.rivals import Rivals
from penstock_eval.tables import Value
from tests import golden


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison that tests only read."""
    return golden.make_rivals(tmp_path_factory.mktemp("rivals") / "rivals")


def _rows(rivals: Rivals) -> dict[tuple[Value, Value], dict[str, Value]]:
    table = beside.by_class(rivals)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return {(row["data set"], row["mover"]): row for row in rows}


def test_ratios_to_penstock_are_the_planted_ones(folder: Path):
    """Promise: T12 has the ratio of each mover within rounds, and no warm-up."""
    rows = _rows(Rivals(folder))
    assert [key[0] for key in rows] == ["small"] * 3 + ["medium"] * 3 + ["large"] * 3
    for (_, mover), row in rows.items():
        if mover != "penstock":
            assert row["ratio to Penstock"] == pytest.approx(golden.MOVERS[str(mover)])
    assert rows["large", "rsync"]["n"] == 6
    assert rows["large", "rsync"]["verdict"] == "slower"
    assert rows["large", "rsync"]["cover %"] == 96.9
    assert rows["large", "rsync"]["CPU s/GiB"] == pytest.approx(1.25)
    assert rows["large", "penstock"]["verdict"] == "what others are compared with"


def test_a_failed_run_is_told(folder: Path):
    """Promise: a failed run is in no rate, leaves five, and takes the claim with it."""
    row = _rows(Rivals(folder))["small", "gridftp"]
    assert (row["n"], row["failed"], row["verified"]) == (5, 1, "5 of 5")
    assert row["verdict"] == "no claim: fewer than six pairs"
    assert row["cover %"] is None


def test_movers_are_drawn_beside_each_other(folder: Path):
    """Promise: F23 has each transfer that counts, in Gbit/s and in files a second."""
    with style.applied():
        drawn = movers.by_dataset(Rivals(folder))
    upper, lower = drawn.figure.axes
    for axes in (upper, lower):
        dots = [line for line in axes.lines if line.get_linestyle() == "None"]
        assert sum(len(np.asarray(line.get_xdata())) for line in dots) == 53
    assert "n = 5 to 6" in drawn.caption


def test_a_report_of_movers(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Promise: `report` and `check` take the --out of a comparison; what could not run is named."""
    assert cli.main(["check", str(folder)]) == 0
    assert "right, 63 transfers" in capsys.readouterr().out
    (made,) = report.write([folder], tmp_path)
    assert [listing.key for listing in made.listings] == ["T12", "T19"]
    assert "apt install xrootd-client" in (tmp_path / "tables/T19.csv").read_text()


def test_nothing_but_warm_ups(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Promise: a comparison that has only begun is told from an empty report."""
    path = tmp_path / "rivals"
    path.mkdir()
    rows = (folder / "rivals.jsonl").read_text().splitlines()
    (path / "rivals.jsonl").write_text("\n".join(rows[:3]) + "\n")
    assert cli.main(["report", str(path)]) == 1
    assert "no transfer succeeded but warm-ups: nothing to report" in capsys.readouterr().err
