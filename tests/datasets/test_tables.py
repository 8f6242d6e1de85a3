"""The table reader against the csv module, and its errors."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kdey.datasets.loading import read_table

from .cases import table_text, write_gz


def oracle(path: Path) -> tuple[np.ndarray, list[str]]:
    rows = list(csv.reader(gzip.decompress(path.read_bytes()).decode().splitlines()))[1:]
    return np.array([[float(c) for c in row[:-1]] for row in rows]), [row[-1] for row in rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@settings(max_examples=30)
@given(st.integers(1, 8), st.integers(1, 5), st.integers(0, 1000), st.sampled_from(["int", "str"]))
def test_reader_equals_the_csv_module(folder: Path, n: int, d: int, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-8, 8, size=(n, d))
    y = rng.integers(-2, 3, size=n)
    labels = y if kind == "int" else np.array([f"c {v}" for v in y])
    path = write_gz(folder / "t.csv.gz", table_text(X, labels))
    numbers, read, _, _ = read_table(path)
    expected, names = oracle(path)
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_array_equal(numbers, X)
    assert [str(v) for v in read] == names
    assert read.dtype.kind == ("i" if kind == "int" else "U")


def test_cells_may_be_quoted(tmp_path: Path) -> None:
    plain = read_table(write_gz(tmp_path / "a.csv.gz", "a,b,label\n1,2.5,x\n3,4,y\n"))
    quoted = read_table(write_gz(tmp_path / "b.csv.gz", 'a,b,label\n"1",2.5,"x"\n3,"4",y\n'))
    np.testing.assert_array_equal(plain[0], quoted[0])
    assert plain[1].tolist() == quoted[1].tolist() == ["x", "y"]


def test_windows_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfa,label\r\n1,x\r\n2,y\r\n\r\n")
    X, labels, _, _ = read_table(path)
    assert X.tolist() == [[1.0], [2.0]]
    assert labels.tolist() == ["x", "y"]


def test_split_and_word_columns(tmp_path: Path) -> None:
    text = "sex,size,split,label\nM,1,train,5\nF,2,test,6\n"
    X, labels, split, notes = read_table(write_gz(tmp_path / "a.csv.gz", text), ["sex"])
    assert X.tolist() == [[1.0, 1.0], [0.0, 2.0]]  # an indicator of M, and the size
    assert split is not None
    assert split.tolist() == ["train", "test"]
    assert labels.tolist() == [5, 6]
    assert notes == ("one-hot without the first value: sex",)


def test_labels_with_leading_zeros_stay_text(tmp_path: Path) -> None:
    labels = read_table(write_gz(tmp_path / "a.csv.gz", "a,label\n1,01\n1,1\n"))[1]
    assert labels.tolist() == ["01", "1"]


BAD = {
    "": "the file is empty",
    "a,label\n": "a header but no row",
    "a,b\n1,2\n": r"line 1: the last column must be called label, it is 'b'",
    "a,a,label\n1,2,x\n": "line 1: column 'a' comes twice",
    "label\nx\n": "line 1: there is no feature column",
    "split,a,label\ntrain,1,x\n": "line 1: the column split must stand before label",
    "a,b,label\n1,2,x\n1,2\n": r"line 3: 2 cells, the header has 3",
    "a,b,label\n1,2,x\n\n1,2,y\n": r"line 3: 0 cells, the header has 3",
    "a,b,label\n1,2,x,4\n": r"line 2: 4 cells, the header has 3",
    "a,b,label\n1,2,x\n1,q,y\n": r"line 3, column 'b': 'q' is not a finite number",
    "a,b,label\n1,,x\n": r"line 2, column 'b': '' is not a finite number",
    "a,b,label\n1,2,x\nnan,2,y\n": r"line 3, column 'a': 'nan' is not a finite number",
    "a,b,label\n1,2,x\n1,1e999,y\n": r"line 3, column 'b': '1e999' is not a finite number",
    "a,label\n1,x\n2,\n": r"line 3, column 'label': the label is empty",
    "a,split,label\n1,dev,x\n": r"line 2, column 'split': 'dev' is neither train nor test",
}


@pytest.mark.parametrize("text", BAD)
def test_faults_are_named_with_file_line_and_column(tmp_path: Path, text: str) -> None:
    path = write_gz(tmp_path / "bad.csv.gz", text)
    with pytest.raises(ValueError, match=f"bad.csv.gz.*{BAD[text]}"):
        read_table(path)


def test_broken_compression_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(b"a,label\n" + b"1,x\n" * 1000)
    for name, data in {"plain": b"a,label\n1,x\n", "cut": whole[:-20], "none": b""}.items():
        path = tmp_path / f"{name}.csv.gz"
        path.write_bytes(data)
        with pytest.raises(
            ValueError, match=f"{name}.csv.gz: (not a whole gzip|the file is empty)"
        ):
            read_table(path)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    (tmp_path / "flip.csv.gz").write_bytes(bytes(flipped))
    with pytest.raises(ValueError, match=r"flip.csv.gz: not a whole gzip"):
        read_table(tmp_path / "flip.csv.gz")


def test_binary_rubbish_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ValueError, match=r"a.csv: not UTF-8"):
        read_table(path)


def test_a_missing_word_column_is_named(tmp_path: Path) -> None:
    path = write_gz(tmp_path / "a.csv.gz", "a,label\n1,x\n")
    with pytest.raises(ValueError, match="line 1: there is no column 'sex'"):
        read_table(path, ["sex"])


@pytest.mark.parametrize("text", ["\na,label\n1,x\n", '"' + "a" * 140_000 + '",label\n1,x\n'])
def test_lines_that_are_no_row_are_named(tmp_path: Path, text: str) -> None:
    """Found by fuzz/readers: an empty header was an IndexError, an endless cell a csv.Error."""
    path = tmp_path / "odd.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"odd\.csv, line 1"):
        read_table(path)


def test_labels_beyond_integers_are_names(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    label = "9" * 5000
    path.write_text(f"a,label\n1,{label}\n2,7\n")
    assert read_table(path)[1].tolist() == [label, "7"]
