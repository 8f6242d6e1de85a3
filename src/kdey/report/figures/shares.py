"""The share of each class with its interval, one line per class."""

from __future__ import annotations

from collections.abc import Sequence

from kdey.report.figures.marks import Legend, draw_marks
from kdey.report.groups import ClassRow
from kdey.report.svg import (
    MOST_NARROW,
    WIDE,
    Drawing,
    draw_across,
    share_axis,
    shortened,
    text_width,
)
from kdey.report.vocabulary import percent

_LINE, _BOTTOM = 26.0, 30.0
#: Height of a class with its name above its line, and room for numbers at the right.
_TALL_LINE, _NUMBERS = 46.0, 62.0


def prevalence_figure(
    rows: Sequence[ClassRow],
    confidence: float | None,
    name: str = "prevalence",
    width: float = WIDE,
) -> Drawing:
    """Return one line per class, in the order of the rows.

    Parameters
    ----------
    rows : sequence of ClassRow
    confidence : float or None
    name : str
    width : float
        A narrow drawing has the names above the lines.
    """
    narrow = width <= MOST_NARROW
    names = [shortened(row.name) for row in rows]
    left = 10.0 if narrow else max(map(text_width, names)) + 14
    right = width - (20.0 if narrow else _NUMBERS)
    legend = Legend.of_shares(rows, confidence, left, width)
    line, top = _TALL_LINE if narrow else _LINE, legend.height + 6
    height = top + line * len(rows) + _BOTTOM
    drawing = Drawing(
        name, width, height, "Share of each class", _describe_shares(rows, confidence)
    )
    drawing.with_tips = not narrow
    largest = max((value for row in rows for value in row.values), default=1.0)
    axis = share_axis(largest, left, right)
    draw_across(drawing, axis, top, height - _BOTTOM)
    for number, row in enumerate(rows):
        y = top + line * (number + (0.68 if narrow else 0.5))
        if narrow:
            _write_above(drawing, row, left, y - 17, width)
        else:
            drawing.words(left - 10, y + 4, names[number], "label", "end")
            drawing.words(width, y + 4, percent(row.estimate), "number", "end")
        draw_marks(drawing, axis, y, row)
    legend.draw(drawing)
    return drawing


def _write_above(drawing: Drawing, row: ClassRow, left: float, y: float, width: float) -> None:
    """Write the name of a class and its numbers above its line."""
    numbers = percent(row.estimate)
    if row.low is not None:
        numbers = f"{numbers} ({percent(row.low)} to {percent(row.high)})"
    room = width - left - text_width(numbers, 11) - 10
    drawing.words(left, y, shortened(row.name, room), "heading")
    drawing.words(width - 4, y, numbers, "number", "end")


def _describe_shares(rows: Sequence[ClassRow], confidence: float | None) -> str:
    shown = [
        f"{row.name} {percent(row.estimate)}, {percent(row.low)} to {percent(row.high)}"
        for row in rows[:5]
    ]
    more = f"; and {len(rows) - 5} more classes" if len(rows) > 5 else ""
    level = "" if confidence is None else f"{100 * confidence:g} % "
    return f"Estimates with {level}intervals: {'; '.join(shown)}{more}."
