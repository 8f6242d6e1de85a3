"""Tables that are written: for people on a page or a terminal, and as files.

A table that people read has rows of cells, each a text with the number behind it. The tables of a
report and those that commands print are built from these classes. Files are CSV, JSON, Parquet or
Excel (by xlsxwriter, extra ``excel``).
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kdey.tables import parse_number
from kdey.tables.excel import sheet_bytes

if TYPE_CHECKING:
    from rich.table import Table as RichTable

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
class Heading:
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
    columns : tuple of Heading
        The first one holds the names of the rows.
    rows : tuple of Row
    notes : tuple of str
        Shown below the table.
    """

    name: str
    title: str
    columns: tuple[Heading, ...]
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


def headings(
    corner: str, names: Sequence[str], families: Sequence[str] = ()
) -> tuple[Heading, ...]:
    """Return a column of row names, headed ``corner``, and numeric columns of these names."""
    groups = families or [""] * len(names)
    numeric = (Heading(name, family=family) for name, family in zip(names, groups, strict=True))
    return (Heading(corner, numeric=False), *numeric)


# CSV


#: Signs with which a spreadsheet takes a cell of a CSV file for a formula.
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def csv_text(columns: Sequence[str], records: Iterable[Sequence[Any]], line_end: str = "\n") -> str:
    """Return records as CSV; None is an empty field.

    Texts that a spreadsheet would take for a formula begin with an apostrophe; numbers stay what
    they are, also where they are written as text.
    """
    # A cell is quoted where it holds a character of the line's end: both must be in it.
    lines = _Lines()
    writer = csv.writer(lines, lineterminator="\r\n")
    writer.writerow(map(_guarded, columns))
    writer.writerows([_guarded(cell) for cell in record] for record in records)
    return line_end.join([*lines.texts, ""])


class _Lines:
    """A stream that keeps the lines of a CSV writer without their ends."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def write(self, line: str) -> None:
        """Keep a line."""
        self.texts.append(line.removesuffix("\r\n"))


def _guarded(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.startswith(_FORMULA_SIGNS):
        return cell
    number = parse_number(cell)
    return cell if number is not None and number == number else f"'{cell}"


# Terminal

_ROW_STYLES = {"plain": None, "summary": None, "best": "bold green", "muted": "dim"}


def terminal_table(
    table: Table,
    columns: slice = slice(1, None),
    *,
    wrap: bool = True,
    titled: bool = False,
    ruled: bool = True,
) -> RichTable:
    """Return a table as rich prints it.

    Parameters
    ----------
    table : Table
    columns : slice
        Which columns to show beside the first.
    wrap : bool
        Whether texts may be wrapped where the terminal is narrow.
    titled : bool
        Whether the title stands above the table.
    ruled : bool
        Whether columns have lines between them; otherwise only the headings are underlined.
    """
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    title = table.title if titled else None
    drawn = RichTable(title=title, box=box.HEAVY_HEAD if ruled else box.SIMPLE_HEAD)
    for column in (table.columns[0], *table.columns[columns]):
        justify: Any = "right" if column.numeric else "left"
        # A word that is longer than its column goes on in the next line.
        drawn.add_column(Text(column.name), justify=justify, no_wrap=not wrap, overflow="fold")
    for place, row in enumerate(table.rows):
        if row.kind == "summary" and place and table.rows[place - 1].kind != "summary":
            drawn.add_section()
        name = Text(row.name, style="italic" if row.kind == "summary" else "")
        cells = [
            Text(cell.text + cell.mark, style=_cell_style(cell)) for cell in row.cells[columns]
        ]
        drawn.add_row(name, *cells, style=_ROW_STYLES[row.kind])
    return drawn


def _cell_style(cell: Cell) -> str:
    """Return bold for the best, and a colour between green and red."""
    bold = "bold " if cell.best else ""
    if cell.shade is None:
        return bold.strip()
    share = abs(cell.shade)
    strong, weak = round(150 + 70 * share), round(200 - 120 * share)
    red, green = (weak, strong) if cell.shade >= 0 else (strong, weak)
    return f"{bold}rgb({red},{green},{weak})"


# Files

#: Formats that tables are written in.
FORMATS = ("csv", "json", "parquet", "xlsx")


def format_of(path: str | None) -> str:
    """Return the format that the ending of a file's name stands for; none, and .txt, mean CSV."""
    suffix = "" if path is None else Path(path).suffix.lower().removeprefix(".")
    if suffix and suffix not in FORMATS and suffix != "txt":
        raise ValueError(
            f"{path}: no format is known by the ending .{suffix}: use .csv, .json, .parquet or "
            ".xlsx, or name one (format='csv')"
        )
    return suffix if suffix in FORMATS else "csv"


#: Significant digits of numbers in CSV files, and those that a number has at most.
CSV_DIGITS, ALL_DIGITS = 6, 17


def table_bytes(table: Any, format: str, digits: int | None = None) -> bytes:
    """Return a pyarrow table in one of ``FORMATS``; JSON is a list of one object per row.

    Parameters
    ----------
    table : pyarrow table
        Columns in front of "class" or "n" are keys, and keep all digits.
    format : {"csv", "json", "parquet", "xlsx"}
    digits : int, optional
        Significant digits of fractions in CSV and JSON: by default 6 in CSV, and all in JSON. The
        other formats keep all of them.
    """
    if format == "parquet":
        import pyarrow.parquet as pq

        stream = io.BytesIO()
        pq.write_table(table, stream)
        return stream.getvalue()
    names = table.column_names
    if format == "xlsx":
        return sheet_bytes(names, [column.to_pylist() for column in table.columns])
    kept = digits or (CSV_DIGITS if format == "csv" else ALL_DIGITS)
    first = min((names.index(name) for name in ("class", "n") if name in names), default=0)
    columns = [
        [_plain(value, kept if place >= first else ALL_DIGITS) for value in column.to_pylist()]
        for place, column in enumerate(table.columns)
    ]
    rows = zip(*columns, strict=True)
    if format == "json":
        lines = (json.dumps(dict(zip(names, row, strict=True)), allow_nan=False) for row in rows)
        return "[\n{}\n]\n".format(",\n".join(lines)).encode()
    return csv_text(names, rows).encode()


def _plain(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
