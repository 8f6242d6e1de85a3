"""Groups beside each other: panels with a line for each group or class, cells, or thin lines.

Few classes have a panel each, with a line per group. Many classes in few groups turn this round: a
panel per group, with a line per class. Many classes in many groups are shaded cells. More groups
than can be named are thin lines, sorted by their share, so that a panel shows how they spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kdey.report.figures.cells import heat_figure
from kdey.report.figures.marks import Legend, draw_marks
from kdey.report.groups import ClassRow, Group, GroupTable
from kdey.report.svg import (
    MOST_NARROW,
    WIDE,
    Axis,
    Drawing,
    draw_across,
    share_axis,
    shortened,
    text_width,
)
from kdey.report.vocabulary import SHARES, interval_name, percent

#: More classes than this have no panel each.
MOST_PANELS = 6
#: More groups than this have no line with a name each; more than that no panel each.
MOST_NAMED_GROUPS, MOST_GROUP_PANELS = 40, 12
#: Thin lines in a panel; of more groups, evenly many are left out.
MOST_THIN_LINES = 400
_TITLE = "Shares by group"
_LEAST_PANEL, _GAP, _LINE, _TOP, _BOTTOM = 160.0, 46.0, 22.0, 26.0, 30.0
#: Room at the right of the last panel for its last tick.
_MARGIN = 18.0
#: Height of a panel of thin lines, at most, and of one line.
_THIN_PANEL, _MOST_THIN = 420.0, 6.0


@dataclass(frozen=True)
class _Panel:
    """A panel: its title, and what is known on each of its lines."""

    title: str
    rows: Sequence[ClassRow | None]

    @property
    def largest(self) -> float:
        """The largest share in it."""
        return max((v for row in self.rows if row is not None for v in row.values), default=1.0)


@dataclass(frozen=True)
class _Grid:
    """Where panels stand: as many beside each other as the width allows.

    Attributes
    ----------
    n_panels : int
    left : float
        Room for the labels of lines.
    width : float
        Of the drawing.
    most : int
        Panels beside each other, at most.
    """

    n_panels: int
    left: float
    width: float
    most: int = 3

    @property
    def columns(self) -> int:
        """Panels beside each other."""
        fitting = int((self.width - self.left - _MARGIN + _GAP) // (_LEAST_PANEL + _GAP))
        return max(1, min(self.most, self.n_panels, fitting))

    @property
    def lines(self) -> int:
        """Panels below each other."""
        return -(-self.n_panels // self.columns)

    @property
    def panel(self) -> float:
        """The width of a panel."""
        gaps = (self.columns - 1) * _GAP
        return (self.width - self.left - _MARGIN - gaps) / self.columns

    def place(self, number: int) -> tuple[int, int, float]:
        """Return line, column and left edge of a panel."""
        line, column = divmod(number, self.columns)
        return line, column, self.left + column * (self.panel + _GAP)


def groups_figure(table: GroupTable, name: str = "groups", width: float = WIDE) -> Drawing:
    """Return the figure of groups that suits their number and that of the classes."""
    n_groups, n_classes = len(table.groups), len(table.classes)
    if n_groups > MOST_NAMED_GROUPS:
        return _thin_lines(table, name, width)
    if n_classes <= MOST_PANELS:
        panels = [
            _Panel(label, [group.by_class.get(label) for group in table.groups])
            for label in table.classes
        ]
        labels = [table.label(group) for group in table.groups]
        return _panels(table, panels, labels, name, width, shared=False)
    if n_groups <= MOST_GROUP_PANELS:
        panels = [
            _Panel(table.label(g), [g.by_class.get(label) for label in table.classes])
            for g in table.groups
        ]
        return _panels(table, panels, table.classes, name, width, shared=True)
    return _cells(table, name, width)


def _panels(
    table: GroupTable,
    panels: Sequence[_Panel],
    labels: Sequence[str],
    name: str,
    width: float,
    shared: bool,
) -> Drawing:
    """Return panels with a labelled line for each row; ``shared``: on one scale."""
    short = [shortened(label, 110 if width <= MOST_NARROW else 200) for label in labels]
    left = max(map(text_width, short)) + 14
    grid = _Grid(len(panels), left, width)
    rows = [row for panel in panels for row in panel.rows if row is not None]
    legend = Legend.of_shares(rows, table.confidence, 4.0, width)
    tall = _TOP + _LINE * len(labels) + _BOTTOM
    height = legend.height + 8 + grid.lines * tall
    drawing = Drawing(name, width, height, _TITLE, _describe_groups(table))
    drawing.with_tips = width > MOST_NARROW
    largest = max(panel.largest for panel in panels)
    for number, panel in enumerate(panels):
        line, column, x = grid.place(number)
        top = legend.height + 8 + line * tall + _TOP
        axis = share_axis(largest if shared else panel.largest, x, x + grid.panel)
        drawing.words(x, top - 8, shortened(panel.title, grid.panel), "heading")
        draw_across(drawing, axis, top, top + _LINE * len(labels), about=4)
        for place, row in enumerate(panel.rows):
            y = top + _LINE * (place + 0.5)
            if column == 0:
                drawing.words(left - 10, y + 4, short[place], "tick", "end")
            if row is not None:
                draw_marks(drawing, axis, y, row)
    legend.draw(drawing)
    return drawing


def _thin_lines(table: GroupTable, name: str, width: float) -> Drawing:
    """Return a panel for each of the first classes, with a thin line for each group."""
    labels = table.classes[:MOST_PANELS]
    grid = _Grid(len(labels), 14.0, width)
    items = (
        ("interval-thin", f"a group: estimate with {interval_name(table.confidence)}"),
        ("training-line", SHARES["training"]),
    )
    trained = any(row.training is not None for group in table.groups for row in group.rows)
    legend = Legend(items if trained else items[:1], 4.0, width)
    n_lines = min(len(table.groups), MOST_THIN_LINES)
    line_height = min(_MOST_THIN, _THIN_PANEL / n_lines)
    tall = _TOP + line_height * n_lines + _BOTTOM
    height = legend.height + 8 + grid.lines * tall
    drawing = Drawing(name, width, height, _TITLE, _describe_groups(table))
    drawing.with_tips = width > MOST_NARROW
    for number, label in enumerate(labels):
        line, _, x = grid.place(number)
        top = legend.height + 8 + line * tall + _TOP
        drawing.words(x, top - 8, shortened(label, grid.panel), "heading")
        _draw_thin_panel(drawing, table, label, (x, x + grid.panel), top, line_height)
    legend.draw(drawing)
    return drawing


def _draw_thin_panel(
    drawing: Drawing,
    table: GroupTable,
    label: str,
    sides: tuple[float, float],
    top: float,
    line_height: float,
) -> None:
    known = [(group, group.by_class[label]) for group in table.groups if label in group.by_class]
    known = sorted(known, key=lambda pair: -(pair[1].estimate or 0.0))
    evenly = np.linspace(0, len(known) - 1, min(len(known), MOST_THIN_LINES)).round().astype(int)
    drawn: list[tuple[Group, ClassRow]] = [known[place] for place in evenly]
    axis = share_axis(_Panel(label, [row for _, row in drawn]).largest, *sides)
    bottom = top + line_height * len(drawn)
    draw_across(drawing, axis, top, bottom, about=4)
    for place, (group, row) in enumerate(drawn):
        y = top + line_height * (place + 0.5)
        tip = f"{table.label(group)}: {percent(row.estimate)}"
        if row.low is not None and row.high is not None:
            drawing.line(axis.at(row.low), y, axis.at(row.high), y, "interval-thin", tip)
        if row.estimate is not None:
            r = min(2.6, max(line_height / 2, 1.1))
            drawing.add("circle", tip=tip, cx=axis.at(row.estimate), cy=y, r=r, class_="point s0")
    _draw_training(drawing, axis, drawn[0][1], top, bottom)


def _draw_training(drawing: Drawing, axis: Axis, row: ClassRow, top: float, bottom: float) -> None:
    if row.training is not None:
        x = axis.at(row.training)
        tip = f"{SHARES['training']}: {percent(row.training)}"
        drawing.line(x, top, x, bottom, "training-line", tip)


def _cells(table: GroupTable, name: str, width: float) -> Drawing:
    shares = np.array(
        [[_estimate(g.by_class.get(label)) for label in table.classes] for g in table.groups]
    )
    return heat_figure(
        shares,
        [table.label(group) for group in table.groups],
        table.classes,
        name=name,
        title=_TITLE,
        description=_describe_groups(table),
        darkest=max(float(np.nanmax(shares, initial=0.0)), 0.01),
        width=width,
    )


def _estimate(row: ClassRow | None) -> float:
    return float("nan") if row is None or row.estimate is None else row.estimate


def _describe_groups(table: GroupTable) -> str:
    first = table.groups[0]
    parts = "; ".join(f"{row.name} {percent(row.estimate)}" for row in first.rows[:5])
    return (
        f"Estimates of {len(table.classes)} classes in {len(table.groups)} groups; the first, "
        f"{table.label(first)}: {parts}. The table has all numbers."
    )
