"""A table that people read: rows of cells, each a text with the number behind it.

The paper's tables, the tables of a report and those that commands print are all built from these
classes. :mod:`kdey.tables.formats` writes them, with one writer per format.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kdey.bags import Array

#: "summary" rows (averages, ranks) stand apart from the others; "best" and "muted" rows are shown
#: stronger and weaker.
RowKind = Literal["plain", "summary", "best", "muted"]


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes
    ----------
    text : str
        What is shown; empty where there is nothing.
    value : float or None
        The number behind the text, by which a page sorts.
    best : bool
        Shown in bold.
    mark : str
        "†", "‡" or "", shown after the text.
    shade : float or None
        From 1 (intense green) through 0 to -1 (intense red).
    """

    text: str = ""
    value: float | None = None
    best: bool = False
    mark: str = ""
    shade: float | None = None


@dataclass(frozen=True)
class Column:
    """The heading of a column.

    Attributes
    ----------
    name : str
    numeric : bool
        Numbers are aligned to the right, texts to the left.
    family : str
        Neighbouring columns of one family share a heading above theirs; empty for none.
    """

    name: str
    numeric: bool = True
    family: str = ""


@dataclass(frozen=True)
class Row:
    """A row, one cell per column; the first cell names the row."""

    cells: tuple[Cell, ...]
    kind: RowKind = "plain"

    @property
    def name(self) -> str:
        """The text of the first cell."""
        return self.cells[0].text

    @classmethod
    def named(cls, name: str, cells: Iterable[Cell], kind: RowKind = "plain") -> Row:
        """Return a row from its name and its other cells."""
        return cls((Cell(name), *cells), kind)


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes
    ----------
    name : str
        For file names and links.
    title : str
    columns : tuple of Column
        The first one holds the names of the rows.
    rows : tuple of Row
    notes : tuple of str
        Shown below the table.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def families(self) -> list[tuple[str, int]]:
        """Families with their numbers of neighbouring columns, without the first column."""
        spans: list[tuple[str, int]] = []
        for column in self.columns[1:]:
            if spans and spans[-1][0] == column.family:
                spans[-1] = (column.family, spans[-1][1] + 1)
            else:
                spans.append((column.family, 1))
        return spans if any(family for family, _ in spans) else []


def fit_to_page(table: Table, corner: str, most: int = 7) -> list[Table]:
    """Return a table as it fits on a page: turned over, and in pieces where it is still too wide.

    Parameters
    ----------
    table : Table
    corner : str
        Heading of the names of the rows where the table is turned over: what its columns were.
    most : int, default=7
        Columns beside the names of the rows.

    Returns
    -------
    tables : list of Table
        The table itself if it is narrow. Otherwise its columns become rows and its rows columns,
        summaries first, in as many tables as there are runs of ``most`` columns.
    """
    if len(table.columns) - 1 <= most:
        return [table]
    order = sorted(range(len(table.rows)), key=lambda i: table.rows[i].kind != "summary")
    runs = [order[start : start + most] for start in range(0, len(order), most)]
    pieces = []
    for number_of_piece, run in enumerate(runs, start=1):
        which = "" if len(runs) == 1 else f" ({number_of_piece} of {len(runs)})"
        rows = tuple(
            Row.named(column.name, (table.rows[i].cells[j] for i in run))
            for j, column in enumerate(table.columns[1:], start=1)
        )
        columns = headings(corner, [table.rows[i].name for i in run])
        name = table.name + (f"-{number_of_piece}" if which else "")
        pieces.append(Table(name, table.title + which, columns, rows, table.notes))
    return pieces


def headings(corner: str, names: Sequence[str], families: Sequence[str] = ()) -> tuple[Column, ...]:
    """Return a column of row names, headed ``corner``, and numeric columns of these names."""
    groups = families or [""] * len(names)
    numeric = (Column(name, family=family) for name, family in zip(names, groups, strict=True))
    return (Column(corner, numeric=False), *numeric)


def number(value: float, digits: int = 5) -> Cell:
    """Return a plain number; NaN gives an empty cell."""
    if np.isnan(value):
        return Cell()
    return Cell(f"{value:.{digits}f}", float(value))


def shaded(
    values: Array, texts: Sequence[str] | None = None, marks: Sequence[str] | None = None
) -> tuple[Cell, ...]:
    """Return a row of cells, the smallest value in bold and green, the largest in red.

    Parameters
    ----------
    values : array of shape (n_columns,)
        NaN where there is nothing.
    texts, marks : one per value
    """
    known = values[~np.isnan(values)]
    smallest, largest = (known.min(), known.max()) if len(known) else (0.0, 0.0)
    span = largest - smallest
    cells = []
    for i, value in enumerate(values.tolist()):
        if np.isnan(value):
            cells.append(Cell())
            continue
        cells.append(
            Cell(
                f"{value:.5f}" if texts is None else texts[i],
                value,
                best=value == smallest,
                mark="" if marks is None else marks[i],
                shade=1.0 - 2.0 * (value - smallest) / span if span > 0 else None,
            )
        )
    return tuple(cells)
