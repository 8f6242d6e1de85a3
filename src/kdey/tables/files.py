"""Tables in files: CSV (also gzipped), Parquet and Excel, read whole or in batches.

:class:`ReadOptions` is what a user may say; what is left "auto" (the encoding of a text file, the
separator of its columns, its decimal mark) is found in the file, with a note for each thing that
the file does not prove.

The columns of a text file are text, whatever they look like: a role gives them a type later
(``columns.py``). Columns of Parquet, and cells of Excel, have types of their own and keep them. A
column of a sheet that mixes types becomes text (``excel.py``).
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from kdey.tables.columns import distinct_texts, is_missing_text, parse_number
from kdey.tables.dates import EXCEL
from kdey.tables.excel import ARCHIVE, COMPOUND, opened, read_sheet

if TYPE_CHECKING:
    from kdey.tables.columns import Frame

#: Rows of a batch of a Parquet file.
BATCH = 1 << 17
#: Bytes of a batch of a text file; no record may be longer.
BLOCK = 1 << 24
#: Byte order marks of UTF-16 and UTF-32: zeros after them are half a letter.
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
#: What may separate columns. A tie goes to the earlier one.
SEPARATORS = (",", ";", "\t", "|")
#: Decimal marks.
DECIMALS = (".", ",")
#: Names by which a separator may be given, beside the character itself.
_SEPARATOR_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
#: Characters of the file that separator and decimal mark are looked for in.
_SAMPLE = 1 << 18
#: Records that must agree on the number of columns.
_RECORDS = 200
#: Bytes that are decoded at once where the whole file is tried.
_CHUNK = 1 << 20
#: Byte order marks, the longer first: that of UTF-32 begins like that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
#: Bytes that mean nothing in Windows-1252, but something in Latin-1.
_NOT_WINDOWS = frozenset(b"\x81\x8d\x8f\x90\x9d")
#: The line by which Excel announces a separator.
_ANNOUNCEMENT = re.compile(r"sep=(.)\r?\n")
_WITH_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
_WITH_POINT = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?")
#: A comma as decimal mark, or between thousands: nobody can tell.
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")


class TableError(ValueError):
    """A table that cannot be read, or not used; the message begins with its name."""


@dataclass(frozen=True)
class ReadOptions:
    """How a file is to be read; "auto" is found in the file.

    Parameters
    ----------
    encoding : str
        Of a text file: a name that Python knows, such as "utf-8", "cp1252" or "utf-16".
    separator : str
        Of the columns of a text file: one character, or "tab".
    decimal : {"auto", ".", ","}
        The decimal mark of numbers that are written as text.
    date_format : str
        Of dates that are written as text, in the notation of strftime ("%d.%m.%Y"). "excel": serial
        numbers, 45292 for 2024-01-01. "auto": ISO 8601, or day, month and year where the column
        shows which of them comes first.
    sheet : str
        The sheet of an Excel file, by its name or by its number from 1. "auto": the only one that
        is not empty.
    missing_values : tuple of str
        Texts that mean a missing value in all columns but the keys. An empty cell always does; see
        :data:`kdey.tables.columns.MISSING` for what does in columns of numbers and dates.

    Raises
    ------
    ValueError
        If an option is none of these.
    """

    encoding: str = "auto"
    separator: str = "auto"
    decimal: str = "auto"
    date_format: str = "auto"
    sheet: str = "auto"
    missing_values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.encoding != "auto":
            _check_encoding(self.encoding)
        if self.separator != "auto":
            object.__setattr__(self, "separator", _check_separator(self.separator))
        if self.decimal not in ("auto", *DECIMALS):
            raise ValueError(f"decimal must be '.', ',' or 'auto', got {self.decimal!r}")
        if self.decimal == self.separator != "auto":
            raise ValueError(
                f"separator and decimal are both {self.decimal!r}: a number would end at its mark"
            )
        if self.date_format not in ("auto", EXCEL) and "%" not in self.date_format:
            raise ValueError(
                f"date_format must be in the notation of strftime, such as '%d.%m.%Y', '{EXCEL}' "
                f"or 'auto', got {self.date_format!r}"
            )


def _check_encoding(name: str) -> None:
    try:
        "".encode(name).decode(name)  # refuses what is unknown, and codecs that are not for text
        codecs.getincrementaldecoder(name)
    except (LookupError, ValueError):
        raise ValueError(
            f"encoding must be one that Python knows, such as 'utf-8', 'cp1252' or 'utf-16', or "
            f"'auto', got {name!r}"
        ) from None


def _check_separator(text: str) -> str:
    separator = _SEPARATOR_NAMES.get(text.lower(), text)
    if len(separator) != 1 or separator in '"\r\n' or ord(separator) > 127:
        raise ValueError(
            f"separator must be one character, such as ',' or ';', or 'tab', got {text!r}"
        )
    return separator


@dataclass(frozen=True)
class TableFile:
    """A table in a file, or on standard input ("-").

    Attributes
    ----------
    name : what messages call it
    source : path, or the bytes of standard input or a pipe
    kind : {"csv", "gzip", "parquet", "excel"}
    options : ReadOptions
        What the user said.
    encoding, separator : of a text file
    decimal : {".", ","}
        The decimal mark of numbers that are written as text.
    skipped_lines : int
        Lines before the header of a text file: one where Excel announces a separator.
    notes : tuple of str
        What was assumed without a proof, one sentence each.
    """

    name: str
    source: Path | bytes
    kind: str
    options: ReadOptions = field(default_factory=ReadOptions)
    encoding: str = "utf-8"
    separator: str = ","
    decimal: str = "."
    skipped_lines: int = 0
    notes: tuple[str, ...] = ()

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
            return cls._identified("standard input", sys.stdin.buffer.read(), asked)
        try:
            return cls._identified(path, _source(Path(path)), asked)
        except OSError as error:
            raise TableError(f"{path}: {error.strerror or error}") from error

    @classmethod
    def _identified(cls, name: str, source: Path | bytes, options: ReadOptions) -> TableFile:
        with opened(source) as stream:
            kind = _kind(name, stream.read(4096))
        file = cls(name, source, kind, options)
        if kind == "excel" and options.decimal != "auto":
            return replace(file, decimal=options.decimal)
        if kind in ("excel", "parquet"):
            return file
        try:
            with file._stream() as stream:
                file = cls(name, source, kind, options, *_find_dialect(stream, options))
            if options.encoding == "auto" and file.encoding in ("cp1252", "latin-1"):
                with file._stream() as stream:
                    _check_one_encoding(io.BufferedReader(stream))
            with file._stream() as stream:
                text = io.TextIOWrapper(stream, file.encoding, "replace")
                notes = _check_quotes(text, file.separator, file.skipped_lines)
            return replace(file, notes=(*file.notes, *notes))
        except (OSError, ValueError) as error:
            raise TableError(f"{name}: {_one_line(error)}") from error

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns."""
        with self._errors():
            if self.kind == "excel":
                names = self._sheet[0].column_names
            elif self.kind == "parquet":
                names = self._parquet().schema_arrow.names
            else:
                with self._csv_reader() as reader:
                    names = reader.schema.names
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        if repeated:
            raise TableError(f"{self.name}: the column {repeated[0]!r} is there twice: rename one")
        return list(names)

    @property
    def first_row(self) -> int:
        """The number of the first record, for messages.

        The header of a text file is row 1; a sheet of Excel numbers its rows itself.
        """
        if self.kind == "excel":
            return self._sheet[2]
        return 1 if self.kind == "parquet" else 2 + self.skipped_lines

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where it is known without reading them."""
        with self._errors():
            return int(self._parquet().metadata.num_rows) if self.kind == "parquet" else None

    def read(self, keys: Sequence[str] = ()) -> Frame:
        """Return the whole table as a narwhals frame.

        Parameters
        ----------
        keys : names of columns whose texts are never taken for missing values
        """
        import narwhals as nw

        names = self.columns
        with self._errors():
            if self.kind == "excel":
                table = self._excel(keys)
            else:
                table = self._parquet().read() if self.kind == "parquet" else self._csv(names)
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

        arrow, rows, names = _arrow(), 0, self.columns
        known = set(names)
        wanted = None if columns is None else [name for name in columns if name in known]
        with self._errors():
            for batch in self._batches(names, wanted, keys):
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

    def _batches(
        self, names: Sequence[str], wanted: list[str] | None, keys: Sequence[str]
    ) -> Iterator[Any]:
        """Yield record batches of pyarrow; ``wanted`` are the columns to read (None: all)."""
        if self.kind == "excel":
            table = self._excel(keys)
            yield from (table if wanted is None else table.select(wanted)).to_batches(BATCH)
        elif self.kind == "parquet":
            yield from self._parquet().iter_batches(BATCH, columns=wanted)
        else:
            texts = _as_texts(names, include_columns=list(names) if wanted is None else wanted)
            yield from self._csv_reader(texts, block_size=BLOCK)

    def _excel(self, keys: Sequence[str]) -> Any:
        """Return the sheet as a table; raises where two different cells of a key have one text."""
        table, mixed, _ = self._sheet
        for name in keys:
            cells = dict.fromkeys((type(cell), cell) for cell in mixed.get(name, ()))
            try:
                distinct_texts([cell for _, cell in cells], name)
            except ValueError as error:
                raise TableError(f"{self.name}: {error}") from error
        return table

    @cached_property
    def _sheet(self) -> tuple[Any, dict[str, list[Any]], int]:
        try:
            return read_sheet(self.source, self.options.sheet, self.decimal)
        except ValueError as error:
            raise TableError(f"{self.name}: {error}") from error

    def _parquet(self) -> Any:
        import pyarrow.parquet as pq

        return pq.ParquetFile(
            io.BytesIO(self.source) if isinstance(self.source, bytes) else self.source
        )

    def _csv(self, names: Sequence[str]) -> Any:
        """Return the whole text file as a table of texts."""
        arrow = _arrow()
        from pyarrow import csv

        texts = _as_texts(names)
        try:
            return csv.read_csv(self._stream(), *self._format(use_threads=True), texts)
        except arrow.ArrowInvalid:
            # Only a reader of one thread knows at which line it stands.
            return csv.read_csv(self._stream(), *self._format(use_threads=False), texts)

    def _csv_reader(self, types: Any = None, **reading: Any) -> Any:
        """Return a reader of the text file's batches."""
        from pyarrow import csv

        return csv.open_csv(self._stream(), *self._format(use_threads=False, **reading), types)

    def _format(self, **reading: Any) -> tuple[Any, Any]:
        """Return how pyarrow is to read and to parse the text file."""
        from pyarrow import csv

        # Arrow passes over the mark of UTF-8 by itself.
        encoding = "utf8" if self.encoding.startswith("utf-8") else self.encoding
        return (
            csv.ReadOptions(encoding=encoding, skip_rows=self.skipped_lines, **reading),
            csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
        )

    def _stream(self) -> Any:
        arrow = _arrow()
        raw = io.BytesIO(self.source) if isinstance(self.source, bytes) else str(self.source)
        return arrow.input_stream(raw, compression="gzip" if self.kind == "gzip" else None)

    def _without_missing(self, table: Any, keys: Sequence[str]) -> Any:
        """Return a table in which values that mean a missing one are null, but for keys.

        A number means so however it is written: -999 is -999.0 too, and a cell of Parquet or Excel.
        """
        if not self.options.missing_values:
            return table
        arrow = _arrow()
        from pyarrow import compute

        meant = self.options.missing_values
        pattern = rf"\A(?:{'|'.join(map(_spellings, meant))})\z"
        spelt = [parse_number(text.replace(",", ".")) for text in meant]
        numbers = arrow.array([n for n in spelt if n is not None and n == n], arrow.float64())
        for position, column in enumerate(table.schema):
            values, kind = table.column(position), column.type
            if column.name in keys:
                continue
            if arrow.types.is_string(kind) or arrow.types.is_large_string(kind):
                trimmed = compute.utf8_trim_whitespace(values)
                is_missing = compute.match_substring_regex(trimmed, pattern)
            elif len(numbers) and (arrow.types.is_integer(kind) or arrow.types.is_floating(kind)):
                floats = values.cast(arrow.float64(), safe=False)
                is_missing = compute.is_in(floats, value_set=numbers)
            else:
                continue
            cleared = compute.if_else(is_missing, arrow.scalar(None, kind), values)
            table = table.set_column(position, column.name, cleared)
        return table


