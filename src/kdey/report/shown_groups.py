"""What a report shows of classes, groups and periods, as plain values.

:func:`estimate_rows` takes them from an estimate, :func:`group_table` from estimates or from a
table with one row per group and class.

Periods are told as people say them. If their length is known ("1w"), it names them. Otherwise they
are years, quarters, months or weeks if all of them begin on the first day of one, and else days.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kdey.groups.request import parse_period
from kdey.intervals import Estimate, Estimates
from kdey.simplex import in_class_order
from kdey.status import NOT_CHECKED, join_status, status_parts


@dataclass(frozen=True)
class ClassRow:
    """One class of one bag.

    Attributes
    ----------
    name : str
        The class.
    estimate, low, high : float or None
        Prevalence and its interval; None where nothing could be estimated.
    naive : float or None
        Share of the classifier's decisions.
    training : float or None
        Share in the training data.
    truth : float or None
        Share of the labels, where the table has some.
    """

    name: str
    estimate: float | None
    low: float | None
    high: float | None
    naive: float | None = None
    training: float | None = None
    truth: float | None = None

    def outside(self, share: float | None) -> bool:
        """Return whether a share is known and lies outside the interval."""
        if share is None or self.low is None or self.high is None:
            return False
        return not self.low <= share <= self.high

    @property
    def width(self) -> float:
        """The width of the interval; zero where there is none."""
        return 0.0 if self.low is None or self.high is None else self.high - self.low


def number(value: Any) -> float | None:
    """Return a float, None for what is missing or NaN."""
    if value is None:
        return None
    parsed = float(value)
    return None if math.isnan(parsed) else parsed


def estimate_rows(estimate: Estimate, truth: ArrayLike | None = None) -> tuple[ClassRow, ...]:
    """Return the rows of an estimate, with the shares of known labels beside them if given."""
    columns = estimate.columns()
    known: Iterable[Any] = [None] * len(estimate.classes)
    if truth is not None:
        known = list(in_class_order(truth, estimate.classes, "truth"))
    parts = (columns[name] for name in ("estimate", "low", "high"))
    compared = (columns["classify_and_count"], columns["training_prevalence"], known)
    return tuple(
        ClassRow(str(label), *(number(value) for value in values))
        for label, *values in zip(estimate.classes, *parts, *compared, strict=True)
    )


def by_size(rows: Iterable[ClassRow]) -> list[ClassRow]:
    """Return rows from the most frequent class to the rarest; unknown ones last."""
    return sorted(
        rows, key=lambda row: -1.0 if row.estimate is None else row.estimate, reverse=True
    )


def in_order(rows: Iterable[ClassRow], names: Sequence[str]) -> list[ClassRow]:
    """Return rows in the order of the names of their classes; others last, as they come."""
    place = {name: number for number, name in enumerate(names)}
    return sorted(rows, key=lambda row: place.get(row.name, len(place)))


@dataclass(frozen=True)
class Group:
    """One group.

    Attributes
    ----------
    keys : tuple
        One value per key column.
    n : int
        Number of instances.
    rows : tuple of ClassRow
    p_value : float or None
        Of the fit check.
    status : str
        In the words of :mod:`kdey.status`.
    """

    keys: tuple[Any, ...]
    n: int
    rows: tuple[ClassRow, ...]
    p_value: float | None = None
    status: str = NOT_CHECKED

    @cached_property
    def by_class(self) -> dict[str, ClassRow]:
        """The rows by the name of their class."""
        return {row.name: row for row in self.rows}


@dataclass(frozen=True)
class GroupTable:
    """All groups, in the order of time where they have one.

    Attributes
    ----------
    by : tuple of str
        Names of the keys.
    time : str or None
        The key that is a time.
    groups : tuple of Group
    every : str or None
        The length of the periods of time, such as "1w", where it is known.
    confidence : float or None
        That of the intervals, where it is known.
    """

    by: tuple[str, ...]
    time: str | None
    groups: tuple[Group, ...]
    every: str | None = None
    confidence: float | None = None

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes in order of appearance."""
        return tuple(dict.fromkeys(row.name for group in self.groups for row in group.rows))

    def label(self, group: Group, without_time: bool = False) -> str:
        """Return the keys of a group as one text; keys that hold a comma are quoted."""
        kept = self.key_texts(group, without_time)
        if len(kept) == 1:
            return kept[0]
        return ", ".join(f'"{text}"' if "," in text else text for text in kept)

    def key_texts(self, group: Group, without_time: bool = False) -> list[str]:
        """Return the keys of a group as people say them."""
        return [
            self.period(group) if name == self.time else key_text(value)
            for name, value in self._named_keys(group, without_time)
        ]

    def _named_keys(self, group: Group, without_time: bool) -> list[tuple[str, Any]]:
        """Return the keys of a group with their names."""
        return [
            (name, value)
            for name, value in zip(self.by, group.keys, strict=True)
            if not (without_time and name == self.time)
        ]

    def moment(self, group: Group) -> Any:
        """Return the time of a group."""
        return group.keys[self.by.index(self.time or "")]

    @cached_property
    def calendar(self) -> Calendar:
        """The kind of period that the times of the groups begin."""
        return calendar_of([self.moment(group) for group in self.groups], self.every)

    def period(self, group: Group) -> str:
        """Return the time of a group as people say it: April 2026, week 14 of 2026."""
        return self.calendar.name(self.moment(group))

    @cached_property
    def by_keys(self) -> dict[Any, list[Group]]:
        """Groups that share all keys but the time, by the identity of these, in order of time."""
        series: dict[Any, list[Group]] = {}
        for group in self.groups:
            keys = tuple(value for _, value in self._named_keys(group, True))
            series.setdefault(identity(keys), []).append(group)
        return series

    @cached_property
    def series(self) -> dict[str, list[Group]]:
        """Groups that share all keys but the time, by a text, each in the order of time."""
        by_label: dict[str, list[Group]] = {}
        for groups in self.by_keys.values():
            by_label[_unused(self.label(groups[0], without_time=True), by_label)] = groups
        return by_label

    def with_classes_in_order(self, names: Sequence[str]) -> GroupTable:
        """Return the same groups with their classes in the order of ``names``."""
        ordered = (replace(g, rows=tuple(in_order(g.rows, names))) for g in self.groups)
        return replace(self, groups=tuple(ordered))

    def totals(self) -> GroupTable:
        """Return one group for each series, of all its times together.

        Shares and intervals are means of those of the times, weighted by their numbers of
        instances. Errors of sums are at most the sums of errors, so that these intervals are rather
        too wide.
        """
        names = tuple(name for name in self.by if name != self.time)
        groups = tuple(_together(groups, names, self.by) for groups in self.by_keys.values())
        return replace(self, by=names, time=None, groups=groups)

    def newest(self) -> GroupTable:
        """Return the newest group of each series."""
        names = tuple(name for name in self.by if name != self.time)
        groups = []
        for series in self.by_keys.values():
            keys = tuple(value for _, value in self._named_keys(series[-1], True))
            groups.append(replace(series[-1], keys=keys))
        return replace(self, by=names, time=None, groups=tuple(groups))


