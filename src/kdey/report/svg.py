"""Small drawings as SVG text, with linear axes.

Every text in a drawing is escaped. Colours come from CSS classes, not from attributes, so that one
drawing serves the light page, the dark one and paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape
from unicodedata import east_asian_width

from kdey.report.vocabulary import tick_label

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
    """

    name: str
    width: float
    height: float
    title: str
    description: str
    parts: list[str] = field(default_factory=list)
    with_tips: bool = True

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
