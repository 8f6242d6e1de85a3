"""How a text file is written: encoding, separator, decimal mark, quotes, and dates.

What a user does not say is found in the file, with a note for each thing that the file does not
prove.

ISO 8601 dates are understood by themselves. Other dates are a day, a month and a year in some
order: where the column shows the order (a 31 is no month) it is taken, and where it does not the
user is asked. The serial numbers that spreadsheets keep in the place of dates are read where the
user says so.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np

from kdey.tables import is_missing_text, parse_number

if TYPE_CHECKING:
    from kdey.tables import Series

#: Byte order marks of UTF-16 and UTF-32: zeros after them are half a letter.
WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
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
_WITH_COMMA = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+(?:[eE][+-]?\d+)?")
_WITH_POINT = re.compile(r"[+-]?(?:\d*|\d{1,3}(?:,\d{3})+)\.\d+(?:[eE][+-]?\d+)?")
#: A comma as decimal mark, or between thousands: nobody can tell.
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")


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
        ``kdey.tables.MISSING`` for what does in columns of numbers and dates.

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


def find_dialect(
    opened: Callable[[], BinaryIO], options: ReadOptions
) -> tuple[str, str, str, int, tuple[str, ...]]:
    """Return encoding, separator, decimal mark, lines to skip and notes of a text file.

    Parameters
    ----------
    opened : callable
        Opens the file at its beginning; it is read up to three times.
    options : ReadOptions
        What they say is taken as said.

    Raises
    ------
    ValueError
        If the bytes are not of the encoding, or of two, or a quoted cell is not closed.
    """
    with opened() as stream:
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
    if options.encoding == "auto" and encoding in ("cp1252", "latin-1"):
        with opened() as stream:
            _check_one_encoding(io.BufferedReader(stream))  # type: ignore[type-var]
    skipped_lines = 1 if announced else 0
    with opened() as stream:
        text = io.TextIOWrapper(stream, encoding, "replace")
        notes += _check_quotes(text, separator, skipped_lines)
    return encoding, separator, decimal, skipped_lines, tuple(notes)


def _with_mark(encoding: str, head: bytes) -> str:
    """Return the encoding that passes over a byte order mark of UTF-8."""
    is_utf8 = codecs.lookup(encoding).name == "utf-8"
    return "utf-8-sig" if is_utf8 and head.startswith(codecs.BOM_UTF8) else encoding


def _find_encoding(head: bytes, rest: BinaryIO) -> tuple[str, list[str]]:
    """Return the encoding of a file, and what was assumed."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name, []
    wide = wide_encoding(head)
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


def wide_encoding(head: bytes) -> str | None:
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


_CLOCK = r"(?P<clock>[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?"
_ISO = re.compile(
    rf"\d{{4}}-\d{{2}}-\d{{2}}{_CLOCK}(?P<zone>\s?(?:Z|[+-]\d{{2}}:?\d{{2}}))?", re.ASCII
)
_YEAR_FIRST = re.compile(rf"\d{{4}}(?P<mark>[./])\d{{1,2}}(?P=mark)\d{{1,2}}{_CLOCK}", re.ASCII)
_YEAR_LAST = re.compile(
    rf"(?P<first>\d{{1,2}})(?P<mark>[./-])(?P<second>\d{{1,2}})(?P=mark)\d{{4}}{_CLOCK}", re.ASCII
)
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,17})", re.ASCII)
#: The format of serial numbers: 45292 is 2024-01-01. The last one is 9999-12-31, and the sixtieth
#: is a day that spreadsheets count and that never was, 1900-02-29.
EXCEL = "excel"
_LAST_SERIAL, _NO_SERIAL = 2_958_466.0, 60
#: Directives of strftime that tell the time of day.
_CLOCK_DIRECTIVES = re.compile(r"%-?[HIMSfXcpT]")

_YEAR_DIRECTIVES = re.compile(r"%[YyGcx]")


