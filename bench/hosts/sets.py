"""Data sets of a comparison: what lies in a directory, or made ones by name."""

import os
import re
import subprocess
from dataclasses import dataclass

from bench.base.processes import Failed
from bench.base.trees import measure_tree

NAMED = {
    "large": ["--files", "4", "--size", "1G", "--layout", "flat"],
    "medium": ["--files", "64", "--size", "16M", "--layout", "flat"],
    "small": ["--files", "10000", "--size", "4K"],
    "mixed": ["--preset", "esnet", "--bytes", "1G"],
}
TEXTS = {
    "large": "4 files of 1 GiB",
    "medium": "64 files of 16 MiB",
    "small": "10,000 files of 4 KiB",
    "mixed": "ESnet's mix, 1 GiB",
}
SHAPE = re.compile(r"(\d+)x(\d+)([KMG]?)(?:iB)?")
PRESET = re.compile(r"([a-z-]+)@(\d+)([KMG])(?:iB)?")


def parse_sets(text: str) -> dict[str, list[str]]:
    """Reads names, shapes as 20x50MiB and presets as esnet@3GiB: the options that make each."""
    sets: dict[str, list[str]] = {}
    for name in (word.strip() for word in text.split(",")):
        if name in NAMED:
            sets[name] = NAMED[name]
        elif shape := SHAPE.fullmatch(name):
            sets[name] = ["--files", shape[1], "--size", shape[2] + shape[3]]
        elif preset := PRESET.fullmatch(name):
            sets[name] = ["--preset", preset[1], "--bytes", preset[2] + preset[3]]
        else:
            known = ", ".join(NAMED)
            raise ValueError(f"no data set `{name}`: {known}, 20x50MiB or esnet@3GiB")
    return sets


@dataclass(frozen=True)
class DataSet:
    """A tree at the source."""

    name: str
    path: str
    files: int
    bytes: int


def existing(path: str) -> DataSet:
    """What lies in a directory."""
    if not os.path.isdir(path):
        raise Failed(f"the source {path} is not a directory; a single file needs one of its own")
    files, size = measure_tree(path)
    if not files:
        raise Failed(f"the source {path} has no files; `--sets small,large` makes some below it")
    return DataSet(os.path.basename(path.rstrip("/")) or "/", path, files, size)


def made(name: str, options: list[str], parent: str, penstock: str) -> DataSet:
    """A made one, in a directory of its own."""
    path = os.path.join(parent, name)
    words = [penstock, "dataset", "make", path, *options]
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Failed(f"{penstock} makes the data sets, and is not there; see --penstock") from error
    if done.returncode:
        raise Failed(f"data set {name}: {done.stderr.strip()}")
    files, size = measure_tree(path)
    return DataSet(name, path, files, size)
