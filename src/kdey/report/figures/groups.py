"""Prevalence by group: a panel of intervals for each class, or shaded cells for many classes."""

from __future__ import annotations

import numpy as np

from kdey.report.axes import draw_across, percent, share_axis
from kdey.report.figures.heat import heat_figure
from kdey.report.figures.prevalence import draw_legend, draw_marks
from kdey.report.groups import GroupTable
from kdey.report.svg import Drawing, shortened, text_width

#: More classes than this are drawn as cells.
MOST_PANELS = 6
#: More groups than this are left to the table.
MOST_GROUPS = 40
_PANEL, _GAP, _LINE, _TOP, _BOTTOM = 215.0, 40.0, 22.0, 54.0, 26.0


def groups_figure(table: GroupTable, name: str = "groups") -> Drawing:
    """Return the figure of at most :data:`MOST_GROUPS` groups, in the order of the table."""
    if len(table.classes) > MOST_PANELS:
        return _cells(table, name)
    groups = table.groups[:MOST_GROUPS]
    labels = [shortened(table.label(group), 200) for group in groups]
    left = max(text_width(label) for label in labels) + 12
    columns = 3 if len(table.classes) > 2 else len(table.classes)
    lines = -(-len(table.classes) // columns)
    tall = _TOP + _LINE * len(groups) + _BOTTOM
    width = left + columns * (_PANEL + _GAP)
    drawing = Drawing(name, width, lines * tall, "Prevalence by group", _told(table))
    for number, label in enumerate(table.classes):
        line, column = divmod(number, columns)
        x, top = left + column * (_PANEL + _GAP), line * tall + _TOP
        _panel(drawing, table, label, x, top)
        if column == 0:
            for place, text in enumerate(labels):
                drawing.words(left - 10, top + _LINE * (place + 0.5) + 4, text, "tick", "end")
    draw_legend(drawing, [row for group in groups for row in group.rows], left)
    return drawing


def _panel(drawing: Drawing, table: GroupTable, label: str, left: float, top: float) -> None:
    groups = table.groups[:MOST_GROUPS]
    found = [group.by_class.get(label) for group in groups]
    largest = max((v for row in found if row is not None for v in row.values), default=1.0)
    axis = share_axis(largest, left, left + _PANEL)
    bottom = top + _LINE * len(groups)
    drawing.words(left, top - 10, shortened(label, _PANEL), "heading")
    draw_across(drawing, axis, top, bottom, about=3)
    for place, row in enumerate(found):
        if row is not None:
            draw_marks(drawing, axis, top + _LINE * (place + 0.5), row)


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
        told=_told(table),
        darkest=max(float(np.nanmax(shares, initial=0.0)), 0.01),
    )


def _estimate(row: object) -> float:
    value = getattr(row, "estimate", None)
    return float("nan") if value is None else float(value)


def _told(table: GroupTable) -> str:
    shown = min(len(table.groups), MOST_GROUPS)
    first = table.groups[0]
    parts = "; ".join(f"{row.name} {percent(row.estimate)}" for row in first.rows[:5])
    return (
        f"Estimates of {len(table.classes)} classes in {shown} of {len(table.groups)} groups; the "
        f"first, {table.label(first)}: {parts}. All numbers stand in the table."
    )
