"""Prevalence per class: interval and estimate against the naive count and the training share."""

from __future__ import annotations

from collections.abc import Sequence

from kdey.report.axes import Axis, draw_across, percent, share_axis
from kdey.report.rows import ClassRow, by_size
from kdey.report.svg import Drawing, shortened, text_width

_WIDTH, _LINE, _TOP, _BOTTOM = 760.0, 26.0, 34.0, 30.0
#: What a mark means, in the order of the legend.
MARKS = (
    ("estimate", "estimate with interval"),
    ("naive", "naive count"),
    ("training", "training"),
    ("truth", "labels"),
)


def prevalence_figure(
    rows: Sequence[ClassRow], confidence: float, name: str = "prevalence"
) -> Drawing:
    """Return one line per class, the most frequent on top."""
    ordered = by_size(rows)
    left = max(text_width(shortened(row.name)) for row in ordered) + 14
    height = _TOP + _LINE * len(ordered) + _BOTTOM
    drawing = Drawing(name, _WIDTH, height, "Prevalence of each class", _told(ordered, confidence))
    largest = max((value for row in ordered for value in row.values), default=1.0)
    axis = share_axis(largest, left, _WIDTH - 24)
    draw_across(drawing, axis, _TOP, height - _BOTTOM)
    for number, row in enumerate(ordered):
        y = _TOP + _LINE * (number + 0.5)
        drawing.words(left - 10, y + 4, shortened(row.name), "label", "end")
        draw_marks(drawing, axis, y, row)
    draw_legend(drawing, ordered, left)
    return drawing


def draw_marks(drawing: Drawing, axis: Axis, y: float, row: ClassRow) -> None:
    """Draw what is known of one class on a line; shapes tell the marks apart, not colours alone."""
    if row.training is not None:
        _mark(drawing, "training", axis.at(row.training), y, f"training {percent(row.training)}")
    if row.low is not None and row.high is not None:
        tip = f"{row.name}: {percent(row.low)} to {percent(row.high)}"
        drawing.line(axis.at(row.low), y, axis.at(row.high), y, "interval", tip)
    if row.naive is not None:
        _mark(drawing, "naive", axis.at(row.naive), y, f"naive count {percent(row.naive)}")
    if row.estimate is not None:
        _mark(drawing, "estimate", axis.at(row.estimate), y, f"{row.name}: {percent(row.estimate)}")
    if row.truth is not None:
        _mark(drawing, "truth", axis.at(row.truth), y, f"labels {percent(row.truth)}")


def _mark(drawing: Drawing, kind: str, x: float, y: float, tip: str | None = None) -> None:
    if kind == "estimate":
        drawing.add("circle", tip=tip, cx=x, cy=y, r=5, class_="estimate")
    elif kind == "naive":
        path = f"M{x:.1f} {y - 6:.1f}l5 6l-5 6l-5 -6z"
        drawing.add("path", tip=tip, d=path, class_="naive")
    elif kind == "training":
        drawing.line(x, y - 9, x, y + 9, "training", tip)
    else:
        path = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
        drawing.add("path", tip=tip, d=path, class_="truth")


def draw_legend(drawing: Drawing, rows: Sequence[ClassRow], left: float, y: float = 14.0) -> None:
    """Draw what the marks mean, those that occur."""
    x = left
    for kind, meaning in MARKS:
        if all(getattr(row, kind) is None for row in rows):
            continue
        if kind == "estimate":
            drawing.line(x, y, x + 22, y, "interval")
        _mark(drawing, kind, x + 11, y)
        drawing.words(x + 28, y + 4, meaning, "tick")
        x += 52 + text_width(meaning, 11)


def _told(rows: Sequence[ClassRow], confidence: float) -> str:
    shown = [
        f"{row.name} {percent(row.estimate)}, {percent(row.low)} to {percent(row.high)}"
        for row in rows[:5]
    ]
    more = f"; and {len(rows) - 5} more classes" if len(rows) > 5 else ""
    return f"Estimates with {100 * confidence:g} % intervals: {'; '.join(shown)}{more}."
