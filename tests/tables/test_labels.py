"""Labels of tables: whole numbers where all are, texts otherwise."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from kdey.tables.schema import labels_seen, match_labels, read_labels, similar_labels


def column(values: list[Any], **options: Any) -> Any:
    return nw.from_native(pa.chunked_array([pa.array(values, **options)]), series_only=True)


def test_whole_numbers_sort_as_numbers() -> None:
    y = read_labels(column(["10", "2", "1"]))
    assert y.dtype == np.int64
    assert np.unique(y).tolist() == [1, 2, 10]


@pytest.mark.parametrize("values", [["01", "1"], ["1", "+1"], ["0", "-0"], ["1", "1.0"]])
def test_spellings_of_one_number_are_two_classes(values: list[str]) -> None:
    assert read_labels(column(values)).tolist() == values


def test_capital_letters_part_classes() -> None:
    assert read_labels(column(["true", "True", "TRUE"])).tolist() == ["true", "True", "TRUE"]


def test_huge_integers_stay_texts() -> None:
    values = ["9223372036854775808", "-9223372036854775809", "7"]
    assert read_labels(column(values)).tolist() == values
    typed = column([2**63, 2**64 - 1], type=pa.uint64())
    assert read_labels(typed).tolist() == ["9223372036854775808", "18446744073709551615"]
    edge = ["9223372036854775807", "-9223372036854775808"]
    assert read_labels(column(edge)).tolist() == [2**63 - 1, -(2**63)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 2.0], [1, 2]),
        ([True, False], ["true", "false"]),
        (["b", "a"], ["b", "a"]),
        ([3, 1], [3, 1]),
    ],
)
def test_typed_labels_are_those_of_a_text_file(values: list[Any], expected: list[Any]) -> None:
    typed = read_labels(column(values))
    assert typed.tolist() == expected
    texts = column([str(value) for value in expected])
    assert read_labels(texts).tolist() == expected


def test_mixed_objects_that_share_a_text_are_refused() -> None:
    mixed = nw.from_native(pd.Series([1, "1"], name="y", dtype=object), series_only=True)
    with pytest.raises(ValueError, match="'y' holds both"):
        read_labels(mixed)


def test_label_types_can_be_asked_for() -> None:
    assert read_labels(column(["1", "2"]), "text").tolist() == ["1", "2"]
    assert read_labels(column(["01", "2"]), "integer").tolist() == [1, 2]
    with pytest.raises(ValueError, match="'01' and '1', which are the same"):
        read_labels(column(["01", "1"]), "integer")
    with pytest.raises(ValueError, match="row 3 has 'x'"):
        read_labels(column(["1", "x"]), "integer", first=2)
    with pytest.raises(ValueError, match="label_type must be one of"):
        read_labels(column(["1", "x"]), "number")  # type: ignore[arg-type]


def test_measurements_are_no_classes() -> None:
    for values in ([0.5, 1.0], ["0.5", "1"]):
        with pytest.raises(ValueError, match=r"must hold classes, but row 2 has 0\.5"):
            read_labels(column(values), first=2)
    assert read_labels(column(["0.5", "1"]), "text").tolist() == ["0.5", "1"]


def test_missing_labels_are_counted() -> None:
    with pytest.raises(ValueError, match=r"no label in row 4 \(2 rows lack one\).*unlabelled="):
        read_labels(column(["a", "b", None, ""]), first=2)
    with pytest.raises(ValueError, match=r"no label in row 4 \(1 row lacks one\).*unlabelled="):
        read_labels(column(["a", "b", None]), first=2)


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ([1.0, 0.0, None, 1.0, float("nan"), 1.0], [0, 1]),  # whole numbers with gaps, as floats
        ([1, 0, None, 1, None, 1], [0, 1]),
        (["1", "0", None, "1", "", "1"], [0, 1]),
        ([1, 0, None, 1, None, 1], ["0", "1"]),
        (["b", "a", None, "b", "", "b"], ["a", "b"]),
        ([True, False, None, True, None, True], [False, True]),
        (["True", "false", None, "TRUE", None, "true"], [False, True]),
        ([True, False, None, True, None, True], ["false", "true"]),
    ],
)
def test_known_labels_are_told_as_training_wrote_them(values: list, classes: list) -> None:
    frame = nw.from_native(pa.table({"y": pa.array(values)}), eager_only=True)
    seen = labels_seen(frame, "y", np.array(classes))
    assert seen.tolist() == [classes[1], classes[0], classes[1], classes[1]]


def test_labels_that_training_lacks_are_named() -> None:
    frame = nw.from_native(pa.table({"y": [0.0, None, 7.0]}), eager_only=True)
    with pytest.raises(ValueError, match=r"has the class 7 in row 3, .*training has 0, 1"):
        labels_seen(frame, "y", np.array([0, 1]))
    empty = nw.from_native(pa.table({"y": pa.array([None, None])}), eager_only=True)
    assert len(labels_seen(empty, "y", np.array([0, 1]))) == 0


@pytest.mark.parametrize("classes", [["false", "true"], [False, True]])
def test_yes_and_no_are_not_true_and_false(classes: list) -> None:
    frame = nw.from_native(pl.DataFrame({"y": ["yes", "no", "yes"]}), eager_only=True)
    with pytest.raises(ValueError, match="'yes' in row 2"):
        labels_seen(frame, "y", np.array(classes), first=2)


def test_other_spellings_match_only_where_integers_were_asked_for() -> None:
    with pytest.raises(ValueError, match="'01'"):
        match_labels(column(["01", "2"]), np.array([1, 2]))
    found = match_labels(column(["01", "2"]), np.array([1, 2]), label_type="integer")
    assert found.tolist() == [1, 2]


def test_labels_that_differ_in_what_is_not_seen_are_named() -> None:
    [sentence] = similar_labels(np.array(["A", "A\u200b", "B"]))
    assert sentence.startswith(r"'A' and 'A\u200b' are taken for 2 classes")