@dataclass(frozen=True)
class TimeFormat:
    """How a column of times is written as text.

    Attributes
    ----------
    kind : {"iso", "pattern", "excel", "integer", "text"}
        ISO 8601; a pattern of strftime; serial numbers of a spreadsheet; whole numbers; or anything
        else, which stays text.
    pattern : str
        Of the kind "pattern": without the time of day where ``has_clock`` is found in each cell.
    has_clock : bool
        Whether some cell has a time of day, so that the column holds instants and not dates.
    """

    kind: Literal["iso", "pattern", "excel", "integer", "text"] = "iso"
    pattern: str = ""
    has_clock: bool = True

    def read(self, column: Series, first: int = 1) -> Series:
        """Return a column of texts as dates, instants, whole numbers or, as it is, texts.

        Parameters
        ----------
        column : narwhals series of texts, or of numbers if they are serial numbers
        first : int
            Number of the column's first row, for messages.

        Raises
        ------
        ValueError
            If a text is no date, naming the row.
        """
        import narwhals as nw

        if self.kind == "text":
            return column
        texts = column.to_list()
        # Work in Python is done once per distinct text.
        value_of = {text: self._value(text) for text in dict.fromkeys(texts)}
        for text, value in value_of.items():
            if value is None and not _is_missing(text):
                row = first + texts.index(text)
                raise ValueError(self._expected(str(column.name), row, text))
        values = [value_of[text] for text in texts]
        if self.kind == "integer":
            return integer_series(column, values)
        instants = np.array(values, dtype="datetime64[us]")
        made: Series = nw.new_series(column.name, instants, backend=column.implementation)
        # pandas has no dates of its own, only instants.
        as_dates = not self.has_clock and not column.implementation.is_pandas_like()
        return made.cast(nw.Date) if as_dates else made

    def _value(self, text: str | float | None) -> datetime | int | None:
        if _is_missing(text):
            return None
        assert text is not None
        try:
            if self.kind == "excel":
                return _by_serial(float(text), self.has_clock)
            text = str(text)
            if self.kind == "integer":
                return int(text)
            if self.kind == "iso":
                return _iso(text.strip())
            return _by_pattern(text.strip(), self.pattern)
        except ValueError:
            return None

    def _expected(self, name: str, row: int, text: Any) -> str:
        wanted = {
            "iso": "dates such as 2024-01-31 or 2024-01-31T12:00",
            "integer": "whole numbers, as in the other rows",
            "excel": "serial numbers of dates, such as 45292",
        }.get(self.kind, f"dates written as {self.pattern!r}")
        what_to_do = (
            "correct the row, or the pattern"
            if self.kind in ("pattern", "excel")
            else "say how its dates are written, such as date_format='%d.%m.%Y'"
        )
        return (
            f"time column {name!r} must hold {wanted}, but row {row} has {str(text)[:40]!r}: "
            f"{what_to_do}"
        )


def integer_series(column: Series, values: Sequence[Any]) -> Series:
    """Return whole numbers in the place of a column, None where one is missing."""
    import narwhals as nw

    # The whole numbers of NumPy, which pandas takes, have no missing ones.
    gaps = column.implementation.is_pandas_like() and None in values
    dtype = nw.Float64() if gaps else nw.Int64()
    return nw.new_series(column.name, list(values), dtype, backend=column.implementation)


def _is_missing(text: str | float | None) -> bool:
    return text is None or text != text or (isinstance(text, str) and is_missing_text(text))


def _iso(text: str) -> datetime:
    if _ISO.fullmatch(text) is None:
        raise ValueError
    # Periods are those of the clock as it is written.
    return datetime.fromisoformat(text.replace(" +", "+").replace(" -", "-")).replace(tzinfo=None)


def _by_pattern(text: str, pattern: str) -> datetime:
    return datetime.strptime(text, pattern).replace(tzinfo=None)


def _by_serial(number: float, has_clock: bool) -> datetime:
    if not 1 <= number < _LAST_SERIAL or int(number) == _NO_SERIAL:
        raise ValueError
    days = number if has_clock else int(number)
    day = datetime(1899, 12, 30 if number > _NO_SERIAL else 31) + timedelta(days=days)
    # Seconds are as exact as a spreadsheet's fractions of a day.
    return (day + timedelta(microseconds=500_000)).replace(microsecond=0)


