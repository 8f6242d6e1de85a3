"""Tables in files: CSV (also gzipped), Parquet and Excel, read whole or in batches, and written.

The columns of a text file are text, whatever they look like: a role gives them a type later
(``columns.py``). Columns of Parquet, and cells of Excel, have types of their own and keep them.
"""

from __future__ import annotations

import io
import json
import math
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdey.tables.dialect import Dialect, ReadOptions, find_dialect, wide_encoding
from kdey.tables.excel import Sheet, is_excel, read_sheet, sheet_bytes
from kdey.tables.formats import csv_text

if TYPE_CHECKING:
    from kdey.tables.columns import Frame

#: Formats that tables are written in.
FORMATS = ("csv", "json", "parquet", "xlsx")
#: Rows of a batch of a Parquet file.
BATCH = 1 << 17
#: Bytes of a batch of a text file; no record may be longer.
BLOCK = 1 << 24
#: Byte order marks of UTF-16 and UTF-32: zeros after them are half a letter.
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


class TableError(ValueError):
    """A table that cannot be read, or not used; the message begins with its name."""


@dataclass(frozen=True)
class TableFile:
    """A table in a file, or on standard input ("-").

    Attributes
    ----------
    name : what messages call it
    source : path, or the bytes of standard input or a pipe
    kind : {"csv", "gzip", "parquet", "excel"}
    options : ReadOptions
    dialect : Dialect
        How a text file is written.
    """

    name: str
    source: Path | bytes
    kind: str
    options: ReadOptions = field(default_factory=ReadOptions)
    dialect: Dialect = field(default_factory=Dialect)

    @classmethod
    def open(cls, path: str, options: ReadOptions | None = None) -> TableFile:
        """Return the table at ``path``; its first bytes say of which kind it is.

        Parameters
        ----------
        path : str
            "-" is standard input.
        options : ReadOptions, optional
            How it is to be read. By default everything is found in the file.

        Raises
        ------
        TableError
            If it cannot be read, or is of no known kind.
        """
        asked = ReadOptions() if options is None else options
        if path == "-":
            name, source = "standard input", sys.stdin.buffer.read()
            return cls._identified(name, source, source[:4096], asked)
        try:
            source = _source(Path(path))
            if isinstance(source, bytes):
                return cls._identified(path, source, source[:4096], asked)
            with source.open("rb") as stream:
                return cls._identified(path, source, stream.read(4096), asked)
        except OSError as error:
            raise TableError(f"{path}: {error.strerror or error}") from error

    @classmethod
    def _identified(
        cls, name: str, source: Path | bytes, head: bytes, options: ReadOptions
    ) -> TableFile:
        file = cls(name, source, _kind(name, head), options)
        if file.kind not in ("csv", "gzip"):
            return file
        try:
            with file._stream() as stream:
                dialect = find_dialect(stream, options)
        except (OSError, ValueError) as error:
            raise TableError(f"{name}: {_one_line(error)}") from error
        return cls(name, source, file.kind, options, dialect)

    @property
    def decimal(self) -> str:
        """The decimal mark of numbers that are written as text: "." or ","."""
        is_asked = self.kind == "excel" and self.options.decimal != "auto"
        return self.options.decimal if is_asked else self.dialect.decimal

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed without a proof, one sentence each."""
        return self.dialect.notes

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        arrow = _arrow()
        try:
            if self.kind == "excel":
                names = self._sheet.table.column_names
            elif self.kind == "parquet":
                names = self._parquet().schema_arrow.names
            else:
                names = self._csv_names()
        except (arrow.ArrowException, OSError, UnicodeError) as error:
            raise TableError(f"{self.name}: {_one_line(error)}") from error
        self._check(names)
        return list(names)

    @property
    def first_row(self) -> int:
        """The number of the first record, for messages.

        The header of a text file is row 1; a sheet of Excel numbers its rows itself.
        """
        if self.kind == "excel":
            return self._sheet.first_row
        return 1 if self.kind == "parquet" else 2 + self.dialect.skipped_lines

    def read(self, keys: Sequence[str] = ()) -> Frame:
        """Return the whole table as a narwhals frame.

        Parameters
        ----------
        keys : names of columns whose texts are never taken for missing values
        """
        import narwhals as nw

        arrow = _arrow()
        try:
            table = self._table(keys)
            names = table.column_names  # decoded here: arrow itself takes any bytes for a name
        except (arrow.ArrowException, OSError, UnicodeError) as error:
            raise TableError(f"{self.name}: {_one_line(error)}") from error
        self._check(names)
        if table.num_rows == 0:
            raise TableError(f"{self.name}: the table has no rows")
        frame: Frame = nw.from_native(self._without_missing(table, keys), eager_only=True)
        return frame

    def batches(
        self, columns: Sequence[str] | None = None, keys: Sequence[str] = ()
    ) -> Iterator[Frame]:
        """Iterate over the table as narwhals frames, of which one is held at a time.

        Parameters
        ----------
        columns : names of columns, optional
            Only those of them that the table has are read. By default all.
        keys : names of columns whose texts are never taken for missing values
        """
        import narwhals as nw

        arrow, rows = _arrow(), 0
        try:
            for batch in self._batches(columns, keys):
                if batch.num_rows:
                    rows += batch.num_rows
                    table = arrow.Table.from_batches([batch])
                    yield nw.from_native(self._without_missing(table, keys), eager_only=True)
        except (arrow.ArrowException, OSError, UnicodeError) as error:
            raise TableError(f"{self.name}: {_one_line(error)}") from error
        if rows == 0:
            raise TableError(f"{self.name}: the table has no rows")

    def _table(self, keys: Sequence[str]) -> Any:
        """Return the whole table as one of pyarrow."""
        if self.kind == "excel":
            try:
                self._sheet.check_keys(keys)
            except ValueError as error:
                raise TableError(f"{self.name}: {error}") from error
            return self._sheet.table
        return self._parquet().read() if self.kind == "parquet" else self._csv()

    @cached_property
    def _sheet(self) -> Sheet:
        try:
            return read_sheet(self.source, self.options.sheet, self.decimal)
        except ValueError as error:
            raise TableError(f"{self.name}: {error}") from error

    def _batches(self, columns: Sequence[str] | None, keys: Sequence[str]) -> Iterator[Any]:
        """Yield record batches of pyarrow."""
        if self.kind == "excel":
            table = self._table(keys)
            self._check(table.column_names)
            read = _known(columns, table.column_names)
            yield from (table if read is None else table.select(read)).to_batches(BATCH)
        elif self.kind == "parquet":
            file = self._parquet()
            names = file.schema_arrow.names
            self._check(names)
            yield from file.iter_batches(BATCH, columns=_known(columns, names))
        else:
            names = self._csv_names()
            self._check(names)
            read = _known(columns, names)
            yield from self._open_csv(names, names if read is None else read)

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where it is known without reading them."""
        try:
            return int(self._parquet().metadata.num_rows) if self.kind == "parquet" else None
        except (_arrow().ArrowException, OSError) as error:
            raise TableError(f"{self.name}: {_one_line(error)}") from error

    def _parquet(self) -> Any:
        import pyarrow.parquet as pq

        return pq.ParquetFile(
            io.BytesIO(self.source) if isinstance(self.source, bytes) else self.source
        )

    def _csv(self) -> Any:
        """Return the whole text file as a table of texts."""
        arrow = _arrow()
        from pyarrow import csv

        names = self._csv_names()
        options = _as_texts(names)
        try:
            several = self._reading(use_threads=True)
            return csv.read_csv(self._stream(), several, self._parsing(), options)
        except arrow.ArrowInvalid:
            # Only a reader of one thread knows at which line it stands.
            single = self._reading(use_threads=False)
            return csv.read_csv(self._stream(), single, self._parsing(), options)

    def _csv_names(self) -> list[str]:
        """Return the header of a text file."""
        from pyarrow import csv

        with csv.open_csv(
            self._stream(), self._reading(use_threads=False), self._parsing()
        ) as reader:
            names: list[str] = reader.schema.names
        return names

    def _open_csv(self, names: Sequence[str], columns: Sequence[str]) -> Any:
        from pyarrow import csv

        return csv.open_csv(
            self._stream(),
            self._reading(block_size=BLOCK, use_threads=False),
            self._parsing(),
            _as_texts(names, include_columns=list(columns)),
        )

    def _reading(self, **options: Any) -> Any:
        from pyarrow import csv

        # Arrow passes over the mark of UTF-8 by itself.
        encoding = "utf8" if self.dialect.encoding.startswith("utf-8") else self.dialect.encoding
        return csv.ReadOptions(encoding=encoding, skip_rows=self.dialect.skipped_lines, **options)

    def _parsing(self) -> Any:
        from pyarrow import csv

        return csv.ParseOptions(delimiter=self.dialect.separator, newlines_in_values=True)

    def _stream(self) -> Any:
        arrow = _arrow()
        raw = io.BytesIO(self.source) if isinstance(self.source, bytes) else str(self.source)
        return arrow.input_stream(raw, compression="gzip" if self.kind == "gzip" else None)

    def _without_missing(self, table: Any, keys: Sequence[str]) -> Any:
        """Return a table in which texts that mean a missing value are null, but for keys."""
        if not self.options.missing_values:
            return table
        arrow = _arrow()
        from pyarrow import compute

        spellings = arrow.array(list(self.options.missing_values), arrow.string())
        for position, column in enumerate(table.schema):
            if column.name in keys or not arrow.types.is_string(column.type):
                continue
            texts = table.column(position)
            is_missing = compute.is_in(compute.utf8_trim_whitespace(texts), value_set=spellings)
            cleared = compute.if_else(is_missing, arrow.scalar(None, column.type), texts)
            table = table.set_column(position, column.name, cleared)
        return table

    def _check(self, names: Sequence[str]) -> None:
        repeated = sorted({name for name in names if list(names).count(name) > 1})
        if repeated:
            raise TableError(f"{self.name}: the column {repeated[0]!r} is there twice: rename one")


