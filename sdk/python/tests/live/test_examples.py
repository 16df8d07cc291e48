"""The examples of the documentation, run as they stand."""

import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.examples import Document, documents
from tests.live.conftest import Pair
from tests.live.sites import data_set

WEB_URL = "https://hpc.example.org:7443"
"""URL in the examples, in place of that of the site that they run at."""
RECEIVER_PORT = "8099"
"""Port in the examples, in place of the one that the site may send webhooks to."""

PATIENCE_S = 180


@pytest.fixture
def patience() -> Iterator[None]:
    """Ends an example that waits for what does not come."""

    def over(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"the example has not ended within {PATIENCE_S} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(PATIENCE_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("document", documents(), ids=lambda document: document.name)
def test_examples_run(
    sites: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, document: Document
) -> None:
    """Promise: what the documentation shows works when it is copied."""
    if not (sites.lab.store / "run7").exists():
        data_set(sites.lab.store / "run7", files=3, size=200_000)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_DIR", str(sites.hpc.directory))
    for name in ("PENSTOCK_URL", "PENSTOCK_TOKEN", "PENSTOCK_CA"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "ca.pem").write_text(sites.hpc.run("site", "ca"))
    program = document.program().replace(WEB_URL, sites.hpc.web_url)
    program = program.replace(RECEIVER_PORT, str(sites.receiver_port))
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(program, document.path, "exec"), names)
