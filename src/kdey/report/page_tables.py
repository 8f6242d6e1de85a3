"""The tables of a report, and the records of the files that the page offers to download."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kdey.report.calendar import key_text, position
from kdey.report.shown_groups import ClassRow, Group, GroupTable
from kdey.report.vocabulary import listed, percent, plain_status
from kdey.status import join_status, problems
from kdey.tables.output import Cell, Heading, Row, Table

#: Classes that the overview of groups has columns for; of more, so many are shown.
_MOST_CLASSES, _SHOWN_CLASSES = 5, 4
#: Rows of groups shown on the page; all are in the file to download.
MOST_ROWS = 1000
#: The shares of a class with their headings on the page.
_HEADINGS = {
    "estimate": "Estimate",
    "low": "Low",
    "high": "High",
    "naive": "Uncorrected count",
    "training": "Share in training",
    "truth": "Known labels",
}
#: What files call a column where it is not its name here: as in the frames of estimates.
_FILE_NAMES = {"naive": "classify_and_count", "training": "training_prevalence", "truth": "labels"}


def prevalence_table(rows: Sequence[ClassRow], title: str) -> Table:
    """Return one row per class."""
    names = [name for name in known_shares(rows) if name not in ("low", "high")]
    columns = [Heading("Class", numeric=False), *(Heading(_HEADINGS[name]) for name in names)]
    columns.insert(2, Heading("Limits"))
    table_rows = []
    for row in rows:
        cells = [_share(getattr(row, name)) for name in names]
        cells.insert(1, _limits(row))
        table_rows.append(Row.named(row.name, cells))
    return Table("classes", title, tuple(columns), tuple(table_rows))


def overview_table(table: GroupTable, whole: Sequence[ClassRow] | None, size: int | None) -> Table:
    """Return one row per group, with the shares of the first classes, and one of all together.

    Parameters
    ----------
    table : GroupTable
    whole : sequence of ClassRow, optional
        The shares of all groups together.
    size : int, optional
        The number of instances of all groups together.
    """
    fits = len(table.classes) <= _MOST_CLASSES
    shown = table.classes if fits else table.classes[:_SHOWN_CLASSES]
    notes = any(problems(group.status) for group in table.groups)
    columns = [Heading(name, numeric=False) for name in table.by] + [Heading("Records")]
    columns += [Heading(name) for name in shown]
    columns += [Heading("Note", numeric=False)] * notes
    rows = []
    for group in table.groups[:MOST_ROWS]:
        cells = [*_key_cells(table, group), Cell(f"{group.n:,}", float(group.n))]
        cells += [_share_with_limits(group.by_class.get(name)) for name in shown]
        cells += [Cell(plain_status(join_status(problems(group.status))))] * notes
        rows.append(Row(tuple(cells)))
    if whole is not None and size is not None:
        by_class = {row.name: row for row in whole}
        cells = [Cell("All together"), *[Cell()] * (len(table.by) - 1)]
        cells += [Cell(f"{size:,}", float(size))]
        cells += [_share_with_limits(by_class.get(name)) for name in shown]
        rows.append(Row((*cells, *[Cell()] * notes), "summary"))
    left_out = len(table.classes) - len(shown)
    more = f"; {left_out} more classes are in the technical part" if left_out else ""
    title = f"Shares by {listed(table.by)}, with limits{more}"
    return Table("overview", title, tuple(columns), tuple(rows))


def _key_cells(table: GroupTable, group: Group) -> list[Cell]:
    """Return the keys of a group as people say them, sorted by what they are."""
    return [
        Cell(text, position(key) if name == table.time else _sort_value(key))
        for name, text, key in zip(table.by, table.key_texts(group), group.keys, strict=True)
    ]


def _share_with_limits(row: ClassRow | None) -> Cell:
    """Return a share with its limits in brackets."""
    if row is None or row.estimate is None or row.low is None:
        return _share(None if row is None else row.estimate)
    return Cell(f"{percent(row.estimate)} ({_limits(row).text})", round(row.estimate, 9))


def _limits(row: ClassRow) -> Cell:
    """Return both limits in one cell, sorted by the lower one."""
    if row.low is None or row.high is None:
        return Cell("–", -1.0)
    return Cell(f"{100 * row.low:.1f}\u2013{100 * row.high:.1f}", round(row.low, 9))


def groups_table(table: GroupTable, title: str) -> Table:
    """Return one row per group and class, the first :data:`MOST_ROWS` of them."""
    pairs = [(group, row) for group in table.groups for row in group.rows]
    names = known_shares([row for _, row in pairs])
    checked = any(group.p_value is not None for group in table.groups)
    columns = [Heading(name, numeric=False) for name in (*table.by, "Class")] + [Heading("Records")]
    columns += [Heading(_HEADINGS[name]) for name in names]
    columns += [Heading("Fit p\u2011value")] * checked + [Heading("Status", numeric=False)]
    rows = []
    for group, row in pairs[:MOST_ROWS]:
        cells = _key_cells(table, group)
        cells += [Cell(row.name), Cell(f"{group.n:,}", float(group.n))]
        cells += [_share(getattr(row, name)) for name in names]
        if checked:
            cells.append(_p_value(group.p_value))
        rows.append(Row((*cells, Cell(group.status))))
    return Table("group-rows", title, tuple(columns), tuple(rows))


def confusions_table(confusions: Sequence[tuple[str, str, float]]) -> Table:
    """Return the most frequent confusions."""
    columns = (
        Heading("True class", numeric=False),
        Heading("Predicted", numeric=False),
        Heading("Share of the class"),
    )
    rows = (Row((Cell(true), Cell(predicted), _share(s))) for true, predicted, s in confusions)
    return Table("confusions", "Most frequent confusions", columns, tuple(rows))


def group_records(table: GroupTable) -> tuple[list[str], list[list[Any]]]:
    """Return column names and rows of all groups, for a file."""
    names = [name for name in _HEADINGS if name != "truth"]
    columns = [*table.by, "class", "n", *_file_names(names), "fit_p_value", "status"]
    rows = [
        [
            *(key_text(key) for key in group.keys),
            row.name,
            group.n,
            *(getattr(row, name) for name in names),
            group.p_value,
            group.status,
        ]
        for group in table.groups
        for row in group.rows
    ]
    return columns, rows


def class_records(rows: Sequence[ClassRow]) -> tuple[list[str], list[list[Any]]]:
    """Return column names and rows of all classes, for a file."""
    names = known_shares(rows)
    records = [[row.name, *(getattr(row, name) for name in names)] for row in rows]
    return ["class", *_file_names(names)], records


def known_shares(rows: Sequence[ClassRow]) -> list[str]:
    """Return the names of the shares that any row knows."""
    return [name for name in _HEADINGS if any(getattr(row, name) is not None for row in rows)]


def _file_names(names: Sequence[str]) -> list[str]:
    return [_FILE_NAMES.get(name, name) for name in names]


def _share(value: float | None) -> Cell:
    return Cell(percent(value), -1.0 if value is None else round(value, 9))


def _p_value(value: float | None) -> Cell:
    return Cell("–", -1.0) if value is None else Cell(f"{value:.3f}", value)


def _sort_value(key: Any) -> float | None:
    return float(key) if isinstance(key, int | float) and not isinstance(key, bool) else None
