"""How text files are written is found in them, or said by the user; their cells are text."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kdey.tables import parse_number
from kdey.tables.dialect import ReadOptions
from kdey.tables.sources import TableError, TableSource, open_source

TEXT = "name,code,x\nZürich,007,1.5\nKöln,7,2\n"


def opened(tmp_path: Path, data: bytes, **options: Any) -> TableSource:
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    return open_source(str(path), ReadOptions(**options))


def columns(file: TableSource) -> dict[str, list[Any]]:
    return file.read().to_dict(as_series=False)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"]
)
def test_encodings_are_found(tmp_path: Path, encoding: str) -> None:
    file = opened(tmp_path, TEXT.encode(encoding))
    expected = {"name": ["Zürich", "Köln"], "code": ["007", "7"], "x": ["1.5", "2"]}
    assert columns(file) == expected
    assert [frame.to_dict(as_series=False) for frame in file.batches()] == [expected]
    assumed = {"cp1252": "Windows-1252", "utf-16-le": "UTF-16-LE", "utf-16-be": "UTF-16-BE"}
    assert len(file.notes) == (encoding in assumed)
    assert all(assumed[encoding] in note and "encoding=" in note for note in file.notes)


def test_latin1_beyond_windows(tmp_path: Path) -> None:
    file = opened(tmp_path, b"a,b\n\xfc,\x81\n")
    assert columns(file) == {"a": ["ü"], "b": ["\x81"]}
    assert "Latin-1" in file.notes[0]


def test_an_encoding_that_breaks_late_is_found(tmp_path: Path) -> None:
    lines = b"a,b\n" + b"x,1\n" * 300_000 + "ü,1\n".encode("cp1252")
    assert columns(opened(tmp_path, lines))["a"][-1] == "ü"


def test_an_encoding_that_is_said(tmp_path: Path) -> None:
    assert columns(opened(tmp_path, TEXT.encode("cp850"), encoding="cp850"))["name"][0] == "Zürich"
    with pytest.raises(TableError, match=r"t\.csv: byte .* is not utf-8"):
        opened(tmp_path, TEXT.encode("cp1252"), encoding="utf-8")


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("packed", [False, True])
def test_separators_are_found(tmp_path: Path, separator: str, packed: bool) -> None:
    text = f'"a{separator}1"{separator}b\n"x{separator} ""y"""{separator}2\n'.encode()
    file = opened(tmp_path, gzip.compress(text) if packed else text)
    assert columns(file) == {f"a{separator}1": [f'x{separator} "y"'], "b": ["2"]}


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a, b and c;d\n1;2\n3;4\n", ";"),  # commas in a name
        ("a;b,c\n1,2\n3,4\n", ","),
        ("text|n\none, two|1\nthree, four, five|2\n", "|"),
        ("a\n1\n", ","),
        ("sep=;\na;b\n1,2;3\n", ";"),
    ],
)
def test_records_must_agree_with_the_header(tmp_path: Path, text: str, separator: str) -> None:
    assert opened(tmp_path, text.encode()).options.separator == separator


def test_the_line_by_which_excel_announces_a_separator(tmp_path: Path) -> None:
    file = opened(tmp_path, b"sep=|\r\na|b\r\n1|2\r\n")
    assert columns(file) == {"a": ["1"], "b": ["2"]}
    assert file.first_row == 3


@pytest.mark.parametrize(
    ("text", "decimal", "note"),
    [
        ("a;b\n1,5;2\n", ",", "decimal commas, as in '1,5'"),
        ("a\tb\n-0,25\t2\n1,234\t3\n", ",", "decimal commas"),
        ("a;b\n1.5;2\n", ".", None),
        ("a;b\n1.5;2,5\n", ".", "others have a decimal point"),
        ("k;a;b\n7.0;1,5;2,5\n", ",", "decimal commas, as in '1,5'"),  # most columns decide
        ("k;a\n1.5 or so;2,5\n", ",", "decimal commas, as in '2,5'"),  # a text has no vote
        ("k;a\n1,5 or so;2.5\n", ".", None),
        ("k;a\n;2,5\nNA;3\n", ",", "decimal commas, as in '2,5'"),
        ("a;b\n1,234;2\n", ".", "stand between thousands"),
        ("a;b\n1,234,567;2\n", ".", "stand between thousands"),
        ("a;b\n1.234,5;2\n", ",", "decimal commas, as in '1.234,5'"),
        ("a;b\n1,234.5;2\n", ".", None),
        ('a,b\n"1,5",2\n', ".", None),
    ],
)
def test_decimal_marks_are_found(tmp_path: Path, text: str, decimal: str, note: str | None) -> None:
    file = opened(tmp_path, text.encode())
    assert file.decimal == decimal
    assert len(file.notes) == (note is not None)
    assert note is None or note in file.notes[0]
    assert opened(tmp_path, text.encode(), decimal=".").decimal == "."