def _spellings(text: str) -> str:
    """Return a pattern of a text that means a missing value; a number may have further zeros."""
    number = re.fullmatch(r"([+-]?\d+)(?:[.,](\d*?)0*)?", text, re.ASCII)
    if number is None:
        return re.escape(text)
    whole, fraction = re.escape(number[1]), number[2]
    return rf"{whole}[.,]{fraction}0*" if fraction else rf"{whole}(?:[.,]0*)?"


def _source(path: Path) -> Path | bytes:
    """Return a path, or all bytes of a pipe, which can be read only once."""
    mode = path.stat().st_mode
    if stat.S_ISREG(mode):
        return path
    if stat.S_ISFIFO(mode):
        return path.read_bytes()
    kind = "a directory" if stat.S_ISDIR(mode) else "neither a file nor a pipe"
    raise TableError(f"{path}: is {kind}; a table is needed")


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
    if head.startswith((ARCHIVE, COMPOUND)):
        return "excel"
    zeros = b"\0" in head and not head.startswith(_WIDE_MARKS) and _wide_encoding(head) is None
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


def _find_dialect(
    stream: BinaryIO, options: ReadOptions
) -> tuple[str, str, str, int, tuple[str, ...]]:
    """Return encoding, separator, decimal mark, lines to skip and notes of a text file.

    Parameters
    ----------
    stream : binary stream at the beginning of the file
        It is read to its end where the encoding has to be found.
    options : ReadOptions
        What they say is taken as said.

    Raises
    ------
    ValueError
        If the bytes are not of the encoding.
    """
    head = stream.read(_CHUNK)
    encoding, notes = options.encoding, []
    if encoding == "auto":
        encoding, note = _find_encoding(head, stream)
        notes += note
    else:
        encoding = _with_mark(encoding, head)
    sample = _decoded(head, encoding)[:_SAMPLE]
    announced = _ANNOUNCEMENT.match(sample)
    if announced:
        sample = sample[announced.end() :]
    separator = options.separator
    if separator == "auto":
        separator = announced[1] if announced else _find_separator(sample)
    decimal = options.decimal
    if decimal == "auto":
        decimal, note = _find_decimal(sample, separator)
        notes += note
    return encoding, separator, decimal, 1 if announced else 0, tuple(notes)


