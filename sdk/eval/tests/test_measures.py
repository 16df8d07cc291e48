import csv
from pathlib import Path

import pytest

from penstock_eval import measures, stats, tables
from penstock_eval.drawing import Request
from penstock_eval.report import Section
from penstock_eval.rundir import Run
from tests import golden

LARGE = "64x1GiB"


def _rows(sections: list[Section], key: str) -> list[dict[str, tables.Value]]:
    listing = next(item for item in sections[0].listings if item.key == key)
    table = listing.table
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_medians_are_those_of_raw_lines(sections: list[Section]):
    """Promise: T1 has the median of the six blocks, its interval, and no warm-up."""
    item = next(d for d in golden.datasets() if d["name"] == LARGE)
    rates = sorted(golden.rate(item, "off-blake3", "forward", b) * 8e-9 for b in range(1, 7))
    row = next(
        row
        for row in _rows(sections, "T1")
        if (row["data set"], row["mode"], row["direction"]) == (LARGE, "off-blake3", "forward")
    )
    assert row["n"] == 6
    assert row["median Gbit/s"] == pytest.approx((rates[2] + rates[3]) / 2)
    assert (row["low"], row["high"]) == (pytest.approx(rates[0]), pytest.approx(rates[5]))
    assert row["cover %"] == 96.9


def test_ratio_of_modes_is_the_planted_one(sections: list[Section]):
    """Promise: drift between blocks does not blur T4's ratio of modes."""
    item = next(d for d in golden.datasets() if d["name"] == LARGE)
    pairs = [
        [golden.rate(item, mode, "forward", block) for mode in ("tls-blake3", "off-blake3")]
        for block in range(1, 7)
    ]
    planted = stats.median([above / below for above, below in pairs])
    row = next(
        row
        for row in _rows(sections, "T4")
        if (row["data set"], row["mode"], row["direction"]) == (LARGE, "tls-blake3", "forward")
    )
    assert row["pairs"] == 6
    assert row["ratio"] == pytest.approx(planted, abs=1e-3)
    assert isinstance(row["high"], float)
    assert isinstance(row["low"], float)
    assert row["high"] - row["low"] < 0.01
    assert row["verdict"] == "slower"
    assert row["cipher"] == "AES-128-GCM"


def test_storage_is_the_slower_end(run: Run):
    """Promise: the bound is writing here, with the medians of runs before and after."""
    bounds = measures.bound(run, "forward")
    assert [bound.size for bound in bounds] == sorted({size for _, size in golden.SIZES})
    for bound in bounds:
        assert bound.slower == "write"
        assert bound.median == pytest.approx(golden.storage_rate(bound.size), rel=0.002)
        assert bound.least == pytest.approx(0.98 * golden.storage_rate(bound.size), rel=0.001)
    assert len(measures.storage(run, "lab:raw", "read")[0].runs) == 6


def test_a_size_beyond_the_measured_has_no_share(run: Run):
    """Promise: storage is not guessed for sizes that were not measured."""
    item = run.dataset("1x64GiB")
    point = measures.Point(item, [1e9] * 6)
    assert measures.share_of_storage(run, point, "forward") is None


def test_flagged_runs_are_kept_and_listed(sections: list[Section]):
    """Promise: the disturbed run counts in T1, and T14 says what is wrong with it. Runs that were
    refused or failed are there too, and count nowhere."""
    rows = _rows(sections, "T14")
    assert [row["what"] for row in rows[1:]] == [
        "failed: store scratch takes no new transfers",
        "failed: no space at lab:raw",
    ]
    assert rows[0]["what"] == "steal 6.1 % at hpc/dtn1"
    assert rows[0]["stolen % of CPU"] == pytest.approx(6.1)
    assert all(row["n"] == 6 for row in _rows(sections, "T1"))


def test_evenness_of_cards(sections: list[Section]):
    """Promise: T5 finds the planted 51 to 49, and leaves the card of management out."""
    rows = _rows(sections, "T5")
    assert {row["card"] for row in rows} == {"dtn1 eth0", "dtn1 eth1", "dtn2 eth0", "dtn2 eth1"}
    for row in rows:
        assert row["deviation %"] == pytest.approx(2 if "eth0" in str(row["card"]) else -2, abs=2)


def test_counters_of_cards(sections: list[Section]):
    """Promise: T9 has a ratio for both sides of each group, near one."""
    row = next(row for row in _rows(sections, "T9") if row["data set"] == "1048576x4KiB")
    assert row["n"] == 6
    assert row["median ratio"] == pytest.approx(1.03, abs=0.05)


def test_processors_by_mode(sections: list[Section]):
    """Promise: T2 has the planted medians, exact CPU seconds for a GiB, and energy."""
    rows = {(row["mode"], row["role"]): row for row in _rows(sections, "T2")}
    assert rows["off-blake3", "source"]["median"] == pytest.approx(34, abs=1.5)
    assert rows["tls-blake3", "target"]["median"] == pytest.approx(64, abs=1.5)
    assert rows["tls-blake3", "target"]["kJ/TiB"] == pytest.approx(36, rel=0.05)
    assert isinstance(rows["off-blake3", "source"]["CPU s/GiB"], float)


def test_all_runs_of_storage_are_printed(sections: list[Section]):
    """Promise: T7 has each run, with the interval of six."""
    row = next(row for row in _rows(sections, "T7") if row["file size"] == "1 GiB")
    assert row["n"] == 6
    assert row["cover %"] == 96.9
    assert len(str(row["runs, Gbit/s"]).split()) == 6


def test_typical_is_the_lower_of_two(run: Run):
    """Promise: a picture over time shows the median run, never the best."""
    cells = run.select(LARGE, "off-blake3", "forward")
    ordered = sorted(cell.effective for cell in cells)
    assert measures.typical(cells).effective == ordered[2]


def test_csv_has_all_digits(folder: Path, sections: list[Section]):
    """Promise: CSV of T1 has the exact values, readable by any program."""
    with (folder / "report/tables/T1.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    listed = _rows(sections, "T1")
    assert [float(row["median Gbit/s"]) for row in rows] == [r["median Gbit/s"] for r in listed]


def test_one_run_of_each_makes_no_claim(run: Run):
    """Promise: a table of three repeats has extremes instead of an interval, and says so."""
    few = Run(run.path)
    few.cells = [cell for cell in run.cells if cell.block <= 3]
    table = tables.by_suite(Request(few))
    verdicts = {row[-1] for row in table.rows}
    assert verdicts == {"what others are compared with", "no claim: fewer than six pairs"}
    assert all(row[9] is None for row in table.rows)
