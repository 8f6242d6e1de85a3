"""What a page consists of: drawings as SVG text, sections, and the files that they become.

A colour of a plot has a tone for the light page and one for the dark page. A quantity has one name
wherever it is drawn: on a page, by a display, in the paper. Every text in a drawing is escaped.
Colours of drawings come from CSS classes, not from attributes, so that one drawing serves the light
page, the dark one and paper.

The page needs nothing but a browser; making it needs jinja2 (extra ``report``). In a file of its
own, a drawing carries the style sheet with it, with the tones for white paper in the place of
variables, because not every program that reads SVG knows them. PNG needs resvg (extra ``png``).
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from unicodedata import east_asian_width

import numpy as np
from numpy.typing import NDArray

from kdey import status
from kdey.tables.output import Table, csv_text, sortable_html

#: Colours of plots on white, in order; colour-blind readers can tell them apart (Okabe and Ito,
#: 2008). The grey is dark enough not to be taken for the green or the purple.
GREY, RED = "#555555", "#b03a2e"
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"),
    *("#56B4E9", "#000000", GREY),
)
#: Variables of the page's style sheet by their roles: on the light and on the dark page, with
#: enough contrast for lines and text.
_PAGE_COLOURS = {
    "paper": ("#ffffff", "#14181d"),
    "panel": ("#f5f7f9", "#1c2229"),
    "ink": ("#1b2128", "#e9edf1"),
    "soft": ("#4b5663", "#b3bdc8"),
    "rule": ("#d3dae1", "#3a444f"),
    "accent": ("#0b5fa5", "#6db5f2"),
    "naive": ("#b4430d", "#f2a274"),
    "training": ("#5d6875", "#a3afbb"),
    "truth": ("#1b2128", "#e9edf1"),
    "good": ("#12703c", "#6fce97"),
    "bad": ("#a32222", "#ff9a94"),
    "careful": ("#8a5a00", "#f2c063"),
    "link": ("#0b5fa5", "#8cc6f7"),
}

#: What figures call the shares of a class.
SHARES = {
    "estimate": "estimate",
    "naive": "uncorrected count",
    "training": "share in training",
    "truth": "known labels",
}
#: The words of a status for readers who have never heard of the library.
_PLAIN_STATUS = {
    status.OK: "",
    status.EMPTY: "no records",
    status.TOO_SMALL: "too few records",
    status.POOR_FIT: "looks unlike the training examples",
    status.MISSING_VALUES: "missing values",
    status.UNSEEN_VALUES: "values that the training examples lack",
    status.NOT_CONVERGED: "the calculation did not settle",
    status.ALIKE: "groups cannot be told apart",
    status.DOES_NOT_BELONG: "unlike the other groups",
    status.TOO_FEW_GROUPS: "too few groups to lean on",
    status.JUMP: "a jump since the period before",
    status.FEW_LABELS: "a class with few training examples",
    status.FEW_CLUSTERS: "drawn in few clusters",
    status.NO_LABELS: "no known labels",
    status.MISSING_STRATA: "a part of the population is missing",
    status.SMALL_STRATA: "parts of the population are too small",
    status.ONE_SIDED: "partly checked",
    status.ONLY_SCORES: "partly checked",
    status.ONLY_COLUMNS: "partly checked",
    status.CANNOT_BE_TOLD: "the interval is too wide to tell",
}
#: The axes of a reliability curve.
CLAIMED, OBSERVED = "posterior of the predicted class", "share of correct predictions"


def page_colours(theme: Literal["light", "dark"]) -> dict[str, str]:
    """Return the colours of a theme by their roles."""
    place = ("light", "dark").index(theme)
    return {name: tones[place] for name, tones in _PAGE_COLOURS.items()}


def plain_status(text: str) -> str:
    """Return a status in words for everybody; empty where all is well."""
    parts = [
        "not checked"
        if part.startswith((status.NOT_CHECKED, status.CANNOT_BE_CHECKED))
        else _PLAIN_STATUS.get(part, part)
        for part in status.status_parts(text)
    ]
    return "; ".join(part for part in parts if part)


def interval_name(confidence: float | None) -> str:
    """Return what legends call an interval."""
    return "interval" if confidence is None else f"{100 * confidence:g} % interval"


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share as per cent; a dash where there is none."""
    if share is None or math.isnan(share):
        return "–"
    # A number and its sign stay on one line.
    return f"{100 * share:.{digits}f}\u00a0%"


def tick_label(share: float) -> str:
    """Return a share as per cent without needless decimals."""
    return f"{100 * share:.4g} %"