def _with_mark(encoding: str, head: bytes) -> str:
    """Return the encoding that passes over a byte order mark of UTF-8."""
    is_utf8 = codecs.lookup(encoding).name == "utf-8"
    return "utf-8-sig" if is_utf8 and head.startswith(codecs.BOM_UTF8) else encoding


def _find_encoding(head: bytes, rest: BinaryIO) -> tuple[str, list[str]]:
    """Return the encoding of a file, and what was assumed."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name, []
    wide = _wide_encoding(head)
    if wide is not None:
        return wide, [f"read as {wide.upper()}, though it has no byte order mark (encoding=)"]
    decoder, seen, is_utf8 = codecs.getincrementaldecoder("utf-8")(), set(head), True
    chunk = head
    try:
        while chunk:
            decoder.decode(chunk)
            chunk = rest.read(_CHUNK)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        is_utf8 = False
    if is_utf8:
        return "utf-8", []
    while chunk:  # to the end: a single byte decides between the two
        seen |= set(chunk)
        chunk = rest.read(_CHUNK)
    name, shown = ("latin-1", "Latin-1") if seen & _NOT_WINDOWS else ("cp1252", "Windows-1252")
    return name, [f"read as {shown}, because it is not UTF-8 (another one: encoding=)"]


def _check_one_encoding(stream: Iterable[bytes]) -> None:
    """Raise where some lines are UTF-8 and others are not: a letter would become two."""
    first: dict[bool, int] = {}
    for number, line in enumerate(stream, 1):
        if line.isascii():
            continue
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            first.setdefault(False, number)
        else:
            first.setdefault(True, number)
        if len(first) == 2:
            raise ValueError(
                f"line {first[True]} is UTF-8, but line {first[False]} is not: write the file in "
                "one encoding, or name the one that all of it is in (encoding=)"
            )


def _wide_encoding(head: bytes) -> str | None:
    """Return UTF-16 by its zeros: every other byte of plain letters is one."""
    if b"\0" not in head or len(head) < 4:
        return None
    even, odd = head[0:4096:2], head[1:4096:2]
    if odd.count(0) > 0.4 * len(odd) and even.count(0) == 0:
        return "utf-16-le"
    return "utf-16-be" if even.count(0) > 0.4 * len(even) and odd.count(0) == 0 else None


def _decoded(head: bytes, encoding: str) -> str:
    """Return the text of the first bytes; a character that is cut in two is left out."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"byte {error.start} is not {encoding} ({error.reason}): name the encoding of the "
            "file (encoding=)"
        ) from None


