"""Sheets of Excel and other spreadsheets, read by python-calamine and written by xlsxwriter.

Cells have types of their own and keep them. A column that mixes types becomes text: the canonical
texts of its cells, so that the number 7 and the text "7" are the same there. Both libraries come
with the extra ``excel``.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any, BinaryIO

from kdey.tables import canonical_text

#: Bytes that the parts of a file may unpack to in all.
_MOST_BYTES = 1 << 32
#: A file that unpacks to more than this many times its size, and to many bytes, is no sheet.
_MOST_RATIO, _FEW_BYTES = 200, 1 << 26
#: Excel's numbers are float64: whole numbers beyond this are read as floats, and written as text.
_EXACT = 2**53
#: How files of spreadsheets begin.
ARCHIVE, COMPOUND = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
#: Rows and columns that a sheet can have, and characters of a cell.
MOST_ROWS, MOST_COLUMNS, LONGEST = 1_048_576, 16_384, 32_767


def read_sheet(
    opener: Callable[[], BinaryIO], sheet: str, decimal: str
) -> tuple[Any, dict[str, list[Any]], int]:
    """Return a sheet of an Excel file; its first row that is not empty is the header.

    Parameters
    ----------
    opener : callable
        Opens the bytes of the file.
    sheet : str
        Name, or number from 1; "auto": the only one that is not empty.
    decimal : {".", ","}
        Decimal mark that numbers get in columns that mix them with texts.

    Returns
    -------
    table : pyarrow table
    mixed : dict from names of columns to their cells
        Of columns whose cells are of several types; the table has their texts.
    first_row : int
        Number that Excel shows beside the first record.

    Raises
    ------
    ValueError
        If the file cannot be read, the sheet is not clear, or a column has no name.
    """
    calamine = _calamine()
    try:
        _check_size(opener)
        with opener() as stream:
            book = calamine.CalamineWorkbook.from_filelike(stream)
            rows = _rows(book, sheet)
    except (calamine.CalamineError, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"not a sheet that can be read ({reason}): take a table out of its archive, if it is "
            "in one"
        ) from None
    filled = [number for number, row in enumerate(rows) if any(cell != "" for cell in row)]
    if not filled:
        raise ValueError("the sheet is empty; a header row is needed")
    header, records = rows[filled[0]], rows[filled[0] + 1 : filled[-1] + 1]
    return *_table(header, records, filled[0] + 2, decimal), filled[0] + 2


def _calamine() -> Any:
    try:
        import python_calamine
    except ImportError:
        raise ImportError(
            "reading Excel files needs python-calamine: pip install 'kdey[excel]'"
        ) from None
    return python_calamine


def _check_size(opener: Callable[[], BinaryIO]) -> None:
    """Raise where an archive would unpack to more than a sheet can hold."""
    with opener() as stream:
        is_archive = stream.read(len(ARCHIVE)) == ARCHIVE
        packed = stream.seek(0, io.SEEK_END)
        if not is_archive:
            return
        with zipfile.ZipFile(stream) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > _MOST_BYTES or (unpacked > _FEW_BYTES and unpacked > _MOST_RATIO * packed):
        raise ValueError(f"the file would unpack to {unpacked:,} bytes: export the table as CSV")


def _rows(book: Any, sheet: str) -> list[list[Any]]:
    """Return the cells of a sheet, "" where they are empty; merged ones of a column are filled."""
    names: list[str] = book.sheet_names
    if sheet == "auto":
        filled = [name for name in names if book.get_sheet_by_name(name).height]
        if len(filled) > 1:
            raise ValueError(
                f"the file has {len(filled)} sheets ({', '.join(map(repr, filled[:8]))}): name one "
                "with sheet="
            )
        sheet = filled[0] if filled else names[0]
    elif sheet not in names:
        if not sheet.isdecimal() or not 1 <= int(sheet) <= len(names):
            raise ValueError(f"no sheet {sheet!r}; the file has {', '.join(map(repr, names[:8]))}")
        sheet = names[int(sheet) - 1]
    cells = book.get_sheet_by_name(sheet)
    rows: list[list[Any]] = cells.to_python(skip_empty_area=False)
    for (top, left), (bottom, right) in cells.merged_cell_ranges or ():
        if left == right:  # one key for several rows; titles over several columns are no data
            for row in rows[top + 1 : bottom + 1]:
                row[left] = rows[top][left]
    return rows


def _table(
    header: list[Any], records: list[list[Any]], first_row: int, decimal: str
) -> tuple[Any, dict[str, list[Any]]]:
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
    return pa.Table.from_arrays(columns, names=names), mixed


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


def sheet_bytes(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> bytes:
    """Return an Excel file of one sheet, whose header stays in view and can be filtered by.

    Fractions in columns within -1 and 1, such as shares and p-values, show four digits. Texts are
    written as text, also where they begin like formulas. Whole numbers that Excel would round are
    written as text too; NaN and infinite numbers are left empty.

    Parameters
    ----------
    names : names of the columns
    columns : their values

    Raises
    ------
    ValueError
        If the table is larger than a sheet can be.
    """
    xlsxwriter = _xlsxwriter()
    n_rows = len(columns[0]) if columns else 0
    _check_fits(n_rows, len(names))
    stream = io.BytesIO()
    options = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    book = xlsxwriter.Workbook(stream, {"constant_memory": True, "in_memory": True, **options})
    sheet = book.add_worksheet("kdey")
    days, times, shares, header = (
        book.add_format(kind)
        for kind in (
            {"num_format": "yyyy-mm-dd"},
            {"num_format": "yyyy-mm-dd hh:mm:ss"},
            {"num_format": "0.0000"},
            {"bold": True, "bottom": 1},
        )
    )
    formats = []
    for place, (name, column) in enumerate(zip(names, columns, strict=True)):
        fractions = [v for v in column if isinstance(v, float) and v - v == 0.0]
        are_shares = bool(fractions) and max(map(abs, fractions)) <= 1.0
        formats.append({date: days, datetime: times, float: shares if are_shares else None})
        sheet.set_column(place, place, min(max(len(name) + 4, 10), 40))
        sheet.write_string(0, place, _fitting(name), header)
    sheet.freeze_panes(1, 0)
    if names:
        sheet.autofilter(0, 0, n_rows, len(names) - 1)
    for row in range(n_rows):
        for place, column in enumerate(columns):
            _write(sheet, row + 1, place, column[row], formats[place])
    book.close()
    return stream.getvalue()


def _xlsxwriter() -> Any:
    try:
        import xlsxwriter
    except ImportError:
        raise ImportError(
            "writing Excel files needs xlsxwriter: pip install 'kdey[excel]'"
        ) from None
    return xlsxwriter


def _check_fits(n_rows: int, n_columns: int) -> None:
    if n_rows >= MOST_ROWS or n_columns > MOST_COLUMNS:
        raise ValueError(
            f"a sheet of Excel has at most {MOST_ROWS:,} rows and {MOST_COLUMNS:,} columns, the "
            f"table {n_rows + 1:,} with its header and {n_columns:,}: write .csv or .parquet"
        )


def _write(sheet: Any, row: int, place: int, value: Any, formats: dict[type, Any]) -> None:
    if isinstance(value, bool):
        sheet.write_boolean(row, place, value)
    elif isinstance(value, int) and abs(value) <= _EXACT:
        sheet.write_number(row, place, value)
    elif isinstance(value, float):
        if value - value == 0.0:  # finite
            sheet.write_number(row, place, value, formats[float])
    elif type(value) in formats and value.year >= 1900:
        naive = value.replace(tzinfo=None) if isinstance(value, datetime) else value
        sheet.write_datetime(row, place, naive, formats[type(value)])
    elif value is not None:
        sheet.write_string(row, place, _fitting(str(value)))


def _fitting(text: str) -> str:
    if len(text) > LONGEST:
        raise ValueError(
            f"a cell of Excel holds at most {LONGEST:,} characters, {text[:20]!r}... has "
            f"{len(text):,}: write .csv or .parquet"
        )
    return text
