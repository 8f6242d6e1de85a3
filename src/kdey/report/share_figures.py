"""Figures of shares: of classes, and of groups beside each other.

Shapes tell the marks apart, not colours alone: the estimate is a dot on a bar, the uncorrected
count a diamond, the share in training an upright line and known labels a cross.

Few classes have a panel each, with a line per group. Many classes in few groups turn this round: a
panel per group, with a line per class. Many classes in many groups are shaded cells. More groups
than can be named are thin lines, sorted by their share, so that a panel shows how they spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.report.shown_groups import ClassRow, Group, GroupTable
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

#: Height of a line of a legend, and the size of its text.
_LEGEND_LINE, _LEGEND_SIZE = 20.0, 11.0


@dataclass(frozen=True)
class Legend:
    """What the marks of a figure mean, in as many lines as its width needs.

    Attributes
    ----------
    items : tuple of (kind of mark, meaning)
    left, right : float
        Where the lines begin and end.
    """

    items: tuple[tuple[str, str], ...]
    left: float
    right: float

    @classmethod
    def of_shares(
        cls, rows: Sequence[ClassRow], confidence: float | None, left: float, right: float
    ) -> Legend:
        """Return the legend of the marks that occur in some rows."""
        present = [k for k in SHARES if any(getattr(row, k) is not None for row in rows)]
        meanings = {**SHARES, "estimate": f"estimate with {interval_name(confidence)}"}
        return cls(tuple((kind, meanings[kind]) for kind in present), left, right)

    @property
    def height(self) -> float:
        """The height of all lines."""
        return _LEGEND_LINE * (1 + max((line for line, _ in self._places()), default=-1))

    def _places(self) -> list[tuple[int, float]]:
        """Return the line and the place of each item."""
        places: list[tuple[int, float]] = []
        line, x = 0, self.left
        for _, meaning in self.items:
            wide = 48 + text_width(meaning, _LEGEND_SIZE)
            if x > self.left and x + wide - 16 > self.right:
                line, x = line + 1, self.left
            places.append((line, x))
            x += wide
        return places

    def draw(self, drawing: Drawing, top: float = 0.0) -> None:
        """Draw all lines below a height."""
        for (kind, meaning), (line, x) in zip(self.items, self._places(), strict=True):
            y = top + _LEGEND_LINE * (line + 0.5)
            _draw_sample(drawing, kind, x, y)
            drawing.words(x + 28, y + 4, meaning, "tick")


def _draw_sample(drawing: Drawing, kind: str, x: float, y: float) -> None:
    """Draw an example of a mark, 22 wide."""
    if kind == "interval-thin":
        drawing.line(x, y, x + 22, y, kind)
        drawing.add("circle", cx=x + 11, cy=y, r=2.6, class_="point s0")
    elif kind == "band":
        drawing.add("rect", x=x, y=y - 6, width=22.0, height=12.0, class_="band")
        drawing.line(x, y, x + 22, y, "curve")
    elif kind in ("training-line", "others", "bound-line", "alarm-line"):
        drawing.line(x, y, x + 22, y, kind)
    else:
        if kind == "estimate":
            drawing.line(x, y, x + 22, y, "interval")
        draw_mark(drawing, kind, x + 11, y)


def draw_marks(drawing: Drawing, axis: Axis, y: float, row: ClassRow) -> None:
    """Draw all that is known of one class on a line."""
    for kind in ("training", "interval", "naive", "estimate", "truth"):
        if kind == "interval":
            if row.low is not None and row.high is not None:
                tip = f"{row.name}: {percent(row.low)} to {percent(row.high)}"
                drawing.line(axis.at(row.low), y, axis.at(row.high), y, "interval", tip)
            continue
        share: float | None = getattr(row, kind)
        if share is not None:
            tip = f"{row.name}, {SHARES[kind]}: {percent(share)}"
            draw_mark(drawing, kind, axis.at(share), y, tip)


def draw_mark(drawing: Drawing, kind: str, x: float, y: float, tip: str | None = None) -> None:
    """Draw the mark of a share: "estimate", "naive", "training" or "truth"."""
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


_CLASS_LINE, _AXIS = 26.0, 30.0
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
    line, top = _TALL_LINE if narrow else _CLASS_LINE, legend.height + 6
    height = top + line * len(rows) + _AXIS
    drawing = Drawing(
        name, width, height, "Share of each class", _describe_shares(rows, confidence)
    )
    drawing.with_tips = not narrow
    largest = max((value for row in rows for value in row.values), default=1.0)
    axis = share_axis(largest, left, right)
    draw_across(drawing, axis, top, height - _AXIS)
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
