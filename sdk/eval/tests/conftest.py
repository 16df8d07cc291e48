from pathlib import Path

import pytest

from penstock_eval import report
from penstock_eval.report import Section
from penstock_eval.rundir import Run
from tests import golden


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory that tests only read."""
    return golden.make(tmp_path_factory.mktemp("golden") / "run")


@pytest.fixture(scope="session")
def run(folder: Path) -> Run:
    """The same, read."""
    return Run(folder)


@pytest.fixture(scope="session")
def sections(folder: Path) -> list[Section]:
    """Its report, written to `report` within it."""
    return report.write([folder], folder / "report", need=5e9)
