"""The tables of a report, and the records of the files that the page offers to download."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kdey.report.groups import ClassRow, GroupTable
from kdey.report.periods import key_text
from kdey.report.vocabulary import percent
from kdey.tables.display import Cell, Column, Row, Table

#: Rows of groups shown on the page; all are in the file to download.
MOST_ROWS = 1000
#: The shares of a class with their headings on the page.
_HEADINGS = {
    "estimate": "Estimate",
    "low": "Low",
    "high": "High",
    "naive": "Naive count",
    "training": "Training",
    "truth": "Labels",
}
#: What files call a column where it is not its name here: as in the frames of estimates.
_FILE_NAMES = {"naive": "classify_and_count", "training": "training_prevalence", "truth": "labels"}


def prevalence_table(rows: Sequence[ClassRow], title: str) -> Table:
    """Return one row per class."""
    names = known_shares(rows)
    columns = (Column("Class", numeric=False), *(Column(_HEADINGS[name]) for name in names))
    cells = (Row.named(row.name, (_share(getattr(row, name)) for name in names)) for row in rows)
    return Table("classes", title, columns, tuple(cells))


def groups_table(table: GroupTable, title: str) -> Table:
    """Return one row per group and class, the first :data:`MOST_ROWS` of them."""
    pairs = [(group, row) for group in table.groups for row in group.rows]
    names = known_shares([row for _, row in pairs])
    checked = any(group.p_value is not None for group in table.groups)
    columns = [Column(name, numeric=False) for name in (*table.by, "Class")] + [Column("n")]
    columns += [Column(_HEADINGS[name]) for name in names]
    columns += [Column("Fit p\u2011value")] * checked + [Column("Status", numeric=False)]
    rows = []
    for group, row in pairs[:MOST_ROWS]:
        cells = [Cell(key_text(key), _sort_value(key)) for key in group.keys]
        cells += [Cell(row.name), Cell(f"{group.n:,}", float(group.n))]
        cells += [_share(getattr(row, name)) for name in names]
        if checked:
            cells.append(_p_value(group.p_value))
        rows.append(Row((*cells, Cell(group.status))))
    return Table("group-rows", title, tuple(columns), tuple(rows))


def confusions_table(confusions: Sequence[tuple[str, str, float]]) -> Table:
    """Return the most frequent confusions."""
    columns = (
        Column("True class", numeric=False),
        Column("Predicted", numeric=False),
        Column("Share of the class"),
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
