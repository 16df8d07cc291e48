"""The examples of the documentation, as they are written."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import REPOSITORY, documents


@pytest.mark.tools
def test_examples_have_right_types(tmp_path: Path) -> None:
    """Promise: an example is right for whoever checks types strictly."""
    for document in documents():
        name = document.name.replace("/", "_").replace("-", "_").removesuffix(".md")
        (tmp_path / f"{name}.py").write_text(document.program())
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(REPOSITORY / "sdk/python/src")]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = ["-m", "pyright", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
