import json
from pathlib import Path

import pytest

from penstock_eval import appendix, gaps, headlines
from penstock_eval.drawing import Request
from penstock_eval.rundir import Run
from tests import golden


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A run directory to be changed."""
    return golden.make(tmp_path / "run")


def _keep(path: Path, cell: str, site: str, peer: str | None = None) -> None:
    """Keeps the samples of a site, or of one of its peers and of other sites."""
    file = path / f"series/{cell}.jsonl"
    rows = [json.loads(row) for row in file.read_text().splitlines()]
    kept = [row for row in rows if (row["site"] == site and peer in (None, row["peer"]))
            or (peer and row["site"] != site)]  # fmt: skip
    file.write_text("".join(json.dumps(row) + "\n" for row in kept))


def test_a_complete_run_has_no_gaps(run: Run):
    """Promise: where each host has a series, nothing is said to be missing."""
    assert gaps.words(run) is None
    assert "Time series" not in dict(headlines.of_run(run).facts)


def test_series_that_a_daemon_did_not_give(path: Path):
    """Promise: runs without the series of a site, or of one host, are named in T14 and counted in
    the head; failed runs, which have none, are not."""
    first, second, third = [cell.id for cell in Run(path).counted[:3]]
    (path / f"series/{first}.jsonl").unlink()
    _keep(path, second, "lab")
    _keep(path, third, "hpc", "dtn1")
    run = Run(path)
    table = appendix.odd_runs(Request(run))
    what = {row[0]: row[-1] for row in table.rows}
    assert "no time series of " in str(what[first])
    assert set(str(what[first]).removeprefix("no time series of ").split(", ")) == {"lab", "hpc"}
    assert what[second] == "no time series of hpc"
    assert what[third] == "no time series of hpc/dtn2"
    assert dict(headlines.of_run(run).facts)["Time series"] == (
        "incomplete for 3 of 360 runs, which T14 lists"
    )


def test_a_site_that_was_never_asked(path: Path):
    """Promise: a site without any series is named once, with the reason of the facts."""
    for cell in Run(path).counted:
        _keep(path, cell.id, "hpc")
    found = golden.facts()
    found["sites"][0]["missing"] = ["no daemon of the site is named in [daemons]"]
    (path / "facts.json").write_text(json.dumps(found))
    run = Run(path)
    assert dict(headlines.of_run(run).facts)["Time series"] == (
        "none of lab in any run (no daemon of the site is named in [daemons])"
    )
    assert not any("time series" in str(row[-1]) for row in appendix.odd_runs(Request(run)).rows)


def test_no_series_at_all(path: Path):
    """Promise: a directory without series says so in one sentence."""
    for file in path.glob("series/*.jsonl"):
        file.unlink()
    assert gaps.words(Run(path)) == "none in the directory"
