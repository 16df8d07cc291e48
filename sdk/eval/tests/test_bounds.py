import json
import shutil
from pathlib import Path

import pytest

from penstock_eval import bounds, file_systems, tables
from penstock_eval.drawing import LeftOutError, Request
from penstock_eval.figures import rates
from penstock_eval.report import Section
from penstock_eval.rundir import Run
from tests import golden

XFS = ("XFS", "58465342-801-80")
EXT4 = ("ext4", "ef53-44ad6d73398022ff-80001-18ec04953e83127d")


def _rows(table: tables.Table) -> list[dict[str, tables.Value]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def _row(table: tables.Table, size: str, mode: str) -> dict[str, tables.Value]:
    return next(
        row
        for row in _rows(table)
        if (row["direction"], row["file size"], row["mode"]) == ("forward", size, mode)
    )


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """A run directory without series, to be changed."""
    path = tmp_path / "run"
    path.mkdir()
    for name in ("run.json", "facts.json", "cells.jsonl"):
        shutil.copy(folder / name, path / name)
    shutil.copytree(folder / "storage", path / "storage")
    return path


def _mount(path: Path, lab: tuple[str, str], hpc: tuple[str, str], total: int = 40 << 40) -> None:
    """Puts the stores on other file systems."""
    for stem, (kind, fingerprint) in (("lab-raw", lab), ("hpc-scratch", hpc)):
        for file in path.glob(f"storage/{stem}.*.json"):
            found = json.loads(file.read_text())
            found["file_system"] |= {"kind": kind, "fingerprint": fingerprint}
            if stem == "hpc-scratch":
                found["file_system"]["total_bytes"] = total
            file.write_text(json.dumps(found))


def _path(path: Path, near: str, far: str) -> None:
    """Records a path between the sites."""
    tried = {"reachable": True, "from": near, "to": far}
    paths = {"site": "hpc", "outward": [tried], "inward": []}
    (path / "facts.json").write_text(json.dumps(golden.facts() | {"paths": paths}))


def _spend(path: Path, share: float, seconds: float | None = None, counted: bool = True) -> None:
    """Has the hosts of hpc busy for a share of the time of each run, and all others for less.

    Args:
        path: The run directory.
        share: The share, from 0 to 1.
        seconds: Length of all runs; as before without it.
        counted: Whether hosts have counted all time of their processors.
    """
    rows = [json.loads(row) for row in (path / "cells.jsonl").read_text().splitlines()]
    for row in rows:
        if seconds and row["t"].get("done"):
            row["t"]["done"] = seconds
        for host, used in row["cpu"].items():
            available = used["cores"] * row["t"]["done"]
            used["available_s"] = available if counted else None
            busy = share - 0.01 if host.startswith("hpc/") else share / 2
            used |= {"busy_s": busy * available, "steal_s": 0.01 * available}
    (path / "cells.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_two_file_systems_are_bound_by_the_slower_end(sections: list[Section]):
    """Promise: with the stores on two file systems the bound is writing, which is slower here, and
    the note has its arithmetic. A class that is below it, with idle processors, is told so."""
    table = next(item for item in sections[0].listings if item.key == "T6").table
    row = _row(table, "1 GiB", "off-blake3")
    write = golden.storage_rate(1 << 30) / golden.GBIT
    assert row["write Gbit/s"] == row["bound Gbit/s"] == pytest.approx(write, rel=0.002)
    assert row["read Gbit/s"] == pytest.approx(1.25 * write, rel=0.002)
    assert row["n"] == 6
    assert row["% of the slower"] == row["% of the bound"]
    assert row["busy %"] == pytest.approx(100 * 3.23 / 8)
    assert row["verdict"] == "below both bounds"
    assert "lab:raw is on XFS, hpc:scratch on Lustre, so `bound` is the slower end, min(" in (
        table.note
    )
    assert " = 40 % at " in table.note
    assert {row["direction"] for row in _rows(table)} == {"forward", "reverse"}


def test_one_file_system_reads_and_writes_each_byte(copy: Path):
    """Promise: where one file system serves both ends, the bound is 1 / (1 / read + 1 / write), and
    its arithmetic is in the note; F15 says so too."""
    _mount(copy, EXT4, EXT4)
    request = Request(Run(copy))
    table = bounds.table(request)
    row = _row(table, "1 GiB", "tls-blake3")
    read, write = row["read Gbit/s"], row["write Gbit/s"]
    assert isinstance(read, float)
    assert isinstance(write, float)
    assert row["bound Gbit/s"] == pytest.approx(1 / (1 / read + 1 / write))
    assert row["% of the bound"] == pytest.approx(1.8 * float(str(row["% of the slower"])))
    assert row["verdict"] == "above the bound by storage"
    assert (
        "Both ends are one ext4: it has one id (44ad6d73398022ff) and size, where each byte is "
        "read and written, so `bound` is 1 / (1 / read + 1 / write): 1 / (1 / 49.9 + 1 / 39.9) = "
    ) in table.note
    assert "Both ends are one file system" in rates.beside_storage(request).caption


def test_busy_processors_are_a_bound(copy: Path):
    """Promise: a class whose processors were busy, or stolen, for 95 % of the time at the busier
    site is bound by them; at 94 % it is not. A class may be above the bound by storage at the same
    time."""
    _spend(copy, 0.95)
    row = _row(bounds.table(Request(Run(copy))), "1 GiB", "tls-blake3")
    assert (row["busier site"], row["verdict"]) == ("hpc", "bound by processors")
    _spend(copy, 0.94)
    row = _row(bounds.table(Request(Run(copy))), "1 GiB", "tls-blake3")
    assert (row["busy %"], row["verdict"]) == (pytest.approx(94), "below both bounds")
    _mount(copy, EXT4, EXT4)
    _spend(copy, 0.99)
    row = _row(bounds.table(Request(Run(copy))), "1 GiB", "tls-blake3")
    assert row["verdict"] == "above the bound by storage, bound by processors"


def test_short_runs_are_judged_by_counters_alone(copy: Path):
    """Promise: processors that were counted at both ends are a bound of runs of any length. Samples
    cover whole seconds, so they are none of runs under 5 s, and the report says so."""
    _spend(copy, 0.99, seconds=2.5)
    table = bounds.table(Request(Run(copy)))
    row = _row(table, "1 GiB", "tls-blake3")
    assert row["busy %"] == pytest.approx(99)
    assert "bound by processors" in str(row["verdict"])
    assert "as 39.6 / 40 = 99 % at hpc in " in table.note
    _spend(copy, 0.99, seconds=4.9, counted=False)
    table = bounds.table(Request(Run(copy)))
    assert {row["busy %"] for row in _rows(table)} == {None}
    assert "no run of 5 s or more has samples" in table.note
    _spend(copy, 0.96, seconds=5.0, counted=False)
    assert _row(bounds.table(Request(Run(copy))), "1 GiB", "off-blake3")["busier site"] == "hpc"


def test_hosts_that_were_not_counted_have_samples(copy: Path):
    """Promise: where one host of a site was counted and the other sampled, a long run has the share
    of both, and a short one that of the first."""

    def spend(seconds: float) -> float:
        _spend(copy, 0.9, seconds=seconds)
        rows = [json.loads(row) for row in (copy / "cells.jsonl").read_text().splitlines()]
        for row in rows:
            if "hpc/dtn2" in row["cpu"]:
                row["cpu"]["hpc/dtn2"] |= {"available_s": None, "busy_s": 4 * seconds, "steal_s": 0}
        (copy / "cells.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return float(str(_row(bounds.table(Request(Run(copy))), "1 GiB", "tls-blake3")["busy %"]))

    assert spend(10.0) == pytest.approx(100 * (0.9 + 0.5) / 2)
    assert spend(2.5) == pytest.approx(90)


@pytest.mark.parametrize(
    ("of_bound", "used", "words"),
    [
        (0.95, None, "bound by storage"),
        (1.04, 0.95, "bound by storage and processors"),
        (1.05, 0.94, "above the bound by storage"),
        (None, 0.96, "bound by processors"),
        (0.5, 0.5, "below both bounds"),
        (None, 0.5, "not judged: no figures of storage of this size"),
        (0.5, None, "not judged: no figures of processors"),
        (None, None, "not judged: no figures of storage of this size and processors"),
    ],
)
def test_a_bound_that_is_not_known(of_bound: float | None, used: float | None, words: str):
    """Promise: no class is called below a bound that nothing measured."""
    assert bounds.verdict(of_bound, used) == words


@pytest.mark.parametrize(
    ("lab", "hpc", "is_one", "words"),
    [
        (XFS, XFS, None, "of one id, which file systems of two hosts may share"),
        (XFS, ("XFS", "58465342-802-80"), False, "hpc:scratch on another XFS"),
        (EXT4, EXT4, True, "one ext4"),
        (("NFS", "6969-0-2"), ("NFS", "6969-0-9"), None, "whose servers may serve both or not"),
        (("Lustre", "bd00bd0-5-2"), ("Lustre", "bd00bd0-5-3"), None, "whose servers may serve"),
        (("FUSE", "65735546-0-1"), ("FUSE", "65735546-0-1"), None, "FUSE, which has no id"),
        (("Btrfs", "9123683e-5-1"), ("Btrfs", "9123683e-6-1"), None, "subvolumes have ids"),
        (("ext4", ""), EXT4, None, "no fingerprint of lab:raw"),
    ],
)
def test_one_file_system_is_told_by_evidence(
    copy: Path, lab: tuple[str, str], hpc: tuple[str, str], is_one: bool | None, words: str
):
    """Promise: two stores are called one file system only if their ids say so, and an id that other
    hosts may have says nothing."""
    _mount(copy, lab, hpc)
    found = file_systems.sharing(Run(copy))
    assert found.is_one is is_one
    assert words in found.reason
    if is_one is None:
        note = bounds.table(Request(Run(copy))).note
        assert "So `bound` is the slower end, min(" in note
        assert "where one disk serves both ends, it is 1 / (1 / " in note


@pytest.mark.parametrize(
    ("near", "far", "is_one"),
    [
        ("10.0.0.1%eth0", "10.0.0.1:7777", True),
        ("any address", "127.0.0.1:7777", True),
        ("fd00::1%eth0", "[fd00::1]:7777", True),
        ("10.0.0.1%eth0", "10.0.0.2:7777", None),
        ("any address", "", None),
    ],
)
def test_an_id_counts_on_one_host(copy: Path, near: str, far: str, is_one: bool | None):
    """Promise: one device number is one file system where a path shows that both ends are on one
    host."""
    _mount(copy, XFS, XFS)
    _path(copy, near, far)
    assert file_systems.sharing(Run(copy)).is_one is is_one


def test_a_copied_disk_is_not_one_file_system(copy: Path):
    """Promise: file systems of one id and two sizes are not called one."""
    _mount(copy, EXT4, EXT4, total=1 << 40)
    assert file_systems.sharing(Run(copy)).is_one is None


def test_facts_have_the_file_system_of_stores_without_a_result(copy: Path):
    """Promise: a run without storage of its own takes the file systems of the facts; without any
    storage there is no table."""
    shutil.rmtree(copy / "storage")
    facts = golden.facts()
    for site in facts["sites"]:
        kind, fingerprint = EXT4
        system = {"kind": kind, "fingerprint": fingerprint, "total_bytes": 1 << 40}
        site["stores"][0]["file_system"] = system
    (copy / "facts.json").write_text(json.dumps(facts))
    assert file_systems.sharing(Run(copy)).is_one
    with pytest.raises(LeftOutError, match="no measured storage"):
        bounds.table(Request(Run(copy)))


def test_sizes_between_the_measured(copy: Path):
    """Promise: a class between two measured sizes has a bound that is marked, one beyond them has
    none, and a measured size without a class has a row without a mode."""
    about = json.loads((copy / "run.json").read_text())
    text = (copy / "cells.jsonl").read_text()
    for old, new in (("4096x1MiB", "4096x2MiB"), ("64x1GiB", "64x4GiB")):
        text = text.replace(old, new)
        sizes = {"bytes": 4096 << 21 if old == "4096x1MiB" else 64 << 32}
        for item in about["datasets"]:
            if item["name"] == old:
                item |= {"name": new, **sizes}
    about["datasets"] = [item for item in about["datasets"] if item["name"] != "65536x1MiB"]
    rows = [row for row in text.splitlines() if "65536x1MiB" not in row]
    (copy / "run.json").write_text(json.dumps(about))
    (copy / "cells.jsonl").write_text("\n".join(rows) + "\n")
    table = bounds.table(Request(Run(copy)))
    between = _row(table, "2 MiB", "off-blake3")
    assert between["marks"] == "interpolated"
    assert between["bound Gbit/s"] == between["write Gbit/s"] is not None
    beyond = _row(table, "4 GiB", "off-blake3")
    assert (beyond["bound Gbit/s"], beyond["% of the bound"]) == (None, None)
    assert beyond["verdict"] == "not judged: no figures of storage of this size"
    alone = next(row for row in _rows(table) if row["file size"] == "1 GiB")
    assert (alone["mode"], alone["verdict"]) == (None, None)
    assert isinstance(alone["bound Gbit/s"], float)
