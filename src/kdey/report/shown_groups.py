"""What a report shows of a class and of a group, as plain values.

:func:`estimate_rows` takes them from an estimate, :func:`group_table` from a table with one row per
group and class.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from numpy.typing import ArrayLike

from kdey.arrays import in_class_order
from kdey.intervals import Estimate
from kdey.report.calendar import Calendar, calendar_of, key_text, sort_key
from kdey.status import NOT_CHECKED, join_status, status_parts


@dataclass(frozen=True)
class ClassRow:
    """One class of one bag.

    Attributes
    ----------
    name : str
        The class.
    estimate, low, high : float or None
        Prevalence and its limits; None where nothing could be estimated.
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

    @property
    def values(self) -> list[float]:
        """All shares that are known."""
        every = (self.estimate, self.low, self.high, self.naive, self.training, self.truth)
        return [value for value in every if value is not None]

    def outside(self, share: float | None) -> bool:
        """Return whether a share is known and lies outside the limits."""
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
        That of the limits, where it is known.
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
    def series(self) -> dict[str, list[Group]]:
        """Groups that share all keys but the time, by a text, each in the order of time."""
        by_keys: dict[Any, list[Group]] = {}
        for group in self.groups:
            keys = tuple(value for _, value in self._named_keys(group, True))
            by_keys.setdefault(identity(keys), []).append(group)
        by_label: dict[str, list[Group]] = {}
        for groups in by_keys.values():
            by_label[_unused(self.label(groups[0], without_time=True), by_label)] = groups
        return by_label

    def with_classes_in_order(self, names: Sequence[str]) -> GroupTable:
        """Return the same groups with their classes in the order of ``names``."""
        ordered = (replace(g, rows=tuple(in_order(g.rows, names))) for g in self.groups)
        return replace(self, groups=tuple(ordered))

    def totals(self) -> GroupTable:
        """Return one group for each series, of all its times together.

        Shares and limits are means of those of the times, weighted by their numbers of instances.
        Errors of sums are at most the sums of errors, so that these limits are rather too wide.
        """
        names = tuple(name for name in self.by if name != self.time)
        groups = tuple(_together(groups, names, self.by) for groups in self.series.values())
        return replace(self, by=names, time=None, groups=groups)


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
#: Other names that a column may have: those of estimates and of their frames.
_OTHER_NAMES = {
    "naive": "classify_and_count",
    "training": "training_prevalence",
    "p_value": "fit_p_value",
}


def group_table(
    table: Any,
    by: Sequence[str],
    time: str | None = None,
    *,
    every: str | None = None,
    confidence: float | None = None,
) -> GroupTable:
    """Return the groups of a table with one row per group and class.

    Parameters
    ----------
    table : iterable of mappings, or a frame of pandas, polars or pyarrow
        Columns: the keys of the group, ``class``, ``n``, ``estimate``, ``low``, ``high`` and, where
        known, ``naive`` (or ``classify_and_count``), ``training`` (or ``training_prevalence``),
        ``p_value`` (or ``fit_p_value``), ``status``.
    by : names of the keys
    time : str, optional
        The key that is a time; added to ``by`` where it is not among them.
    every : str, optional
        The length of its periods, such as "1w": names them "week 14 of 2026".
    confidence : float, optional
        That of the limits.
    """
    names = key_names(by, time)
    if not names:
        raise ValueError("groups need keys: name their columns in by or time")
    parts: dict[Any, list[Mapping[str, Any]]] = {}
    keys_of: dict[Any, tuple[Any, ...]] = {}
    for row in dictionaries(table):
        missing = [name for name in (*names, *REQUIRED) if name not in row]
        if missing:
            raise ValueError(f"groups lack the columns {', '.join(missing)}")
        keys = tuple(plain_value(row[name]) for name in names)
        keys_of.setdefault(identity(keys), keys)
        parts.setdefault(identity(keys), []).append(row)
    if not parts:
        raise ValueError("groups has no rows: there is nothing to report")
    groups = [_group(keys_of[identity], rows) for identity, rows in parts.items()]
    return GroupTable(names, time, groups_in_time(groups, names, time), every, confidence)


def groups_in_time(
    groups: Iterable[Group], names: Sequence[str], time: str | None
) -> tuple[Group, ...]:
    """Return groups in the order of their times, where they have times."""
    if time is None:
        return tuple(groups)
    place = names.index(time)
    return tuple(sorted(groups, key=lambda group: sort_key(group.keys[place])))


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
        ClassRow(
            str(row["class"]),
            number(row["estimate"]),
            number(row["low"]),
            number(row["high"]),
            naive=_optional(row, "naive"),
            training=_optional(row, "training"),
        )
        for row in rows
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
    return number(row.get(name, row.get(_OTHER_NAMES[name])))


def estimates_table(
    estimates: Iterable[Estimate], keys: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return one row per estimate and class, as :func:`group_table` takes them.

    Parameters
    ----------
    estimates : Estimate of each group
    keys : mapping from the names of the keys to their values, for each group
    """
    rows = []
    for estimate, names in zip(estimates, keys, strict=True):
        p_value = number(estimate.diagnostics.get("fit", {}).get("p_value"))
        shared = {"n": estimate.size, "p_value": p_value, "status": estimate.status}
        columns = estimate.columns()
        rows += [
            {**names, **{name: column[code] for name, column in columns.items()}, **shared}
            for code in range(len(estimate.classes))
        ]
    return rows


def plain_value(value: Any) -> Any:
    """Return a scalar of NumPy or pandas as Python's own; NaN is None."""
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime()
    elif hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value
