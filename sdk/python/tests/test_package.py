"""The package as it is built and imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]


def _build(directory: Path, kind: str) -> bytes:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(directory)]
    environment = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
    subprocess.run(command, cwd=PROJECT, env=environment, check=True, capture_output=True)
    (built,) = directory.iterdir()
    return built.read_bytes()


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_a_build_is_reproducible(tmp_path: Path, kind: str) -> None:
    """Promise: whoever builds a release gets the bytes that we release."""
    one, other = tmp_path / "one", tmp_path / "other"
    assert _build(one, kind) == _build(other, kind)


def test_a_wheel_has_types_and_nothing_of_ours(tmp_path: Path) -> None:
    """Promise: a wheel says that it is typed, has the licence, and brings no tests."""
    _build(tmp_path, "wheel")
    (wheel,) = tmp_path.iterdir()
    listed = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", wheel], capture_output=True, text=True, check=True
    ).stdout
    assert "penstock/py.typed" in listed
    assert "licenses/LICENSE" in listed
    assert "tests/" not in listed
    assert "tools/" not in listed
