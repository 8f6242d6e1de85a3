"""Figures of shares: classes with their intervals, groups by class, and shaded cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.report.groups import ClassRow, GroupTable, by_size
from kdey.report.svg import Axis, Drawing, draw_across, share_axis, shortened, text_width
from kdey.report.vocabulary import SHARES, percent

#: More classes than this are drawn as cells.
MOST_PANELS = 6
#: More groups than this are left to the table.
MOST_GROUPS = 40
_PANEL, _GAP, _GROUP_LINE, _GROUPS_TOP, _GROUPS_BOTTOM = 215.0, 40.0, 22.0, 54.0, 26.0
#: Shading of a share of one: text on it must stay readable.
DARKEST = 0.5
#: More columns than this have no numbers in their cells.
_MOST_NUMBERS = 12
_WIDTH, _LINE, _TOP, _BOTTOM = 760.0, 26.0, 34.0, 30.0


def prevalence_figure(
    rows: Sequence[ClassRow],
    confidence: float,
    name: str = "prevalence",
    *,
    keep_order: bool = False,
) -> Drawing:
    """Return one line per class, the most frequent on top unless the order is to be kept."""
    ordered = list(rows) if keep_order else by_size(rows)
    left = max(text_width(shortened(row.name)) for row in ordered) + 14
    height = _TOP + _LINE * len(ordered) + _BOTTOM
    drawing = Drawing(
        name, _WIDTH, height, "Prevalence of each class", _describe_shares(ordered, confidence)
    )
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
        _mark(
            drawing,
            "training",
            axis.at(row.training),
            y,
            f"{SHARES['training']} {percent(row.training)}",
        )
    if row.low is not None and row.high is not None:
        tip = f"{row.name}: {percent(row.low)} to {percent(row.high)}"
        drawing.line(axis.at(row.low), y, axis.at(row.high), y, "interval", tip)
    if row.naive is not None:
        _mark(drawing, "naive", axis.at(row.naive), y, f"{SHARES['naive']} {percent(row.naive)}")
    if row.estimate is not None:
        _mark(drawing, "estimate", axis.at(row.estimate), y, f"{row.name}: {percent(row.estimate)}")
    if row.truth is not None:
        _mark(drawing, "truth", axis.at(row.truth), y, f"{SHARES['truth']} {percent(row.truth)}")


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
    for kind, name in SHARES.items():
        if all(getattr(row, kind) is None for row in rows):
            continue
        if kind == "estimate":
            drawing.line(x, y, x + 22, y, "interval")
        _mark(drawing, kind, x + 11, y)
        meaning = f"{name} with interval" if kind == "estimate" else name
        drawing.words(x + 28, y + 4, meaning, "tick")
        x += 52 + text_width(meaning, 11)


def _describe_shares(rows: Sequence[ClassRow], confidence: float) -> str:
    shown = [
        f"{row.name} {percent(row.estimate)}, {percent(row.low)} to {percent(row.high)}"
        for row in rows[:5]
    ]
    more = f"; and {len(rows) - 5} more classes" if len(rows) > 5 else ""
    return f"Estimates with {100 * confidence:g} % intervals: {'; '.join(shown)}{more}."


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
) -> Drawing:
    """Return cells shaded by their share; NaN cells stay empty.

    Parameters
    ----------
    shares : array of shape (n_rows, n_columns), in [0, 1]
    rows, columns : labels
    axes : what rows and columns are, in words
    darkest : float
        The share with the darkest shade.
    """
    numbers = len(columns) <= _MOST_NUMBERS
    wide, tall = (54.0, 26.0) if numbers else (max(13.0, 560.0 / len(columns)), 18.0)
    short_rows = [shortened(label, 140) for label in rows]
    short_columns = [shortened(label, 110) for label in columns]
    left = max(text_width(label) for label in short_rows) + (34 if axes[0] else 16)
    # Labels of columns are slanted: their height follows from their length.
    top = 0.72 * max(text_width(label) for label in short_columns) + (34 if axes[1] else 18)
    width = left + wide * len(columns) + top
    drawing = Drawing(name, width, top + tall * len(rows) + 6, title, description)
    for j, label in enumerate(short_columns):
        place = f"translate({left + wide * (j + 0.5):.1f} {top - 6:.1f}) rotate(-45)"
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
            _cell(drawing, box, share / darkest, tip, f"{100 * share:.1f}" if numbers else "")
    _name_axes(drawing, axes, left, top, tall * len(rows))
    return drawing


def _cell(drawing: Drawing, box: dict[str, Any], depth: float, tip: str, text: str) -> None:
    """Draw a cell of a shade between none (0) and darkest (1)."""
    shade = round(DARKEST * min(max(depth, 0.0), 1.0), 3)
    drawing.add("rect", tip=tip, **box, class_="cell")
    if shade > 0.004:
        drawing.add("rect", tip=tip, **box, class_="heat", fill_opacity=f"{shade:g}")
    if text not in ("", "0.0"):
        middle, base = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 + 4
        drawing.words(middle, base, text, "number", "middle")


def _name_axes(
    drawing: Drawing, axes: tuple[str, str], left: float, top: float, tall: float
) -> None:
    if axes[1]:
        drawing.words(left, 12, axes[1], "tick")
    if axes[0]:
        drawing.add(
            "text",
            axes[0],
            transform=f"translate(12 {top + tall / 2:.0f}) rotate(-90)",
            class_="tick",
            text_anchor="middle",
        )


def groups_figure(table: GroupTable, name: str = "groups") -> Drawing:
    """Return the figure of at most :data:`MOST_GROUPS` groups, in the order of the table."""
    if len(table.classes) > MOST_PANELS:
        return _cells(table, name)
    groups = table.groups[:MOST_GROUPS]
    labels = [shortened(table.label(group), 200) for group in groups]
    left = max(text_width(label) for label in labels) + 12
    columns = 3 if len(table.classes) > 2 else len(table.classes)
    lines = -(-len(table.classes) // columns)
    tall = _GROUPS_TOP + _GROUP_LINE * len(groups) + _GROUPS_BOTTOM
    width = left + columns * (_PANEL + _GAP)
    drawing = Drawing(name, width, lines * tall, "Prevalence by group", _describe_groups(table))
    for number, label in enumerate(table.classes):
        line, column = divmod(number, columns)
        x, top = left + column * (_PANEL + _GAP), line * tall + _GROUPS_TOP
        _panel(drawing, table, label, x, top)
        if column == 0:
            for place, text in enumerate(labels):
                drawing.words(left - 10, top + _GROUP_LINE * (place + 0.5) + 4, text, "tick", "end")
    draw_legend(drawing, [row for group in groups for row in group.rows], left)
    return drawing


def _panel(drawing: Drawing, table: GroupTable, label: str, left: float, top: float) -> None:
    groups = table.groups[:MOST_GROUPS]
    rows = [group.by_class.get(label) for group in groups]
    largest = max((v for row in rows if row is not None for v in row.values), default=1.0)
    axis = share_axis(largest, left, left + _PANEL)
    bottom = top + _GROUP_LINE * len(groups)
    drawing.words(left, top - 10, shortened(label, _PANEL), "heading")
    draw_across(drawing, axis, top, bottom, about=3)
    for place, row in enumerate(rows):
        if row is not None:
            draw_marks(drawing, axis, top + _GROUP_LINE * (place + 0.5), row)


def _cells(table: GroupTable, name: str) -> Drawing:
    groups = table.groups[:MOST_GROUPS]
    shares = np.array(
        [[_estimate(group.by_class.get(label)) for label in table.classes] for group in groups]
    )
    return heat_figure(
        shares,
        [table.label(group) for group in groups],
        table.classes,
        name=name,
        title="Prevalence by group and class",
        description=_describe_groups(table),
        darkest=max(float(np.nanmax(shares, initial=0.0)), 0.01),
    )


def _estimate(row: ClassRow | None) -> float:
    return float("nan") if row is None or row.estimate is None else row.estimate


def _describe_groups(table: GroupTable) -> str:
    shown = min(len(table.groups), MOST_GROUPS)
    first = table.groups[0]
    parts = "; ".join(f"{row.name} {percent(row.estimate)}" for row in first.rows[:5])
    return (
        f"Estimates of {len(table.classes)} classes in {shown} of {len(table.groups)} groups; the "
        f"first, {table.label(first)}: {parts}. The table has all numbers."
    )
