"""Columns of posteriors are matched with the classes by name, or refused; never by chance."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from kdey.metrics import absolute_error
from kdey.simplex import (
    check_posteriors,
    check_prevalence,
    in_class_order,
    in_order_of,
    match_scores,
)

PETS = np.array(["cat", "dog", "fish"])
VALUES = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])


def frames(columns, values=VALUES):
    """Return a frame of every library, with columns of these names."""
    table = {name: values[:, i] for i, name in enumerate(columns)}
    return [
        pd.DataFrame(table),
        pl.DataFrame(table),
        pa.table(table),
        pa.RecordBatch.from_pydict({name: pa.array(v) for name, v in table.items()}),
    ]


@pytest.mark.parametrize("shape", ["{}", "p_{}", "{} (score)", "P({})"])
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_frames_are_matched_by_name(shape, order):
    names = [shape.format(PETS[i]) for i in order]
    for frame in frames(names, VALUES[:, order]):
        np.testing.assert_array_equal(in_class_order(frame, PETS), VALUES)
        np.testing.assert_array_equal(check_posteriors(frame, classes=PETS), VALUES)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["x", "y", "z"], "not named after the classes cat, dog, fish"),
        (["p_dog", "pc", "pf"], "not named after the classes"),
        (["cat", "dog", "bird"], "but not 'bird'"),
        (["2", "0", "1"], "not named after the classes"),
    ],
)
def test_frames_with_other_names_are_refused(columns, message):
    for frame in frames(columns):
        with pytest.raises(ValueError, match=message):
            check_posteriors(frame, classes=PETS)


def test_frames_with_another_number_of_columns_are_refused():
    for frame in frames(["cat", "dog"], VALUES[:, :2]):
        with pytest.raises(ValueError, match=r"has 2 columns .* expected one per class: 3"):
            check_posteriors(frame, classes=PETS)


def test_repeated_names_are_refused():
    frame = pd.DataFrame(VALUES, columns=["cat", "cat", "dog"])
    with pytest.raises(ValueError, match="posteriors"):
        check_posteriors(frame, classes=PETS)


def test_lazy_frames_are_refused():
    with pytest.raises(ValueError, match="lazy data frame: collect"):
        check_posteriors(pl.LazyFrame({"cat": [1.0]}), classes=PETS)


def test_default_names_are_no_names():
    for frame in (pd.DataFrame(VALUES), pl.DataFrame(VALUES, schema=None)):
        np.testing.assert_array_equal(check_posteriors(frame, classes=PETS), VALUES)
        np.testing.assert_array_equal(check_posteriors(frame), VALUES)


@pytest.mark.parametrize("classes", [[1, 2, 3], [1.0, 2.0, 3.0], ["1", "2", "3"]])
def test_default_names_that_are_names_of_other_classes_are_refused(classes):
    with pytest.raises(ValueError, match="names columns after classes, but not"):
        check_posteriors(pd.DataFrame(VALUES), classes=classes)


@pytest.mark.parametrize("classes", [[10, 20, 1], [0.5, 1.5, 2.5]])
def test_one_default_name_that_is_the_name_of_another_class_is_refused(classes):
    frame = pd.DataFrame(VALUES)
    if 1 in classes:
        with pytest.raises(ValueError, match="column '1' is named after class '1'"):
            check_posteriors(frame, classes=classes)
    else:
        np.testing.assert_array_equal(check_posteriors(frame, classes=classes), VALUES)


def test_integer_columns_of_pandas_are_names():
    frame = pd.DataFrame(VALUES[:, ::-1], columns=[2, 1, 0])
    np.testing.assert_array_equal(check_posteriors(frame, classes=[0, 1, 2]), VALUES)
    np.testing.assert_array_equal(check_posteriors(frame, classes=[0.0, 1.0, 2.0]), VALUES)


def test_named_columns_need_classes():
    for frame in frames(PETS):
        with pytest.raises(ValueError, match=r"named columns .* does not know the classes"):
            check_posteriors(frame)


def test_arrays_and_lists_keep_their_order():
    assert in_class_order(VALUES, PETS) is VALUES
    listed = VALUES.tolist()
    assert in_class_order(listed, PETS) is listed


def test_float32_frames_stay_float32():
    frame = pd.DataFrame(VALUES.astype(np.float32), columns=PETS)
    assert check_posteriors(frame, classes=PETS).dtype == np.float32


def test_a_series_is_matched_by_its_index():
    counts = pd.Series(["b", "b", "b", "a"]).value_counts(normalize=True)
    assert list(counts.index) == ["b", "a"]
    np.testing.assert_array_equal(check_prevalence(counts, classes=["a", "b"]), [0.25, 0.75])
    with pytest.raises(ValueError, match="named columns"):
        check_prevalence(counts)


def test_errors_match_names():
    true = pd.Series({"a": 0.25, "b": 0.75})
    estimated = pd.Series({"b": 0.75, "a": 0.25})
    assert absolute_error(true, estimated) == 0.0
    for one, other in zip(frames("abc"), frames("cba", VALUES[:, ::-1]), strict=True):
        np.testing.assert_array_equal(absolute_error(one, other), [0.0, 0.0])
    with pytest.raises(ValueError, match="estimated"):
        absolute_error(true, pd.Series({"b": 0.75, "c": 0.25}))


def test_integer_names_are_matched_with_default_names():
    default, turned = pd.DataFrame(VALUES), pd.DataFrame(VALUES[:, ::-1], columns=[2, 1, 0])
    np.testing.assert_array_equal(in_order_of(default, turned, "estimated"), VALUES)
    assert in_order_of(default, VALUES, "estimated") is VALUES
    named = pd.DataFrame(VALUES, columns=PETS)
    assert in_order_of(default, named, "estimated") is named


@pytest.mark.parametrize(
    ("columns", "classes", "column", "named", "served"),
    [
        (["p_dog", "pc", "pf"], PETS, "p_dog", "dog", "cat"),
        (["pc", "pf", "p_dog"], PETS, "p_dog", "dog", "fish"),
        (["pdog", "x", "y"], PETS, "pdog", "dog", "cat"),
        (["P_DOG", "x", "y"], PETS, "P_DOG", "dog", "cat"),
        (["a_2", "b", "c"], [1, 2, 3], "a_2", "2", "1"),
        (["model1_neg", "x", "model1_pos"], [0, 1, 2], "model1_neg", "1", "0"),
        (["p_cats", "x", "y"], ["cat", "cats", "dog"], "p_cats", "cats", "cat"),
    ],
)
def test_scores_named_after_another_class_are_refused(columns, classes, column, named, served):
    message = f"column '{column}' is named after class '{named}', but .* class '{served}'"
    with pytest.raises(ValueError, match=message):
        match_scores(columns, np.array(classes))


@pytest.mark.parametrize(
    ("columns", "classes"),
    [
        (["x", "y", "z"], PETS),
        (["p_cat", "x", "y"], PETS),
        (["alpha", "beta", "gamma"], ["a", "b", "c"]),
        (["model1_neg", "model1_neu", "model1_pos"], [0, 1, 2]),
    ],
)
def test_listed_scores_without_names_of_classes_keep_their_order(columns, classes):
    assert match_scores(columns, np.array(classes)) == columns


def test_names_that_can_be_read_in_two_ways_are_refused():
    with pytest.raises(ValueError, match="column 'aa' can be read as the name of several"):
        match_scores(["aa", "aaa"], np.array(["a", "aa"]))


def test_a_label_may_occur_twice_in_a_name():
    """Only its last place was tried: "22_" was not read as "2" before "2_"."""
    frame = pd.DataFrame([[0.0, 1.0]], columns=["_2_", "22_"])
    matched = check_posteriors(frame, classes=["2", "_"])
    np.testing.assert_array_equal(matched, [[1.0, 0.0]])
    assert match_scores(["no_no_score", "yes_no_score"], np.array(["no", "yes"])) == [
        "no_no_score",
        "yes_no_score",
    ]


LABELS = st.lists(
    st.text("abc12_ ", min_size=1, max_size=4).filter(lambda text: text.strip()),
    min_size=2,
    max_size=5,
    unique=True,
)


@settings(max_examples=200)
@given(LABELS, st.text("ab_1", max_size=2), st.text("b_2", max_size=2), st.randoms())
def test_permuted_columns_never_serve_another_class(labels, head, tail, random):
    classes = sorted(labels)
    order = list(range(len(classes)))
    random.shuffle(order)
    values = np.eye(len(classes))
    columns = [head + classes[i] + tail for i in order]
    frame = pd.DataFrame(values[:, order], columns=columns)
    try:
        matched = check_posteriors(frame, classes=classes)
    except ValueError as error:
        if "several classes" in str(error):  # such as "aa", "aaa" for "a", "aa"
            return
        raise
    np.testing.assert_array_equal(matched, values)
