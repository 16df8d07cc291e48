import json
from pathlib import Path

import pytest

from penstock_eval import forecasts, style
from penstock_eval.drawing import LeftOutError, Request
from penstock_eval.figures import forecast
from penstock_eval.rundir import Run
from tests import golden

PER_FILE, PER_BYTE, START = 2e-5, 1 / 4e9, 0.5


def _sweep(path: Path) -> Run:
    """Returns a sweep in which a file and a byte cost the same everywhere."""
    run = Run(golden.make_distant(path, 1.0, 1.0, golden.datasets()))
    for cell in run.counted:
        cell.raw["t"]["done"] = START + cell.raw["files"] * PER_FILE + cell.bytes * PER_BYTE
    return run


def test_an_exact_law_is_forecast_exactly(tmp_path: Path):
    """Promise: where a file costs something and a byte costs something, forecasts are right, of
    mixed data sets and of sizes that were held out."""
    found = forecasts.forecasts(_sweep(tmp_path / "run"))
    names = {item.dataset.name for item in found}
    assert "1048576x4KiB" not in names
    assert "64x1GiB" not in names
    assert {"esnet@24GB", "65536x64KiB", "4096x1MiB", "256x256MiB"} <= names
    for item in found:
        # Files below the smallest size that was measured count as that: here a file's cost alone.
        assert item.error == pytest.approx(0, abs=0.005 if item.is_mix else 1e-4)


def test_no_data_set_is_forecast_from_itself(tmp_path: Path):
    """Promise: a data set that takes twice its time has a forecast that is half of it."""
    run = _sweep(tmp_path / "run")
    for cell in run.cells:
        if cell.dataset == "256x256MiB":
            cell.raw["t"]["done"] *= 2
    found = {item.dataset.name: item for item in forecasts.forecasts(run)}
    assert found["256x256MiB"].error == pytest.approx(-0.5, abs=1e-4)


def test_figure_and_table_agree(run: Run):
    """Promise: F21 draws each row of T16, and its caption has their errors."""
    rows = forecasts.table(Request(run)).rows
    with style.applied():
        drawn = forecast.against_measured(Request(run))
    assert len(drawn.figure.axes[0].containers) == len(rows) == 32
    errors = [abs(row[-1]) for row in rows if isinstance(row[-1], float)]
    assert f"{sum(error <= 20 for error in errors)} of 32 are within 20 %" in drawn.caption
    assert f"the worst is {max(errors):.0f} %" in drawn.caption


def test_too_few_sizes_are_no_forecast(tmp_path: Path):
    """Promise: a sweep of two sizes and no mixed data set has no forecast, and says why."""
    path = golden.make_distant(tmp_path / "run", 1.0, 1.0)
    with pytest.raises(LeftOutError, match="one of mixed sizes or of a third size"):
        forecasts.table(Request(Run(path)))
    assert json.loads((path / "run.json").read_text())["format"] == 1
