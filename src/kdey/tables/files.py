"""Tables in files: CSV (also gzipped), Parquet and Excel, read whole or in batches.

The columns of a text file are text, whatever they look like: a role gives them a type later
(``columns.py``). Columns of Parquet, and cells of Excel, have types of their own and keep them. A
column of a sheet that mixes types becomes text: the canonical texts of its cells, so that the
number 7 and the text "7" are the same there. Sheets are read with python-calamine (extra
``excel``).
"""

from __future__ import annotations

import io
import stat
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdey.tables.columns import canonical_text, distinct_texts
from kdey.tables.dialect import Dialect, ReadOptions, find_dialect, wide_encoding

if TYPE_CHECKING:
    from kdey.tables.columns import Frame

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
        with self._errors():
            if self.kind == "excel":
                names = self._sheet.table.column_names
            elif self.kind == "parquet":
                names = self._parquet().schema_arrow.names
            else:
                names = self._csv_names()
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

        with self._errors():
            table = self._table(keys)
            names = table.column_names  # decoded here: arrow itself takes any bytes for a name
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
        with self._errors():
            for batch in self._batches(columns, keys):
                if batch.num_rows:
                    rows += batch.num_rows
                    table = arrow.Table.from_batches([batch])
                    yield nw.from_native(self._without_missing(table, keys), eager_only=True)
        if rows == 0:
            raise TableError(f"{self.name}: the table has no rows")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn what pyarrow and the system raise into errors that name the table."""
        arrow = _arrow()
        try:
            yield
        except (arrow.ArrowException, OSError, UnicodeError) as error:
            raise TableError(f"{self.name}: {_one_line(error)}") from error

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
        with self._errors():
            return int(self._parquet().metadata.num_rows) if self.kind == "parquet" else None

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


#: Bytes that the parts of a file may unpack to in all.
_MOST_BYTES = 1 << 32
#: A file that unpacks to more than this many times its size, and to many bytes, is no sheet.
_MOST_RATIO, _FEW_BYTES = 200, 1 << 26
#: Whole numbers beyond this are floats: Excel's numbers are float64.
_EXACT = 2**53
_ARCHIVE, _COMPOUND = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def is_excel(head: bytes) -> bool:
    """Return whether a file begins as those of Excel and other spreadsheets do."""
    return head.startswith((_ARCHIVE, _COMPOUND))


@dataclass(frozen=True, eq=False)
class Sheet:
    """A sheet that was read.

    Attributes
    ----------
    table : pyarrow table
    mixed : dict from names of columns to their cells
        Of columns whose cells are of several types; the table has their texts.
    first_row : int
        Number that Excel shows beside the first record.
    """

    table: Any
    mixed: dict[str, list[Any]]
    first_row: int

    def check_keys(self, names: Iterable[str]) -> None:
        """Raise where two different cells of a column have one text, naming both."""
        for name in names:
            cells = dict.fromkeys((type(cell), cell) for cell in self.mixed.get(name, ()))
            distinct_texts([cell for _, cell in cells], name)


def read_sheet(source: Path | bytes, sheet: str, decimal: str) -> Sheet:
    """Return a sheet of an Excel file; its first row that is not empty is the header.

    Parameters
    ----------
    source : path, or the bytes of the file
    sheet : str
        Name, or number from 1; "auto": the only one that is not empty.
    decimal : {".", ","}
        Decimal mark that numbers get in columns that mix them with texts.

    Raises
    ------
    ValueError
        If the file cannot be read, the sheet is not clear, or a column has no name.
    """
    calamine = _calamine()
    try:
        _check_size(source)
        with _opened(source) as stream:
            book = calamine.CalamineWorkbook.from_filelike(stream)
            rows = _rows(book, sheet)
    except (calamine.CalamineError, zipfile.BadZipFile) as error:
        raise ValueError(f"not a sheet that can be read ({' '.join(str(error).split())})") from None
    filled = [number for number, row in enumerate(rows) if any(cell != "" for cell in row)]
    if not filled:
        raise ValueError("the sheet is empty; a header row is needed")
    header, records = rows[filled[0]], rows[filled[0] + 1 : filled[-1] + 1]
    return _sheet(header, records, filled[0] + 2, decimal)


def _calamine() -> Any:
    try:
        import python_calamine
    except ImportError:
        raise ImportError(
            "reading Excel files needs python-calamine: pip install 'kdey[excel]'"
        ) from None
    return python_calamine


def _opened(source: Path | bytes) -> Any:
    return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")


def _check_size(source: Path | bytes) -> None:
    """Raise where an archive would unpack to more than a sheet can hold."""
    packed = len(source) if isinstance(source, bytes) else source.stat().st_size
    with _opened(source) as stream:
        if stream.read(len(_ARCHIVE)) != _ARCHIVE:
            return
        with zipfile.ZipFile(stream) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > _MOST_BYTES or (unpacked > _FEW_BYTES and unpacked > _MOST_RATIO * packed):
        raise ValueError(f"the file would unpack to {unpacked:,} bytes: export the table as CSV")


def _rows(book: Any, sheet: str) -> list[list[Any]]:
    """Return the cells of a sheet, "" where they are empty."""
    names: list[str] = book.sheet_names
    if sheet == "auto":
        filled = [name for name in names if book.get_sheet_by_name(name).height]
        if len(filled) > 1:
            raise ValueError(
                f"the file has {len(filled)} sheets ({', '.join(map(repr, filled[:8]))}): name one "
                "with --sheet"
            )
        sheet = filled[0] if filled else names[0]
    elif sheet not in names:
        if not sheet.isdecimal() or not 1 <= int(sheet) <= len(names):
            raise ValueError(f"no sheet {sheet!r}; the file has {', '.join(map(repr, names[:8]))}")
        sheet = names[int(sheet) - 1]
    rows: list[list[Any]] = book.get_sheet_by_name(sheet).to_python(skip_empty_area=False)
    return rows


def _sheet(header: list[Any], records: list[list[Any]], first_row: int, decimal: str) -> Sheet:
    import pyarrow as pa

    names, columns, mixed = [], [], {}
    for place, title in enumerate(header):
        cells = [None if record[place] == "" else record[place] for record in records]
        name = canonical_text(title)
        if name == "":
            if any(cell is not None for cell in cells):
                raise ValueError(
                    f"column {_letters(place)} has values but no name in row {first_row - 1}: the "
                    "first row that is not empty must be the header"
                )
            continue
        values, is_mixed = _column(cells, decimal)
        names.append(name)
        columns.append(values)
        if is_mixed:
            mixed[name] = [cell for cell in cells if cell is not None]
    return Sheet(pa.Table.from_arrays(columns, names=names), mixed, first_row)


def _letters(place: int) -> str:
    """Return the letters of a column as Excel shows them."""
    letters = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def _column(cells: list[Any], decimal: str) -> tuple[Any, bool]:
    """Return the cells of a column in one type, and whether they were of several."""
    import pyarrow as pa

    kinds = {_cell_kind(cell) for cell in cells if cell is not None}
    if kinds == {"number"}:
        whole = all(cell is None or (cell % 1 == 0 and abs(cell) < _EXACT) for cell in cells)
        if whole:
            return pa.array([None if c is None else int(c) for c in cells], pa.int64()), False
        return pa.array(cells, pa.float64()), False
    if kinds == {"truth"}:
        return pa.array(cells, pa.bool_()), False
    if kinds == {"date"}:
        return pa.array(cells, pa.date32()), False
    if kinds <= {"date", "instant"} and kinds:
        instants = [None if cell is None else _instant(cell) for cell in cells]
        return pa.array(instants, pa.timestamp("us")), False
    texts = [None if cell is None else _text(cell, decimal) for cell in cells]
    return pa.array(texts, pa.string()), len(kinds) > 1


def _cell_kind(cell: Any) -> str:
    if isinstance(cell, bool):
        return "truth"
    if isinstance(cell, int | float):
        return "number"
    if isinstance(cell, datetime):
        return "instant"
    return "date" if isinstance(cell, date) else type(cell).__name__


def _instant(cell: date) -> datetime:
    return cell if isinstance(cell, datetime) else datetime(cell.year, cell.month, cell.day)


def _text(cell: Any, decimal: str) -> str:
    text = canonical_text(cell)
    return text.replace(".", decimal) if _cell_kind(cell) == "number" else text
