"""Columns of frames as numbers and texts."""

from __future__ import annotations

import datetime as dt
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from kdey.tables.layout import TableLayout, learn_layout, missing_in, numbers
from kdey.tables.training import labels_seen

#: The command has the name of its module.
report = import_module("kdey.cli.report")


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


def test_truth_values_are_numbers() -> None:
    assert numbers(series(pl.Series([True, False]))).tolist() == [1.0, 0.0]


def test_a_text_among_numbers_is_named() -> None:
    with pytest.raises(ValueError, match="'x' must hold numbers, but row 12 has 'many'"):
        numbers(series(pl.Series("x", ["1", "many"])), first=11)


def test_layout_learns_texts_and_keeps_their_numbers() -> None:
    frame = nw.from_native(pl.DataFrame({"a": [1, 2, 3, 4], "c": ["v", "u", "v", "u"]}))
    layout = learn_layout(frame, "y", ("a", "c"))
    assert layout == TableLayout("y", ("a", "c"), {"c": ("u", "v")})
    assert layout.text_positions == [1]
    new = nw.from_native(pd.DataFrame({"c": ["v", "w", None], "a": [5.0, np.nan, 7.0]}))
    assert_array_equal(layout.matrix(new), [[5, 1], [np.nan, -1], [7, np.nan]])


def test_identifiers_and_dates_are_no_features() -> None:
    frame = nw.from_native(pl.DataFrame({"id": [f"r{i}" for i in range(50)]}))
    with pytest.raises(ValueError, match="'id' holds 50 different texts in 50 rows"):
        learn_layout(frame, "y", ("id",))
    dates = nw.from_native(pl.DataFrame({"d": [dt.date(2024, 1, 1)] * 3}))
    with pytest.raises(ValueError, match="--ignore d"):
        learn_layout(dates, "y", ("d",))


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ([1.0, 0.0, None, 1.0, float("nan"), 1.0], [0, 1]),  # whole numbers with gaps, as floats
        ([1, 0, None, 1, None, 1], [0, 1]),
        (["1", "0", None, "1", "", "1"], [0, 1]),
        ([1, 0, None, 1, None, 1], ["0", "1"]),
        (["b", "a", None, "b", "", "b"], ["a", "b"]),
        ([True, False, None, True, None, True], [False, True]),
    ],
)
def test_known_labels_are_told_as_training_wrote_them(values: list, classes: list) -> None:
    frame = nw.from_native(pa.table({"y": pa.array(values)}), eager_only=True)
    seen = labels_seen(frame, "y", np.array(classes))
    assert seen.tolist() == [classes[1], classes[0], classes[1], classes[1]]
    shares = report._truth(SimpleNamespace(classes_=np.array(classes)), frame, "y")
    assert shares == [0.25, 0.75]


def test_labels_that_training_lacks_are_named() -> None:
    frame = nw.from_native(pa.table({"y": [0.0, None, 7.0]}), eager_only=True)
    with pytest.raises(ValueError, match="has the class 7 in row 3"):
        labels_seen(frame, "y", np.array([0, 1]))
    empty = nw.from_native(pa.table({"y": pa.array([None, None])}), eager_only=True)
    assert len(labels_seen(empty, "y", np.array([0, 1]))) == 0
    with pytest.raises(ValueError, match="holds no labels"):
        report._truth(SimpleNamespace(classes_=np.array([0, 1])), empty, "y")
