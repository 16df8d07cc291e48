"""Report: one HTML file without references, Markdown with figures as files, and CSV."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from penstock_eval import contents, formats, headlines, rivals, style, subjects
from penstock_eval.drawing import About, Drawn, FigureOf, LeftOutError, Request
from penstock_eval.headlines import Headline
from penstock_eval.rundir import Run
from penstock_eval.soakdir import Soak
from penstock_eval.storagedir import FILE as STORAGE
from penstock_eval.storagedir import StorageResult
from penstock_eval.subjects import Subject
from penstock_eval.tables import Table, TableOf

_IDS = re.compile(r"(\bid=\"|url\(#|xlink:href=\"#)")
_DATE = {"Date": None, "Creator": None}


@dataclass(frozen=True)
class Picture:
    """A figure of a report, as text of SVG and bytes of PNG."""

    key: str
    title: str
    caption: str
    svg: str
    png: bytes


@dataclass(frozen=True)
class Listing:
    """A table of a report."""

    key: str
    title: str
    table: Table


@dataclass
class Section:
    """All of one sweep, soak, comparison or storage, or of all sweeps together."""

    head: Headline
    name: str
    """Name of its files; empty for the only section of a report."""
    pictures: list[Picture] = field(default_factory=list[Picture])
    listings: list[Listing] = field(default_factory=list[Listing])
    left_out: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    """Key and title of what lacks data, and why."""

    def fill(
        self,
        about: About,
        figures: Sequence[FigureOf[About]],
        tables: Sequence[TableOf[About]],
    ) -> None:
        """Makes figures and tables, and notes what lacks its data.

        Raises:
            BrokenFileError: A file that one of them needs is broken.
        """
        for entry in figures:
            try:
                with style.applied():
                    drawn = entry.draw(about)
                self.pictures.append(render(entry, drawn))
            except LeftOutError as error:
                self.left_out.append((entry.key, entry.title, str(error)))
        for entry in tables:
            try:
                table = entry.make(about)
            except LeftOutError as error:
                self.left_out.append((entry.key, entry.title, str(error)))
                continue
            self.listings.append(Listing(entry.key, entry.title, table))


def render(entry: FigureOf[About], drawn: Drawn) -> Picture:
    """Makes SVG and PNG of a figure: equal bytes for equal data."""
    with style.applied(entry.key):
        drawn.figure.align_ylabels()
        text = io.StringIO()
        drawn.figure.savefig(text, format="svg", metadata=_DATE)
        picture = io.BytesIO()
        drawn.figure.savefig(picture, format="png", metadata={"Software": None})
    return Picture(entry.key, entry.title, drawn.caption, text.getvalue(), picture.getvalue())


def inline(picture: Picture, prefix: str) -> Markup:
    """SVG to stand within HTML: without its prologue, with ids of its own, named for readers."""
    body = picture.svg[picture.svg.index("<svg") :]
    body = _IDS.sub(lambda match: f"{match[1]}{prefix}{picture.key}-", body)
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    name = Markup.escape(picture.title)
    head = f'<svg role="img" aria-label="{name}" '
    body = re.sub(r' (width|height)="[0-9.]+pt"', "", body, count=2)
    return Markup(body.replace("<svg ", head, 1))  # noqa: S704  (made by matplotlib)


def coded(text: str) -> Markup:
    """Text with what is between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(Markup.escape(text))))  # noqa: S704


def _sections(found: list[Subject], need: float | None) -> list[Section]:
    runs = [subject for subject in found if isinstance(subject, Run)]
    made: list[Section] = []
    if len(runs) > 1:
        together = Section(headlines.of_all(runs), "all")
        together.fill(Request(runs[0], runs[1:]), contents.ACROSS_FIGURES, contents.ACROSS_TABLES)
        made.append(together)
    for at, subject in enumerate(found, start=1):
        if isinstance(subject, Run):
            section = Section(headlines.of_run(subject), str(subject.about["id"]))
            request = Request(subject, need=need)
            section.fill(request, contents.FIGURES, contents.TABLES)
            if len(runs) == 1:
                section.fill(request, contents.ACROSS_FIGURES, contents.ACROSS_TABLES)
        elif isinstance(subject, Soak):
            section = Section(headlines.of_soak(subject), f"soak-{subject.about['id'][:8]}")
            section.fill(subject, contents.SOAK_FIGURES, contents.SOAK_TABLES)
        elif isinstance(subject, StorageResult):
            section = Section(headlines.of_storage(subject), f"storage-{subject.about['id'][:8]}")
            section.fill(subject, contents.STORAGE_FIGURES, contents.STORAGE_TABLES)
        else:
            section = Section(headlines.of_rivals(subject), f"movers-{at}")
            section.fill(subject, contents.MOVER_FIGURES, contents.MOVER_TABLES)
        made.append(section)
    if len(made) == 1:
        made[0].name = ""
    return made


