"""What a page consists of, and the files it becomes: one HTML page, and figures by themselves.

The page needs nothing but a browser; making it needs jinja2 (extra ``report``). Drawings on the
page take their colours from its style sheet. In a file of its own, a drawing carries the style
sheet with it, with the tones for white paper in the place of variables, because not every program
that reads SVG knows them. PNG needs resvg (extra ``png``).
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from kdey.report.drawing import (
    NARROW,
    WIDE,
    Drawing,
    listed,
    page_colours,
    percent,
    plain_status,
    theme_tones,
    wrapped,
)
from kdey.report.shown_groups import ClassRow, Group, GroupTable, key_text, position
from kdey.status import join_status, problems
from kdey.tables.output import Cell, Heading, Row, Table, csv_text, sortable_html

#: Longer tables of groups and differences can be filtered.
FILTERED_ROWS = 12


@dataclass(frozen=True)
class Figure:
    """A drawing with what is written under it.

    Attributes
    ----------
    drawing : Drawing
        For desks and paper, and for files.
    caption : str
    narrow : Drawing or None
        The same for phones; None where the drawing is narrow enough.
    """

    drawing: Drawing
    caption: str
    narrow: Drawing | None = None

    @classmethod
    def for_screens(cls, draw: Callable[[str, float], Drawing], name: str, caption: str) -> Figure:
        """Return a figure that is laid out for desks and for phones.

        Parameters
        ----------
        draw : callable
            Takes the name and the width of a drawing.
        name : str
        caption : str
        """
        return cls(draw(name, WIDE), caption, draw(f"{name}-narrow", NARROW))


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes
    ----------
    name, title : str
    words : sequence of paragraphs
    figures : sequence of Figure
    tables : sequence of Table
    filtered : bool
        Whether the page offers to show only the rows that contain a text.
    verdict : str
        "good", "bad" or "", the tone of the first paragraph.
    headline : str
        Words in bold before the first paragraph.
    files : mapping from names of files to data addresses
        What the page offers to download.
    """

    name: str
    title: str
    words: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    filtered: bool = False
    verdict: str = ""
    headline: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """Everything that a page shows.

    Attributes
    ----------
    title : str
    lead : sequence of sentences
        The answer, on top; the first is the largest.
    sections : sequence of Section
        For everybody.
    settings : sequence of pairs of name and value
    downloads : mapping from names of files to data addresses
    created : datetime
    verdict : (tone, headline, sentence), optional
        The tone is "good", "bad" or "".
    question : str
        What was asked, above the answer.
    technical : sequence of Section
        For those who know the method, after the others.
    technical_words : sequence of paragraphs
        What was chosen automatically, and what else they should know.
    """

    title: str
    lead: Sequence[str]
    sections: Sequence[Section]
    settings: Sequence[tuple[str, str]]
    downloads: Mapping[str, str]
    created: datetime
    verdict: tuple[str, str, str] | None = None
    question: str = ""
    technical: Sequence[Section] = ()
    technical_words: Sequence[str] = ()

    @property
    def figures(self) -> list[Figure]:
        """All figures, in their order on the page."""
        return [figure for part in (*self.sections, *self.technical) for figure in part.figures]


def csv_address(columns: Sequence[str], records: Sequence[Sequence[Any]]) -> str:
    """Return records as the data address of a CSV file (RFC 4180)."""
    return _address("text/csv;charset=utf-8", csv_text(columns, records, line_end="\r\n"))


def json_address(value: Any) -> str:
    """Return a value as the data address of a JSON file."""
    text = json.dumps(value, allow_nan=False, default=str, ensure_ascii=False)
    return _address("application/json", text)


def _address(kind: str, text: str) -> str:
    data = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
    return f"data:{kind};base64,{data}"


def render_page(page: Page) -> str:
    """Return a page as HTML."""
    script = _text("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    html: str = _template().render(
        page=page, style=_style(), script=script, script_hash=digest, table_html=sortable_html
    )
    return html


def figure_style() -> str:
    """Return the style sheet of drawings, in which colours are variables."""
    return _text("figures.css")


def _template() -> Any:
    try:
        import jinja2
    except ImportError:
        raise ImportError("a report needs jinja2: pip install 'kdey[report]'") from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kdey.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html")


def _style() -> str:
    """Return the style sheet with the colours of both themes."""
    style = _text("page.css").replace("/* figures */", figure_style())
    for theme in ("light", "dark"):
        style = style.replace(f"/* {theme} colours */", page_colours(theme))
    return style


def _text(name: str) -> str:
    return files("kdey.report").joinpath("templates", name).read_text(encoding="utf-8")


FigureFormat = Literal["svg", "png"]
FORMATS: tuple[FigureFormat, ...] = ("svg", "png")
_FONTS = '"Segoe UI", "Helvetica Neue", "Liberation Sans", "DejaVu Sans", Arial, sans-serif'
#: Space around a figure, sizes of its title and its caption, and the height of their lines.
_MARGIN, _TITLE_SIZE, _CAPTION_SIZE, _LINE = 20.0, 15.0, 11.0, 1.4
#: Pixels of a picture for each unit of a drawing.
_ZOOM = 2.0


