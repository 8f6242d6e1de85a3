"""What a page consists of: sections with figures and tables, and files to download."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kdey.report.svg import NARROW, WIDE, Drawing
from kdey.tables.output import Table, csv_text


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
    """

    name: str
    title: str
    words: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    filtered: bool = False
    verdict: str = ""
    headline: str = ""


@dataclass(frozen=True)
class Download:
    """A file that the page carries.

    Attributes
    ----------
    name : str
    kind : str
        Media type.
    data : bytes
    """

    name: str
    kind: str
    data: bytes

    @property
    def address(self) -> str:
        """The file as a data address."""
        return f"data:{self.kind};base64,{base64.b64encode(self.data).decode('ascii')}"


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
    downloads : sequence of Download
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
    downloads: Sequence[Download]
    created: datetime
    verdict: tuple[str, str, str] | None = None
    question: str = ""
    technical: Sequence[Section] = ()
    technical_words: Sequence[str] = ()

    @property
    def figures(self) -> list[Figure]:
        """All figures, in their order on the page."""
        return [figure for part in (*self.sections, *self.technical) for figure in part.figures]


def csv_file(name: str, columns: Sequence[str], records: Sequence[Sequence[Any]]) -> Download:
    """Return records as CSV (RFC 4180)."""
    text = csv_text(columns, records, line_end="\r\n")
    return Download(name, "text/csv;charset=utf-8", text.encode("utf-8", "replace"))


def json_file(name: str, value: Any) -> Download:
    """Return a value as JSON."""
    text = json.dumps(value, allow_nan=False, default=str, ensure_ascii=False)
    return Download(name, "application/json", text.encode("utf-8", "replace"))
