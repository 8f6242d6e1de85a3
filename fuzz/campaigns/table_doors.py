"""The doors by which a random table enters: text files of many dialects, other files, frames.

A door takes a table and gives one row per group and class, as pyarrow's rows. Writers of files are
plain and know nothing of the readers that are tried.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.campaigns.table_rows import SCORES, RandomTable
from kdey import Options
from kdey.groups import Request, estimate_table, predict_groups
from kdey.tables.dialect import ReadOptions
from kdey.tables.sources import open_source

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class TextDialect:
    """How a table is written as text, and what the reader is told of it.

    Attributes
    ----------
    separator, decimal, encoding, line_end : str
    quoting : a constant of the module csv
    packed : bool
        Whether the file is gzipped.
    date_format : str
        How dates are written; "excel": as serial numbers.
    options : ReadOptions
        What the user says; all else is to be found.
    """

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    line_end: str = "\n"
    quoting: int = csv.QUOTE_MINIMAL
    packed: bool = False
    date_format: str = "%Y-%m-%d"
    options: ReadOptions = field(default_factory=ReadOptions)


GERMAN = "%d.%m.%Y"
#: Dialects, as programs and countries write them.
DIALECTS = {
    "plain": TextDialect(),
    "windows": TextDialect(line_end="\r\n", encoding="utf-8-sig"),
    "quoted": TextDialect(quoting=csv.QUOTE_ALL),
    "german": TextDialect(";", ",", "cp1252", "\r\n", date_format=GERMAN),
    "german said": TextDialect(
        *(";", ",", "cp1252", "\r\n"),
        date_format=GERMAN,
        options=ReadOptions("cp1252", ";", ",", GERMAN),
    ),
    "tabs": TextDialect("\t"),
    "pipes": TextDialect("|", quoting=csv.QUOTE_ALL),
    "excel text": TextDialect("\t", encoding="utf-16", line_end="\r\n"),
    "packed": TextDialect(";", packed=True),
    "american": TextDialect(
        date_format="%m/%d/%Y", options=ReadOptions(date_format="%m/%d/%Y"), line_end="\r\n"
    ),
    "year first": TextDialect(";", line_end="\r", quoting=csv.QUOTE_ALL, date_format="%Y/%m/%d"),
    "serial": TextDialect(date_format="excel", options=ReadOptions(date_format="excel")),
    "spoken": TextDialect(date_format="%d %b %Y", options=ReadOptions(date_format="%d %b %Y")),
}


def cell_text(value: Any, dialect: TextDialect) -> str:
    """Return a cell as text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        plain = repr(int(value)) if value == int(value) else repr(value)
        return plain.replace(".", dialect.decimal)
    if isinstance(value, dt.date):
        as_number = dialect.date_format == "excel"
        return str(serial(value)) if as_number else value.strftime(dialect.date_format)
    return str(value)


def serial(day: dt.date) -> int:
    """Return the number that spreadsheets keep in the place of a day since March 1900."""
    return (day - dt.date(1899, 12, 30)).days


def can_write(table: RandomTable, dialect: TextDialect) -> bool:
    """Return whether an encoding has all letters of the keys of a table."""
    words = {value for key in table.keys.values() for value in key if isinstance(value, str)}
    try:
        "".join([*table.keys, *words]).encode(dialect.encoding)
    except UnicodeEncodeError:
        return False
    return True


def text_file(table: RandomTable, dialect: TextDialect) -> bytes:
    """Return a table as a text file."""
    columns = table.columns
    stream = io.StringIO(newline="")
    writer = csv.writer(
        stream,
        delimiter=dialect.separator,
        lineterminator=dialect.line_end,
        quoting=dialect.quoting,
    )
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([cell_text(value, dialect) for value in row])
    data = stream.getvalue().encode(dialect.encoding)
    return gzip.compress(data) if dialect.packed else data


