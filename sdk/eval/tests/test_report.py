import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from penstock_eval import cli, headlines, report, style, tables
from penstock_eval.contents import FIGURES, TABLES
from penstock_eval.drawing import LeftOutError, Request
from penstock_eval.figures import traffic, work
from penstock_eval.report import Section
from penstock_eval.rundir import Run
from tests import golden

SOURCE = Path(__file__).parent.parent / "src"
PNG = b"\x89PNG\r\n\x1a\n"


class _Page(HTMLParser):
    """Collects ids, and attributes that make a browser load something."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "srcset", "data", "action", "poster"):
                self.loads.append(f"{tag} {name}={value}")
            if name in ("href", "xlink:href"):
                self.links.append(value or "")
        if tag in ("link", "iframe", "object", "embed", "img", "base"):
            self.loads.append(tag)


@pytest.fixture(scope="session")
def page(folder: Path, sections: list[Section]) -> str:
    assert sections
    return (folder / "report/report.html").read_text()


def test_all_figures_and_tables_are_there(folder: Path, sections: list[Section], page: str):
    """Promise: a full run has every figure but those that need other runs, each as a file."""
    made = sections[0]
    assert {key for key, *_ in made.left_out} == {"F17", "F18", "T15"}
    assert made.pictures[0].key == "F15"
    assert len(made.pictures) == len(FIGURES) - 1
    assert len(made.listings) == len(TABLES)
    for picture in made.pictures:
        assert (folder / f"report/figures/{picture.key}.png").read_bytes().startswith(PNG)
        assert (folder / f"report/figures/{picture.key}.svg").read_text() == picture.svg
        assert f'id="r1-{picture.key}"' in page
        assert "<text" in picture.svg


def test_page_refers_to_nothing_outside(page: str):
    """Promise: a browser without a network shows all: no reference leaves the file."""
    found = _Page()
    found.feed(page)
    assert found.loads == []
    inside = {link for link in found.links if not link.startswith("data:image/png;base64,")}
    assert all(link.startswith("#") for link in inside)
    assert inside <= {f"#{name}" for name in found.ids}
    assert not re.search(r"url\(\s*['\"]?(?!#)", page)
    assert "@import" not in page
    assert "fetch(" not in page


def test_ids_are_unique(page: str):
    """Promise: figures within one page do not take each other's definitions."""
    found = _Page()
    found.feed(page)
    assert len(found.ids) == len(set(found.ids))


def test_equal_data_give_equal_bytes(folder: Path, sections: list[Section], tmp_path: Path):
    """Promise: reports of the same run are equal to the byte: in another process with another seed
    of hashes, time zone, language and umask, and with settings of matplotlib of its user."""
    assert sections
    settings = tmp_path / "matplotlib"
    settings.mkdir()
    (settings / "matplotlibrc").write_text("lines.linewidth: 9\nfont.family: serif\n")
    worlds = [
        {"PYTHONHASHSEED": "1", "TZ": "UTC", "LC_ALL": "C"},
        {"PYTHONHASHSEED": "2", "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "LANG": "de_DE.UTF-8",
         "MPLCONFIGDIR": str(settings)},
    ]  # fmt: skip
    made = [
        subprocess.Popen(
            [sys.executable, "-m", "penstock_eval", "report", str(folder), "--need", "40Gbit/s",
             "--out", str(tmp_path / str(at))],
            env=os.environ | {"PYTHONPATH": str(SOURCE)} | world,
            umask=0o022 if at else 0o077,
            stdout=subprocess.PIPE,
        )
        for at, world in enumerate(worlds)
    ]  # fmt: skip
    assert [process.communicate() and process.returncode for process in made] == [0, 0]
    first, *others = [_bytes(path) for path in (folder / "report", tmp_path / "0", tmp_path / "1")]
    assert len(first) == 2 + 2 * (len(FIGURES) - 1) + len(TABLES)
    for other in others:
        assert other.keys() == first.keys()
        assert [name for name in first if first[name] != other[name]] == []


