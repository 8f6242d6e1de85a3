"""A table that readers explore: one row per group or class, and what a script needs to redraw it.

Python writes the whole table for one class: shares as numbers and on an axis, changes, and lines
over time. The script of the page picks another class, sorts, searches, and shows the lines as
panels. Both draw by the same rules (:func:`line`, :func:`band`), in whole tenths of a per cent, so
that neither needs a scale: the view box of a drawing holds the data, and the browser stretches it.

A change is looked for at every time of a series. With the means of the shares before and since,
weighted by numbers of records, and the error of their difference, the clearest time has

    z = max over times of |since - before| / error,

and is called clear at the level 0.05 after Bonferroni's correction for all series, classes and
times that were looked at. The variance of a single record is the median of what the intervals say,
or what the differences of successive times say if that is more: intervals of few records at zero or
one are too narrow to go by, and shares may fluctuate beyond sampling. Intervals share the errors of
the training examples, which cancel in differences: the test is rather too strict.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom, norm

from kdey.bags import Array
from kdey.report.page import SHARES, plain_status
from kdey.report.shown_groups import ClassRow, Group, GroupTable, position
from kdey.status import CANNOT_BE_TOLD, POOR_FIT, TOO_SMALL, problems

#: What is drawn of a class, in the order of the last axis of shares.
_DRAWN = ("estimate", "low", "high", "naive", "training", "truth")
#: Rows of a table, and its shares over time, that a page holds. The class that is shown first is
#: there as numbers and as lines, which take the room of two more.
MOST_ROWS, _MOST_NUMBERS, _LINES = 500, 78_000, 2
#: Chance that anything is called a clear change though nothing changed.
_LEVEL = 0.05
#: Chance of a false alarm of one check of a group.
ALARM_LEVEL = 0.01
#: Least standard error of a share: intervals at zero or one may have no width.
_LEAST_ERROR = 0.004
#: The part of all intervals over time, those of small rows aside, that a panel has room for.
_IN_VIEW = 0.98
#: Ends of axes, in tenths of a per cent.
_ENDS = (10, 20, 40, 60, 80, 100, 200, 300, 400, 500, 600, 800, 1000)
#: Confidence of intervals that do not say theirs.
DEFAULT_CONFIDENCE = 0.95
#: Times from which on their differences say how much shares fluctuate.
_FEWEST_STEPS = 6


class Changes(NamedTuple):
    """The clearest change of each row and class, arrays of shape (n_rows, n_classes).

    Attributes
    ----------
    place : int array
        The first time since the change.
    before, since : arrays
        Mean shares; NaN where there are no two times.
    clear : bool array
        Whether it is more than chance, given how many were looked at.
    """

    place: Any
    before: Array
    since: Array
    clear: Any

    @property
    def moved(self) -> Array:
        """By how much shares have clearly changed; zero where they have not."""
        return np.where(self.clear, self.since - self.before, 0.0)


@dataclass(frozen=True, eq=False)
class Explorer:
    """The rows of a table, for each class that can be picked.

    Attributes
    ----------
    name : str
        Unique on the page: links to rows begin with it.
    heading : str
        What a row is.
    rows : sequence of str
    shares : array of shape (n_rows, n_classes, 6)
        The estimate, its interval, the uncorrected count, the share in training and that of known
        labels; NaN for what is not known.
    series : array of shape (n_rows, n_classes, n_times, 3)
        Estimates and their intervals at each time.
    changes : Changes
        The clearest change of each row and class.
    classes : sequence of str
        Those that can be picked; one without a name where rows are the classes.
    times, places : sequences of str and of int
        The names of times, and where they lie.
    sizes : sequence of int or None
        Numbers of records; None where all rows are of the same.
    counts : sequence of n_rows sequences
        Numbers of records at each time.
    flags, notes : sequences of str
        Why a row needs a look, and what else is to say of it; empty for nothing.
    marks : mapping from (row, class) to places
        Times that are marked.
    bounds : mapping from (row, class) to shares
        Shares that are marked.
    confidence : float or None
    focus : int
        The class that is shown first.
    share_name, mark_name : str
        What shares and marks are called.
    """

    name: str
    heading: str
    rows: Sequence[str]
    shares: Array
    series: Array
    changes: Changes
    classes: Sequence[str] = ("",)
    times: Sequence[str] = ()
    places: Sequence[int] = ()
    sizes: Sequence[int] | None = None
    counts: Sequence[Sequence[int]] = ()
    flags: Sequence[str] = ()
    notes: Sequence[str] = ()
    marks: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    bounds: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    confidence: float | None = None
    focus: int = 0
    share_name: str = "estimate"
    mark_name: str = "change"

    @cached_property
    def small(self) -> list[bool]:
        """Whether a row has far fewer records than others: it is shown fainter."""
        if self.sizes is None:
            return [False] * len(self.rows)
        least = float(np.median(self.sizes)) / 4
        return [size < least for size in self.sizes]

    @property
    def misfits(self) -> list[int]:
        """The rows that look unlike the training examples."""
        words = plain_status(POOR_FIT)
        return [row for row, flag in enumerate(self.flags) if words in flag]

    @cached_property
    def shown_classes(self) -> list[int]:
        """The classes that can be picked: that in focus, and those with the largest shares."""
        at_most = _MOST_NUMBERS // max(len(self.shown) * max(len(self.times), 1), 1)
        room = max(1, at_most - _LINES)
        means = np.nan_to_num(self.shares[..., 0]).mean(axis=0)
        means[self.focus] = 2.0
        return sorted(np.argsort(-means, kind="stable")[:room].tolist())

    @cached_property
    def shown(self) -> list[int]:
        """The rows on the page, in their order: flagged ones first, faint ones last."""
        room = _MOST_NUMBERS // ((1 + _LINES) * max(len(self.times), 1))
        most = min(MOST_ROWS, max(1, room))
        key = _tenths(self.shares[:, self.focus, 0])
        if self.in_order:
            return list(range(len(self.rows)))[:most]
        return sorted(
            range(len(self.rows)),
            key=lambda row: (not self.flags[row], self.small[row], -(key[row] or 0), row),
        )[:most]

    @property
    def in_order(self) -> bool:
        """Whether the rows keep their order, as classes do."""
        return self.classes[0] == ""

    @property
    def left_out(self) -> str:
        """What the page leaves out, in a sentence; empty for nothing."""
        parts = [
            f"{shown:,} of {whole:,} {what}"
            for shown, whole, what in (
                (len(self.shown), len(self.rows), "rows"),
                (len(self.shown_classes), len(self.classes), "classes"),
            )
            if shown < whole
        ]
        return f"The page has {' and '.join(parts)}; for all, see the files below." if parts else ""

    def ends(self, label: int) -> tuple[int, int]:
        """Return the ends of the axes of shares and of lines over time, in tenths of a per cent.

        Lines would lie flat if the widest intervals, which are those of a few records, had room.
        """
        over_time = self.series[np.logical_not(self.small), label]
        highs = over_time[..., 2][np.isfinite(over_time[..., 2])]
        known = [np.quantile(highs, _IN_VIEW, method="higher")] if len(highs) else []
        more = [share for (_, code), ends in self.bounds.items() if code == label for share in ends]
        lines = np.concatenate([over_time[..., 0].ravel(), known, more])
        return _end(self.shares[:, label]), _end(lines)

    @property
    def legend(self) -> list[tuple[str, str]]:
        """What is drawn beside estimates: names of keys, and what they are called."""
        known = [(name, SHARES[name]) for name in _DRAWN[3:] if self.knows(name)]
        marked = [("mark", self.mark_name)] * bool(self.marks)
        return [*known, *marked, *[("bound", "bound")] * bool(self.bounds)]

    def knows(self, name: str) -> bool:
        """Return whether any row has a share of a name."""
        return bool(np.isfinite(self.shares[..., _DRAWN.index(name)]).any())

    @property
    def more(self) -> list[str]:
        """Further shares that have a column of numbers, where rows are classes."""
        return [name for name in _DRAWN[3:] if self.in_order and self.knows(name)]

    def text_of(self, name: str, row: int) -> str:
        """Return a further share as text."""
        return _percent(_tenths(self.shares[row, :, _DRAWN.index(name)])[0])

    def tick(self, tenths: float) -> str:
        """Return the label of a tick."""
        return f"{tenths / 10:g}\u00a0%"

    def link(self, row: int) -> str:
        """Return the address of a row; empty where the page does not show it."""
        return f"#{self.name}-{row}" if row in self.shown else ""

    def cells(self, row: int, label: int) -> dict[str, str]:
        """Return texts and paths of a row for a class, as the script of the page makes them."""
        estimate, low, high, naive, training, truth = _tenths(self.shares[row, label])
        lines = [_tenths(values) for values in self.series[row, label].T]
        _, top = self.ends(label)
        marks = self.marks.get((row, label), [])
        known = [place for place, value in enumerate(lines[0]) if value is not None]
        return {
            "share": _percent(estimate),
            "interval": _span(low, high),
            "bar": "" if low is None else f"M{low} 5H{high}",
            "dot": "" if estimate is None else f"M{estimate} 5h0",
            "naive": "" if naive is None else f"M{naive} 1V9",
            "training": "" if training is None else f"M{training} 0V10",
            "truth": "" if truth is None else f"M{truth} 0V10",
            "change": self._change(row, label),
            "band": band(self.places, *lines[1:]),
            "line": line(self.places, lines[0]),
            "marks": "".join(f"M{self.places[place]} 0V{top}" for place in marks),
            "bounds": "".join(f"M0 {end}H{self.places[-1]}" for end in self._bounds(row, label)),
            "said": self._said(row, known[-1], lines) if known else "",
        }

    def _change(self, row: int, label: int) -> str:
        change = self.changes
        if not change.clear[row, label]:
            return ""
        since = self.times[change.place[row, label]]
        return f"{_signed(1000 * change.moved[row, label])} since {since}"

    def _bounds(self, row: int, label: int) -> list[int]:
        return [round(1000 * share) for share in self.bounds.get((row, label), [])]

    def _said(self, row: int, place: int, lines: list[list[int | None]]) -> str:
        """Return the share at a time in words."""
        estimate, low, high = (values[place] for values in lines)
        span = "" if low is None or high is None else f" ({low / 10:.1f}\u2013{high / 10:.1f})"
        counted = f", {self.counts[row][place]:,} records" if len(self.counts) else ""
        return f"{self.times[place]}: {_percent(estimate)}{span}{counted}"

    def data(self) -> str:
        """Return what the script needs, as JSON that may stand in a page."""
        picked, rows = self.shown_classes, self.shown
        kept = np.ix_(rows, picked)
        value = {
            "focus": picked.index(self.focus),
            "ends": [self.ends(label) for label in picked],
            "x": list(self.places),
            "times": list(self.times),
            "rows": [f"{self.name}-{row}" for row in rows],
            "sizes": [0 if self.sizes is None else self.sizes[row] for row in rows],
            "flagged": [int(bool(self.flags[row])) for row in rows],
            "small": [int(self.small[row]) for row in rows],
            "shares": _tenths(self.shares[kept]),
            "series": _tenths(np.moveaxis(self.series[kept], -1, -2)),
            "counts": [list(self.counts[row]) for row in rows] if len(self.counts) else [],
            "changes": [[self._change(row, label) for label in picked] for row in rows],
            "moved": np.rint(1000 * self.changes.moved[kept]).astype(int).tolist(),
            "marks": [[self.marks.get((row, c), []) for c in picked] for row in rows],
            "bounds": [[self._bounds(row, label) for label in picked] for row in rows],
        }
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        return text.replace("<", "\\u003c")


def line(places: Sequence[int], values: Sequence[int | None]) -> str:
    """Return the path of a line through values; it never bridges one that is missing."""
    path, length = "", 0
    for x, value in zip([*places, 0], [*values, None], strict=True):
        if value is None:
            path += "h0" if length == 1 else ""  # A single value is a dot.
            length = 0
        else:
            path += f"{' ' if length else 'M'}{x} {value}"
            length += 1
    return path


def band(places: Sequence[int], low: Sequence[int | None], high: Sequence[int | None]) -> str:
    """Return the path around the intervals of each stretch without a gap."""
    path, there, back = "", "", ""
    for x, lower, upper in zip([*places, 0], [*low, None], [*high, None], strict=True):
        if lower is None:
            path += f"M{there}{back}Z" if there else ""
            there = back = ""
        else:
            there += f"{' ' if there else ''}{x} {lower}"
            back = f" {x} {upper}{back}"
    return path


def clearest_changes(
    series: Array, counts: Sequence[Sequence[int]], confidence: float | None
) -> Changes:
    """Return the clearest change of each series.

    Parameters
    ----------
    series : array of shape (n_rows, n_classes, n_times, 3)
        Estimates and their intervals; NaN for what is not known.
    counts : sequence of n_rows sequences of n_times
        Numbers of records.
    confidence : float or None
        Of the intervals.
    """
    shape = series.shape[:2]
    if series.shape[2] < 2:
        nothing = np.full(shape, np.nan)
        return Changes(np.zeros(shape, dtype=int), nothing, nothing, np.zeros(shape, dtype=bool))
    alpha = 1 - (DEFAULT_CONFIDENCE if confidence is None else confidence)
    values, low, high = np.moveaxis(series, -1, 0)
    known = np.isfinite(values)
    n = np.where(known, np.asarray(counts, dtype=float)[:, None, :], 0.0)
    errors = np.maximum((high - low) / (2 * norm.isf(alpha / 2)), _LEAST_ERROR)
    sums = np.cumsum(n, axis=2)
    weighted = np.cumsum(n * np.where(known, values, 0.0), axis=2)
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # Medians of series without intervals.
        from_intervals = np.nanmedian(np.where(n > 0, errors**2 * n, np.nan), axis=2)
        steps = np.diff(values, axis=2) ** 2 / (1 / n[..., 1:] + 1 / n[..., :-1])
        from_steps = np.nanmean(np.where(steps > 0, steps, np.nan), axis=2)
        few = series.shape[2] < _FEWEST_STEPS
        variance = from_intervals if few else np.fmax(from_intervals, from_steps)
        rest = sums[..., -1:] - sums[..., :-1]
        before = weighted[..., :-1] / sums[..., :-1]
        since = (weighted[..., -1:] - weighted[..., :-1]) / rest
        errors = np.sqrt(variance[..., None] * (1 / sums[..., :-1] + 1 / rest))
        z = np.abs(since - before) / errors
    z = np.where((sums[..., :-1] > 0) & (n[..., 1:] > 0) & np.isfinite(z), z, -1.0)
    place = z.argmax(axis=2)[..., None]
    n_tests = max(int((z >= 0).sum()), 1)
    return Changes(
        place[..., 0] + 1,
        np.take_along_axis(before, place, 2)[..., 0],
        np.take_along_axis(since, place, 2)[..., 0],
        np.take_along_axis(z, place, 2)[..., 0] > norm.isf(_LEVEL / (2 * n_tests)),
    )


def explore_classes(
    rows: Sequence[ClassRow],
    table: GroupTable | None,
    confidence: float | None,
) -> Explorer:
    """Return a row for each class of all records, with a line over time where a table has times."""
    shares = np.array([[_shares(row)] for row in rows])
    names = [row.name for row in rows]
    times, places, series, counts = _over_time(table, names)
    series = np.swapaxes(series[:1], 0, 1) if len(times) else np.empty((len(rows), 1, 0, 3))
    counts = counts[:1] * len(rows)
    changes = clearest_changes(series, counts, confidence)
    return Explorer(
        "classes",
        "Class",
        names,
        shares,
        series,
        changes,
        times=times,
        places=places,
        counts=counts,
        flags=[""] * len(rows),
        notes=[""] * len(rows),
        marks=_marked(changes),
        confidence=confidence,
    )


def explore_groups(table: GroupTable, totals: GroupTable, focus: str | None = None) -> Explorer:
    """Return a row for each group, or for each series of a table with times.

    Parameters
    ----------
    table, totals : GroupTable
        The groups, and those over all times, in the same order as the series.
    focus : str, optional
        The class that is shown first; by default that which changes or differs most.
    """
    classes = table.classes
    shares = np.array(
        [[_shares(group.by_class.get(name)) for name in classes] for group in totals.groups]
    )
    groups = [[group] for group in table.groups]
    if table.time is not None:
        groups = list(table.series.values())
    times, places, series, counts = _over_time(table, classes)
    if not len(times):
        series = np.empty((len(totals.groups), len(classes), 0, 3))
    changes = clearest_changes(series, counts, table.confidence)
    chosen = _focus(shares[..., 0], changes) if focus is None else classes.index(focus)
    flags, notes = _flags_and_notes(groups, _moved_most(changes, classes))
    return Explorer(
        "groups",
        ", ".join(totals.by),
        [totals.label(group) for group in totals.groups],
        shares,
        series,
        changes,
        classes,
        times,
        places,
        [group.n for group in totals.groups],
        counts,
        flags,
        notes,
        _marked(changes),
        confidence=table.confidence,
        focus=chosen,
    )


def _marked(changes: Changes) -> dict[tuple[int, int], list[int]]:
    """Return the times of clear changes by row and class."""
    pairs = np.argwhere(changes.clear).tolist()
    return {(row, code): [int(changes.place[row, code])] for row, code in pairs}


def _focus(shares: Array, changes: Changes) -> int:
    """Return the class that changes most clearly, or differs most; of two, the rarer."""
    moved = np.abs(changes.moved).max(axis=0)
    known = np.nan_to_num(shares)
    spread = known.max(axis=0) - known.min(axis=0)
    best = (moved if moved.any() else spread).round(3)
    means = known.mean(axis=0)
    return min(range(len(best)), key=lambda code: (-best[code], means[code]))


def _moved_most(changes: Changes, classes: Sequence[str]) -> list[str]:
    """Return which class of each row has clearly changed, and most; empty where none has."""
    moved = np.abs(changes.moved).round(6)
    return [classes[int(row.argmax())] if row.any() else "" for row in moved]


def _flags_and_notes(
    series: Sequence[Sequence[Group]], changed: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return why each series needs a look, and what else is to say of it.

    A series of many times is flagged for misfit if so many of its checks ring as chance seldom
    explains, given the number of series; fewer are a note, and as many as chance brings are not
    worth one.
    """
    flags, notes = [], []
    for groups, moved in zip(series, changed, strict=True):
        counted = Counter(part for group in groups for part in problems(group.status))
        for part in (TOO_SMALL, CANNOT_BE_TOLD):
            if counted[part] < len(groups):
                del counted[part]  # Short periods are seen to be uncertain.
        alarms = counted.get(POOR_FIT, 0)
        chance = binom.sf(alarms - 1, len(groups), ALARM_LEVEL)
        poor = bool(alarms and (len(groups) == 1 or chance * len(series) <= _LEVEL))
        if poor or chance > _LEVEL:
            del counted[POOR_FIT]
        found = [f"“{moved}” changed"] * bool(moved) + [plain_status(POOR_FIT)] * poor
        flags.append("; ".join(found))
        notes.append("; ".join(_counted(part, n, len(groups)) for part, n in counted.items()))
    return flags, notes