def _together(groups: Sequence[Group], names: Sequence[str], by: Sequence[str]) -> Group:
    """Return the groups of one series as one group with the keys of ``names``."""
    keys = tuple(groups[0].keys[by.index(name)] for name in names)
    usable = [g for g in groups if g.n and all(row.estimate is not None for row in g.rows)]
    total = sum(group.n for group in usable)
    rows = []
    for row in groups[0].rows:
        parts = [(group.n, group.by_class.get(row.name)) for group in usable]
        means = {
            name: _mean([(n, None if part is None else getattr(part, name)) for n, part in parts])
            for name in ("estimate", "low", "high", "naive")
        }
        rows.append(ClassRow(row.name, training=row.training, **means))
    words = dict.fromkeys(part for group in groups for part in status_parts(group.status))
    return Group(keys, total, tuple(rows), None, join_status(words))


def _mean(parts: Sequence[tuple[int, float | None]]) -> float | None:
    """Return the weighted mean; None where a value is not known."""
    known = [(weight, value) for weight, value in parts if value is not None]
    if not known or len(known) < len(parts):
        return None
    return sum(n * value for n, value in known) / sum(n for n, _ in known)


def _unused(label: str, taken: Collection[str]) -> str:
    """Return a label, with a number behind it where it is taken."""
    number, free = 2, label
    while free in taken:
        number, free = number + 1, f"{label} ({number})"
    return free