def listed(parts: Sequence[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


#: Widths of letters as shares of the font size, rather too wide than too narrow: fonts differ.
_NARROW, _LETTER, _CAPITAL, _WIDE = 0.36, 0.62, 0.8, 1.02
FONT = 12.0
#: Widths of drawings for a desk or paper, and for a phone: each figure is laid out for both.
WIDE, NARROW = 760.0, 360.0
#: Pixels of a screen for each unit of a drawing, where there is room for them.
_ON_SCREEN = 1.15
#: Drawings up to this width put labels above lines, not beside them.
MOST_NARROW = 480.0


@dataclass(eq=False)
class Drawing:
    """A drawing that grows by elements.

    Attributes
    ----------
    name : str
        Unique on the page: the title and the description refer to it.
    width, height : float
    title : str
        What the figure is, for screen readers.
    description : str
        What it shows, in a sentence.
    with_tips : bool
        Whether marks say their numbers where a pointer rests; phones have no pointer.
    caption : str
        What is written under it.
    narrow : Drawing or None
        The same for phones; None where it is narrow enough.
    """

    name: str
    width: float
    height: float
    title: str
    description: str
    parts: list[str] = field(default_factory=list)
    with_tips: bool = True
    caption: str = ""
    narrow: Drawing | None = None

    def add(
        self, tag: str, text: str | None = None, tip: str | None = None, **attributes: object
    ) -> None:
        """Add an element; ``class_`` is its class, ``text_anchor`` is ``text-anchor``.

        ``tip`` is shown where the pointer rests.
        """
        markup = "".join(
            f' {key.rstrip("_").replace("_", "-")}="{escape(_plain(value))}"'
            for key, value in attributes.items()
            if value is not None
        )
        inside = "" if tip is None or not self.with_tips else f"<title>{escape(tip)}</title>"
        inside += "" if text is None else escape(text)
        self.parts.append(f"<{tag}{markup}>{inside}</{tag}>")

    def line(
        self, x1: float, y1: float, x2: float, y2: float, kind: str, tip: str | None = None
    ) -> None:
        """Add a straight line of a class."""
        self.add("line", tip=tip, x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)

    def words(
        self, x: float, y: float, text: str, kind: str = "label", anchor: str = "start"
    ) -> None:
        """Add a line of text, its baseline at y."""
        self.add("text", text, x=x, y=y, class_=kind, text_anchor=anchor)

    def insert(self, other: Drawing, x: float, y: float) -> None:
        """Add all of another drawing, its left upper corner at (x, y)."""
        place = f"translate({x:.2f} {y:.2f})"
        self.parts.append(f'<g transform="{place}">{"".join(other.parts)}</g>')

    @property
    def screen_width(self) -> float:
        """The width on a screen that has room for it, in pixels."""
        return _ON_SCREEN * self.width

    def markup(self) -> str:
        """Return the SVG element for a page, whose style sheet gives it its colours."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" id="{escape(self.name)}" '
            f'viewBox="0 0 {_plain(self.width)} {_plain(self.height)}" '
            f'style="max-width:{self.screen_width:.0f}px" '
            f'aria-labelledby="{escape(self.name)}-title {escape(self.name)}-text">'
            f'<title id="{escape(self.name)}-title">{escape(self.title)}</title>'
            f'<desc id="{escape(self.name)}-text">{escape(self.description)}</desc>'
            f"{''.join(self.parts)}</svg>"
        )


def for_screens(caption: str, draw: Callable[..., Drawing], *shown: Any, **named: Any) -> Drawing:
    """Return ``draw(*shown, **named, width=...)`` for desks, paper and files, and for phones."""
    drawing, narrow = (draw(*shown, **named, width=width) for width in (WIDE, NARROW))
    narrow.name += "-narrow"
    drawing.caption, drawing.narrow = caption, narrow
    return drawing


def _plain(value: object) -> str:
    """Return numbers with two decimals at most: files stay small."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def shortened(text: str, room: float = 180.0, size: float = FONT) -> str:
    """Return a label that fits into a width; the tables have it in full."""
    if text_width(text, size) <= room:
        return text
    kept = len(text)
    while kept > 1 and text_width(text[:kept], size) > room - _WIDE * size:
        kept -= 1
    return text[:kept] + "…"


def wrapped(text: str, room: float, size: float = FONT) -> list[str]:
    """Return the lines of a text that fit into a width; longer words are shortened."""
    lines: list[str] = []
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(joined, size) <= room:
            lines[-1] = joined
        else:
            lines.append(shortened(word, room, size))
    return lines


def text_width(text: str, size: float = FONT) -> float:
    """Return an upper bound on the width of a text in any usual font."""
    return size * sum(map(_letter_width, text))


def _letter_width(letter: str) -> float:
    if east_asian_width(letter) in "WF" or letter in "MW@%…":
        return _WIDE
    if letter in " ilIj.,:;'|!()[]":
        return _NARROW
    return _CAPITAL if letter.isupper() or not letter.isascii() else _LETTER


@dataclass(frozen=True)
class Axis:
    """A linear map from values to places of a drawing.

    Attributes
    ----------
    low, high : float
        Values at the two ends.
    start, stop : float
        Places of the two ends.
    """

    low: float
    high: float
    start: float
    stop: float

    def at(self, value: float) -> float:
        """Return the place of a value; values beyond the axis are placed at its ends."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.stop - self.start)

    def ticks(self, about: int = 5) -> list[float]:
        """Return round values inside the axis."""
        step = round_step((self.high - self.low) / about)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def round_step(rough: float) -> float:
    """Return 1, 2 or 5 times a power of ten, the smallest not below ``rough``."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(f * power for f in (1.0, 2.0, 5.0, 10.0) if f * power >= rough * (1 - 1e-9))


def share_axis(largest: float, start: float, stop: float) -> Axis:
    """Return the axis of shares from zero to a round number past the largest."""
    top = min(max(1.02 * largest, 0.01), 1.0)
    step = round_step(top / 5)
    return Axis(0.0, min(math.ceil(top / step - 1e-9) * step, 1.0), start, stop)


def draw_across(drawing: Drawing, axis: Axis, top: float, bottom: float, about: int = 5) -> None:
    """Draw a horizontal axis of shares under a plot, its grid lines through the plot."""
    for value in axis.ticks(about):
        place = axis.at(value)
        drawing.line(place, top, place, bottom, "grid")
        drawing.words(place, bottom + 16, tick_label(value), "tick", "middle")


def draw_up(
    drawing: Drawing,
    axis: Axis,
    left: float,
    right: float,
    about: int = 4,
    labelled: bool = True,
) -> None:
    """Draw a vertical axis of shares left of a plot, its grid lines through the plot."""
    for value in axis.ticks(about):
        place = axis.at(value)
        drawing.line(left, place, right, place, "grid")
        if labelled:
            drawing.words(left - 6, place + 4, tick_label(value), "tick", "end")


def panel_places(
    n_panels: int, columns: int, left: float, pitch: float
) -> list[tuple[int, int, float]]:
    """Return line, column and left edge of panels that begin ``pitch`` apart from ``left`` on."""
    lines = (divmod(number, columns) for number in range(n_panels))
    return [(line, column, left + column * pitch) for line, column in lines]


#: Shading of a share of one: text on it must stay readable.
DARKEST = 0.5
#: More columns than this have no numbers in their cells.
_MOST_NUMBERS = 12
#: Width and height of a cell with a number, and of one without.
_LARGE, _SMALL = (54.0, 26.0), (26.0, 18.0)
#: Distance of slanted labels of columns that do not touch.
_LABEL_PITCH = 13.0


def heat_figure(
    shares: NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    name: str,
    title: str,
    description: str,
    axes: tuple[str, str] = ("", ""),
    darkest: float = 1.0,
    width: float = WIDE,
) -> Drawing:
    """Return cells shaded by their share; NaN cells stay empty.

    Parameters
    ----------
    shares : array of shape (n_rows, n_columns), in [0, 1]
    rows, columns : labels
    axes : what rows and columns are, in words
    darkest : float
        The share with the darkest shade.
    width : float
        Of the drawing, at most; cells shrink to it.
    """
    narrow = width <= MOST_NARROW
    short_rows = [shortened(label, 96 if narrow else 140) for label in rows]
    short_columns = [shortened(label, 84 if narrow else 110) for label in columns]
    left = max(text_width(label) for label in short_rows) + (34 if axes[0] else 16)
    # Labels of columns are slanted, or upright where there is no room for their ends.
    steep, lean = (1.0, 0.0) if narrow else (0.72, 1.0)
    top = steep * max(text_width(label) for label in short_columns) + (34 if axes[1] else 18)
    wide, tall = _cell_size(len(columns), width - left - lean * top)
    numbers = len(columns) <= _MOST_NUMBERS and wide >= 20
    whole = max(left + wide * len(columns) + lean * top, text_width(axes[1], 11))
    drawing = Drawing(name, whole, top + tall * len(rows) + 6, title, description)
    drawing.with_tips = not narrow
    step = max(1, int(np.ceil(_LABEL_PITCH / wide)))
    for j, label in list(enumerate(short_columns))[::step]:
        x = left + wide * (j + 0.5) + (4 if narrow else 0)
        place = f"translate({x:.1f} {top - 6:.1f}) rotate({-90 if narrow else -45})"
        drawing.add("text", label, transform=place, class_="tick")
    for i, label in enumerate(short_rows):
        y = top + tall * i
        drawing.words(left - 8, y + tall / 2 + 4, label, "tick", "end")
        for j in range(len(columns)):
            share = float(shares[i, j])
            if np.isnan(share):
                continue
            tip = f"{rows[i]}, {columns[j]}: {percent(share)}"
            box = {"x": left + wide * j, "y": y, "width": wide - 1, "height": tall - 1}
            text = f"{100 * share:.{1 if wide >= 32 else 0}f}" if numbers else ""
            _cell(drawing, box, share / darkest, tip, text)
    _name_axes(drawing, axes, left, top, tall * len(rows))
    return drawing


def _cell_size(n_columns: int, room: float) -> tuple[float, float]:
    """Return width and height of the cells."""
    wide, tall = _LARGE if n_columns <= _MOST_NUMBERS else _SMALL
    return min(wide, max(room / n_columns, 5.0)), tall


def _cell(drawing: Drawing, box: dict[str, Any], depth: float, tip: str, text: str) -> None:
    """Draw a cell of a shade between none (0) and darkest (1)."""
    shade = round(DARKEST * min(max(depth, 0.0), 1.0), 3)
    drawing.add("rect", tip=tip, **box, class_="cell")
    if shade > 0.004:
        drawing.add("rect", tip=tip, **box, class_="heat", fill_opacity=f"{shade:g}")
    if text not in ("", "0", "0.0"):
        middle, base = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 + 4
        drawing.words(middle, base, text, "number", "middle")


def _name_axes(
    drawing: Drawing, axes: tuple[str, str], left: float, top: float, tall: float
) -> None:
    if axes[1]:
        start = min(left, drawing.width - text_width(axes[1], 11))
        drawing.words(start, 12, axes[1], "tick")
    if axes[0]:
        drawing.add(
            "text",
            axes[0],
            transform=f"translate(12 {top + tall / 2:.0f}) rotate(-90)",
            class_="tick",
            text_anchor="middle",
        )


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes
    ----------
    name, title : str
    words : sequence of paragraphs
    figures : sequence of Drawing
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
    figures: Sequence[Drawing] = ()
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
    def figures(self) -> list[Drawing]:
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
    themes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for theme in themes:
        colours = " ".join(f"--{name}: {tone};" for name, tone in page_colours(theme).items())
        style = style.replace(f"/* {theme} colours */", colours)
    return style


def _text(name: str) -> str:
    return files("kdey.report").joinpath("templates", name).read_text(encoding="utf-8")


FigureFormat = Literal["svg", "png"]
FORMATS: tuple[FigureFormat, ...] = ("svg", "png")
_FONTS = '"Segoe UI", "Helvetica Neue", "Liberation Sans", "DejaVu Sans", Arial, sans-serif'
#: Space around a figure, sizes of its title and its caption, and the height of their lines.
_MARGIN, _TITLE_SIZE, _CAPTION_SIZE, _SPACING = 20.0, 15.0, 11.0, 1.4
#: Pixels of a picture for each unit of a drawing.
_ZOOM = 2.0


def figure_svg(drawing: Drawing) -> str:
    """Return a figure with its title and its caption as an SVG file."""
    width = max(drawing.width, 420.0) + 2 * _MARGIN
    room = width - 2 * _MARGIN
    page = Drawing(
        drawing.name, width, 0.0, drawing.title, drawing.description, with_tips=drawing.with_tips
    )
    y = _MARGIN + _TITLE_SIZE
    page.words(_MARGIN, y, drawing.title, "figure-title")
    page.insert(drawing, _MARGIN, y + 12)
    y += 12 + drawing.height + 8
    for line in wrapped(drawing.caption, room, _CAPTION_SIZE) if drawing.caption else []:
        y += _SPACING * _CAPTION_SIZE
        page.words(_MARGIN, y, line, "tick")
    page.height = y + _MARGIN
    return svg_file(page)


def svg_file(drawing: Drawing) -> str:
    """Return a drawing as an SVG file that needs no style sheet."""
    style = re.sub(
        r"var\(--([a-z]+)\)", lambda found: page_colours("light")[found[1]], figure_style()
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
        f"{figure.name}.{kind}": encoded(figure_svg(figure), kind)
        for figure in page.figures
        for kind in kinds
    }