def figure_svg(figure: Figure) -> str:
    """Return a figure with its title and its caption as an SVG file."""
    drawing = figure.drawing
    width = max(drawing.width, 420.0) + 2 * _MARGIN
    room = width - 2 * _MARGIN
    page = Drawing(
        drawing.name, width, 0.0, drawing.title, drawing.description, with_tips=drawing.with_tips
    )
    y = _MARGIN + _TITLE_SIZE
    page.words(_MARGIN, y, drawing.title, "figure-title")
    page.insert(drawing, _MARGIN, y + 12)
    y += 12 + drawing.height + 8
    for line in wrapped(figure.caption, room, _CAPTION_SIZE) if figure.caption else []:
        y += _LINE * _CAPTION_SIZE
        page.words(_MARGIN, y, line, "tick")
    page.height = y + _MARGIN
    return svg_file(page)


def svg_file(drawing: Drawing) -> str:
    """Return a drawing as an SVG file that needs no style sheet."""
    style = re.sub(
        r"var\(--([a-z]+)\)", lambda found: theme_tones("light")[found[1]], figure_style()
    )
    width, height = f"{drawing.width:g}", f"{drawing.height:g}"
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="{escape(_FONTS)}">\n'
        f"<title>{escape(drawing.title)}</title>\n<desc>{escape(drawing.description)}</desc>\n"
        f"<style>{escape(style, quote=False)}</style>\n"
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
        f"{''.join(drawing.parts)}\n</svg>\n"
    )


def check_format(kind: FigureFormat) -> None:
    """Raise ImportError if what a format needs is not installed."""
    if kind == "png":
        try:
            import resvg_py  # noqa: F401
        except ImportError:
            raise ImportError(
                "PNG files need resvg: pip install 'kdey[png]', or write SVG"
            ) from None


def png_bytes(svg: str) -> bytes:
    """Return an SVG file as a picture."""
    check_format("png")
    from resvg_py import svg_to_bytes

    return bytes(svg_to_bytes(svg_string=svg, zoom=_ZOOM, font_dirs=_font_folders()))


def _font_folders() -> list[str]:
    """Return where fonts are beside those of the system, which may have none: matplotlib's."""
    found = importlib.util.find_spec("matplotlib")
    if found is None or found.origin is None:
        return []
    folder = Path(found.origin).parent / "mpl-data" / "fonts" / "ttf"
    return [str(folder)] if folder.is_dir() else []


def encoded(svg: str, kind: FigureFormat) -> bytes:
    """Return an SVG file in a format."""
    return png_bytes(svg) if kind == "png" else svg.encode("utf-8", "replace")


def figure_files(page: Page, kinds: Sequence[FigureFormat]) -> dict[str, bytes]:
    """Return the figures of a page by the names of their files."""
    return {
        f"{figure.drawing.name}.{kind}": encoded(figure_svg(figure), kind)
        for figure in page.figures
        for kind in kinds
    }


#: Classes that the overview of groups has columns for; of more, so many are shown.
_MOST_CLASSES, _SHOWN_CLASSES = 5, 4
#: Rows of groups shown on the page; all are in the file to download.
MOST_ROWS = 1000
#: The shares of a class with their headings on the page.
_HEADINGS = {
    "estimate": "Estimate",
    "low": "Low",
    "high": "High",
    "naive": "Uncorrected count",
    "training": "Share in training",
    "truth": "Known labels",
}
#: What files call a column where it is not its name here: as in the frames of estimates.
_FILE_NAMES = {"naive": "classify_and_count", "training": "training_prevalence", "truth": "labels"}


def prevalence_table(rows: Sequence[ClassRow], title: str) -> Table:
    """Return one row per class."""
    names = [name for name in known_shares(rows) if name not in ("low", "high")]
    columns = [Heading("Class", numeric=False), *(Heading(_HEADINGS[name]) for name in names)]
    columns.insert(2, Heading("Limits"))
    table_rows = []
    for row in rows:
        cells = [_share(getattr(row, name)) for name in names]
        cells.insert(1, _limits(row))
        table_rows.append(Row.named(row.name, cells))
    return Table("classes", title, tuple(columns), tuple(table_rows))


