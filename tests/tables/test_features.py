"""The transformer from tables to features, inside quantifiers: every method reads tables alike."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import kdey
from kdey.status import status_parts
from kdey.tables.features import TableFeatures, TableWarning, prepare, reading_tables
from kdey.tables.training import learn_schema


def table(n: int = 150, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    y = rng.choice(["bad", "good"], n)
    colour = np.where(rng.random(n) < np.where(y == "bad", 0.8, 0.2), "red", "blue")
    return pl.DataFrame({"x": rng.normal(size=n) + (y == "bad"), "colour": colour, "kind": y})


def quantifier(frame: pl.DataFrame) -> Any:
    schema = learn_schema(frame, "kind")
    pipeline = reading_tables(prepare(LogisticRegression(), schema.kinds), schema)
    return kdey.KDEyML(pipeline, bandwidth=0.2, random_state=0)


@pytest.fixture(scope="module")
def fitted() -> Any:
    return quantifier(table()).fit(table(), table()["kind"].to_numpy())


FRAMES = {
    "polars": lambda frame: frame,
    "pandas": lambda frame: frame.to_pandas(),
    "pyarrow": lambda frame: frame.to_arrow(),
}


@pytest.mark.parametrize("library", FRAMES)
def test_every_door_gives_the_same_answer(fitted: Any, library: str) -> None:
    new = table(60, seed=1)
    frame = FRAMES[library](new.select("kind", "colour", pl.lit(3).alias("more"), "x"))
    expected = fitted.predict(fitted.model_.table_schema.encode(new).X)
    whole = [np.arange(60)]
    assert_array_equal(fitted.predict(frame), expected)
    assert_array_equal(fitted.predict_bags(frame, whole)[0], expected)
    assert_array_equal(fitted.estimate(frame).estimate, expected)
    assert_array_equal(fitted.estimate_bags(frame, whole).estimate[0], expected)
    groups = fitted.predict_groups(frame).to_frame()
    assert_allclose(np.asarray(groups["estimate"]), expected, atol=1e-12)
    assert kdey.check_fit(fitted, frame, random_state=0).p_value == pytest.approx(
        kdey.check_fit(fitted, new, random_state=0).p_value
    )


def test_a_saved_model_reads_tables(fitted: Any, tmp_path: Path) -> None:
    pytest.importorskip("skops")
    again = kdey.load(kdey.save(fitted, tmp_path / "m.kdey"))
    assert again.model_.table_schema == fitted.model_.table_schema
    new = table(60, seed=1)
    assert_array_equal(again.predict(new), fitted.predict(new))


def test_a_frame_may_be_fitted_without_a_schema() -> None:
    frame = table().with_columns(id=pl.int_range(150)).drop("kind")
    y = table()["kind"].to_numpy()
    method = kdey.PACC(make_pipeline(TableFeatures(), _OneHot()), random_state=0)
    with pytest.warns(
        TableWarning, match=r"not used as features: 'id' \(150 different.*; used are x, col"
    ):
        method.fit(frame.to_arrow(), y)
    assert method.model_.table_schema.feature_names == ("x", "colour")
    shown = " ".join(str(method.overview()).split())
    assert "id id 150 different whole numbers in 150 rows x number numbers" in shown
    with warnings.catch_warnings():
        warnings.simplefilter("error", TableWarning)
        assert_array_equal(method.predict(frame.to_pandas()), method.predict(frame))


def test_warnings_point_at_the_line_of_the_user(fitted: Any) -> None:
    frame = table().with_columns(id=pl.int_range(150)).drop("kind")
    method = kdey.PACC(make_pipeline(TableFeatures(), _OneHot()), random_state=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", TableWarning)
        method.fit(frame, table()["kind"].to_numpy())
        again = clone(method).set_params(cv=2)
        again.fit(frame, table()["kind"].to_numpy())
        shouted = table(60, seed=1).with_columns(pl.col("colour").str.to_uppercase())
        for ask in (fitted.predict, fitted.estimate, fitted.predict_groups):
            ask(shouted)
        fitted.predict_groups(shouted, by="colour")
    told = [one for one in told if one.category is TableWarning]
    assert len(told) >= 7
    assert {one.filename for one in told} == {__file__}


class _OneHot(LogisticRegression):
    """A logistic regression of the codes."""


def test_unseen_values_are_warned_about_once_with_counts(fitted: Any) -> None:
    shouted = table(60, seed=1).with_columns(pl.col("colour").str.to_uppercase())
    for ask in (fitted.predict, fitted.estimate):
        with pytest.warns(TableWarning, match="'colour': unseen values in 60 of 60 rows") as caught:
            ask(shouted)
        assert len(caught) == 1
    with pytest.warns(TableWarning, match="'colour': unseen values in 60 of 60"):
        groups = fitted.predict_groups(shouted).to_frame()
    (status,) = groups["status"].unique().to_list()
    assert "unseen values" in status_parts(status)


def test_a_few_unseen_values_leave_the_status_alone(fitted: Any) -> None:
    frame = table(60, seed=1)
    changed = ["mauve" if i < 3 else c for i, c in enumerate(frame["colour"])]
    with pytest.warns(TableWarning, match="in 3 of 60 rows"):
        status = fitted.predict_groups(frame.with_columns(colour=pl.Series(changed))).to_frame()[
            "status"
        ]
    assert not status.str.contains("unseen values").any()
    changed[3] = "mauve"
    with pytest.warns(TableWarning, match="in 4 of 60 rows"):
        status = fitted.predict_groups(frame.with_columns(colour=pl.Series(changed))).to_frame()[
            "status"
        ]
    assert status.str.contains("unseen values").all()


def test_the_status_is_that_of_the_group(fitted: Any) -> None:
    frame = table(80, seed=1).with_columns(
        shop=pl.Series(["A", "B"] * 40),
        colour=pl.Series(["pink" if i % 2 else "red" for i in range(80)]),
    )
    with pytest.warns(TableWarning):
        groups = fitted.predict_groups(frame, "shop").to_frame(wide=True)
    assert groups["status"].to_list() == [
        "no problem found",
        "unseen values; cannot be told; poor fit",
    ]


def test_values_missing_where_training_lacks_none(fitted: Any) -> None:
    frame = table(60, seed=1).with_columns(
        x=pl.when(pl.int_range(60) == 7).then(None).otherwise(pl.col("x"))
    )
    with pytest.raises(ValueError, match=r"'x': missing values in 1 of 60 rows \(row 8; training"):
        fitted.estimate(frame)
    groups = fitted.predict_groups(frame).to_frame()
    assert groups["n_missing"].to_list() == [1, 1]
    alone = fitted.estimate(frame.drop_nulls()).estimate
    # Scores of groups are held in single precision.
    assert_allclose(groups["estimate"].to_numpy(), alone, rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match="'x' has no value in row 8"):
        fitted.predict_groups(frame, options=kdey.Options(missing="error")).to_frame()


def test_values_missing_where_training_lacks_some_are_used() -> None:
    gaps = pl.when(pl.int_range(pl.len()) % 10 == 3).then(None).otherwise(pl.col("x"))
    training, new = (table(seed=s).with_columns(x=gaps) for s in (0, 1))
    q = quantifier(training).fit(training, training["kind"].to_numpy())
    groups = q.predict_groups(new).to_frame()
    assert groups["n_missing"].to_list() == [0, 0]
    assert_allclose(groups["estimate"].to_numpy(), q.predict(new), atol=1e-12)
    assert q.predict_groups(new, options=kdey.Options(missing="drop")).to_frame()[
        "n_missing"
    ].to_list() == [15, 15]


def test_arrays_must_be_features(fitted: Any) -> None:
    new = table(60, seed=1)
    raw = new.select("x", "colour").to_numpy()
    with pytest.raises(ValueError, match=r"'colour' holds categories.*give a data frame"):
        fitted.predict(raw)
    with pytest.raises(ValueError, match=r"columns x, colour, or an array of 2 features"):
        fitted.predict(np.zeros((5, 3)))
    with pytest.raises(ValueError, match="'colour' holds categories"):
        fitted.predict(np.full((5, 2), 7.0))


def test_absent_and_changed_columns_are_named(fitted: Any) -> None:
    new = table(60, seed=1)
    with pytest.raises(ValueError, match="no column 'x'"):
        fitted.predict(new.drop("x"))
    with pytest.raises(ValueError, match="'x' must hold numbers, but row 1 has 'much'"):
        fitted.predict(new.with_columns(x=pl.lit("much")))
    with pytest.raises(ValueError, match=r"'x' must hold numbers.*truth values"):
        fitted.predict(new.with_columns(x=pl.lit(True)))


def test_the_transformer_is_one_of_scikit_learn() -> None:
    frame = table()
    step = TableFeatures(learn_schema(frame, "kind")).fit(frame)
    assert clone(step).schema == step.schema
    assert step.get_feature_names_out().tolist() == ["x", "colour"]
    assert_array_equal(step.transform(step.transform(frame)), step.transform(frame))
    small = pd.DataFrame({"a": [1.5, 2.5]})
    assert_array_equal(TableFeatures().fit_transform(small), [[1.5], [2.5]])


@pytest.mark.parametrize(
    ("before", "after", "example"),
    [(0.0, [0.0, 2.5], "2.5"), ("m", ["m", "cm"], "cm"), (7, ["7", "seven"], "seven")],
    ids=["numbers", "texts", "a text among numbers"],
)
def test_a_column_that_was_constant_and_varies_is_named(
    before: Any, after: list[Any], example: str, tmp_path: Path
) -> None:
    training, new = table(), table(60, seed=1)
    fitted = quantifier(training.with_columns(unit=pl.lit(before))).fit(
        training.with_columns(unit=pl.lit(before)), training["kind"].to_numpy()
    )
    expected = fitted.predict(new)  # it is not needed
    same = new.with_columns(unit=pl.lit(before))
    varied = new.with_columns(unit=pl.Series(after * 30))
    message = f"'unit': other values in 30 of 60 rows .such as '{example}'; in training it was"
    path = kdey.save(fitted, tmp_path / "m.kdey")
    varied.write_csv(tmp_path / "new.csv")
    for model in (fitted, kdey.load(path)):
        with warnings.catch_warnings():
            warnings.simplefilter("error", TableWarning)
            assert_array_equal(model.predict(same), expected)
        for ask in (model.predict, model.estimate, model.predict_groups):
            with pytest.warns(TableWarning, match=message) as caught:
                ask(varied)
            assert len([w for w in caught if w.category is TableWarning]) == 1
    with pytest.warns(TableWarning, match=message):
        kdey.predict_groups(fitted, tmp_path / "new.csv")


@pytest.mark.parametrize("written", [int, str, bool, lambda truth: str(bool(truth)).upper()])
def test_truth_values_may_be_written_as_numbers(written: Any) -> None:
    frame = table().with_columns(good=pl.Series([True, False, False] * 50))
    schema = learn_schema(frame, "kind")
    again = frame.with_columns(good=pl.Series([written(int(truth)) for truth in frame["good"]]))
    encoded = schema.encode(again)
    assert encoded.findings == ()
    assert_array_equal(encoded.X, schema.encode(frame).X)


def test_keys_that_differ_in_what_is_not_seen_are_named(fitted: Any) -> None:
    new = table(60, seed=1).with_columns(shop=pl.Series(["A", "A\u200b", "\u202eB"] * 20))
    with pytest.warns(TableWarning, match=r"'shop': 'A' and 'A\\u200b' are 2 groups"):
        fitted.predict_groups(new, "shop")


def test_numbers_beyond_those_of_training_are_counted_and_shown(
    fitted: Any, tmp_path: Path
) -> None:
    new = table(60, seed=1).with_columns(
        x=pl.when(pl.int_range(60) < 6).then(999.0).otherwise(0.1), shop=pl.Series(["a", "b"] * 30)
    )
    [finding] = fitted.model_.table_schema.encode(new).findings
    assert finding.count == 6
    says = (
        r"larger than all of training, .*: column 'x': numbers beyond those of training in 6 of "
        r"60 rows \(such as 999; training has -\d\.\d+ to \d\.\d+\)"
    )
    pytest.importorskip("skops")
    again = kdey.load(kdey.save(fitted, tmp_path / "m.kdey"))
    for ask in (fitted.predict, again.estimate, lambda frame: again.predict_groups(frame, "shop")):
        with pytest.warns(TableWarning, match=says) as caught:
            ask(new)
        assert len(caught) == 1
    few = new.with_columns(x=pl.when(pl.int_range(60) < 2).then(999.0).otherwise(0.1))
    assert [found.count for found in fitted.model_.table_schema.encode(few).findings] == [2]
    fitted.predict(few)  # without a warning
