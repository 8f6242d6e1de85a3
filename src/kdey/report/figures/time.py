"""Prevalence over time: a panel for each class, a line with its limits for each series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kdey.report.groups import ClassRow, Group, GroupTable, position
from kdey.report.periods import key_text
from kdey.report.svg import Axis, Drawing, draw_up, share_axis, shortened, text_width
from kdey.report.vocabulary import percent

#: Classes and series drawn; the table has the others.
MOST_CLASSES, MOST_SERIES = 9, 6
#: Longer lines have no points on them.
_MOST_POINTS = 120
_PANEL, _TALL, _LEFT, _TOP, _BOTTOM, _GAP = 325.0, 130.0, 52.0, 26.0, 32.0, 36.0


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


def time_figure(
    table: GroupTable, name: str = "time", marks: Mapping[str, TimeMarks] | None = None
) -> Drawing:
    """Return the classes with the largest shares over time.

    Parameters
    ----------
    table : GroupTable
    name : str
    marks : mapping from classes to TimeMarks, optional
        Classes with marks are drawn first.
    """
    marked = {} if marks is None else marks
    classes = sorted(table.classes, key=lambda label: (label not in marked, -_peak(table, label)))[
        :MOST_CLASSES
    ]
    series = dict(list(table.series.items())[:MOST_SERIES])
    columns = min(2, len(classes))
    lines = -(-len(classes) // columns)
    legend = 26.0 if len(series) > 1 else 0.0
    tall = _TOP + _TALL + _BOTTOM
    width = columns * (_LEFT + _PANEL + _GAP)
    drawing = Drawing(
        name, width, legend + lines * tall, "Prevalence over time", _describe_series(table, classes)
    )
    if legend:
        _legend(drawing, list(series), width)
    moments = list(dict.fromkeys(table.moment(group) for group in table.groups))
    for number, label in enumerate(classes):
        line, column = divmod(number, columns)
        x = column * (_LEFT + _PANEL + _GAP) + _LEFT
        top = legend + line * tall + _TOP
        _panel(drawing, table, series, label, moments, x, top, marked.get(label, TimeMarks()))
    return drawing


def _panel(
    drawing: Drawing,
    table: GroupTable,
    series: dict[str, list[Group]],
    label: str,
    moments: list[Any],
    left: float,
    top: float,
    marks: TimeMarks,
) -> None:
    bottom = top + _TALL
    drawing.words(left, top - 9, shortened(label, _PANEL), "heading")
    largest = max([_peak(table, label), *(share for share, _ in marks.levels)])
    up = share_axis(largest, bottom, top)
    draw_up(drawing, up, left, left + _PANEL, about=4)
    places = _places(moments, left + 4, left + _PANEL - 4)
    place_of = dict(zip(moments, places, strict=True))
    _dates(drawing, moments, places, bottom)
    for number, groups in enumerate(series.values()):
        known = [(place_of[table.moment(g)], g.by_class.get(label)) for g in groups]
        for run in _runs(known):
            _draw_run(drawing, up, run, number)
        for group, (x, row) in zip(groups, known, strict=True):
            if len(moments) <= _MOST_POINTS and row is not None and row.estimate is not None:
                tip = f"{table.label(group)}: {percent(row.estimate)}"
                place = up.at(row.estimate)
                drawing.add("circle", tip=tip, cx=x, cy=place, r=2.6, class_=f"point s{number}")
    trained = [r.training for g in table.groups for r in g.rows if r.name == label]
    if trained and trained[0] is not None:
        y = up.at(trained[0])
        tip = f"training {percent(trained[0])}"
        drawing.line(left, y, left + _PANEL, y, "training-line", tip)
    for share, tip in marks.levels:
        drawing.line(left, up.at(share), left + _PANEL, up.at(share), "bound-line", tip)
    for moment, tip in marks.moments:
        drawing.line(place_of[moment], top, place_of[moment], bottom, "alarm-line", tip)


def _runs(known: list[tuple[float, ClassRow | None]]) -> list[list[tuple[float, ClassRow]]]:
    """Return stretches without a gap: a line never bridges what could not be estimated."""
    runs: list[list[tuple[float, ClassRow]]] = [[]]
    for x, row in known:
        if row is None or row.estimate is None:
            runs.append([])
        else:
            runs[-1].append((x, row))
    return [run for run in runs if run]


def _draw_run(drawing: Drawing, up: Axis, run: list[tuple[float, ClassRow]], number: int) -> None:
    lower = [(x, up.at(row.low)) for x, row in run if row.low is not None]
    upper = [(x, up.at(row.high)) for x, row in run if row.high is not None]
    if len(run) == 1 and lower and upper:
        drawing.line(*lower[0], *upper[0], f"whisker s{number}")
    elif lower and upper:
        drawing.add("polygon", points=_path([*lower, *reversed(upper)]), class_=f"band s{number}")
    middle = [(x, up.at(row.estimate)) for x, row in run if row.estimate is not None]
    drawing.add("polyline", points=_path(middle), class_=f"curve s{number}")


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _places(moments: list[Any], start: float, stop: float) -> list[float]:
    """Return the places of times: by their value where all have one, else one step each."""
    values = [position(moment) for moment in moments]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        known = [float(number) for number in range(len(moments))]
    if len(known) == 1:
        return [(start + stop) / 2]
    axis = Axis(min(known), max(known), start, stop)
    return [axis.at(value) for value in known]


def _dates(drawing: Drawing, moments: list[Any], places: list[float], bottom: float) -> None:
    """Write as many times under a panel as fit, the first one always."""
    free = float("-inf")
    for moment, place in zip(moments, places, strict=True):
        label = shortened(key_text(moment), 100, 11)
        half = text_width(label, 11) / 2
        if place - half > free:
            drawing.line(place, bottom, place, bottom + 4, "axis")
            drawing.words(place, bottom + 17, label, "tick", "middle")
            free = place + half + 14


def _legend(drawing: Drawing, names: list[str], width: float) -> None:
    x = 8.0
    for number, label in enumerate(names):
        shown = shortened(label, 150, 11)
        drawing.line(x, 12, x + 22, 12, f"curve s{number}")
        drawing.words(x + 28, 16, shown, "tick")
        x += 48 + text_width(shown, 11)
        if x > width - 120:
            break


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