def identity(keys: tuple[Any, ...]) -> tuple[tuple[type, Any], ...]:
    """Return what tells keys apart: for Python alone True, 1 and 1.0 would be the same."""
    return tuple((type(value), value) for value in keys)


#: Columns that a row must have beside the group's keys; the others may be missing.
REQUIRED = ("class", "n", "estimate", "low", "high")
#: Columns with shares of the class, in the order of :class:`ClassRow`.
_SHARES = ("estimate", "low", "high", "naive", "training")
#: Other names that a column may have: those of estimates and of their frames.
_OTHER_NAMES = {
    "naive": "classify_and_count",
    "training": "training_prevalence",
    "p_value": "fit_p_value",
}


def group_table(
    table: Any,
    by: str | Sequence[str] = (),
    time: str | None = None,
    *,
    every: str | None = None,
    confidence: float | None = None,
) -> GroupTable:
    """Return the groups of estimates, or of a table with one row per group and class.

    Parameters
    ----------
    table : Estimates, iterable of mappings, or a frame of pandas, polars or pyarrow
        Columns of a table: the keys of the group, ``class``, ``n``, ``estimate``, ``low``, ``high``
        and, where known, ``naive`` (or ``classify_and_count``), ``training`` (or
        ``training_prevalence``), ``p_value`` (or ``fit_p_value``), ``status``.
    by : name or names of the keys
        By default all keys of estimates; those without keys are numbered, as ``bag``.
    time : str, optional
        The key that is a time; added to ``by`` where it is not among them.
    every : str, optional
        The length of its periods, such as "1w": names them "week 14 of 2026".
    confidence : float, optional
        That of the intervals, where the table is not of estimates.
    """
    if isinstance(table, Estimates):
        confidence = table.options.confidence
        known = ["bag"] if table.keys is None else list(table.keys.columns)
        names = key_names(by or known, time)
        groups = _estimated_groups(table, names)
    else:
        names = key_names(by, time)
        if not names:
            raise ValueError("groups need keys: name their columns in by or time")
        groups = _listed_groups(table, names)
    if not groups:
        raise ValueError("groups has no rows: there is nothing to report")
    if time is not None:
        place = names.index(time)
        groups.sort(key=lambda group: sort_key(group.keys[place]))
    return GroupTable(names, time, tuple(groups), every, confidence)


def _estimated_groups(estimates: Estimates, names: Sequence[str]) -> list[Group]:
    """Return the groups of estimates; bags without keys are numbered."""
    keys: Iterable[tuple[Any, ...]] = ((number,) for number in range(len(estimates)))
    if estimates.keys is not None:
        require_columns(estimates.keys.columns, names)
        keys = estimates.keys.select(names).rows()
    p_values: Iterable[Any] = (
        [estimate.diagnostics.get("fit", {}).get("p_value") for estimate in estimates]
        if estimates.fit_p_value is None
        else estimates.fit_p_value
    )
    counted, training = estimates.classify_and_count, estimates.training_prevalence
    naive = np.full(estimates.estimate.shape, np.nan) if counted is None else counted
    shares = np.stack([estimates.estimate, estimates.low, estimates.high, naive], axis=-1)
    labels = [str(label) for label in estimates.classes]
    return [
        Group(
            tuple(map(plain_value, key)),
            int(size),
            tuple(
                ClassRow(label, *map(number, (*values, trained)))
                for label, values, trained in zip(labels, rows, training, strict=True)
            ),
            number(p_value),
            status,
        )
        for key, size, rows, p_value, status in zip(
            keys, estimates.size, shares, p_values, estimates.status, strict=True
        )
    ]