def _find_separator(sample: str) -> str:
    """Return the separator under which most records have as many columns as the header."""
    scores = {}
    for separator in SEPARATORS:
        records = _records(sample, separator)
        width = len(records[0]) if records else 0
        if width > 1:
            agreeing = sum(len(record) == width for record in records)
            scores[separator] = (agreeing / len(records), width)
    return max(scores, key=lambda separator: scores[separator], default=SEPARATORS[0])


def _records(sample: str, separator: str) -> list[list[str]]:
    """Return the first records of a sample, without empty lines and the one that is cut off."""
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=separator)
    records: list[list[str]] = []
    try:
        for record in reader:
            if record:
                records.append(record)
            if len(records) > _RECORDS:
                break
    except csv.Error:  # a cell beyond csv's limit: what came before it must do
        pass
    is_cut = len(sample) >= _SAMPLE or len(records) > _RECORDS
    return records[:-1] if is_cut and len(records) > 1 else records


def _check_quotes(text: Iterable[str], separator: str, skipped_lines: int) -> list[str]:
    """Return notes if quoted cells of a file seem to have swallowed rows or other cells.

    A quote opens a cell only at its beginning: 5" is a text like any other.

    Parameters
    ----------
    text : lines of the file
    separator : str
    skipped_lines : int
        Lines before the header.

    Raises
    ------
    ValueError
        If the file ends within a quoted cell.
    """
    inside = r'[^"]*+(?:""[^"]*+)*+'
    cell = re.compile(rf'"(?<![^{re.escape(separator)}]"){inside}("?)')
    to_the_quote = re.compile(inside)

    def goes_on(line: str, end: int) -> bool:
        return line[end : end + 1].strip(f"{separator} \r\n") != ""

    opened_at = n_lines = n_rows = 0  # where a cell was opened; its lines, and what looks like rows
    suspects: list[int] = []
    run_on: list[int] = []  # where a cell goes on after its closing quote
    width = 0  # separators of a row
    for number, line in enumerate(text, 1):
        if number == skipped_lines + 1:
            width = sum(len(record) - 1 for record in csv.reader([line], delimiter=separator))
        if not opened_at and '"' not in line:
            continue
        position = 0
        if opened_at:
            position = to_the_quote.match(line).end() + 1  # type: ignore[union-attr]
            n_lines += 1
            n_rows += line.count(separator, 0, position) == width
            if position > len(line):
                continue
            many = 2 * n_rows > n_lines and n_rows > 2 // max(width, 1)
            if goes_on(line, position) or (width and many):
                suspects.append(opened_at)
            opened_at = 0
        for found in cell.finditer(line, position):
            if not found[1]:
                opened_at, n_lines, n_rows = number, 0, 0
            elif goes_on(line, found.end()):
                run_on.append(number)
    if opened_at:
        raise ValueError(
            f'line {opened_at} opens a quoted cell (") that is not closed before the end of the '
            "file: close it, or remove the quote"
        )
    notes = []
    if suspects:
        notes.append(
            f'line {suspects[0]} opens a quoted cell (") over several lines{_others(suspects)}, '
            "which look like rows of the table: if a quote is missing there, rows are lost"
        )
    if run_on:
        notes.append(
            f'line {run_on[0]} goes on after the closing quote (") of a cell{_others(run_on)}: if '
            "a quote is missing there, or not doubled, cells are run together"
        )
    return notes