def _counted(part: str, number: int, count: int) -> str:
    text = plain_status(part)
    return text if number == count else f"{text} at {number:,} of {count:,} times"


def _over_time(
    table: GroupTable | None, classes: Sequence[str]
) -> tuple[list[str], list[int], Array, list[list[int]]]:
    """Return times, their places, and shares and numbers of records of each series at each time."""
    if table is None or table.time is None:
        return [], [], np.empty((0, len(classes), 0, 3)), []
    moments = list(dict.fromkeys(table.moment(group) for group in table.groups))
    at = {moment: number for number, moment in enumerate(moments)}
    series = np.full((len(table.series), len(classes), len(moments), 3), np.nan)
    counts = [[0] * len(moments) for _ in table.series]
    for number, groups in enumerate(table.series.values()):
        for group in groups:
            time = at[table.moment(group)]
            counts[number][time] = group.n
            for code, name in enumerate(classes):
                series[number, code, time] = _shares(group.by_class.get(name))[:3]
    return [table.calendar.name(moment) for moment in moments], places_of(moments), series, counts


def places_of(moments: Sequence[Any]) -> list[int]:
    """Return where times lie, as small whole numbers: by their value where all have one."""
    known = [position(moment) for moment in moments]
    values = [value for value in known if value is not None]
    if len(values) < len(moments) or len(moments) < 2:
        return list(range(len(moments)))
    steps = np.diff(values)
    offsets = (np.array(values) - values[0]) / steps.min()
    if np.allclose(offsets, offsets.round()) and offsets[-1] < 10 * len(moments):
        return [int(offset) for offset in offsets.round()]
    return [int(place) for place in (1000 * offsets / offsets[-1]).round()]


def _shares(row: ClassRow | None) -> list[float]:
    """Return what is drawn of a class, NaN for what is not known."""
    values = [None if row is None else getattr(row, name) for name in _DRAWN]
    return [np.nan if value is None else value for value in values]


def _tenths(values: Array) -> Any:
    """Return shares in tenths of a per cent, as nested lists; None for those not known."""
    known = np.isfinite(values)
    whole = np.rint(1000 * np.where(known, values, 0.0)).astype(int)
    tenths = whole.astype(object)
    tenths[~known] = None
    return tenths.tolist()


def _end(shares: Array) -> int:
    """Return the end of an axis that holds all shares."""
    largest = float(np.rint(1000 * np.nanmax(shares, initial=0.01)))
    return next((end for end in _ENDS if end >= largest), _ENDS[-1])


def _percent(tenths: int | None) -> str:
    return "–" if tenths is None else f"{tenths / 10:.1f}\u00a0%"


def _span(low: int | None, high: int | None) -> str:
    return "" if low is None else f"{_percent(low)} to {_percent(high)}"


def _signed(tenths: float) -> str:
    return f"{tenths / 10:+.1f} points".replace("-", "\u2212")
