"""One text for a value, whichever source it comes from."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from kdey.tables import canonical_column, canonical_text

VALUES = [
    (7, "7"),
    (-3, "-3"),
    (2**70, "1180591620717411303424"),
    (np.int8(7), "7"),
    (7.0, "7"),
    (-0.0, "0"),
    (0.5, "0.5"),
    (np.float32(0.1), "0.1"),
    (2.0**53, "9007199254740992.0"),
    (1e300, "1e+300"),
    (float("inf"), "inf"),
    (True, "true"),
    (np.bool_(False), "false"),
    ("True", "True"),
    ("007", "007"),
    ("7.0", "7.0"),
    (" x", " x"),
    (Decimal("7.00"), "7"),
    (Decimal("0.50"), "0.5"),
    (dt.date(2024, 1, 2), "2024-01-02"),
    (dt.datetime(2024, 1, 2), "2024-01-02"),
    (dt.datetime(2024, 1, 2, 3), "2024-01-02T03:00:00"),
    (dt.datetime(2024, 1, 2, tzinfo=dt.UTC), "2024-01-02T00:00:00+00:00"),
    (np.datetime64("2024-01-02"), "2024-01-02"),
    (pd.Timestamp("2024-01-02 03:00"), "2024-01-02T03:00:00"),
    *(
        (missing, "")
        for missing in (None, "", float("nan"), pd.NaT, pd.NA, np.datetime64("NaT", "s"))
    ),
]


@pytest.mark.parametrize(("value", "text"), VALUES)
def test_values(value: Any, text: str) -> None:
    assert canonical_text(value) == text


@pytest.mark.parametrize("value", [[1], (1,), {1: 2}, {1}, np.arange(2), b"x"])
def test_what_is_no_single_value_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"not one value|decode it"):
        canonical_text(value)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([7, None, 10]),
        pd.Series([7, None, 10], dtype="Int64"),
        pd.Series([7, None, 10.0], dtype=object),
        pd.Series(["7", None, "10"]),
        pd.Series([7, None, 10], dtype="category"),
        pl.Series([7, None, 10]),
        pl.Series(["7", None, "10"]),
        pl.Series([7.0, None, 10.0], dtype=pl.Float32),
        pa.chunked_array([[7, None], [10]]),
        pa.chunked_array([["7", None], ["10"]]),
    ],
)
def test_every_source_gives_the_same(column: Any) -> None:
    texts = canonical_column(nw.from_native(column, series_only=True))
    assert texts.tolist() == ["7", "", "10"]


def test_single_precision_keeps_its_digits() -> None:
    column = nw.from_native(pl.Series([0.1, None], dtype=pl.Float32), series_only=True)
    assert canonical_column(column).tolist() == ["0.1", ""]


def test_truth_values_and_numbers_in_one_column_stay_apart() -> None:
    column = nw.from_native(pd.Series([True, 1, 1.0, "true "], dtype=object), series_only=True)
    assert canonical_column(column).tolist() == ["true", "1", "1", "true "]


@pytest.mark.parametrize(
    ("values", "both"),
    [
        ([1, "1"], r"1 \(int\) and '1' \(str\)"),
        ([True, "true"], r"True \(bool\) and 'true' \(str\)"),
        ([dt.date(2024, 1, 2), "2024-01-02"], r"datetime.date\(2024, 1, 2\) \(date\) and"),
    ],
)
def test_two_values_with_one_text_are_refused(values: list[Any], both: str) -> None:
    column = pd.Series(values, dtype=object, name="shop")
    with pytest.raises(ValueError, match=rf"column 'shop' holds both {both}"):
        canonical_column(nw.from_native(column, series_only=True))


@pytest.mark.parametrize(
    "column",
    [pd.Series([[1], [2]], name="k"), pl.Series("k", [[1], [2]])],
    ids=["pandas", "polars"],
)
def test_lists_are_refused_by_name(column: Any) -> None:
    with pytest.raises(ValueError, match=r"column 'k' .*\[1\].* not one value"):
        canonical_column(nw.from_native(column, series_only=True))
