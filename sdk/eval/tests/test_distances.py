import json
from pathlib import Path

import numpy as np
import pytest

from penstock_eval import distances, report, style
from penstock_eval.drawing import LeftOutError, Request
from penstock_eval.figures import distance
from penstock_eval.rundir import Run
from tests import golden

PLANTED = [(0.2, 1.0), (30.0, 0.96), (90.0, 0.9)]
"""Round trips in milliseconds, and the share of the rate that is left over each."""


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Sweeps over the planted round trips."""
    folder = tmp_path_factory.mktemp("distances")
    return [golden.make_distant(folder / f"r{rtt}", rtt, share) for rtt, share in PLANTED]


@pytest.fixture
def request_of_all(paths: list[Path]) -> Request:
    first, *others = [Run(path) for path in paths]
    return Request(first, others)


def test_lines_by_round_trip(request_of_all: Request):
    """Promise: F18 has a line for each data set over a logarithmic axis, and the share that is
    left of the shortest round trip."""
    with style.applied():
        drawn = distance.round_trips(request_of_all)
    upper, lower = drawn.figure.axes
    assert upper.get_xscale() == lower.get_xscale() == "log"
    for axes in (upper, lower):
        marked = [line for line in axes.lines if line.get_linestyle() == "-"]
        assert len(marked) == len(axes.containers) == 2
        for line in marked:
            assert np.asarray(line.get_xdata()).tolist() == [0.2, 30.0, 90.0]
    assert {text.get_text() for text in lower.texts} == {"90 %"}
    assert {text.get_text() for text in upper.texts} == {"1048576x4KiB", "64x1GiB"}
    assert "n = 6" in drawn.caption


def test_a_panel_for_each_mode_and_direction(tmp_path: Path):
    """Promise: F18 has a column for each mode and two rows for each direction that went over two
    distances, with the planted share that is left in each."""
    runs = [
        Run(golden.make_distant(tmp_path / str(rtt), rtt, share, None, 2, ("forward", "reverse")))
        for rtt, share in PLANTED
    ]
    with style.applied():
        drawn = distance.round_trips(Request(runs[0], runs[1:]))
    panels = drawn.figure.axes
    assert len(panels) == 8
    assert [axes.get_title(loc="left") for axes in panels[:2]] == ["off-blake3", "tls-blake3"]
    labels = [axes.get_ylabel() for axes in panels[::2]]
    share = "% of the shortest"
    assert labels == ["Gbit/s, forward", share, "Gbit/s, reverse", share]
    assert all(len(axes.containers) == 2 for axes in panels)
    for axes in (*panels[2:4], *panels[6:]):
        assert {text.get_text() for text in axes.texts} == {"90 %"}
    assert [text.get_text() for text in drawn.figure.legends[0].get_texts()] == [
        "1048576x4KiB", "64x1GiB",
    ]  # fmt: skip


def test_ratios_to_the_shortest(request_of_all: Request):
    """Promise: T15 has the planted ratios, with intervals, by data set and round trip."""
    table = distances.by_round_trip(request_of_all)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert len(rows) == 6
    for row, (rtt, share) in zip(rows, PLANTED * 2, strict=True):
        assert row["round trip ms"] == rtt
        assert row["n"] == 6
        assert row["cover %"] == 96.9
        assert row["ratio to the shortest"] == pytest.approx(share, rel=1e-3)
        assert isinstance(row["ratio low"], float)
        assert isinstance(row["ratio high"], float)
        assert row["ratio low"] < share < row["ratio high"]


def test_round_trips_that_differ_little_are_one(tmp_path: Path):
    """Promise: round trips of one room, and those within a quarter, count as one distance."""
    trips = [0.04, 0.11, 0.2, 28.0, 30.0, 33.0, 45.0]
    runs = [Run(golden.make_distant(tmp_path / str(rtt), rtt, 1.0)) for rtt in trips]
    found = distances.distances(runs)
    assert [item.rtt_ms for item in found] == [0.11, 30.0, 45.0]
    assert [len(item.cells) for item in found] == [36, 36, 12]


def test_cells_of_one_run_may_differ(tmp_path: Path):
    """Promise: a sweep whose round trip changed between its blocks has F18 by itself."""
    path = golden.make_distant(tmp_path / "run", 10.0, 1.0)
    rows = [json.loads(row) for row in (path / "cells.jsonl").read_text().splitlines()]
    for row in rows[6:]:
        row["rtt_ms"] = 80.0
    (path / "cells.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = distances.by_round_trip(Request(Run(path)))
    assert [row[3] for row in table.rows] == [10.0, 80.0] * 2


def test_facts_have_the_round_trip_of_cells_without(tmp_path: Path):
    """Promise: where cells have no round trip, the least of the paths that were reached counts."""
    path = golden.make_distant(tmp_path / "run", 10.0, 1.0)
    text = (path / "cells.jsonl").read_text().replace('"rtt_ms": 10.0', '"rtt_ms": null')
    (path / "cells.jsonl").write_text(text)
    assert distances.distances([Run(path)]) == []
    paths = {"site": "hpc", "inward": [],
             "outward": [{"reachable": False, "rtt_us": 5}, {"reachable": True, "rtt_us": 61_000},
                         {"reachable": True, "rtt_us": 9000, "rtt_now_us": 60_500}]}  # fmt: skip
    (path / "facts.json").write_text(json.dumps(golden.facts() | {"paths": paths}))
    assert [item.rtt_ms for item in distances.distances([Run(path)])] == [60.5]


def test_one_distance_is_none(paths: list[Path]):
    """Promise: one round trip makes neither figure nor table, and the reason says what to do."""
    for make in (distance.round_trips, distances.by_round_trip):
        with pytest.raises(LeftOutError, match="two round-trip times: give the sweeps over each"):
            make(Request(Run(paths[0])))


def test_many_data_sets_are_thinned(tmp_path: Path):
    """Promise: of more data sets than can be told apart, the largest of each class is drawn."""
    first, second = [
        Run(golden.make_distant(tmp_path / str(rtt), rtt, 1.0, golden.datasets()))
        for rtt in (1.0, 50.0)
    ]
    with style.applied():
        drawn = distance.round_trips(Request(first, [second]))
    upper, lower = drawn.figure.axes
    assert len(upper.containers) == len(lower.containers) == 3
    assert {text.get_text() for text in upper.texts} == {"1048576x4KiB", "65536x1MiB", "64x1GiB"}
    assert "the largest data set is shown" in drawn.caption


def test_a_report_of_several_sweeps(paths: list[Path], tmp_path: Path):
    """Promise: several sweeps have a section together before their own, with files by name."""
    sections = report.write(paths, tmp_path)
    assert [made.name for made in sections] == ["all", "rtt0.2", "rtt30.0", "rtt90.0"]
    assert [picture.key for picture in sections[0].pictures] == ["F18"]
    assert ("Round trips", "0.2 ms, 30 ms, 90 ms") in sections[0].head.facts
    assert (tmp_path / "figures/all-F18.png").exists()
    assert (tmp_path / "tables/all-T15.csv").exists()
    assert (tmp_path / "tables/rtt90.0-T1.csv").exists()
    assert "figures/all-F18.png" in (tmp_path / "report.md").read_text()