class TimeFormatFinder:
    """Finds how a column of texts, called ``name``, writes its times, batch by batch."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._examples: dict[str, tuple[int, str]] = {}
        self._clocks: set[str] = set()

    def look(self, texts: Iterable[str | None], first: int) -> None:
        """Look at a batch; ``first`` is the number of its first row."""
        seen: set[str | None] = set()
        for row, text in enumerate(texts, start=first):
            if text not in seen:
                seen.add(text)
                if not _is_missing(text):
                    assert text is not None
                    self._note(text.strip(), row)

    def _note(self, text: str, row: int) -> None:
        kind = _shape(text)
        self._examples.setdefault(kind, (row, text))
        match = _ISO.fullmatch(text) or _YEAR_FIRST.fullmatch(text) or _YEAR_LAST.fullmatch(text)
        if match is None:
            return
        self._clocks.add(_clock_pattern(match["clock"]))
        if kind == "iso" and match["zone"]:
            self._examples.setdefault("zone", (row, text))
        if kind.startswith("last"):
            if int(match["first"]) > 12:
                self._examples.setdefault("day first", (row, text))
            if int(match["second"]) > 12:
                self._examples.setdefault("month first", (row, text))

    def found(self, needs_dates: bool) -> TimeFormat:
        """Return the format.

        Parameters
        ----------
        needs_dates : bool
            Whether the column must hold dates; otherwise it may hold numbers or texts.

        Raises
        ------
        ValueError
            If it must, but does not; if it writes dates in several ways; or if day and month cannot
            be told apart.
        """
        shapes = [
            name for name in self._examples if name not in ("zone", "day first", "month first")
        ]
        if not shapes:
            return TimeFormat("iso", has_clock=False)
        if shapes == ["iso"]:
            if "zone" in self._examples and not needs_dates:
                return TimeFormat("text")  # two zones may have the same clock
            return TimeFormat("iso", has_clock=self._clocks != {""})
        if all(shape.startswith(("iso", "first", "last")) for shape in shapes):
            if len(shapes) > 1:  # as texts, one day would become two groups
                raise ValueError(self._several_forms(shapes))
            return self._numeric(shapes[0])
        if needs_dates:
            raise ValueError(self._refusal(shapes))
        return TimeFormat("integer") if shapes == ["integer"] else TimeFormat("text")

    def _numeric(self, shape: str) -> TimeFormat:
        """Return the pattern of days, months and years as numbers."""
        mark, has_clock = shape[-1], self._clocks != {""}
        if len(self._clocks) > 1:
            row, text = self._examples[shape]
            raise ValueError(
                f"time column {self.name!r} holds dates with and without a time of day, or with "
                f"several kinds of it (row {row} has {text!r}): write them alike, best as "
                "2024-01-31T12:00"
            )
        clock = next(iter(self._clocks))
        if shape.startswith("first"):
            return TimeFormat("pattern", f"%Y{mark}%m{mark}%d{clock}", has_clock)
        day, month = self._examples.get("day first"), self._examples.get("month first")
        if day is not None and month is not None:
            raise ValueError(
                f"time column {self.name!r} holds {day[1]!r} in row {day[0]} and {month[1]!r} in "
                f"row {month[0]}: the day comes first in one and the month in the other"
            )
        if day is None and month is None:
            row, text = self._examples[shape]
            raise ValueError(
                f"time column {self.name!r}: no row shows whether {text!r} (row {row}) begins with "
                f"the day or the month: say date_format='%d{mark}%m{mark}%Y' or "
                f"'%m{mark}%d{mark}%Y'"
            )
        order = f"%d{mark}%m" if day is not None else f"%m{mark}%d"
        return TimeFormat("pattern", f"{order}{mark}%Y{clock}", has_clock)

    def _several_forms(self, shapes: list[str]) -> str:
        (row, text), (other_row, other_text) = (self._examples[shape] for shape in shapes[:2])
        return (
            f"time column {self.name!r} writes dates in several ways (row {row} has {text!r}, row "
            f"{other_row} has {other_text!r}): write them alike, best as 2024-01-31"
        )

    def _refusal(self, shapes: list[str]) -> str:
        odd = next((shape for shape in ("text", "integer") if shape in shapes), shapes[-1])
        row, text = self._examples[odd]
        return (
            f"time column {self.name!r} must hold dates such as 2024-01-31 or 2024-01-31T12:00, "
            f"but row {row} has {text[:40]!r}: say how its dates are written, such as "
            f"date_format='{_likely_format(text) if odd == 'integer' else '%d.%m.%Y'}'"
        )


def _likely_format(digits: str) -> str:
    """Return the format that a whole number in the place of a date probably has."""
    return {4: "%Y", 8: "%Y%m%d"}.get(len(digits), EXCEL)


def _shape(text: str) -> str:
    """Return of which form a text is: "iso", "first/", "last.", "integer" or "text"."""
    if _ISO.fullmatch(text):
        return "iso"
    for name, form in (("first", _YEAR_FIRST), ("last", _YEAR_LAST)):
        match = form.fullmatch(text)
        if match:
            return name + match["mark"]
    return "integer" if _INTEGER.fullmatch(text) else "text"


def _clock_pattern(clock: str | None) -> str:
    """Return the pattern of a time of day behind a date."""
    if clock is None:
        return ""
    parts = clock.count(":")
    fraction = ".%f" if "." in clock else ""
    return f"{clock[0]}%H:%M" + (f":%S{fraction}" if parts == 2 else "")


def asked_format(date_format: str, has_clock: bool = False) -> TimeFormat:
    """Return the format that a user named: "excel", or one in the notation of strftime.

    Parameters
    ----------
    date_format : str
    has_clock : bool
        Whether the time of day of serial numbers is wanted.

    Raises
    ------
    ValueError
        If the format has no year.
    """
    if date_format == EXCEL:
        return TimeFormat("excel", has_clock=has_clock)
    if _YEAR_DIRECTIVES.search(date_format) is None:
        raise ValueError(
            f"date_format must say where the year is, such as '%d.%m.%Y', got {date_format!r}: "
            "without it every date would be one of 1900"
        )
    return TimeFormat("pattern", date_format, bool(_CLOCK_DIRECTIVES.search(date_format)))
