"""The tables of a report: what is shown, what is sorted by, what is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kdey.report.groups import ClassRow, GroupTable, text
from kdey.report.svg import percent

#: Rows of groups shown on the page; all are in the file to download.
MOST_ROWS = 1000
_NAMES = ("estimate", "low", "high", "naive", "training", "truth")
#: What the columns are called in files: as in the frames of estimates.
_IN_FILES = {"naive": "classify_and_count", "training": "training_prevalence", "truth": "labels"}
_HEADINGS = {
    "estimate": "Estimate",
    "low": "Low",
    "high": "High",
    "naive": "Naive count",
    "training": "Training",
    "truth": "Labels",
}


@dataclass(frozen=True)
class Cell:
    """What a cell shows, and the number it is sorted by (None: by its text)."""

    shown: str
    value: float | None = None


@dataclass(frozen=True)
class Table:
    """A table that can be sorted.

    Attributes
    ----------
    name, caption : str
    columns : tuple of (heading, whether it holds numbers)
    rows : tuple of rows of cells, the first cell of each its heading
    filtered : bool
        Whether the page offers to show only rows with a text.
    """

    name: str
    caption: str
    columns: tuple[tuple[str, bool], ...]
    rows: tuple[tuple[Cell, ...], ...]
    filtered: bool = False


def known_columns(rows: Sequence[ClassRow]) -> list[str]:
    """Return the names of the shares that any row knows."""
    return [name for name in _NAMES if any(getattr(row, name) is not None for row in rows)]


def prevalence_table(rows: Sequence[ClassRow], caption: str) -> Table:
    """Return one row per class."""
    names = known_columns(rows)
    columns = (("Class", False), *((_HEADINGS[name], True) for name in names))
    made = tuple((Cell(row.name), *(_share(getattr(row, n)) for n in names)) for row in rows)
    return Table("classes", caption, columns, made)


def groups_table(table: GroupTable, caption: str) -> Table:
    """Return one row per group and class, the first :data:`MOST_ROWS` of them."""
    every = [(group, row) for group in table.groups for row in group.rows]
    names = known_columns([row for _, row in every])
    checked = any(group.p_value is not None for group in table.groups)
    columns = [(name, False) for name in table.by] + [("Class", False), ("n", True)]
    columns += [(_HEADINGS[name], True) for name in names]
    columns += [("Fit p\u2011value", True)] * checked + [("Status", False)]
    made = []
    for group, row in every[:MOST_ROWS]:
        cells = [Cell(text(key), _number(key)) for key in group.keys]
        cells += [Cell(row.name), Cell(f"{group.n:,}", float(group.n))]
        cells += [_share(getattr(row, name)) for name in names]
        if checked:
            shown = "–" if group.p_value is None else f"{group.p_value:.3f}"
            cells.append(Cell(shown, -1.0 if group.p_value is None else group.p_value))
        made.append((*cells, Cell(group.status)))
    return Table("group-rows", caption, tuple(columns), tuple(made), filtered=len(made) > 12)


def pairs_table(pairs: Sequence[tuple[str, str, float]]) -> Table:
    """Return the most frequent confusions."""
    columns = (("True class", False), ("Decided", False), ("Share of the class", True))
    made = tuple((Cell(a), Cell(b), _share(share)) for a, b, share in pairs)
    return Table("confusions", "Most frequent confusions", columns, made)


def group_records(table: GroupTable) -> tuple[list[str], list[list[Any]]]:
    """Return column names and rows of all groups, for a file."""
    names = [name for name in _NAMES if name != "truth"]
    columns = [*table.by, "class", "n", *_in_files(names), "fit_p_value", "status"]
    rows = [
        [
            *(text(key) for key in group.keys),
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
    names = known_columns(rows)
    return ["class", *_in_files(names)], [
        [row.name, *(getattr(row, n) for n in names)] for row in rows
    ]


def _in_files(names: Sequence[str]) -> list[str]:
    return [_IN_FILES.get(name, name) for name in names]


def _share(value: float | None) -> Cell:
    return Cell(percent(value), -1.0 if value is None else round(value, 9))


def _number(key: Any) -> float | None:
    return float(key) if isinstance(key, int | float) and not isinstance(key, bool) else None
