"""Figures of shares: of classes, and of groups beside each other or over time.

Shapes tell the marks apart, not colours alone: the estimate is a dot on a bar, the uncorrected
count a diamond, the share in training an upright line and known labels a cross.

Few classes have a panel each, with a line per group. Many classes in few groups turn this round: a
panel per group, with a line per class. Many classes in many groups are shaded cells. More groups
than can be named are thin lines, sorted by their share, so that a panel shows how they spread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from kdey.report.drawing import (
    MOST_NARROW,
    SHARES,
    WIDE,
    Axis,
    Drawing,
    draw_across,
    draw_up,
    heat_figure,
    interval_name,
    listed,
    panel_places,
    percent,
    share_axis,
    shortened,
    text_width,
)
from kdey.report.shown_groups import Calendar, ClassRow, Group, GroupTable, position

#: Height of a line of a legend, and the size of its text.
_LEGEND_LINE, _LEGEND_SIZE = 20.0, 11.0


def _share_marks(rows: Sequence[ClassRow], confidence: float | None) -> list[tuple[str, str]]:
    """Return the kinds of marks that occur in some rows, and what they mean."""
    meanings = {**SHARES, "estimate": f"estimate with {interval_name(confidence)}"}
    present = (kind for kind in SHARES if any(getattr(row, kind) is not None for row in rows))
    return [(kind, meanings[kind]) for kind in present]


def _draw_legend(drawing: Drawing, marks: Sequence[tuple[str, str]], left: float) -> float:
    """Draw kinds of marks and what they mean, in as many lines as need be; return their height."""
    line, x = 0, left
    for kind, meaning in marks:
        wide = 48 + text_width(meaning, _LEGEND_SIZE)
        if x > left and x + wide - 16 > drawing.width:
            line, x = line + 1, left
        y = _LEGEND_LINE * (line + 0.5)
        _draw_sample(drawing, kind, x, y)
        drawing.words(x + 28, y + 4, meaning, "tick")
        x += wide
    return _LEGEND_LINE * (line + 1 if marks else 0)


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
    rows: Sequence[ClassRow], confidence: float | None, width: float = WIDE
) -> Drawing:
    """Return one line per class, in the order of the rows.

    Parameters
    ----------
    rows : sequence of ClassRow
    confidence : float or None
    width : float
        A narrow drawing has the names above the lines.
    """
    narrow = width <= MOST_NARROW
    names = [shortened(row.name) for row in rows]
    left = 10.0 if narrow else max(map(text_width, names)) + 14
    right = width - (20.0 if narrow else _NUMBERS)
    description = _describe_shares(rows, confidence)
    drawing = Drawing("prevalence", width, 0.0, "Share of each class", description)
    drawing.with_tips = not narrow
    line, top = _TALL_LINE if narrow else _CLASS_LINE, 6.0
    top += _draw_legend(drawing, _share_marks(rows, confidence), left)
    drawing.height = top + line * len(rows) + _AXIS
    largest = max((value for row in rows for value in row.values), default=1.0)
    axis = share_axis(largest, left, right)
    draw_across(drawing, axis, top, drawing.height - _AXIS)
    for number, row in enumerate(rows):
        y = top + line * (number + (0.68 if narrow else 0.5))
        if narrow:
            _write_above(drawing, row, left, y - 17, width)
        else:
            drawing.words(left - 10, y + 4, names[number], "label", "end")
            drawing.words(width, y + 4, percent(row.estimate), "number", "end")
        draw_marks(drawing, axis, y, row)
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
_LEAST_PANEL, _MOST_BESIDE = 160.0, 3
_GAP, _LINE, _TOP, _BOTTOM = 46.0, 22.0, 26.0, 30.0
#: Room at the right of the last panel for its last tick.
_MARGIN = 18.0
#: Height of a panel of thin lines, at most, and of one line.
_THIN_PANEL, _MOST_THIN = 420.0, 6.0


def groups_caption(table: GroupTable) -> str:
    """Return what is written under the figure of groups beside each other."""
    caption, n_groups = f"Shares by {listed(table.by)}.", len(table.groups)
    if n_groups > MOST_NAMED_GROUPS:
        caption += " Each line is a group; in each panel the groups are sorted by their share."
        if n_groups > MOST_THIN_LINES:
            caption += f" {MOST_THIN_LINES} of {n_groups:,} groups are drawn, evenly chosen."
        if len(table.classes) > MOST_PANELS:
            caption += f" {MOST_PANELS} of {len(table.classes)} classes are drawn."
    elif len(table.classes) > MOST_PANELS and n_groups > MOST_GROUP_PANELS:
        caption += " Stronger colour: more frequent; numbers are per cent."
    elif len(table.classes) > MOST_PANELS:
        caption += " A panel for each group, all on one scale."
    return caption


def _grid(n_panels: int, left: float, width: float) -> tuple[float, list[tuple[int, int, float]]]:
    """Return how wide panels right of labels are, and where: as many abreast as have room."""
    room = width - left - _MARGIN
    fitting = int((room + _GAP) // (_LEAST_PANEL + _GAP))
    columns = max(1, min(_MOST_BESIDE, n_panels, fitting))
    wide = (room - (columns - 1) * _GAP) / columns
    return wide, panel_places(n_panels, columns, left, wide + _GAP)


def _largest(rows: Iterable[ClassRow | None]) -> float:
    return max((v for row in rows if row is not None for v in row.values), default=1.0)


def groups_figure(table: GroupTable, width: float = WIDE) -> Drawing:
    """Return the figure of groups that suits their number and that of the classes."""
    n_groups, n_classes = len(table.groups), len(table.classes)
    if n_groups > MOST_NAMED_GROUPS:
        return _thin_lines(table, width)
    if n_classes <= MOST_PANELS:
        panels = [
            (label, [group.by_class.get(label) for group in table.groups])
            for label in table.classes
        ]
        labels = [table.label(group) for group in table.groups]
        return _panels(table, panels, labels, width, shared=False)
    if n_groups <= MOST_GROUP_PANELS:
        panels = [
            (table.label(g), [g.by_class.get(label) for label in table.classes])
            for g in table.groups
        ]
        return _panels(table, panels, table.classes, width, shared=True)
    return _cells(table, width)


def _empty(table: GroupTable, width: float) -> Drawing:
    """Return a drawing of groups on which nothing stands yet."""
    drawing = Drawing("groups", width, 0.0, _TITLE, _describe_groups(table))
    drawing.with_tips = width > MOST_NARROW
    return drawing


def _panels(
    table: GroupTable,
    panels: Sequence[tuple[str, Sequence[ClassRow | None]]],
    labels: Sequence[str],
    width: float,
    shared: bool,
) -> Drawing:
    """Return panels with a labelled line for each row; ``shared``: on one scale."""
    short = [shortened(label, 110 if width <= MOST_NARROW else 200) for label in labels]
    left = max(map(text_width, short)) + 14
    wide, places = _grid(len(panels), left, width)
    rows = [row for _, known in panels for row in known if row is not None]
    drawing = _empty(table, width)
    start = 8 + _draw_legend(drawing, _share_marks(rows, table.confidence), 4.0)
    tall = _TOP + _LINE * len(labels) + _BOTTOM
    drawing.height = start + (places[-1][0] + 1) * tall
    largest = _largest(rows)
    for (title, known), (line, column, x) in zip(panels, places, strict=True):
        top = start + line * tall + _TOP
        axis = share_axis(largest if shared else _largest(known), x, x + wide)
        drawing.words(x, top - 8, shortened(title, wide), "heading")
        draw_across(drawing, axis, top, top + _LINE * len(labels), about=4)
        for place, row in enumerate(known):
            y = top + _LINE * (place + 0.5)
            if column == 0:
                drawing.words(left - 10, y + 4, short[place], "tick", "end")
            if row is not None:
                draw_marks(drawing, axis, y, row)
    return drawing


def _thin_lines(table: GroupTable, width: float) -> Drawing:
    """Return a panel for each of the first classes, with a thin line for each group."""
    labels = table.classes[:MOST_PANELS]
    wide, places = _grid(len(labels), 14.0, width)
    marks = [("interval-thin", f"a group: estimate with {interval_name(table.confidence)}")]
    if any(row.training is not None for group in table.groups for row in group.rows):
        marks.append(("training-line", SHARES["training"]))
    n_lines = min(len(table.groups), MOST_THIN_LINES)
    line_height = min(_MOST_THIN, _THIN_PANEL / n_lines)
    tall = _TOP + line_height * n_lines + _BOTTOM
    drawing = _empty(table, width)
    start = 8 + _draw_legend(drawing, marks, 4.0)
    drawing.height = start + (places[-1][0] + 1) * tall
    for label, (line, _, x) in zip(labels, places, strict=True):
        top = start + line * tall + _TOP
        drawing.words(x, top - 8, shortened(label, wide), "heading")
        _draw_thin_panel(drawing, table, label, (x, x + wide), top, line_height)
    return drawing


def _draw_thin_panel(
    drawing: Drawing,
    table: GroupTable,
    label: str,
    ends: tuple[float, float],
    top: float,
    line_height: float,
) -> None:
    known = [(group, group.by_class[label]) for group in table.groups if label in group.by_class]
    known = sorted(known, key=lambda pair: -(pair[1].estimate or 0.0))
    evenly = np.linspace(0, len(known) - 1, min(len(known), MOST_THIN_LINES)).round().astype(int)
    drawn: list[tuple[Group, ClassRow]] = [known[place] for place in evenly]
    axis = share_axis(_largest(row for _, row in drawn), *ends)
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


def _cells(table: GroupTable, width: float) -> Drawing:
    shares = np.array(
        [[_estimate(g.by_class.get(label)) for label in table.classes] for g in table.groups]
    )
    return heat_figure(
        shares,
        [table.label(group) for group in table.groups],
        table.classes,
        name="groups",
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


#: Classes, series and panels drawn; the tables have the others.
MOST_CLASSES, MOST_SERIES, _MOST_TIME_PANELS = 9, 12, 24
#: Longer lines have no points on them.
_MOST_POINTS = 120
#: Height of a plot, room for its scale, for its dates, and between two panels.
_TALL, _LEFT, _DATES, _TIME_GAP = 120.0, 48.0, 32.0, 22.0
#: Height of the heading of a class above the panels of its series.
_HEADING = 26.0
#: Least width of a panel of a class, and of a series.
_CLASS_PANEL, _SERIES_PANEL = 250.0, 128.0


#: Vertical lines of a panel, at moments, and horizontal ones, at shares, each with a tip.
Marks = tuple[Sequence[tuple[Any, str]], Sequence[tuple[float, str]]]


def time_caption(table: GroupTable) -> str:
    """Return what is written under the figure of groups over time."""
    classes, series = drawn_classes(table), drawn_series(table)
    caption = "Estimated shares with their intervals; the dotted line is the share in training."
    if len(series) > 1:
        caption += " A panel for each group, with the others in grey, on one scale for each class."
    if len(classes) < len(table.classes):
        caption += f" The {len(classes)} classes with the largest shares are drawn."
    if len(series) < len(table.series):
        caption += f" The {len(series)} largest of {len(table.series):,} groups are drawn."
    return caption


def drawn_classes(table: GroupTable, marked: Mapping[str, Marks] | None = None) -> list[str]:
    """Return the classes that are drawn: those with marks, then those with the largest shares."""
    first = {} if marked is None else marked
    n_series = min(len(table.series), MOST_SERIES)
    most = max(1, min(MOST_CLASSES, _MOST_TIME_PANELS // n_series))
    ordered = sorted(table.classes, key=lambda c: (c not in first, -_overall_share(table, c)))
    return sorted(ordered[:most], key=table.classes.index)


def drawn_series(table: GroupTable) -> dict[str, list[Group]]:
    """Return the series that are drawn: those with the most instances, in their order."""
    sizes = {label: sum(g.n for g in groups) for label, groups in table.series.items()}
    largest = sorted(sizes, key=lambda label: -sizes[label])[:MOST_SERIES]
    return {label: groups for label, groups in table.series.items() if label in largest}


def time_figure(
    table: GroupTable,
    marks: Mapping[str, Marks] | None = None,
    width: float = WIDE,
) -> Drawing:
    """Return the classes with the largest shares over time.

    Bands of several series in one panel would hide each other. So each series has a panel of its
    own, in which the others are thin grey lines to compare with, all on one scale.

    Parameters
    ----------
    table : GroupTable
    marks : mapping from classes to moments and levels to mark, optional
        Classes with marks are drawn before others.
    width : float
    """
    marked = {} if marks is None else marks
    classes, series = drawn_classes(table, marked), drawn_series(table)
    several = len(series) > 1
    wide, panels = (
        _series_layout(width, len(series)) if several else _class_layout(width, len(classes))
    )
    description = _describe_series(table, classes)
    drawing = Drawing("time", width, 0.0, "Shares over time", description)
    drawing.with_tips = width > MOST_NARROW
    top = 6 + _draw_legend(drawing, _time_marks(table, len(series)), 4.0)
    tall = _TOP + _TALL + _DATES
    part = (panels[-1][0] + 1) * tall + (_HEADING if several else 0.0)
    drawing.height = top + part * (len(classes) if several else 1)
    for number, label in enumerate(classes):
        known = marked.get(label, ((), ()))
        largest = max([_peak(table, label), *(share for share, _ in known[1])])
        start = top + _HEADING + part * number if several else top
        if several:
            heading = f"“{shortened(label, width - 40, 14)}”"
            drawing.words(0, start - _HEADING + 16, heading, "class-heading")
        for place, (title, groups) in enumerate(series.items()):
            line, column, x = panels[place if several else number]
            above = start + line * tall + _TOP
            up = share_axis(largest, above + _TALL, above)
            ends = x, x + wide
            heading = shortened(title if several else label, wide)
            drawing.words(x, above - 8, heading, "heading")
            draw_up(drawing, up, *ends, about=4, labelled=column == 0 or not several)
            places = _time_places(table, x + 4, ends[1] - 4)
            _write_dates(drawing, table.calendar, places, up.start, ends[1] + 2)
            others = [other for key, other in series.items() if key != title]
            _draw_series(drawing, up, places, table, label, groups, others)
            _draw_lines(drawing, up, places, ends, _training_share(table, label), known)
    return drawing


def _class_layout(width: float, n: int) -> tuple[float, list[tuple[int, int, float]]]:
    """Return how wide panels of classes are, and where they stand, each with its own scale."""
    columns = max(1, min(2, n, int(width // (_CLASS_PANEL + _LEFT + _TIME_GAP))))
    wide = (width - _LEFT * columns) / columns - _TIME_GAP
    return wide, panel_places(n, columns, _LEFT, wide + _TIME_GAP + _LEFT)


def _series_layout(width: float, n: int) -> tuple[float, list[tuple[int, int, float]]]:
    """Return the same of panels of series, of which a line has one scale at its left."""
    columns = max(1, min(4, n, int((width - _LEFT) // (_SERIES_PANEL + _TIME_GAP))))
    wide = (width - _LEFT) / columns - _TIME_GAP
    return wide, panel_places(n, columns, _LEFT, wide + _TIME_GAP)


def _draw_series(
    drawing: Drawing,
    up: Axis,
    places: Mapping[Any, float],
    table: GroupTable,
    label: str,
    groups: Sequence[Group],
    others: Sequence[Sequence[Group]],
) -> None:
    """Draw a class over the times of a series, with other series behind it."""

    def known(groups: Sequence[Group]) -> list[tuple[float, ClassRow | None]]:
        return [(places[table.moment(group)], group.by_class.get(label)) for group in groups]

    for run in (run for other in others for run in _runs(known(other))):
        drawing.add("polyline", points=_middle(up, run), class_="others")
    for run in _runs(known(groups)):
        _draw_run(drawing, up, run)
    for group, (place, row) in zip(groups, known(groups), strict=True):
        if len(places) <= _MOST_POINTS and row is not None and row.estimate is not None:
            tip = f"{table.label(group)}: {percent(row.estimate)}"
            y = up.at(row.estimate)
            drawing.add("circle", tip=tip, cx=place, cy=y, r=2.6, class_="point s0")


def _time_places(table: GroupTable, start: float, stop: float) -> dict[Any, float]:
    """Return the places of times: by their value where all have one, else one step each."""
    moments = list(dict.fromkeys(table.moment(group) for group in table.groups))
    values = [position(moment) for moment in moments]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        known = [float(number) for number in range(len(moments))]
    if len(known) == 1:
        return {moments[0]: (start + stop) / 2}
    axis = Axis(min(known), max(known), start, stop)
    return dict(zip(moments, map(axis.at, known), strict=True))


def _training_share(table: GroupTable, label: str) -> float | None:
    shares = (r.training for g in table.groups for r in g.rows if r.name == label)
    return next(shares, None)


def _draw_lines(
    drawing: Drawing,
    up: Axis,
    places: Mapping[Any, float],
    ends: tuple[float, float],
    training: float | None,
    marks: Marks,
) -> None:
    """Draw the share in training, and the marks."""
    left, right = ends
    if training is not None:
        tip = f"{SHARES['training']}: {percent(training)}"
        drawing.line(left, up.at(training), right, up.at(training), "training-line", tip)
    for share, tip in marks[1]:
        drawing.line(left, up.at(share), right, up.at(share), "bound-line", tip)
    for moment, tip in marks[0]:
        x = places[moment]
        drawing.line(x, up.start, x, up.stop, "alarm-line", tip)


def _time_marks(table: GroupTable, n_series: int) -> list[tuple[str, str]]:
    items = [("band", f"estimate with {interval_name(table.confidence)}")]
    if n_series > 1:
        items.append(("others", "the other groups"))
    if any(row.training is not None for group in table.groups for row in group.rows):
        items.append(("training-line", SHARES["training"]))
    return items


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
    """Return the largest value that is drawn of a class, the share in training included."""
    drawn = (row for g in table.groups for row in g.rows if row.name == label)
    values = [v for row in drawn for v in (row.estimate, row.high, row.training) if v is not None]
    return max(values, default=1.0)


def _overall_share(table: GroupTable, label: str) -> float:
    """Return the share of a class among the rows of all groups that were estimated."""
    known = [
        (group.n, row.estimate)
        for group in table.groups
        for row in group.rows
        if row.name == label and row.estimate is not None
    ]
    return sum(n * share for n, share in known) / max(sum(n for n, _ in known), 1)


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
