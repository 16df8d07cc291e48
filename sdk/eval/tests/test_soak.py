import json
from pathlib import Path

import pytest

from penstock_eval import cli, proofs, report, style
from penstock_eval.drawing import LeftOutError
from penstock_eval.figures import soak as drawings
from penstock_eval.soakdir import Soak
from penstock_eval.tables import Value
from tests import golden

RECORDED = Path(__file__).parents[3] / "bench/runs/2026-11-26-soak"
"""A soak that was run, with faults."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A soak that tests only read."""
    return golden.make_soak(tmp_path_factory.mktemp("soak") / "soak")


def _page(soak: Soak) -> dict[str, list[Value]]:
    found: dict[str, list[Value]] = {}
    for name, value, _ in proofs.page(soak).rows:
        found.setdefault(str(name), []).append(value)
    return found


def test_the_page_has_the_planted_figures(folder: Path):
    """Promise: T11 is computed from rounds and faults: bytes, rates, and what storage can do."""
    page = _page(Soak(folder))
    assert page["result"] == ["nothing was lost"]
    assert page["moved and verified"] == [60 * 10**12, 60.0]
    assert page["good rounds"] == [60]
    assert page["median of rounds"] == [80.0]
    assert page["least of rounds"] == [pytest.approx(8000 / 140)]
    assert page["median of rounds without a fault"] == [80.0]
    mean = 60 * 8000 / (54 * 100 + 3 * 140 + 3 * 112)
    assert page["mean rate"] == [pytest.approx(mean)]
    assert page["mean rate by that of scratch, write"] == [pytest.approx(mean)]
    assert page["sent again"] == [6 * 10**9]
    assert (page["faults"], page["faults survived"]) == ([6], [6])


def test_faults_by_name(folder: Path):
    """Promise: T17 has each fault with its times, and what was sent again after it."""
    rows = proofs.faults(Soak(folder)).rows
    assert rows == [
        ["card-down", 3, 3, 10.0, 20.0, 20.0, 3 * 10**9, 0],
        ["kill-target", 3, 3, 10.0, 6.0, 6.0, 3 * 10**9, 0],
    ]


def test_drift_is_in_units_of_readers(folder: Path):
    """Promise: T18 has slopes in Gbit/s and MiB an hour, and calls one a drift by its interval."""
    rate, memory = proofs.drifts(Soak(folder)).rows
    assert rate == ["rate of rounds without a fault", "Gbit/s", 54, 80.0, 0.0, -0.01, 0.02,
                    "no drift seen"]  # fmt: skip
    assert memory == ["memory of hpc/dtn1", "MiB", 54, 64.0, 1.0, 0.5, 2.0, "drifts"]


def test_a_lost_round_is_told(tmp_path: Path):
    """Promise: a soak that lost something says so in table, figure and head."""
    soak = Soak(golden.make_soak(tmp_path / "soak", good=False))
    page = _page(soak)
    assert page["result"] == ["FAILED"]
    assert (page["rounds"], page["good rounds"], page["faults survived"]) == ([60], [59], [5])
    with style.applied():
        drawn = drawings.over_time(soak)
    assert "rounds that were not good (1)" in drawn.caption
    assert "5 of 6 survived" in drawn.caption


def test_a_soak_that_goes_on_has_no_verdict(tmp_path: Path):
    """Promise: without proof.json there is a page that calls the soak not ended, and no drift."""
    soak = Soak(golden.make_soak(tmp_path / "soak", ended=False))
    assert _page(soak)["result"] == ["not ended: `penstock soak` continues it"]
    with pytest.raises(LeftOutError, match=r"no proof\.json"):
        proofs.drifts(soak)


def test_a_recorded_soak_agrees_with_its_proof(tmp_path: Path):
    """Promise: of a soak that was run, figures from raw lines are those of the command's page."""
    soak = Soak(RECORDED)
    proof = json.loads((RECORDED / "proof.json").read_text())
    page, rates = _page(soak), proof["rates_bits_per_s"]
    assert page["moved and verified"][0] == proof["bytes"]
    assert page["mean rate"] == [pytest.approx(rates["mean"] / 1e9)]
    assert page["median of rounds"] == [pytest.approx(rates["median"] / 1e9)]
    assert page["sent again"] == [proof["sent_again_bytes"]]
    rows = proofs.faults(soak).rows
    known = [(item["name"], item["count"], item["survived"]) for item in proof["faults"]]
    assert [tuple(row[:3]) for row in rows] == known
    medians = [item["median_progress_s"] for item in proof["faults"]]
    assert [row[4] for row in rows] == pytest.approx(medians)


def test_a_report_of_a_soak(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Promise: `report` and `check` take the directory of a soak as they take that of a sweep."""
    assert cli.main(["check", str(folder)]) == 0
    assert "right, 60 rounds, 6 faults" in capsys.readouterr().out
    (made,) = report.write([folder], tmp_path)
    assert [picture.key for picture in made.pictures] == ["F22"]
    assert [listing.key for listing in made.listings] == ["T11", "T17", "T18"]
    assert made.left_out == []
    assert "lab:raw/run7 → hpc:scratch/tests" in (tmp_path / "report.md").read_text()
