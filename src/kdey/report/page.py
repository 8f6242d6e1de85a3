"""What a page consists of: colours, words for shares, sections, and how they become one HTML file.

A colour of a plot has a tone for the light page and one for the dark page. A quantity has one name
wherever it is drawn: on a page, by a display, in the paper. Colours of drawings come from classes
of the style sheet, so that one drawing serves the light page, the dark one and paper.

The page is one file under a content security policy that allows its own style and script by their
hashes and nothing else. It needs nothing but a browser; making it needs jinja2 (extra ``report``).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

from kdey import status
from kdey.tables.output import Table, csv_text

if TYPE_CHECKING:
    from kdey.report.explorer import Explorer

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
    "interval": ("#86b0d4", "#356c9c"),
    "mark": ("#a32222", "#ff9a94"),
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
    status.NOT_CONVERGED: "the calculation did not converge",
    status.ALIKE: "groups cannot be told apart",
    status.DOES_NOT_BELONG: "unlike the other groups",
    status.TOO_FEW_GROUPS: "too few groups to borrow from",
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


def ticks(low: float, high: float, about: int) -> list[float]:
    """Return round values between two ends: 1, 2 or 5 times a power of ten apart."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(f * power for f in (1.0, 2.0, 5.0, 10.0) if f * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def listed(parts: Sequence[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


@dataclass(frozen=True)
class Plot:
    """Paths in the units of the data, which the browser stretches to the width of the page.

    Attributes
    ----------
    name : str
    title, description : str
        What the figure is, for screen readers, and what it shows.
    box : (left, bottom, width, height)
        The part of the plane that is shown.
    paths : sequence of (class of the style sheet, path)
    ticks : two sequences of (value, text)
        On the axis across and on the axis up.
    axes : (across, up)
        What is written along the axes.
    """

    name: str
    title: str
    description: str
    box: tuple[float, float, float, float]
    paths: Sequence[tuple[str, str]]
    ticks: tuple[Sequence[tuple[float, str]], Sequence[tuple[float, str]]]
    axes: tuple[str, str]

    @property
    def view_box(self) -> str:
        """The view box; the drawing is turned over, so that up is up."""
        return " ".join(f"{value:.4g}" for value in self.box)

    def places(self, axis: int) -> list[tuple[str, str]]:
        """Return where the ticks of an axis lie, in per cent of it, and their texts."""
        start, length = self.box[axis], self.box[axis + 2]
        shares = [((value - start) / length, text) for value, text in self.ticks[axis]]
        return [(f"{100 * (1 - s if axis else s):.1f}%", text) for s, text in shares]


@dataclass(frozen=True)
class Highlight:
    """A sentence on what stands out, with the row that shows it.

    Attributes
    ----------
    text : str
    links : mapping from names of rows to their addresses
        Names begin the sentence, each with a link.
    label : str
        The class to pick there.
    """

    text: str
    links: Mapping[str, str] = field(default_factory=dict)
    label: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes
    ----------
    name, title : str
    words : sequence of paragraphs
    explorer : Explorer or None
    plots : sequence of Plot
    tables : sequence of Table
        Those of more than a dozen rows can be filtered.
    verdict : str
        "good", "bad" or "", the tone of the first paragraph.
    headline : str
        Words in bold before the first paragraph.
    files : mapping from names to files
        What the page offers to download.
    """

    name: str
    title: str
    words: Sequence[str] = ()
    explorer: Explorer | None = None
    plots: Sequence[Plot] = ()
    tables: Sequence[Table] = ()
    verdict: str = ""
    headline: str = ""
    files: Mapping[str, File] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """Everything that a page shows.

    Attributes
    ----------
    title : str
    question, headline : str
        What was asked, and the answer in a sentence.
    facts : mapping from headings to paragraphs
        How sure the answer is, whether it was checked, how wrong it could be, and what to do next.
    findings : sequence of Highlight
        What stands out.
    tone : str
        Of what was checked: "good", "careful", "bad" or "".
    sections : sequence of Section
        For everybody.
    settings : sequence of pairs of name and value
    downloads : mapping from names to files
    created : datetime
    technical : sequence of Section
        For those who know the method, after the others.
    technical_words : sequence of paragraphs
        What was chosen automatically, and what else they should know.
    """

    title: str
    headline: str
    sections: Sequence[Section]
    settings: Sequence[tuple[str, str]]
    downloads: Mapping[str, File]
    created: datetime
    question: str = ""
    facts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    findings: Sequence[Highlight] = ()
    tone: str = ""
    technical: Sequence[Section] = ()
    technical_words: Sequence[str] = ()


@dataclass(frozen=True)
class File:
    """A file that the page offers to download.

    Attributes
    ----------
    text : str
    kind : str
        Its media type.
    source : str
        What has the same numbers, if the page may leave the file out for want of room.
    """

    text: str
    kind: str
    source: str = ""

    @cached_property
    def is_packed(self) -> bool:
        """Whether the page holds the file compressed, which its script undoes."""
        return len(self.text) > _PLAIN

    @cached_property
    def address(self) -> str:
        """The file as a data address."""
        data, kind = self.text.encode("utf-8", "replace"), self.kind
        if self.is_packed:
            # The same numbers are the same page: no time of writing.
            data, kind = gzip.compress(data, mtime=0), "application/gzip"
        return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


#: Characters up to which a file is kept as it is, and those that a page may have with its files.
_PLAIN, MOST_CHARACTERS = 20_000, 2_000_000


def csv_file(
    columns: Sequence[str], records: Sequence[Sequence[Any]], source: str = "kdey estimate"
) -> File:
    """Return records as a CSV file (RFC 4180), with six digits."""
    short = ([_short(value) for value in record] for record in records)
    return File(csv_text(columns, short, line_end="\r\n"), "text/csv;charset=utf-8", source)


def _short(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def json_file(value: Any) -> File:
    """Return a value as a JSON file."""
    text = json.dumps(value, allow_nan=False, default=str, ensure_ascii=False)
    return File(text, "application/json")


def render_page(page: Page) -> str:
    """Return a page as HTML, without the largest files if it would be too large with them."""
    kept, left_out = dict(page.downloads), dict[str, File]()
    html = _rendered(page, kept, left_out)
    excess = len(html) - MOST_CHARACTERS
    elsewhere = [name for name, file in kept.items() if file.source]
    for name in sorted(elsewhere, key=lambda name: -len(kept[name].address)):
        if excess > 0:
            left_out[name] = kept.pop(name)
            excess -= len(left_out[name].address)
    return _rendered(page, kept, left_out) if left_out else html


def _rendered(page: Page, downloads: Mapping[str, File], left_out: Mapping[str, File]) -> str:
    script, style = _text("script.js"), _style()
    html: str = _template().render(
        page=page,
        downloads=downloads,
        left_out=left_out,
        style=style,
        style_hash=_digest(style),
        script=script,
        script_hash=_digest(script),
        interval_name=interval_name,
        shares=SHARES,
    )
    return html


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


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
    style = _text("page.css")
    themes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for theme in themes:
        colours = " ".join(f"--{name}: {tone};" for name, tone in page_colours(theme).items())
        style = style.replace(f"/* {theme} colours */", colours)
    return style


def _text(name: str) -> str:
    return files("kdey.report").joinpath("templates", name).read_text(encoding="utf-8")