def _check(subject: Subject) -> None:
    if isinstance(subject, Run):
        place, some = subject.path / "cells.jsonl", subject.counted
        lacks = "no run succeeded but warm-ups"
    elif isinstance(subject, Soak):
        place, some = subject.path / "rounds.jsonl", subject.rounds
        lacks = "no round has ended"
    elif isinstance(subject, StorageResult):
        place, some = subject.path / STORAGE, subject.steps
        lacks = "no step has ended"
    else:
        place, some = subject.path / rivals.FILE, subject.counted
        lacks = "no transfer succeeded but warm-ups"
    if not some:
        raise formats.BrokenFileError(f"{place}: {lacks}: nothing to report")


def write(paths: list[Path], out: Path, need: float | None = None) -> list[Section]:
    """Writes `report.html`, `report.md`, `figures/` and `tables/` into a directory.

    Raises:
        BrokenFileError: A directory, or a file of it, is missing or broken.
        OSError: The directory cannot be written.
    """
    found = subjects.read_all(paths)
    for subject in found:
        _check(subject)
    sections = _sections(found, need)
    for folder in (out / "figures", out / "tables"):
        folder.mkdir(parents=True, exist_ok=True)
    for made in sections:
        for picture in made.pictures:
            stem = _stem(made, picture.key)
            (out / "figures" / f"{stem}.svg").write_text(picture.svg, "utf-8")
            (out / "figures" / f"{stem}.png").write_bytes(picture.png)
        for listing in made.listings:
            path = out / "tables" / f"{_stem(made, listing.key)}.csv"
            path.write_text(as_csv(listing.table), "utf-8")
    (out / "report.html").write_text(html(sections), "utf-8")
    (out / "report.md").write_text(markdown(sections), "utf-8")
    return sections


def _stem(made: Section, key: str) -> str:
    return f"{made.name}-{key}" if made.name else key


def as_csv(table: Table) -> str:
    """Table as CSV with all digits; empty where a value is not known."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(["" if value is None else value for value in row] for row in table.rows)
    return text.getvalue()


def html(sections: list[Section]) -> str:
    """Report as one HTML file that refers to nothing outside."""
    folder = files("penstock_eval")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(folder.joinpath("report.html.j2").read_text("utf-8"))
    return template.render(
        sections=sections,
        coded=coded,
        inline=inline,
        style=Markup(folder.joinpath("report.css").read_text("utf-8")),  # noqa: S704
        script=Markup(folder.joinpath("report.js").read_text("utf-8")),  # noqa: S704
    )


def markdown(sections: list[Section]) -> str:
    """Report as Markdown, with figures and tables as files beside it."""
    parts: list[str] = []
    for made in sections:
        parts.append(f"# {made.head.title}\n")
        parts.append("\n".join(f"- **{name}**: {value}" for name, value in made.head.facts) + "\n")
        for picture in made.pictures:
            path = f"figures/{_stem(made, picture.key)}.png"
            parts.append(f"## {picture.key}. {picture.title}\n")
            parts.append(f"![{picture.title}]({path})\n\n{picture.caption}\n")
        for listing in made.listings:
            link = f"[CSV](tables/{_stem(made, listing.key)}.csv)"
            parts.append(f"## {listing.key}. {listing.title}\n")
            parts.append(f"{_rows(listing.table)}\n{listing.table.note} {link}\n")
        if made.left_out:
            parts.append("## Left out\n")
            parts.append("".join(f"- {k}, {t}: {why}\n" for k, t, why in made.left_out))
    return "\n".join(parts)


def _rows(table: Table) -> str:
    right = [table.is_number(column) for column in range(len(table.columns))]
    rows = [
        table.columns,
        ["---:" if number else "---" for number in right],
        *([cell.replace("|", "\\|") for cell in row] for row in table.shown()),
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
