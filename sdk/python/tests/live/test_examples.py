"""The examples of the documentation, run as they stand."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import Pair
from tests.live.sites import REPOSITORY, data_set

WEB_URL = "https://hpc.example.org:7443"
"""URL in the examples, in place of that of the site that they run at."""
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.mark.parametrize("document", ["docs/python.md", "sdk/python/README.md"])
def test_examples_run(
    sites: Pair,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    document: str,
) -> None:
    """Promise: what the documentation shows works when it is copied."""
    if not (sites.lab.store / "run7").exists():
        data_set(sites.lab.store / "run7", files=3, size=1000)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_DIR", str(sites.hpc.directory))
    monkeypatch.delenv("PENSTOCK_URL", raising=False)
    (tmp_path / "ca.pem").write_text(sites.hpc.run("site", "ca"))
    text = (REPOSITORY / document).read_text().replace(WEB_URL, sites.hpc.web_url)
    names: dict[str, Any] = {}
    blocks = list(BLOCK.finditer(text))
    assert blocks
    for block in blocks:
        # Empty lines before it give the lines of errors the numbers of the document.
        before = "\n" * text.count("\n", 0, block.start(1))
        exec(compile(before + block[1], REPOSITORY / document, "exec"), names)
    assert "durable by" in capsys.readouterr().out