def _others(lines: Sequence[int]) -> str:
    return f" (so do {len(lines) - 1} others)" if len(lines) > 1 else ""


def _find_decimal(sample: str, separator: str) -> tuple[str, list[str]]:
    """Return the decimal mark of a sample, and what was assumed.

    Every column of numbers has a vote; one whose commas may stand between thousands has none.
    Beside commas that separate columns only a point can be the mark. Where the votes differ,
    numbers with the other mark are refused later, never misread.
    """
    if separator == ",":
        return ".", []
    columns = zip_longest(*_records(sample, separator)[1:], fillvalue="")
    numeric = [cells for column in columns if (cells := _numeric_cells(column))]
    with_comma = [_first(cells, _WITH_COMMA) for cells in numeric]
    unclear = [_first(cells, _THOUSANDS) for cells in numeric if _are_thousands(cells)]
    commas = [
        cell
        for cells, cell in zip(numeric, with_comma, strict=True)
        if cell and not _are_thousands(cells)
    ]
    points = [cell for cells in numeric if (cell := _first(cells, _WITH_POINT))]
    if len(commas) > len(points):
        return ",", [f"decimal commas, as in {commas[0]!r} (another mark: decimal=)"]
    if commas:
        return ".", [
            f"cells such as {commas[0]!r} are not taken for numbers, as others have a decimal "
            "point (decimal=)"
        ]
    if unclear:
        return ".", [
            f"cells such as {unclear[0]!r} are not taken for numbers: the comma may be a decimal "
            "mark (decimal=',') or stand between thousands (remove it)"
        ]
    return ".", []


def _numeric_cells(column: Sequence[str]) -> list[str]:
    """Return the cells of a column if all spell numbers with some decimal mark, else nothing."""
    cells = [cell.strip() for cell in column if not is_missing_text(cell)]
    spells = all(any(parse_number(cell, mark) is not None for mark in DECIMALS) for cell in cells)
    return cells if spells or all(_THOUSANDS.fullmatch(cell) for cell in cells) else []


def _are_thousands(cells: Sequence[str]) -> bool:
    """Return whether all commas of a column may stand between thousands."""
    commas = [cell for cell in cells if "," in cell]
    return bool(commas) and all(_THOUSANDS.fullmatch(cell) for cell in commas)


def _first(cells: Sequence[str], form: re.Pattern[str]) -> str:
    """Return the first cell of a form; an empty text: there is none."""
    return next((cell for cell in cells if form.fullmatch(cell)), "")