@pytest.mark.parametrize("decimal", [".", ","])
def test_numbers_are_strict(decimal: str) -> None:
    def number(text: str) -> float | None:
        return parse_number(text.replace(".", decimal), decimal)

    assert [number(t) for t in ["1.5", " -2 ", "+.5", "3.", "1e3", "-inf"]] == [
        *(1.5, -2.0, 0.5, 3.0, 1000.0, float("-inf"))
    ]
    assert all(number(t) != number(t) for t in ["", "NA", "n/a", "NaN", "null", "None", " "])
    odd = ["1_000", "1.2.3", "٣", "0x10", "one", "1 000", "--1", "e5", "."]
    assert [number(t) for t in odd] == [None] * len(odd)
    assert parse_number("1,5" if decimal == "." else "1.5", decimal) is None


def test_thousands_are_parted_where_no_other_reading_is_possible() -> None:
    assert parse_number("1.234.567,5", ",") == parse_number("1,234,567.5") == 1234567.5
    unclear = ["1,234", "1,234,567", "1,23.5", "12,3456.7", "1234,567.8", "1,234.567,8"]
    assert [parse_number(text) for text in unclear] == [None] * len(unclear)


def test_nothing_is_typed_by_its_looks(tmp_path: Path) -> None:
    cells = ["007", "true", "True", "2024-01-01", "12345678901234567890", "NA", "1e3", "nan"]
    text = "k,i\n" + "".join(f"{cell},{i}\n" for i, cell in enumerate(cells))
    assert columns(opened(tmp_path, text.encode()))["k"] == cells


def test_missing_values_are_empty_cells_and_what_is_said(tmp_path: Path) -> None:
    data = b'country,x\nNA,\nDE,-999\n"",NA\n'
    assert columns(opened(tmp_path, data)) == {
        "country": ["NA", "DE", None],
        "x": [None, "-999", "NA"],
    }
    file = opened(tmp_path, data, missing_values=("-999", "NA"))
    assert columns(file) == {"country": [None, "DE", None], "x": [None, None, None]}
    as_key = file.read(["country"]).to_dict(as_series=False)
    assert as_key == {"country": ["NA", "DE", None], "x": [None, None, None]}
    batches = list(file.batches(["country", "absent"], ["country"]))
    assert [b.to_dict(as_series=False) for b in batches] == [{"country": ["NA", "DE", None]}]


def test_text_files_come_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdey.tables.sources.BLOCK", 1000)
    lines = [f'{i},"a\n{i}"\n' for i in range(500)]
    file = opened(tmp_path, ("i,t\n" + "".join(lines)).encode())
    frames = list(file.batches())
    assert len(frames) > 3
    assert [i for frame in frames for i in frame["i"].to_list()] == [str(i) for i in range(500)]


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(TEXT.encode(),))
    writer.start()
    try:
        file = open_source(str(pipe))
    finally:
        writer.join(timeout=30)
    assert columns(file)["code"] == ["007", "7"]


