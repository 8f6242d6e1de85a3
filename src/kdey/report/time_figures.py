"""Shares over time: a panel for each class, or, for several series, one for each of them.

Bands of several series in one panel would hide each other. So each series has a panel of its own,
in which the others are thin grey lines to compare with, all on one scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kdey.report.calendar import Calendar, position
from kdey.report.share_figures import Legend
from kdey.report.shown_groups import ClassRow, Group, GroupTable
from kdey.report.svg import (
    MOST_NARROW,
    WIDE,
    Axis,
    Drawing,
    draw_up,
    share_axis,
    shortened,
    text_width,
)
from kdey.report.vocabulary import SHARES, interval_name, percent

#: Classes, series and panels drawn; the tables have the others.
MOST_CLASSES, MOST_SERIES, _MOST_PANELS = 9, 12, 24
#: Longer lines have no points on them.
_MOST_POINTS = 120
_TALL, _LEFT, _TOP, _BOTTOM, _GAP = 120.0, 48.0, 26.0, 32.0, 22.0
#: Height of the heading of a class above the panels of its series.
_HEADING = 26.0
#: Least width of a panel of a class, and of a series.
_CLASS_PANEL, _SERIES_PANEL = 250.0, 128.0


@dataclass(frozen=True)
class TimeMarks:
    """What is marked in the panel of a class.

    Attributes
    ----------
    moments : tuple of (moment, tip)
        Vertical lines.
    levels : tuple of (share, tip)
        Horizontal lines.
    """

    moments: tuple[tuple[Any, str], ...] = ()
    levels: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class _Layout:
    """Where panels stand.

    Attributes
    ----------
    width : float
        Of the drawing.
    columns : int
        Panels beside each other.
    shared : bool
        Whether all panels have one scale, which stands at the left of each line of panels.
    """

    width: float
    columns: int
    shared: bool

    @classmethod
    def of_classes(cls, width: float, n_panels: int) -> _Layout:
        """Return the layout of a panel for each class, each with its own scale."""
        fitting = int(width // (_CLASS_PANEL + _LEFT + _GAP))
        return cls(width, max(1, min(2, n_panels, fitting)), False)

    @classmethod
    def of_series(cls, width: float, n_panels: int) -> _Layout:
        """Return the layout of a panel for each series."""
        fitting = int((width - _LEFT) // (_SERIES_PANEL + _GAP))
        return cls(width, max(1, min(4, n_panels, fitting)), True)

    @property
    def panel(self) -> float:
        """The width of a panel."""
        scales = _LEFT if self.shared else _LEFT * self.columns
        return (self.width - scales) / self.columns - _GAP

    @property
    def tall(self) -> float:
        """The height of a panel with its title and its dates."""
        return _TOP + _TALL + _BOTTOM

    def height(self, n_panels: int) -> float:
        """Return the height of all panels."""
        return -(-n_panels // self.columns) * self.tall

    def place(self, number: int) -> tuple[float, float, bool]:
        """Return the left edge and the top of a panel, and whether its scale is at its left."""
        line, column = divmod(number, self.columns)
        scales = 1 if self.shared else column + 1
        x = scales * _LEFT + column * (self.panel + _GAP)
        return x, line * self.tall + _TOP, not self.shared or column == 0


def drawn_classes(table: GroupTable, marked: Mapping[str, TimeMarks] | None = None) -> list[str]:
    """Return the classes that are drawn: those with marks, then those with the largest shares."""
    first = {} if marked is None else marked
    n_series = min(len(table.series), MOST_SERIES)
    most = max(1, min(MOST_CLASSES, _MOST_PANELS // n_series))
    ordered = sorted(table.classes, key=lambda label: (label not in first, -_peak(table, label)))
    return sorted(ordered[:most], key=table.classes.index)


def drawn_series(table: GroupTable) -> dict[str, list[Group]]:
    """Return the series that are drawn: those with the most instances, in their order."""
    sizes = {label: sum(g.n for g in groups) for label, groups in table.series.items()}
    largest = sorted(sizes, key=lambda label: -sizes[label])[:MOST_SERIES]
    return {label: groups for label, groups in table.series.items() if label in largest}


def time_figure(
    table: GroupTable,
    name: str = "time",
    marks: Mapping[str, TimeMarks] | None = None,
    width: float = WIDE,
) -> Drawing:
    """Return the classes with the largest shares over time.

    Parameters
    ----------
    table : GroupTable
    name : str
    marks : mapping from classes to TimeMarks, optional
        Classes with marks are drawn before others.
    width : float
    """
    marked = {} if marks is None else marks
    classes, series = drawn_classes(table, marked), drawn_series(table)
    legend = _legend(table, len(series), width)
    top = legend.height + 6
    if len(series) > 1:
        layout = _Layout.of_series(width, len(series))
        part = _HEADING + layout.height(len(series))
        height = top + part * len(classes)
    else:
        layout = _Layout.of_classes(width, len(classes))
        height = top + layout.height(len(classes))
    description = _describe_series(table, classes)
    drawing = Drawing(name, width, height, "Shares over time", description)
    drawing.with_tips = width > MOST_NARROW
    legend.draw(drawing)
    for number, label in enumerate(classes):
        pencil = _Pencil(drawing, table, label, layout, marked.get(label, TimeMarks()))
        if len(series) > 1:
            start = top + part * number
            heading = f"“{shortened(label, width - 40, 14)}”"
            drawing.words(0, start + 16, heading, "class-heading")
            for place, (title, groups) in enumerate(series.items()):
                others = [run for key, run in series.items() if key != title]
                pencil.draw(place, title, groups, others, start + _HEADING)
        else:
            pencil.draw(number, label, next(iter(series.values())), [], top)
    return drawing


def _legend(table: GroupTable, n_series: int, width: float) -> Legend:
    items = [("band", f"estimate with {interval_name(table.confidence)}")]
    if n_series > 1:
        items.append(("others", "the other groups"))
    if any(row.training is not None for group in table.groups for row in group.rows):
        items.append(("training-line", SHARES["training"]))
    return Legend(tuple(items), 4.0, width)


@dataclass(frozen=True)
class _Pencil:
    """Draws the panels of one class, all on one scale.

    Attributes
    ----------
    drawing : Drawing
    table : GroupTable
    label : str
        The class.
    layout : _Layout
    marks : TimeMarks
    """

    drawing: Drawing
    table: GroupTable
    label: str
    layout: _Layout
    marks: TimeMarks

    def draw(
        self,
        number: int,
        title: str,
        groups: Sequence[Group],
        others: Sequence[Sequence[Group]],
        top: float,
    ) -> None:
        """Draw the panel of one series, with others behind it.

        Parameters
        ----------
        number : int
            Of the panel.
        title : str
        groups : groups of the series
        others : groups of the other series
        top : float
            Of the first line of panels.
        """
        x, down, has_scale = self.layout.place(number)
        above, below = top + down, top + down + _TALL
        drawing, right = self.drawing, x + self.layout.panel
        drawing.words(x, above - 8, shortened(title, self.layout.panel), "heading")
        largest = max([_peak(self.table, self.label), *(share for share, _ in self.marks.levels)])
        up = share_axis(largest, below, above)
        draw_up(drawing, up, x, right, about=4, labelled=has_scale)
        places = self._places(x + 4, right - 4)
        _write_dates(drawing, self.table.calendar, places, below, right + 2)
        for run in (run for other in others for run in _runs(self._known(other, places))):
            drawing.add("polyline", points=_middle(up, run), class_="others")
        known = self._known(groups, places)
        for run in _runs(known):
            _draw_run(drawing, up, run)
        for group, (place, row) in zip(groups, known, strict=True):
            if len(places) <= _MOST_POINTS and row is not None and row.estimate is not None:
                tip = f"{self.table.label(group)}: {percent(row.estimate)}"
                y = up.at(row.estimate)
                drawing.add("circle", tip=tip, cx=place, cy=y, r=2.6, class_="point s0")
        self._draw_lines(up, places, x, right)

    def _known(
        self, groups: Sequence[Group], places: Mapping[Any, float]
    ) -> list[tuple[float, ClassRow | None]]:
        return [
            (places[self.table.moment(group)], group.by_class.get(self.label)) for group in groups
        ]

    def _places(self, start: float, stop: float) -> dict[Any, float]:
        """Return the places of times: by their value where all have one, else one step each."""
        moments = list(dict.fromkeys(self.table.moment(group) for group in self.table.groups))
        values = [position(moment) for moment in moments]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            known = [float(number) for number in range(len(moments))]
        if len(known) == 1:
            return {moments[0]: (start + stop) / 2}
        axis = Axis(min(known), max(known), start, stop)
        return dict(zip(moments, map(axis.at, known), strict=True))

    def _draw_lines(self, up: Axis, places: Mapping[Any, float], left: float, right: float) -> None:
        """Draw the share in training, and the marks."""
        shares = [r.training for g in self.table.groups for r in g.rows if r.name == self.label]
        if shares and shares[0] is not None:
            tip = f"{SHARES['training']}: {percent(shares[0])}"
            self.drawing.line(left, up.at(shares[0]), right, up.at(shares[0]), "training-line", tip)
        for share, tip in self.marks.levels:
            self.drawing.line(left, up.at(share), right, up.at(share), "bound-line", tip)
        for moment, tip in self.marks.moments:
            x = places[moment]
            self.drawing.line(x, up.start, x, up.stop, "alarm-line", tip)


def _runs(known: list[tuple[float, ClassRow | None]]) -> list[list[tuple[float, ClassRow]]]:
    """Return stretches without a gap: a line never bridges what could not be estimated."""
    runs: list[list[tuple[float, ClassRow]]] = [[]]
    for x, row in known:
        if row is None or row.estimate is None:
            runs.append([])
        else:
            runs[-1].append((x, row))
    return [run for run in runs if run]


def _draw_run(drawing: Drawing, up: Axis, run: list[tuple[float, ClassRow]]) -> None:
    lower = [(x, up.at(row.low)) for x, row in run if row.low is not None]
    upper = [(x, up.at(row.high)) for x, row in run if row.high is not None]
    if len(run) == 1 and lower and upper:
        drawing.line(*lower[0], *upper[0], "whisker s0")
    elif lower and upper:
        drawing.add("polygon", points=_path([*lower, *reversed(upper)]), class_="band")
    drawing.add("polyline", points=_middle(up, run), class_="curve s0")


def _middle(up: Axis, run: Sequence[tuple[float, ClassRow]]) -> str:
    return _path([(x, up.at(row.estimate)) for x, row in run if row.estimate is not None])


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _write_dates(
    drawing: Drawing, calendar: Calendar, places: Mapping[Any, float], bottom: float, stop: float
) -> None:
    """Write every so many times under a panel that they fit before ``stop``."""
    for place in places.values():
        drawing.line(place, bottom, place, bottom + 3, "axis")
    for step in range(1, len(places) + 1):
        labels = _labels(calendar, list(places.items())[::step], stop)
        if all(b[0] - a[0] > text_width(a[1], 11) + 8 for a, b in pairwise(labels)):
            break
    for start, label in labels:
        drawing.words(start, bottom + 17, label, "tick")


def _labels(
    calendar: Calendar, moments: Sequence[tuple[Any, float]], stop: float
) -> list[tuple[float, str]]:
    """Return where the labels of some times begin, and what they are."""
    labels, before = [], None
    for moment, place in moments:
        label = shortened(calendar.tick(moment, before), 100, 11)
        wide = text_width(label, 11)
        # The first label begins left of its place, where the labels of the other axis end.
        start = place - (min(8.0, wide / 2) if before is None else wide / 2)
        labels.append((min(start, stop - wide), label))
        before = moment
    return labels


def _peak(table: GroupTable, label: str) -> float:
    shares = [
        row.high or row.estimate or 0.0 for g in table.groups for row in g.rows if row.name == label
    ]
    return max(shares, default=1.0)


def _describe_series(table: GroupTable, classes: Sequence[str]) -> str:
    first, last = table.groups[0], table.groups[-1]
    parts = [
        f"{label} {percent(first.by_class[label].estimate)} to "
        f"{percent(last.by_class[label].estimate)}"
        for label in classes[:5]
        if label in first.by_class and label in last.by_class
    ]
    return (
        f"From {table.label(first)} to {table.label(last)}: {'; '.join(parts)}. "
        "Bands are intervals, the dotted line is the training share. The table has all numbers."
    )
