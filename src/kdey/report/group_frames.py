"""Groups from frames and lists of dictionaries with one row per group and class, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kdey.diagnostics.fit_checker import DEFAULT_CHECK_LEVEL
from kdey.intervals import Estimate
from kdey.report.groups import ClassRow, Group, GroupTable, identity, number
from kdey.report.periods import sort_key
from kdey.status import NOT_CHECKED, OK, POOR_FIT, TOO_SMALL, join_status

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
    names = tuple(dict.fromkeys([*by, *([] if time is None else [time])]))
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
    if time is not None:
        place = names.index(time)
        groups = sorted(groups, key=lambda group: sort_key(group.keys[place]))
    return GroupTable(names, time, tuple(groups), every, confidence)


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
    estimates: Iterable[Estimate],
    keys: Sequence[Mapping[str, Any]],
    p_values: Sequence[float | None] | None = None,
    fewest: int = 1,
) -> list[dict[str, Any]]:
    """Return one row per estimate and class, as :func:`group_table` takes them.

    Parameters
    ----------
    estimates : Estimate of each group
    keys : mapping from the names of the keys to their values, for each group
    p_values : of the fit check of each group, optional
        By default those of the estimates.
    fewest : int
        Groups with fewer instances have the status "too small".
    """
    listed = list(estimates)
    checked = [_fit_p_value(estimate) for estimate in listed] if p_values is None else p_values
    rows = []
    for estimate, names, p_value in zip(listed, keys, checked, strict=True):
        status = estimate.status
        if p_values is not None and p_value is not None:
            fit = POOR_FIT if p_value <= DEFAULT_CHECK_LEVEL else OK
            status = join_status([*estimate.problems, fit])
        if estimate.size < fewest:
            status = join_status([TOO_SMALL, *estimate.problems])
        shared = {"n": estimate.size, "p_value": p_value, "status": status}
        columns = estimate.columns()
        rows += [
            {**names, **{name: column[code] for name, column in columns.items()}, **shared}
            for code in range(len(estimate.classes))
        ]
    return rows


def _fit_p_value(estimate: Estimate) -> float | None:
    fit = estimate.diagnostics.get("fit", {})
    return number(fit.get("p_value"))


def plain_value(value: Any) -> Any:
    """Return a scalar of NumPy or pandas as Python's own; NaN is None."""
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime()
    elif hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value