def _source(path: Path) -> Path | bytes:
    """Return a path, or all bytes of a pipe, which can be read only once."""
    mode = path.stat().st_mode
    if stat.S_ISREG(mode):
        return path
    if stat.S_ISFIFO(mode):
        return path.read_bytes()
    kind = "a directory" if stat.S_ISDIR(mode) else "neither a file nor a pipe"
    raise TableError(f"{path}: is {kind}; a table is needed")


def _known(columns: Sequence[str] | None, names: Sequence[str]) -> list[str] | None:
    known = set(names)
    return None if columns is None else [name for name in columns if name in known]


def _as_texts(names: Sequence[str], **options: Any) -> Any:
    """Return options under which every column holds texts, and an empty cell nothing."""
    arrow = _arrow()
    from pyarrow import csv

    return csv.ConvertOptions(
        column_types=dict.fromkeys(names, arrow.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
        **options,
    )


def _kind(name: str, head: bytes) -> str:
    if head[:4] == b"PAR1":
        return "parquet"
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    if not head.strip():
        raise TableError(f"{name}: the file is empty; a CSV table with a header line is needed")
    if is_excel(head):
        return "excel"
    zeros = b"\0" in head and not head.startswith(_WIDE_MARKS) and wide_encoding(head) is None
    if zeros or head[:2] == b"PK":
        raise TableError(f"{name}: neither CSV nor Parquet nor Excel; export it as one of them")
    return "csv"


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError("reading tables needs pyarrow: pip install 'kdey[table]'") from None
    return pyarrow


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def format_of(path: str | None, default: str = "csv") -> str:
    """Return the format that the ending of a file's name stands for; other endings are errors."""
    suffix = "" if path is None else Path(path).suffix.lower().removeprefix(".")
    if suffix and suffix not in FORMATS and suffix != "txt":
        raise ValueError(
            f"{path}: no format is known by the ending .{suffix}: use .csv, .json, .parquet or "
            ".xlsx, or name one with --format"
        )
    return suffix if suffix in FORMATS else default


def table_bytes(table: Any, format: str) -> bytes:
    """Return a pyarrow table in one of ``FORMATS``; JSON is a list of one object per row."""
    if format == "parquet":
        import pyarrow.parquet as pq

        stream = io.BytesIO()
        pq.write_table(table, stream)
        return stream.getvalue()
    if format == "xlsx":
        return sheet_bytes(table.column_names, [column.to_pylist() for column in table.columns])
    columns = [[_plain(value) for value in column.to_pylist()] for column in table.columns]
    rows = zip(*columns, strict=True)
    if format == "json":
        names = table.column_names
        lines = (json.dumps(dict(zip(names, row, strict=True)), allow_nan=False) for row in rows)
        return "[\n{}\n]\n".format(",\n".join(lines)).encode()
    return csv_text(table.column_names, rows).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