def _listed_groups(table: Any, names: Sequence[str]) -> list[Group]:
    """Return the groups of a table with one row per group and class."""
    parts: dict[Any, tuple[tuple[Any, ...], list[Mapping[str, Any]]]] = {}
    for row in dictionaries(table):
        require_columns(row, (*names, *REQUIRED))
        keys = tuple(plain_value(row[name]) for name in names)
        parts.setdefault(identity(keys), (keys, []))[1].append(row)
    return [_group(keys, rows) for keys, rows in parts.values()]


def require_columns(columns: Collection[str], names: Iterable[str], what: str = "groups") -> None:
    """Raise ValueError if a table lacks columns."""
    missing = [name for name in names if name not in columns]
    if missing:
        raise ValueError(f"{what} lack the columns {', '.join(missing)}")


def key_names(by: str | Sequence[str], time: str | None) -> tuple[str, ...]:
    """Return the names of all keys, the time last unless it stands elsewhere in ``by``."""
    names = [by] if isinstance(by, str) else by
    return tuple(dict.fromkeys([*names, *([] if time is None else [time])]))


def is_table(table: Any) -> bool:
    """Return whether this is a frame, or a list of mappings."""
    if isinstance(table, list | tuple):
        return all(isinstance(row, Mapping) for row in table)
    import narwhals as nw

    return isinstance(nw.from_native(table, eager_only=True, pass_through=True), nw.DataFrame)


def dictionaries(table: Any) -> Iterable[Mapping[str, Any]]:
    """Return the rows of a frame, or of a list of mappings, by the names of their columns."""
    if isinstance(table, list | tuple):
        return table
    import narwhals as nw

    rows: list[dict[str, Any]] = nw.from_native(table, eager_only=True).rows(named=True)
    return rows


def _group(keys: tuple[Any, ...], rows: list[Mapping[str, Any]]) -> Group:
    class_rows = tuple(
        ClassRow(str(row["class"]), *(_optional(row, name) for name in _SHARES)) for row in rows
    )
    first = rows[0]
    size = number(first["n"])
    status = first.get("status")
    return Group(
        keys,
        0 if size is None else int(size),
        class_rows,
        _optional(first, "p_value"),
        NOT_CHECKED if status is None else str(status),
    )


def _optional(row: Mapping[str, Any], name: str) -> float | None:
    return number(row.get(name, row.get(_OTHER_NAMES.get(name, name))))


def plain_value(value: Any) -> Any:
    """Return a scalar of NumPy or pandas as Python's own; NaN is None."""
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime()
    elif hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value


#: English, whatever the language of the machine, as all of the page is.
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
#: Distinct times that are needed to tell a quarter from a month.
_FEWEST_QUARTERS = 3
#: Names of the units of periods.
_UNITS = {
    "s": "second",
    "m": "minute",
    "h": "hour",
    "d": "day",
    "w": "week",
    "mo": "month",
    "q": "quarter",
    "y": "year",
}
#: Periods that have names, and what one of them is called.
_NAMED = {
    (1, "y"): "year",
    (12, "mo"): "year",
    (1, "q"): "quarter",
    (3, "mo"): "quarter",
    (1, "mo"): "month",
    (1, "w"): "week",
    (1, "d"): "day",
}


@dataclass(frozen=True)
class Calendar:
    """How periods are named.

    Attributes
    ----------
    noun : {"year", "quarter", "month", "week", "day", "period", ""}
        What one period is called. A "period" has several units or is shorter than a day; the empty
        text stands for times that are shown as they are.
    length : str
        Of a "period", such as "2 weeks".
    """

    noun: str = ""
    length: str = ""

    def name(self, moment: Any) -> str:
        """Return the name of the period that begins at a moment: April 2026, week 14 of 2026."""
        start = as_moment(moment)
        if self.noun == "period" and start is not None:
            return f"{_date(start)}{_clock(start)} ({self.length})"
        day = as_day(moment)
        if day is None:
            return key_text(moment)
        if self.noun == "year":
            return str(day.year)
        if self.noun == "quarter":
            return f"{day.year} {self._short(day)}"
        if self.noun == "month":
            return f"{_month(day)} {day.year}"
        if self.noun == "week":
            return f"{self._short(day)} of {self._year(day)}"
        return _date(day) if self.noun == "day" else key_text(moment)

    def _short(self, day: date) -> str:
        """Return the name of the period that begins on a day, without its year."""
        if self.noun == "quarter":
            return f"Q{(day.month + 2) // 3}"
        if self.noun == "month":
            return _month(day)[:3]
        return f"week {day.isocalendar().week}" if self.noun == "week" else _short_date(day)

    def _year(self, day: date) -> int:
        """Return the year that a period belongs to; weeks are those of ISO 8601."""
        return day.isocalendar().year if self.noun == "week" else day.year