def parquet_file(table: RandomTable) -> bytes:
    """Return a table as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(pa.table(table.columns), stream)
    return stream.getvalue()


def excel_file(table: RandomTable, *, merged: bool = False, as_numbers: bool = False) -> bytes:
    """Return a table as an Excel file, numbers and dates in cells of their types.

    Parameters
    ----------
    table : RandomTable
    merged : bool
        Whether equal keys of rows that follow each other are one cell.
    as_numbers : bool
        Whether dates are plain numbers, without the format that makes them dates.
    """
    import xlsxwriter

    stream = io.BytesIO()
    with xlsxwriter.Workbook(stream, {"in_memory": True}) as book:
        sheet = book.add_worksheet()
        dates = None if as_numbers else book.add_format({"num_format": "yyyy-mm-dd"})
        for place, (name, column) in enumerate(table.columns.items()):
            sheet.write_string(0, place, name)
            for start, stop in _runs(column, merged and name in table.keys):
                if stop - start > 1:
                    sheet.merge_range(start + 1, place, stop, place, "")
                _write(sheet, start + 1, place, column[start], dates)
    return stream.getvalue()


def _write(sheet: Any, row: int, place: int, value: Any, dates: Any) -> None:
    if isinstance(value, str):
        sheet.write_string(row, place, value)
    elif isinstance(value, bool):
        sheet.write_boolean(row, place, value)
    elif isinstance(value, dt.date):
        sheet.write_number(row, place, serial(value), dates)
    elif value is not None:
        sheet.write_number(row, place, value)


def _runs(column: list[Any], merged: bool) -> Iterator[tuple[int, int]]:
    """Yield where runs of equal values begin and end; each value by itself unless merged."""
    start = 0
    for stop in range(1, len(column) + 1):
        same = stop < len(column) and column[stop] == column[start] and column[start] is not None
        if not (merged and same):
            yield start, stop
            start = stop


def by_file(
    quantifier: Any, table: RandomTable, data: bytes, folder: Path, options: ReadOptions
) -> Rows:
    """Return the groups of a file."""
    path = folder / "table"
    path.write_bytes(data)
    by = tuple(name for name in table.keys if name != table.time)
    every = None if table.time is None else "1mo"
    file = open_source(str(path), options)
    judged = Options(missing="drop", check_fit=False, date_format=options.date_format)
    asked = Request.of(by, time=table.time, every=every, scores=SCORES, options=judged)
    rows: Rows = estimate_table(quantifier, file, asked).to_frame().to_pylist()
    return rows


def notes_of(data: bytes, folder: Path) -> tuple[str, ...]:
    """Return what is pointed out when a file is opened."""
    path = folder / "table"
    path.write_bytes(data)
    return open_source(str(path)).notes


def by_frame(quantifier: Any, table: RandomTable, frame: Any) -> Rows:
    """Return the groups of a data frame."""
    import narwhals as nw

    by = [name for name in table.keys if name != table.time]
    every = None if table.time is None else "1mo"
    done = predict_groups(
        quantifier,
        frame,
        by,
        scores=SCORES,
        time=table.time,
        every=every,
        options=Options(missing="drop", check_fit=False),
    ).to_frame()
    rows: Rows = nw.from_native(done, eager_only=True).rows(named=True)
    return rows


def pandas_frame(table: RandomTable) -> Any:
    """Return a frame of pandas; columns of several types hold objects."""
    import pandas as pd

    frame = {}
    for name, values in table.columns.items():
        kinds = {type(value) for value in values if value is not None}
        if kinds == {dt.date}:
            frame[name] = pd.to_datetime(pd.Series(values))
        elif len(kinds) > 1:
            frame[name] = pd.Series(values, dtype=object)
        else:
            frame[name] = pd.Series(values)
    return pd.DataFrame(frame)


def polars_frame(table: RandomTable) -> Any:
    """Return a frame of polars."""
    import polars as pl

    return pl.DataFrame(table.columns)


def arrow_table(table: RandomTable) -> Any:
    """Return a table of pyarrow."""
    import pyarrow as pa

    return pa.table(table.columns)


def by_dask(quantifier: Any, table: RandomTable, n_partitions: int) -> Rows:
    """Return the groups of a frame of Dask, which is not to make texts of objects by itself."""
    import dask
    import dask.dataframe as dd

    with dask.config.set({"dataframe.convert-string": False}):
        frame = dd.from_pandas(pandas_frame(table), npartitions=n_partitions)
        return by_frame(quantifier, table, frame)


#: Doors that columns of one type pass; those of Python objects enter by pandas and Dask alone.
TYPED_FRAMES: dict[str, Callable[[RandomTable], Any]] = {
    "polars": polars_frame,
    "arrow": arrow_table,
}


def pandas_nullable(table: RandomTable) -> Any:
    """Return a frame of pandas in its types that have missing values of their own."""
    return pandas_frame(table).convert_dtypes()


def _with_keys(frame: Any, table: RandomTable, kind: Any) -> Any:
    return frame.astype({name: kind for name in table.keys if name != table.time})


def pandas_categories(table: RandomTable) -> Any:
    """Return a frame of pandas whose keys are categories."""
    return _with_keys(pandas_frame(table), table, "category")


def pandas_arrow(table: RandomTable) -> Any:
    """Return a frame of pandas whose columns are those of pyarrow."""
    import pandas as pd

    return arrow_table(table).to_pandas(types_mapper=pd.ArrowDtype)


def arrow_dictionaries(table: RandomTable) -> Any:
    """Return a table of pyarrow in chunks, its keys dictionaries that differ between chunks."""
    import pyarrow as pa

    whole = arrow_table(table)
    half = whole.num_rows // 2
    parts = [whole.slice(0, half), whole.slice(half)]
    for place, name in enumerate(whole.column_names):
        if name in table.keys and name != table.time:
            parts = [p.set_column(place, name, p[name].dictionary_encode()) for p in parts]
    return pa.concat_tables(parts)


def polars_reversed(table: RandomTable) -> Any:
    """Return a frame of polars in reverse order, which no answer depends on."""
    return polars_frame(table)[::-1]


#: Frames with types that are less common; a table enters by one of them.
RARE_FRAMES: dict[str, Callable[[RandomTable], Any]] = {
    "pandas nullable": pandas_nullable,
    "pandas categories": pandas_categories,
    "pandas of arrow": pandas_arrow,
    "arrow dictionaries": arrow_dictionaries,
    "polars reversed": polars_reversed,
}
