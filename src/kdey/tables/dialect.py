"""How a text file is written: its encoding, the separator of its columns, and its decimal mark.

:class:`ReadOptions` is what a user may say; everything that is left "auto" is found in the file.
:func:`find_dialect` looks and returns a :class:`Dialect`, with a note for each thing that the file
does not prove. Nothing here types a column: the cells of a text file are text.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import BinaryIO

from kdey.tables.columns import is_missing_text, parse_number

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
        Of dates that are written as text, in the notation of strftime ("%d.%m.%Y"). "auto": ISO
        8601, or day, month and year where the column shows which of them comes first.
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
        if self.date_format != "auto" and "%" not in self.date_format:
            raise ValueError(
                f"date_format must be in the notation of strftime, such as '%d.%m.%Y', or 'auto', "
                f"got {self.date_format!r}"
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
class Dialect:
    """How one text file is written.

    Attributes
    ----------
    encoding : a name that Python knows
    separator : one character
    decimal : {".", ","}
    skipped_lines : int
        Lines before the header: one where Excel announces a separator.
    notes : tuple of str
        What was assumed without a proof, one sentence each.
    """

    encoding: str = "utf-8"
    separator: str = ","
    decimal: str = "."
    skipped_lines: int = 0
    notes: tuple[str, ...] = ()


def find_dialect(stream: BinaryIO, options: ReadOptions) -> Dialect:
    """Return the dialect of a text file.

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
    return Dialect(encoding, separator, decimal, 1 if announced else 0, tuple(notes))


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
        return wide, [f"read as {wide.upper()}, though it has no byte order mark (--encoding)"]
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
    return name, [f"read as {shown}, because it is not UTF-8 (another one: --encoding)"]


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
            "file (--encoding)"
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
        return ",", [f"decimal commas, as in {commas[0]!r} (another mark: --decimal)"]
    if commas:
        return ".", [
            f"cells such as {commas[0]!r} are not taken for numbers, as others have a decimal "
            "point (--decimal)"
        ]
    if unclear:
        return ".", [
            f"cells such as {unclear[0]!r} are not taken for numbers: the comma may be a decimal "
            "mark (--decimal ,) or stand between thousands (remove it)"
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
