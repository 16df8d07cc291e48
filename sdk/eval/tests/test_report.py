import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from penstock_eval import cli, report, style
from penstock_eval.contents import FIGURES, TABLES
from penstock_eval.drawing import Request
from penstock_eval.figures import work
from penstock_eval.report import Section
from penstock_eval.rundir import Run
from tests import golden

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
    assert {key for key, *_ in made.left_out} == {"F17", "F18"}
    assert made.pictures[0].key == "F15"
    assert len(made.pictures) == len(FIGURES) - 2
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
    """Promise: a second report of the same run is the same to the byte."""
    entries = [entry for entry in FIGURES if entry.key in ("F15", "F10", "F2", "F14")]
    first = {picture.key: picture for picture in sections[0].pictures}
    for entry in entries:
        with style.applied():
            drawn = entry.draw(Request(Run(folder)))
        again = report.render(entry, drawn)
        assert again.svg == first[entry.key].svg
        assert again.png == first[entry.key].png
    assert report.html(sections) == (folder / "report/report.html").read_text()


def test_titles_are_text(folder: Path, tmp_path: Path):
    """Promise: a title from a matrix cannot bring markup into the page."""
    path = _copy(folder, tmp_path)
    about = json.loads((path / "run.json").read_text())
    about["title"] = "<script>alert(1)</script> a|b"
    (path / "run.json").write_text(json.dumps(about))
    made = Section(Run(path), "", [("Name", "<b>")])
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
    """Promise: F17 has the ratio of each cell to the automatic choice."""
    run = Run(golden.make_tuned(tmp_path / "run"))
    with style.applied():
        drawn = work.tuning(Request(run))
    texts = [text.get_text() for text in drawn.figure.axes[0].texts]
    assert texts == ["0.62", "1.00", "0.93"] * 3


def test_runs_of_several_distances(tmp_path: Path):
    """Promise: runs of three round-trip times make F18, and sections with files of their own."""
    planted = [(0.2, 1.0), (30.0, 0.96), (90.0, 0.9)]
    paths = [golden.make_distant(tmp_path / f"r{rtt}", rtt, share) for rtt, share in planted]
    runs = [Run(path) for path in paths]
    with style.applied():
        drawn = work.round_trips(Request(runs[0], runs[1:]))
    upper, lower = drawn.figure.axes
    for line in [*upper.lines, *lower.lines]:
        assert np.asarray(line.get_xdata()).tolist() == [0.0, 30.0, 90.0]
    assert len(upper.lines) == len(lower.lines) == 2
    assert {text.get_text() for text in lower.texts} == {"90 %"}
    assert "n = 6" in drawn.caption


def _copy(folder: Path, to: Path) -> Path:
    path = to / "copy"
    path.mkdir()
    for name in ("run.json", "facts.json", "cells.jsonl"):
        shutil.copy(folder / name, path / name)
    return path
