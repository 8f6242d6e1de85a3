"""Columns of frames as numbers, texts and dates."""

from __future__ import annotations

import datetime as dt
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from kdey.tables import (
    as_frame,
    day_numbers,
    finite_numbers,
    missing_in,
    numbers,
    require,
)


def series(values: Any) -> Any:
    return nw.from_native(values, series_only=True)


@pytest.mark.parametrize(
    "column",
    [
        pl.Series("x", [1, None, 3]),
        pl.Series("x", [1.0, float("nan"), 3.0]),
        pl.Series("x", ["1", "", "3.0"]),
        pd.Series([1, None, 3], name="x", dtype="Int64"),
        pd.Series([1.0, np.nan, 3.0], name="x"),
        pd.Series([1, None, "3"], name="x", dtype=object),
        pa.chunked_array([[1, None], [3]]),
        pa.chunked_array([["1", None], ["3"]]),
    ],
    ids=lambda column: type(column).__module__,
)
def test_numbers_and_missing_ones(column: Any) -> None:
    assert_array_equal(numbers(series(column)), [1.0, np.nan, 3.0])
    assert missing_in(series(column)).tolist() == [False, True, False]


def test_truth_values_are_numbers_but_no_numeric_feature() -> None:
    assert numbers(series(pl.Series([True, False]))).tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match="'x' must hold numbers as in training, but holds truth"):
        finite_numbers(series(pl.Series("x", [True, False])))


def test_a_text_among_numbers_is_named_with_its_row() -> None:
    column = series(pl.Series("x", ["1", "many"]))
    with pytest.raises(ValueError, match="'x' must hold numbers, but row 12 has 'many': correct"):
        numbers(column, first=11)
    with pytest.raises(ValueError, match="row 7 has 'many'"):
        numbers(column, first=np.array([3, 7]))


@pytest.mark.parametrize("text", ["1_000", "0x10", "١", "1,5", "--1", "1e"])
@pytest.mark.parametrize(
    "column_of",
    [
        lambda texts: pl.Series("x", texts),
        lambda texts: pd.Series(texts, name="x"),
        lambda texts: pa.chunked_array([texts]),
    ],
    ids=["polars", "pandas", "pyarrow"],
)
def test_what_looks_like_a_number_to_one_library_only_is_none(column_of: Any, text: str) -> None:
    with pytest.raises(ValueError, match="must hold numbers"):
        numbers(series(column_of(["2", text])))


def test_decimal_commas() -> None:
    column = series(pl.Series("x", ["1,5", "-2", "NA", None]))
    assert_array_equal(numbers(column, decimal=","), [1.5, -2.0, np.nan, np.nan])
    with pytest.raises(ValueError, match=r"row 1 has '1,5' \(decimal mark ',': decimal=\)"):
        numbers(column)


@pytest.mark.parametrize(
    "column", [pl.Series("x", [1.0, float("inf")]), pl.Series("x", ["1", "-inf"])]
)
def test_infinite_values_are_named(column: Any) -> None:
    with pytest.raises(ValueError, match=r"'x' has an infinite value in row 6 \(1 such row\)"):
        finite_numbers(series(column), first=5)


@pytest.mark.parametrize(
    "column",
    [
        pl.Series("d", [dt.date(1970, 1, 3), None]),
        pl.Series("d", ["1970-01-03", None]),
        pd.Series(pd.to_datetime(["1970-01-03", None]), name="d"),
        pd.Series(["1970-01-03T00:00", "NA"], name="d"),
    ],
)
def test_days_since_1970(column: Any) -> None:
    assert_array_equal(day_numbers(series(column)), [2.0, np.nan])


def test_a_date_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match=r"'d' must hold dates .* row 4 has '31/12/1999'"):
        day_numbers(series(pl.Series("d", ["2020-01-01", "31/12/1999"])), 3)


def test_frames_need_names_that_are_texts() -> None:
    with pytest.raises(ValueError, match="texts for names"):
        as_frame(pd.DataFrame({0: [1]}))
    with pytest.raises(TypeError, match="data frame of pandas, polars or pyarrow"):
        as_frame([[1]])


def test_absent_columns_are_named_with_a_suggestion() -> None:
    with pytest.raises(ValueError, match=r"no column 'colr' \(did you mean 'colour'\?\)"):
        require(as_frame(pl.DataFrame({"colour": [1]})), ["colr"])