def overview_table(table: GroupTable, whole: Sequence[ClassRow] | None, size: int | None) -> Table:
    """Return one row per group, with the shares of the first classes, and one of all together.

    Parameters
    ----------
    table : GroupTable
    whole : sequence of ClassRow, optional
        The shares of all groups together.
    size : int, optional
        The number of instances of all groups together.
    """
    fits = len(table.classes) <= _MOST_CLASSES
    shown = table.classes if fits else table.classes[:_SHOWN_CLASSES]
    notes = any(problems(group.status) for group in table.groups)
    columns = [Heading(name, numeric=False) for name in table.by] + [Heading("Records")]
    columns += [Heading(name) for name in shown]
    columns += [Heading("Note", numeric=False)] * notes
    rows = []
    for group in table.groups[:MOST_ROWS]:
        cells = [*_key_cells(table, group), Cell(f"{group.n:,}", float(group.n))]
        cells += [_share_with_limits(group.by_class.get(name)) for name in shown]
        cells += [Cell(plain_status(join_status(problems(group.status))))] * notes
        rows.append(Row(tuple(cells)))
    if whole is not None and size is not None:
        by_class = {row.name: row for row in whole}
        cells = [Cell("All together"), *[Cell()] * (len(table.by) - 1)]
        cells += [Cell(f"{size:,}", float(size))]
        cells += [_share_with_limits(by_class.get(name)) for name in shown]
        rows.append(Row((*cells, *[Cell()] * notes), "summary"))
    left_out = len(table.classes) - len(shown)
    more = f"; {left_out} more classes are in the technical part" if left_out else ""
    title = f"Shares by {listed(table.by)}, with limits{more}"
    return Table("overview", title, tuple(columns), tuple(rows))


def _key_cells(table: GroupTable, group: Group) -> list[Cell]:
    """Return the keys of a group as people say them, sorted by what they are."""
    return [
        Cell(text, position(key) if name == table.time else _sort_value(key))
        for name, text, key in zip(table.by, table.key_texts(group), group.keys, strict=True)
    ]


def _share_with_limits(row: ClassRow | None) -> Cell:
    """Return a share with its limits in brackets."""
    if row is None or row.estimate is None or row.low is None:
        return _share(None if row is None else row.estimate)
    return Cell(f"{percent(row.estimate)} ({_limits(row).text})", round(row.estimate, 9))


def _limits(row: ClassRow) -> Cell:
    """Return both limits in one cell, sorted by the lower one."""
    if row.low is None or row.high is None:
        return Cell("–", -1.0)
    return Cell(f"{100 * row.low:.1f}\u2013{100 * row.high:.1f}", round(row.low, 9))


def groups_table(table: GroupTable, title: str) -> Table:
    """Return one row per group and class, the first :data:`MOST_ROWS` of them."""
    pairs = [(group, row) for group in table.groups for row in group.rows]
    names = known_shares([row for _, row in pairs])
    checked = any(group.p_value is not None for group in table.groups)
    columns = [Heading(name, numeric=False) for name in (*table.by, "Class")] + [Heading("Records")]
    columns += [Heading(_HEADINGS[name]) for name in names]
    columns += [Heading("Fit p\u2011value")] * checked + [Heading("Status", numeric=False)]
    rows = []
    for group, row in pairs[:MOST_ROWS]:
        cells = _key_cells(table, group)
        cells += [Cell(row.name), Cell(f"{group.n:,}", float(group.n))]
        cells += [_share(getattr(row, name)) for name in names]
        if checked:
            cells.append(_p_value(group.p_value))
        rows.append(Row((*cells, Cell(group.status))))
    return Table("group-rows", title, tuple(columns), tuple(rows))


def confusions_table(confusions: Sequence[tuple[str, str, float]]) -> Table:
    """Return the most frequent confusions."""
    columns = (
        Heading("True class", numeric=False),
        Heading("Predicted", numeric=False),
        Heading("Share of the class"),
    )
    rows = (Row((Cell(true), Cell(predicted), _share(s))) for true, predicted, s in confusions)
    return Table("confusions", "Most frequent confusions", columns, tuple(rows))


def group_records(table: GroupTable) -> tuple[list[str], list[list[Any]]]:
    """Return column names and rows of all groups, for a file."""
    names = [name for name in _HEADINGS if name != "truth"]
    columns = [*table.by, "class", "n", *_file_names(names), "fit_p_value", "status"]
    rows = [
        [
            *(key_text(key) for key in group.keys),
            row.name,
            group.n,
            *(getattr(row, name) for name in names),
            group.p_value,
            group.status,
        ]
        for group in table.groups
        for row in group.rows
    ]
    return columns, rows


def class_records(rows: Sequence[ClassRow]) -> tuple[list[str], list[list[Any]]]:
    """Return column names and rows of all classes, for a file."""
    names = known_shares(rows)
    records = [[row.name, *(getattr(row, name) for name in names)] for row in rows]
    return ["class", *_file_names(names)], records


def known_shares(rows: Sequence[ClassRow]) -> list[str]:
    """Return the names of the shares that any row knows."""
    return [name for name in _HEADINGS if any(getattr(row, name) is not None for row in rows)]


def _file_names(names: Sequence[str]) -> list[str]:
    return [_FILE_NAMES.get(name, name) for name in names]


def _share(value: float | None) -> Cell:
    return Cell(percent(value), -1.0 if value is None else round(value, 9))


def _p_value(value: float | None) -> Cell:
    return Cell("–", -1.0) if value is None else Cell(f"{value:.3f}", value)


def _sort_value(key: Any) -> float | None:
    return float(key) if isinstance(key, int | float) and not isinstance(key, bool) else None
