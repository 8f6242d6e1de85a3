"""Excel files in and out; no cell of an output is taken for a formula."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kdey.tables import excel
from kdey.tables.dialect import ReadOptions
from kdey.tables.output import table_bytes
from kdey.tables.sources import TableError, open_source

xlsxwriter = pytest.importorskip("xlsxwriter")
calamine = pytest.importorskip("python_calamine")


def book(path: Path, *sheets: list[list[Any]], first: tuple[int, int] = (0, 0)) -> Path:
    """Write sheets of plain cells, the upper left one at ``first``."""
    with xlsxwriter.Workbook(str(path), {"strings_to_formulas": False}) as file:
        dates = file.add_format({"num_format": "yyyy-mm-dd"})
        instants = file.add_format({"num_format": "yyyy-mm-dd hh:mm"})
        for rows in sheets:
            sheet = file.add_worksheet()
            for i, row in enumerate(rows, start=first[0]):
                for j, cell in enumerate(row, start=first[1]):
                    if isinstance(cell, dt.date):
                        shown = instants if isinstance(cell, dt.datetime) else dates
                        sheet.write_datetime(i, j, cell, shown)
                    elif cell is not None:
                        sheet.write(i, j, cell)
    return path


def read(path: Path, keys: tuple[str, ...] = (), **options: Any) -> Any:
    file = open_source(str(path), ReadOptions(**options))
    frame = file.read(keys)
    [batch] = file.batches(None, keys)
    assert batch.to_dict(as_series=False) == frame.to_dict(as_series=False)
    return frame


DAY, NOON = dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 12)
COLUMNS = {
    "whole": [7.0, None, 12],
    "part": [0.5, 2, None],
    "truth": [True, False, None],
    "day": [DAY, None, DAY],
    "instant": [NOON, DAY, None],
    "text": ["007", "=1+1", None],
    "mixed": [7, "x", 0.5],
    "empty": [None, None, None],
    "last": ["a", "b", "c"],
}


def test_cells_keep_their_types(tmp_path: Path) -> None:
    rows = [list(COLUMNS), *map(list, zip(*COLUMNS.values(), strict=True))]
    frame = read(book(tmp_path / "t.xlsx", rows, [], first=(2, 1)))
    types = {field.name: str(field.type) for field in frame.to_native().schema}
    assert types == {
        "whole": "int64",
        "part": "double",
        "truth": "bool",
        "day": "date32[day]",
        "instant": "timestamp[us]",
        "text": "string",
        "mixed": "string",
        "empty": "string",
        "last": "string",
    }
    midnight = dt.datetime(2024, 1, 2)
    expected = {**COLUMNS, "instant": [NOON, midnight, None], "mixed": ["7", "x", "0.5"]}
    assert frame.to_dict(as_series=False) == expected
    assert open_source(str(tmp_path / "t.xlsx")).first_row == 4


def test_mixed_columns_follow_the_decimal_mark(tmp_path: Path) -> None:
    path = book(tmp_path / "t.xlsx", [["x"], [0.5], ["1,5"]])
    assert read(path, decimal=",")["x"].to_list() == ["0,5", "1,5"]


def test_keys_that_only_differ_in_their_type_are_refused(tmp_path: Path) -> None:
    path = book(tmp_path / "t.xlsx", [["k"], [7], ["7"], ["007"]])
    assert read(path)["k"].to_list() == ["7", "7", "007"]
    with pytest.raises(TableError, match=r"t\.xlsx: column 'k' holds both 7.0 \(float\) and '7'"):
        read(path, keys=("k",))


def test_sheets_by_name_and_number(tmp_path: Path) -> None:
    path = book(tmp_path / "t.xlsx", [["a"], [1]], [["b"], [2]], [])
    with pytest.raises(TableError, match=r"2 sheets \('Sheet1', 'Sheet2'\): name one"):
        read(path)
    assert read(path, sheet="Sheet2").columns == ["b"]
    assert read(path, sheet="1").columns == ["a"]
    with pytest.raises(TableError, match="no sheet 'Sheet9'; the file has 'Sheet1'"):
        read(path, sheet="Sheet9")
    with pytest.raises(TableError, match="the sheet is empty"):
        read(path, sheet="3")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["a", None], [1, 2]], r"column B has values but no name in row 1"),
        ([["a", "a"], [1, 2]], "'a' is there twice"),
        ([["a"]], "no rows"),
    ],
)
def test_headers_that_are_none(tmp_path: Path, rows: list[list[Any]], message: str) -> None:
    with pytest.raises(TableError, match=message):
        read(book(tmp_path / "t.xlsx", rows))


def test_archives_that_are_no_sheets(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "nothing")
    with pytest.raises(TableError, match=r"t\.xlsx: not a sheet that can be read"):
        read(path)
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(TableError, match="not a sheet that can be read"):
        read(path)


def test_a_small_file_must_not_unpack_to_a_large_one(tmp_path: Path) -> None:
    path = book(tmp_path / "t.xlsx", [["a"], [1]])
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/more.xml", bytes(1 << 27))
    with pytest.raises(TableError, match="would unpack to"):
        read(path)


NAMES = [
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "\tx",
    "\rx",
    "plain",
    "-5",
    "+5",
    "-1.5e3",
    "-",
    "＝1",
]


def test_formulas_are_written_as_text(tmp_path: Path) -> None:
    table = pa.table({"=cmd": NAMES, "n": [-1.5] * len(NAMES)})
    path = tmp_path / "t.xlsx"
    path.write_bytes(table_bytes(table, "xlsx"))
    written = read(path)
    # Older releases of python-calamine do not decode the escape of a carriage return.
    assert [text.replace("_x000D_", "\r") for text in written["=cmd"].to_list()] == NAMES
    assert written["n"].to_list() == [-1.5] * len(NAMES)
    with zipfile.ZipFile(path) as archive:
        assert b"<f>" not in archive.read("xl/worksheets/sheet1.xml")
    text = table_bytes(table, "csv").decode()
    lines = list(csv.reader(io.StringIO(text, newline="")))
    assert lines[0] == ["'=cmd", "n"]
    kept = {"plain", "-5", "+5", "-1.5e3"}
    assert [line[0] for line in lines[1:]] == [n if n in kept else f"'{n}" for n in NAMES]
    assert {line[1] for line in lines[1:]} == {"-1.5"}


def test_values_of_every_type_come_back(tmp_path: Path) -> None:
    columns = {
        "whole": [1, -(2**40), None],
        "large": [2**60, 1, 2],
        "share": [0.25, float("nan"), float("inf")],
        "truth": [True, False, None],
        "day": [DAY, None, DAY],
        "instant": [NOON, None, NOON],
        "text": ["é", "", None],
    }
    path = tmp_path / "t.xlsx"
    path.write_bytes(table_bytes(pa.table(columns), "xlsx"))
    assert read(path).to_dict(as_series=False) == {
        **columns,
        "large": [str(2**60), "1", "2"],
        "share": [0.25, None, None],
        "text": ["é", None, None],
    }


def test_a_sheet_is_made_to_be_read(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    table = pa.table({"shop": [7], "share": [0.123456789], "size": [12.5]})
    path.write_bytes(table_bytes(table, "xlsx"))
    assert read(path)["share"].to_list() == [0.123456789]
    with zipfile.ZipFile(path) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml").decode()
        styles = archive.read("xl/styles.xml").decode()
    assert 'ySplit="1"' in sheet
    assert 'state="frozen"' in sheet
    assert '<autoFilter ref="A1:C2"/>' in sheet
    assert 'formatCode="0.0000"' in styles
    cells = dict(re.findall(r'<c r="([A-C]2)"( s="\d+")?', sheet))
    assert [bool(cells[name]) for name in ("A2", "B2", "C2")] == [False, True, False]


def test_csv_has_the_digits_that_people_read() -> None:
    table = pa.table(
        {"at": [0.12345678901], "class": ["a"], "share": [1 / 3], "p": [1.23456789e-9]}
    )
    assert table_bytes(table, "csv").decode().splitlines()[1] == (
        "0.12345678901,a,0.333333,1.23457e-09"
    )
    assert table_bytes(table, "csv", 2).decode().splitlines()[1] == "0.12345678901,a,0.33,1.2e-09"
    assert json.loads(table_bytes(table, "json"))[0]["share"] == 1 / 3
    assert json.loads(table_bytes(table, "json", 3))[0]["share"] == 0.333
    assert repr(1 / 3) in table_bytes(table, "csv", 17).decode()


def test_tables_beyond_excel_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel, "MOST_ROWS", 4)
    assert table_bytes(pa.table({"a": [1, 2, 3]}), "xlsx")
    with pytest.raises(ValueError, match=r"at most 4 rows .* the table 5 with its header"):
        table_bytes(pa.table({"a": [1, 2, 3, 4]}), "xlsx")
    with pytest.raises(ValueError, match="at most 32,767 characters"):
        table_bytes(pa.table({"a": ["x" * 40_000]}), "xlsx")


def test_the_limits_are_those_of_excel() -> None:
    assert (excel.MOST_ROWS, excel.MOST_COLUMNS) == (1_048_576, 16_384)


def test_a_cell_merged_over_rows_counts_in_each(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    with xlsxwriter.Workbook(str(path)) as file:
        sheet = file.add_worksheet()
        for row, cells in enumerate([["shop", "x"], ["", 1], ["", 2], ["", 3], ["b", 4]]):
            sheet.write_row(row, 0, cells)
        sheet.merge_range(1, 0, 3, 0, "a")
    assert read(path, ("shop",)).to_dict(as_series=False) == {
        "shop": ["a", "a", "a", "b"],
        "x": [1, 2, 3, 4],
    }