def _bytes(out: Path) -> dict[str, bytes]:
    files = [path for path in out.rglob("*") if path.is_file()]
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def test_titles_are_text(folder: Path, tmp_path: Path):
    """Promise: a title from a matrix cannot bring markup into the page."""
    path = _copy(folder, tmp_path)
    about = json.loads((path / "run.json").read_text())
    about["title"] = "<script>alert(1)</script> a|b"
    (path / "run.json").write_text(json.dumps(about))
    made = Section(headlines.of_run(Run(path)), "")
    assert "<script>alert" not in report.html([made])
    assert "&lt;script&gt;alert(1)" in report.html([made])


def test_what_is_missing_is_left_out_with_a_reason(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Promise: without storage, series and facts there is a report that says what is not in it."""
    path = _copy(folder, tmp_path)
    (path / "facts.json").unlink()
    assert cli.main(["report", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "left out: F15, Transfers beside measured storage: no measured" in printed
    assert "left out: F10, Traffic by card: no time series" in printed
    assert "left out: F1, Set-up: no facts" in printed
    text = (path / "report/report.md").read_text()
    assert "## Left out" in text
    assert "penstock bench storage" in text
    assert "figures/F14.png" in text


def test_rates_of_a_need(sections: list[Section]):
    """Promise: the rate that is needed stands in F0."""
    picture = next(p for p in sections[0].pictures if p.key == "F0")
    assert "need: 432 TB/day" in picture.svg
    assert cli.rate("40 Gbit/s") == 5e9
    assert cli.rate("432TB/day") == pytest.approx(5e9)
    with pytest.raises(Exception, match="is no rate; write it as"):
        cli.rate("40 Gigabit")


def test_lanes_and_piece_size(tmp_path: Path):
    """Promise: F17 has the ratio of each cell to the automatic choice. Modes with other networks
    are not in it."""
    run = Run(golden.make_tuned(tmp_path / "run"))
    with style.applied():
        drawn = work.tuning(Request(run))
    texts = [text.get_text() for text in drawn.figure.axes[0].texts]
    assert texts == ["0.62", "1.00", "0.93"] * 3


def test_networks_stand_beside_all_together(tmp_path: Path):
    """Promise: a sweep over single networks is right by the schema, and T1 and T4 have the rate of
    each network and its ratio to all together, in each direction."""
    path = golden.make_cards(tmp_path / "run")
    assert cli.main(["check", str(path)]) == 0
    request = Request(Run(path))
    table = tables.by_suite(request)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert len(rows) == len(tables.results(request).rows) == 12
    for row in rows:
        share = golden.CARDS[str(row["mode"])]
        assert row["ratio"] == (None if share == 1 else pytest.approx(share))


def test_long_names_of_modes_fit():
    """Promise: a legend of many modes with long names is within its figure."""
    with style.applied():
        made, _ = style.figure()
        style.legend_above(made, [("tls-blake3-fast0+fast1-2peers", style.INK)] * 9)
        made.draw_without_rendering()
        box = made.legends[0].get_window_extent()
    assert 0 <= box.x0 < box.x1 <= made.bbox.x1


def test_runs_without_a_time(run: Run, folder: Path, tmp_path: Path):
    """Promise: F16 has a cross for a run that failed. A refused one has no time: it is in the
    caption, and stretches no axis. A sweep without any time is told from one that failed."""
    with style.applied():
        drawn = traffic.over_time(Request(run))
    lower = drawn.figure.axes[-1]
    assert sum(line.get_marker() == "x" for line in lower.lines) == 1
    places = [x for line in lower.lines for x in np.asarray(line.get_xdata()).tolist()]
    assert min(places) >= 0
    assert max(places) < 86_400
    assert "crosses: 1 that failed. Refused runs (1) have no time" in drawn.caption
    path = _copy(folder, tmp_path)
    rows = [json.loads(row) for row in (path / "cells.jsonl").read_text().splitlines()]
    rows = [row | {"t": row["t"] | {"submitted": None}} for row in rows]
    (path / "cells.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(LeftOutError, match="no run has the time of its submission"):
        traffic.over_time(Request(Run(path)))


def test_the_first_seconds(run: Run):
    """Promise: F9 has the planted rise of rate and lanes, by mode, and an axis of round trips."""
    with style.applied():
        drawn = traffic.first_seconds(Request(run))
    upper, lower = drawn.figure.axes
    assert [np.asarray(line.get_ydata()).tolist()[:5] for line in lower.lines] == [
        [8.0, 12.0, 16.0, 20.0, 20.0]
    ] * 2
    for line in upper.lines:
        rates = np.asarray(line.get_ydata())
        assert rates[0] < 0.6 * rates[4]
        assert np.asarray(line.get_xdata()).tolist()[:2] == [0.5, 1.5]
    assert "n = 6" in drawn.caption
    assert "counts round trips" in drawn.caption


def test_empty_files_break_no_figure(folder: Path, tmp_path: Path):
    """Promise: data sets of empty files, which have no rate, are in tables and break no figure."""
    path = _copy(folder, tmp_path)
    shutil.copytree(folder / "storage", path / "storage")
    about = json.loads((path / "run.json").read_text())
    empty: list[golden.Json] = [{"name": name, "files": files, "bytes": 0, "histogram": []}
             for name, files in (("1x0B", 1), ("100x0B", 100), ("900x0B", 900))]  # fmt: skip
    about["datasets"] = [*empty, *about["datasets"]]
    (path / "run.json").write_text(json.dumps(about))
    rows = [json.loads(row) for row in (path / "cells.jsonl").read_text().splitlines()]
    more = [
        row | {"id": f"{row['id']}-{item['name']}", "dataset": item, "bytes": 0,
               "files": item["files"], "rate": {"effective": 0.0}}
        for row in rows[70:80]
        for item in empty
    ]  # fmt: skip
    (path / "cells.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows + more))
    request = Request(Run(path))
    for entry in FIGURES:
        if entry.key in ("F15", "F0", "F14", "F6", "F4", "F5", "F12", "F21", "F16"):
            with style.applied():
                assert entry.draw(request).caption
    odd = next(entry for entry in TABLES if entry.key == "T14").make(request)
    assert "moved no bytes: it has no rate" in {row[-1] for row in odd.rows}


def test_one_report_of_all_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Promise: a sweep, a soak and a comparison make one page, each with a section and files of its
    own, and the command says what is left out of which."""
    made = [
        golden.make_distant(tmp_path / "sweep", 1.0, 1.0),
        golden.make_soak(tmp_path / "soak"),
        golden.make_rivals(tmp_path / "rivals"),
    ]
    out = tmp_path / "out"
    assert cli.main(["report", *map(str, made), "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "left out of rtt1.0: F15, F1, F6, " in printed
    assert "left out of soak" not in printed
    for name in ("rtt1.0-F14", "soak-5e5e5e5e-F22", "movers-3-F23"):
        assert (out / f"figures/{name}.png").exists()
    page = (out / "report.html").read_text()
    assert [page.count(f'id="r{at}-T') > 0 for at in (1, 2, 3)] == [True] * 3
    assert "Soak 5e5e5e5e: lab:raw/run7 → hpc:scratch/tests" in page
    assert "Movers beside each other: /scratch → me@far:/scratch" in page
    found = _Page()
    found.feed(page)
    assert len(found.ids) == len(set(found.ids))


def _copy(folder: Path, to: Path) -> Path:
    path = to / "copy"
    path.mkdir()
    for name in ("run.json", "facts.json", "cells.jsonl"):
        shutil.copy(folder / name, path / name)
    return path
