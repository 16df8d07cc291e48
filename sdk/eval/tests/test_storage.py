import json
from pathlib import Path

import numpy as np
import pytest

from penstock_eval import appendix, cli, layers, report, style
from penstock_eval.drawing import LeftOutError, Request
from penstock_eval.figures import storage
from penstock_eval.rundir import Run
from penstock_eval.storagedir import StorageResult
from tests import golden


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A directory of `penstock bench storage --out`."""
    return golden.make_storage(tmp_path / "store")


def _edit(path: Path, **change: object) -> None:
    found = json.loads((path / "storage.json").read_text())
    (path / "storage.json").write_text(json.dumps(found | change))


def test_a_report_of_storage_alone(path: Path, capsys: pytest.CaptureFixture[str]):
    """Promise: the directory of a storage benchmark makes a report, and `check` accepts it."""
    assert cli.main(["check", str(path)]) == 0
    assert "right, 14 steps" in capsys.readouterr().out
    assert cli.main(["report", str(path)]) == 0
    assert "1 figures and 2 tables" in capsys.readouterr().out
    text = (path / "report/report.md").read_text()
    assert "Storage: raw:eval" in text
    assert "**Mounted**: rw,noatime" in text
    assert (path / "report/figures/F24.png").exists()


def test_rates_caches_and_marks(path: Path):
    """Promise: F24 has the planted medians, with a white mark where the benchmark has one; T20 has
    caches and marks, and operations on names without bytes."""
    result = StorageResult(path)
    with style.applied():
        drawn = storage.by_size(result)
    upper, lower = drawn.figure.axes
    assert {text.get_text() for text in upper.texts} == {"read", "write"}
    read, odd, write, _ = upper.lines
    sizes = sorted({size for _, size in golden.SIZES})
    rates = [golden.storage_rate(size) / golden.GBIT for size in sizes]
    assert np.asarray(read.get_xdata()).tolist() == sizes
    assert np.asarray(write.get_ydata()) == pytest.approx(rates)
    assert np.asarray(read.get_ydata()) == pytest.approx([1.25 * rate for rate in rates])
    assert np.asarray(odd.get_xdata()).tolist() == [4096]
    assert lower.get_yscale() == "log"
    assert (
        "Caches before reading: `dontneed`. White are the steps with a mark: `short`."
        in drawn.caption
    )
    table = appendix.storage_steps(result)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["operation"] for row in rows[-2:]] == ["create", "unlink"]
    assert rows[-2]["median Gbit/s"] is None
    assert rows[-2]["files/s"] == 40_000
    first = next(row for row in rows if row["operation"] == "read")
    assert (first["cache"], first["marks"], first["passes"], first["n"]) == (
        "dontneed",
        "short",
        2,
        3,
    )


def test_numbers_of_threads_are_apart(path: Path):
    """Promise: a result of several numbers of threads has a line for each of them."""
    points = json.loads((path / "storage.json").read_text())["points"]
    both = [point | {"threads": count} for point in points for count in (1, 16)]
    _edit(path, points=both, threads_asked=[1, 16])
    result = StorageResult(path)
    with style.applied():
        drawn = storage.by_size(result)
    labels = [text.get_text() for text in drawn.figure.axes[0].texts]
    assert labels == [
        "read, 1 thread", "read, 16 threads", "write, 1 thread", "write, 16 threads",
    ]  # fmt: skip
    assert [row[2] for row in appendix.storage_steps(result).rows[:4]] == [1, 16, 1, 16]


def test_what_a_result_does_not_say(path: Path):
    """Promise: the head of the report names all that makes a result less than what the store can
    do, and what it lacks."""
    _edit(path, with_load=True, stale="it is old", state="cancelled", left_out=[1 << 40],
          unread=[1 << 34], peers_left_out=1, threads_asked=[4], problem="no space")  # fmt: skip
    facts = dict(report.write([path], path / "report")[0].head.facts)
    assert facts["Beside transfers"].startswith("yes")
    assert facts["State"] == "cancelled, 14 steps with figures"
    assert facts["Threads asked for"] == "4"
    assert facts["Peers left out"].startswith("1: ")
    assert facts["Sizes beyond the budget"] == "1 TiB"
    assert facts["Sizes not read"] == "16 GiB"
    assert (facts["Stale"], facts["Problem"]) == ("it is old", "no space")


def test_names_only(path: Path):
    """Promise: a benchmark of names alone has a table and no figure, with a reason."""
    points = json.loads((path / "storage.json").read_text())["points"]
    _edit(path, points=[point for point in points if not point["size_bytes"]])
    with pytest.raises(LeftOutError, match="no bytes were written or read"):
        storage.by_size(StorageResult(path))
    assert len(appendix.storage_steps(StorageResult(path)).rows) == 2


def test_layers_below_a_store(path: Path):
    """Promise: T21 has the file system and each device below it with rate, ratio and busy share:
    sums over the peers, and the busiest of them. A device that a run lacks has one run less."""
    found = json.loads((path / "storage.json").read_text())
    point = next(item for item in found["points"] if item["operation"] == "write")
    run = point["runs"][0]
    run["traffic"] = [item for item in run["traffic"] if item["device"] != "md0"]
    _edit(path, points=found["points"])
    table = layers.of_result(StorageResult(path))
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    first = [row for row in rows if (row["operation"], row["file size"]) == ("write", "4 KiB")]
    assert [row["device"] for row in first[:4]] == ["XFS", "dm-3", "md0", "nvme0n1"]
    assert [row["n"] for row in first[:4]] == [3, 3, 2, 3]
    assert [row["depth"] for row in first[:4]] == [None, 0, 1, 2]
    assert (first[0]["ratio"], first[0]["busy %"]) == (1.0, None)
    assert first[1]["ratio"] == pytest.approx(golden.OVERHEAD["write"])
    assert first[1]["busy %"] == pytest.approx(90, abs=0.1)
    assert first[3]["ratio"] == pytest.approx(golden.OVERHEAD["write"] / 4)
    rate = golden.storage_rate(4096) / golden.GBIT * golden.OVERHEAD["write"]
    assert first[1]["median Gbit/s"] == pytest.approx(rate)


def test_devices_stand_above_transfers(folder: Path):
    """Promise: F12 has the devices of a store, disks first and many of a kind together, above its
    file system and the transfers. A store on no device has its file system alone."""
    with style.applied():
        drawn = storage.by_layer(Request(Run(folder)))
    axes = drawn.figure.axes[0]
    names = [label.get_text().split("\n")[0] for label in axes.get_yticklabels()]
    assert names[:4] == ["4 devices (disk)", "md0 (md raid0)", "dm-3 (dm LVM vg-data)",
                         "read lab:raw"]  # fmt: skip
    assert names[4] == "write hpc:scratch"
    disks, *_, transfer = [text.get_text() for text in axes.texts]
    assert disks.endswith("Gbit/s, 0.80 × the files, 90 % busy")
    assert "of the slower end" in transfer
    assert "as the kernel counted them for the whole host" in drawn.caption


def test_results_without_devices(path: Path):
    """Promise: results of earlier releases, and of stores on no device, have no layers."""
    found = json.loads((path / "storage.json").read_text())
    for point in found["points"]:
        for run in point["runs"]:
            run.pop("traffic", None)
    _edit(path, points=found["points"])
    with pytest.raises(LeftOutError, match="no device below a store is known"):
        layers.of_result(StorageResult(path))


def test_nothing_measured(path: Path, capsys: pytest.CaptureFixture[str]):
    """Promise: a benchmark that ended before its first step has nothing to report."""
    _edit(path, points=[])
    assert cli.main(["report", str(path)]) == 1
    assert "storage.json: no step has ended: nothing to report" in capsys.readouterr().err