def test_devices_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="no file is there"):
        open_source(str(tmp_path))
    with pytest.raises(TableError, match="neither a file, nor a folder, nor a pipe"):
        open_source("/dev/zero")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoding": "klingon"}, "encoding must be one that Python knows"),
        ({"encoding": "base64"}, "encoding must be one"),
        ({"separator": "::"}, "separator must be one character"),
        ({"separator": '"'}, "separator must be one character"),
        ({"decimal": "x"}, "decimal must be"),
        ({"separator": ",", "decimal": ","}, "both ','"),
        ({"date_format": "DD.MM.YYYY"}, "notation of strftime"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReadOptions(**options)
    assert ReadOptions(separator="tab").separator == "\t"


ROWS = [f"{i},r{i},{i % 7}" for i in range(1, 9)]


def with_cell(row: int, text: str) -> bytes:
    """Return a table of eight rows, one of which has a text in its second cell."""
    rows = [*ROWS[: row - 1], f"{row},{text},0", *ROWS[row:]]
    return ("id,words,x\n" + "\n".join(rows) + "\n").encode()


@pytest.mark.parametrize("packed", [False, True])
def test_a_quote_that_is_never_closed_is_refused_with_its_line(
    tmp_path: Path, packed: bool
) -> None:
    data = with_cell(4, '"nice')
    with pytest.raises(TableError, match=r't\.csv: line 5 opens a quoted cell \("\) that is not'):
        opened(tmp_path, gzip.compress(data) if packed else data)
    last = b'id,words\n1,a\n2,"nice\n3,b\n4,c\n'
    with pytest.raises(TableError, match="line 3 opens"):
        opened(tmp_path, last)


@pytest.mark.parametrize("text", ['5" pipe', "the 'best'", '"a ""quoted"" word"', '"a, b"', '""'])
def test_quotes_within_cells_are_legal(tmp_path: Path, text: str) -> None:
    file = opened(tmp_path, with_cell(4, text))
    assert len(file.read()) == 8
    assert file.notes == ()


def test_rows_within_a_quoted_cell_are_pointed_out(tmp_path: Path) -> None:
    swallowing = with_cell(3, '"nice').replace(b"r6", b'so"')
    [note] = opened(tmp_path, swallowing).notes
    assert note.startswith('line 4 opens a quoted cell (") over several lines, which look like')
    before_a_quoted_cell = b'id,words\n1,a\n2,"nice\n3,"so so"\n4,c\n'
    [note] = opened(tmp_path, before_a_quoted_cell).notes
    assert note.startswith("line 3 opens")


def test_cells_of_several_lines_are_no_rows(tmp_path: Path) -> None:
    letter = with_cell(4, '"Dear all,\nthe pump, once more, leaks.\n\nYours, A"')
    assert opened(tmp_path, letter).notes == ()
    assert opened(tmp_path, b'words\n"one\ntwo"\nthree\n').notes == ()


def test_two_encodings_in_one_file_are_refused(tmp_path: Path) -> None:
    lines = [b"place,n", b"bar,1", "café,2".encode(), b"bar,3", "café,4".encode("cp1252"), b"bar,5"]
    with pytest.raises(TableError, match="line 3 is UTF-8, but line 5 is not: write the file in"):
        opened(tmp_path, b"\n".join(lines))
    with pytest.raises(TableError, match="line 3 is UTF-8, but line 5 is not"):
        opened(tmp_path, gzip.compress(b"\n".join(lines)))
    said = opened(tmp_path, b"\n".join(lines), encoding="cp1252")
    assert columns(said)["place"][1::2] == ["cafÃ©", "café"]


def test_a_cell_that_goes_on_after_its_quote_is_pointed_out(tmp_path: Path) -> None:
    """The quote of the next cell closes this one, and the two are read as one."""
    path = tmp_path / "t.csv"
    path.write_text('shop,size,x\na,"1,5",2\n"b,"1,5",3\n"c" ,"say ""x""",4\n')
    [note] = open_source(str(path)).notes
    assert note.startswith('line 3 goes on after the closing quote (") of a cell: if a quote')


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
@pytest.mark.parametrize("said", ["-999", "-999.0"])
def test_a_number_that_means_missing_does_so_however_it_is_written(
    tmp_path: Path, ending: str, said: str
) -> None:
    table = pl.DataFrame({"key": [-999.0, 1.0], "x": [-999.0, 1.5], "n": [7, -999]})
    path = tmp_path / f"t.{ending}"
    writers = {"csv": table.write_csv, "parquet": table.write_parquet, "xlsx": table.write_excel}
    writers[ending](path)
    frame = open_source(str(path), ReadOptions(missing_values=(said,))).read(keys=["key"])
    assert frame["key"].null_count() == 0
    assert [frame[name].is_null().to_list() for name in "xn"] == [[True, False], [False, True]]


def test_texts_that_mean_missing_are_found_in_every_kind_of_text_column(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"x": ["a.b", "axb", " a.b "]}).write_parquet(path)  # polars writes large strings
    frame = open_source(str(path), ReadOptions(missing_values=("a.b",))).read()
    assert frame["x"].is_null().to_list() == [True, False, True]