def calendar_of(moments: Sequence[Any], every: str | None = None) -> Calendar:
    """Return how the periods that begin at some moments are named.

    Parameters
    ----------
    moments : sequence of dates, datetimes, ISO texts or anything else
        Missing ones (None) do not count.
    every : str, optional
        The length of the periods, such as "1w"; by default the longest kind that all moments
        begin, or days if there is only one moment.
    """
    known = [as_day(moment) for moment in moments if moment is not None]
    days = sorted({day for day in known if day is not None})
    if every is not None and any(as_moment(moment) is not None for moment in moments):
        count, unit = parse_period(every)
        if (count, unit) in _NAMED:
            return Calendar(_NAMED[count, unit])
        return Calendar("period", f"{count} {_UNITS[unit]}{'s' * (count > 1)}")
    if None in known or not days:
        return Calendar()
    if len(days) < 2:
        return Calendar("day")
    if all(day.day == 1 for day in days):
        if all(day.month == 1 for day in days):
            return Calendar("year")
        quarters = all(day.month % 3 == 1 for day in days) and len(days) >= _FEWEST_QUARTERS
        return Calendar("quarter" if quarters else "month")
    # Every second Monday may begin a fortnight as well as a week.
    mondays = all(day.weekday() == 0 for day in days)
    weekly = mondays and min((b - a).days for a, b in pairwise(days)) == 7
    return Calendar("week" if weekly else "day")


def as_moment(moment: Any) -> datetime | date | None:
    """Return a date, a datetime or its ISO text as such; None for anything else."""
    if isinstance(moment, str):
        try:
            return datetime.fromisoformat(moment)
        except ValueError:
            return None
    return moment if isinstance(moment, date) else None


def as_day(moment: Any) -> date | None:
    """Return a date, a midnight or its text as a day; None for anything else."""
    known = as_moment(moment)
    if isinstance(known, datetime):
        return known.date() if _is_midnight(known) else None
    return known


def _is_midnight(moment: datetime) -> bool:
    return (moment.hour, moment.minute, moment.second, moment.microsecond) == (0, 0, 0, 0)


def _clock(moment: date) -> str:
    """Return the time of day, after a comma; nothing for midnight and for days."""
    at_midnight = not isinstance(moment, datetime) or _is_midnight(moment)
    return "" if at_midnight else f", {moment:%H:%M}"


def _date(day: date) -> str:
    return f"{day.day} {_month(day)} {day.year}"


def _short_date(day: date) -> str:
    return f"{day.day} {_month(day)[:3]}"


def _month(day: date) -> str:
    return MONTHS[day.month - 1]


def key_text(value: Any) -> str:
    """Return a key as it is shown: a midnight is a day, a whole float an integer."""
    if value is None:
        return "(missing)"
    if isinstance(value, datetime):
        return value.date().isoformat() if _is_midnight(value) else value.isoformat(" ")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def position(value: Any) -> float | None:
    """Return a time as a number, None for what is neither number nor date."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value)
    value = as_moment(value)
    if isinstance(value, datetime):
        # Days since year one, without time zones: they need not be known for all.
        rest = value.hour * 3600 + value.minute * 60 + value.second
        return float(value.toordinal()) + rest / 86400
    return float(value.toordinal()) if isinstance(value, date) else None


def sort_key(value: Any) -> tuple[int, float, str]:
    """Return the sort key of a time: numbers and dates by value, texts after them."""
    place = position(value)
    return (1, 0.0, key_text(value)) if place is None else (0, place, "")
