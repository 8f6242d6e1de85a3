from __future__ import annotations

import datetime as dt
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import kdey
from kdey import KDEyCS, KDEyML, predict_groups
from kdey._fingerprints import row_hashes
from kdey.intervals.display import GROUP_COLUMNS

from .cases import CLASSES, SCORES, columns, fitted, keywords

MAKERS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def read(frame: Any) -> dict[str, list[Any]]:
    table = nw.from_native(frame, eager_only=True)
    return {name: table[name].to_list() for name in table.columns}


@pytest.mark.parametrize("library", MAKERS)
@pytest.mark.parametrize("wide", [False, True])
def test_gives_back_the_users_frame_type(library: str, wide: bool) -> None:
    frame = MAKERS[library](columns())
    made = fitted().predict_groups(frame, ["region", "shop"], scores=SCORES).to_frame(wide=wide)
    assert type(made) is type(frame)
    result = read(made)
    keys = sorted({*zip(result["region"], result["shop"], strict=True)})
    assert len(result["n"]) == len(keys) * (1 if wide else 3)
    assert list(zip(result["region"], result["shop"], strict=True)) == [
        key for key in keys for _ in range(1 if wide else 3)
    ]


@pytest.mark.smoke
@pytest.mark.parametrize("cls", [KDEyML, kdey.PACC, kdey.EMQ, KDEyCS])
def test_is_the_estimate_of_each_group_alone(cls: Any) -> None:
    q, data = fitted(cls, **({"bandwidth": 0.2} if cls is KDEyCS else {})), columns()
    options = {"n_replicates": 30} if cls is KDEyCS else {}
    result = read(
        q.predict_groups(
            pl.DataFrame(data), "region", **keywords(scores=SCORES, **options)
        ).to_frame()
    )
    p = np.column_stack([data[name] for name in SCORES])
    for i, region in enumerate(["east", "north", "south"]):
        members = p[np.array(data["region"]) == region]
        members = members[np.argsort(row_hashes(members))]  # in which bootstraps resample
        members = members.astype(np.float32)  # as scores are held
        one = q.estimate_posteriors(members, options=kdey.Options(**options))
        rows = slice(3 * i, 3 * i + 3)
        assert_allclose(result["estimate"][rows], one.estimate, atol=1e-12)
        assert_allclose(result["low"][rows], one.low, atol=1e-12)
        assert_allclose(result["high"][rows], one.high, atol=1e-12)
        assert_allclose(result["classify_and_count"][rows], one.classify_and_count)
        assert result["class"][rows] == CLASSES.tolist()
        assert result["n"][rows] == [len(members)] * 3
    assert_allclose(result["training_prevalence"][:3], q.prevalence_)
    assert set(result["status"]) == {"only scores were checked"}


def test_columns_and_wide_hold_the_same() -> None:
    q, frame = fitted(), pd.DataFrame(columns())
    tall = q.predict_groups(frame, "region", scores=SCORES).to_frame()
    wide = q.predict_groups(frame, "region", scores=SCORES).to_frame(wide=True)
    assert list(tall.columns) == ["region", *GROUP_COLUMNS]
    for name in ("estimate", "low", "high", "classify_and_count"):
        for label in CLASSES:
            members = tall.loc[tall["class"] == label, name].to_numpy()
            assert_array_equal(wide[f"{name}[{label}]"], members)


def test_without_keys_all_rows_are_one_group() -> None:
    q, data = fitted(), columns()
    made = q.predict_groups(pl.DataFrame(data), scores=SCORES).to_frame()
    assert made.columns == list(GROUP_COLUMNS)
    p = np.column_stack([data[name] for name in SCORES])
    assert_allclose(made["estimate"], q.aggregate(p), atol=1e-12)


def test_row_order_does_not_matter() -> None:
    q, frame = fitted(), pl.DataFrame(columns())
    first = q.predict_groups(frame, "region", scores=SCORES).to_frame()
    again = q.predict_groups(frame[::-1], "region", scores=SCORES).to_frame()
    assert_allclose(first["estimate"], again["estimate"], atol=1e-6)
    assert first["region"].to_list() == again["region"].to_list()


@pytest.mark.parametrize("library", MAKERS)
def test_weeks_are_groups_in_order(library: str) -> None:
    q, data = fitted(), columns()
    frame = MAKERS[library](data)
    result = read(
        q.predict_groups(frame, scores=SCORES, time="day", every="1w").to_frame(wide=True)
    )
    weeks = [day - dt.timedelta(days=day.weekday()) for day in data["day"]]
    assert result["day"] == sorted(set(weeks))
    assert result["n"] == [weeks.count(week) for week in result["day"]]


def test_time_comes_after_the_other_keys() -> None:
    q, frame = fitted(), pl.DataFrame(columns())
    made = q.predict_groups(
        frame, "region", scores=SCORES, time="day", every="1mo", options=kdey.Options(min_size=1)
    ).to_frame(wide=True)
    assert made.columns[:2] == ["region", "day"]
    keys = [row[:2] for row in made.rows()]
    assert keys == sorted(keys)
    assert made["day"].unique().sort().to_list() == [
        dt.datetime(2024, 1, 1),
        dt.datetime(2024, 2, 1),
    ]


def test_time_zones_count_by_the_local_clock() -> None:
    data = columns(20)
    zone = pd.Series(pd.to_datetime(["2024-03-04 23:30"] * 20, utc=True)).dt.tz_convert(
        "Asia/Tokyo"
    )
    frame = pd.DataFrame({**data, "day": zone})
    made = fitted().predict_groups(frame, scores=SCORES, time="day", every="1d").to_frame(wide=True)
    assert made["day"].tolist() == [pd.Timestamp("2024-03-05")]


@pytest.mark.parametrize("library", MAKERS)
def test_missing_scores_are_counted_and_told(library: str) -> None:
    data = columns()
    for row, region in enumerate(data["region"]):
        if region == "east" or row == data["region"].index("north"):
            data["p_dog"][row] = float("nan") if row % 2 else None
    result = read(
        fitted().predict_groups(MAKERS[library](data), "region", scores=SCORES).to_frame(wide=True)
    )
    east, north, south = result["status"]
    seen = "only scores were checked"
    assert (east, north, south) == ("empty; missing values", f"missing values; {seen}", seen)
    assert result["n_missing"] == [data["region"].count("east"), 1, 0]
    assert result["n"][0] == 0
    assert np.isnan(np.array(result["estimate[cat]"], dtype=float)).tolist() == [True, False, False]


def test_missing_error_names_row_and_column() -> None:
    data = columns()
    data["p_dog"][6] = None
    with pytest.raises(ValueError, match=r"'p_dog' has no value in row 7 \(1 row lacks one"):
        fitted().predict_groups(
            pl.DataFrame(data), scores=SCORES, options=kdey.Options(missing="error")
        ).to_frame()


def test_small_groups_and_groups_of_one_have_a_status() -> None:
    data = columns(30)
    data["region"][0] = "island"
    made = fitted().predict_groups(pl.DataFrame(data), "region", scores=SCORES).to_frame(wide=True)
    island = made.filter(pl.col("region") == "island").to_dicts()[0]
    assert (island["status"], island["n"]) == ("too small; cannot be told", 1)
    assert (island["low[cat]"], island["high[cat]"]) == (0.0, 1.0)


def test_missing_keys_are_a_group_of_their_own_and_last() -> None:
    data = columns(60)
    data["region"][:20] = [None] * 20
    for make in MAKERS.values():
        result = read(
            fitted().predict_groups(make(data), "region", scores=SCORES).to_frame(wide=True)
        )
        assert result["region"][-1] is None or result["region"][-1] != result["region"][-1]
        assert result["n"][-1] == 20
        assert len(result["region"]) == 4


def test_poor_fit_is_a_status() -> None:
    data = columns(300)
    north = np.array(data["region"]) == "north"
    for name in SCORES:  # all in the middle, where training has nearly nothing
        data[name] = np.where(north, 1 / 3, data[name]).tolist()
    made = (
        fitted()
        .predict_groups(
            pl.DataFrame(data), "region", scores=SCORES, options=kdey.Options(check_fit=True)
        )
        .to_frame(wide=True)
    )
    seen = "only scores were checked"
    assert made["status"].to_list() == [seen, "poor fit", seen]
    assert (made["fit_p_value"] > 0.01).to_list() == [True, False, True]


def test_features_are_found_by_name() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 80)
    X = pd.DataFrame(rng.normal(size=(160, 2)) + y[:, None], columns=["a", "b"])
    q = KDEyML(LogisticRegression(), bandwidth=0.2).fit(X, y)
    frame = X[["b", "a"]].assign(g=np.tile(["u", "v"], 80))
    made = q.predict_groups(frame, "g").to_frame(wide=True)
    for row, key in enumerate("uv"):
        expected = q.predict(X[frame["g"] == key])
        got = [made[f"estimate[{c}]"][row] for c in (0, 1)]
        # Scores are held in single precision, so the last digits depend on the fitted classifier.
        assert_allclose(got, expected, atol=1e-6)
    with pytest.raises(ValueError, match=r"no column 'a'; the table has b, g"):
        q.predict_groups(frame[["b", "g"]], "g").to_frame()


@pytest.mark.parametrize("library", MAKERS)
def test_pipelines_on_named_columns(library: str) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 80)
    colour = np.where(rng.random(160) < 0.2 + 0.6 * y, "red", "blue")
    X = pd.DataFrame({"a": rng.normal(size=160) + y, "colour": colour})
    encode = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
    q = kdey.PACC(make_pipeline(encode, LogisticRegression())).fit(X, y)
    frame = MAKERS[library]({"colour": colour.tolist(), "a": X["a"].tolist()})
    assert_allclose(read(q.predict_groups(frame).to_frame())["estimate"], q.predict(X), atol=1e-6)


def test_features_without_names_and_methods_without_posteriors() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 80)
    X = rng.normal(size=(160, 2)) + y[:, None]
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "g": ["u", "v"] * 80})
    for q in (kdey.PACC(), kdey.HDx(), kdey.OneVsAll(kdey.PACC())):
        q.fit(X, y)
        made = q.predict_groups(frame, "g", options=kdey.Options(n_replicates=20)).to_frame(
            wide=True
        )
        assert_allclose(made["estimate[1]"][0], q.predict(X[::2])[1], atol=1e-9)
    with pytest.raises(ValueError, match="fitted on 2 features without names"):
        q.predict_groups(frame).to_frame()


def test_missing_features_are_left_out() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 80)
    X = pd.DataFrame(rng.normal(size=(160, 2)) + y[:, None], columns=["a", "b"])
    q = kdey.PACC().fit(X, y)
    X.loc[3, "a"] = np.nan
    made = q.predict_groups(X).to_frame(wide=True)
    assert made["n_missing"].tolist() == [1]
    assert_allclose(made["estimate[1]"], q.predict(X.dropna())[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"by": "nowhere"}, "no key column 'nowhere'; the table has region"),
        ({"by": ["region", "region"]}, "by names a column twice"),
        ({"scores": ["p_cat", "p_dog"]}, "one column per class, 3"),
        ({"scores": ["p_cat", "p_dog", "nope"]}, "not 'nope'"),
        ({"scores": None}, "fitted on scores: name the score columns"),
        ({"time": "day", "every": "1 fortnight"}, "every must be a number and one of"),
        ({"every": "1w"}, "every needs time"),
        ({"time": "region", "every": "1w"}, "'region' must hold dates"),
        ({"missing": "ignore"}, "missing must be"),
        ({"min_size": 0}, "min_size must be"),
        ({"confidence": 2}, "confidence must be"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fitted().predict_groups(
            pl.DataFrame(columns(30)), **keywords(**{"scores": SCORES, **arguments})
        ).to_frame()


def test_hostile_frames() -> None:
    q, data = fitted(), columns(30)
    with pytest.raises(ValueError, match="no rows"):
        q.predict_groups(pl.DataFrame(data)[:0], scores=SCORES).to_frame()
    with pytest.raises(ValueError, match="name of a column of the result"):
        predict_groups(q, pl.DataFrame({**data, "n": data["shop"]}), "n", scores=SCORES).to_frame()
    doubled = {**data, "p_cat": [v + (i == 4) for i, v in enumerate(data["p_cat"])]}
    with pytest.raises(ValueError, match="row 5 has scores that sum to 2"):
        q.predict_groups(pl.DataFrame(doubled), scores=SCORES).to_frame()
    with pytest.raises(ValueError, match="'p_cat' must hold numbers, but row 1 has 'high'"):
        q.predict_groups(pl.DataFrame({**data, "p_cat": ["high"] * 30}), scores=SCORES).to_frame()


def test_search_uses_its_best() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 80)
    X = pd.DataFrame(rng.normal(size=(160, 2)) + y[:, None], columns=["a", "b"])
    protocol = kdey.APP(n_bags=5, bag_size=20)
    search = kdey.GridSearchQ(kdey.PACC(), {"cv": [3]}, protocol=protocol).fit(X, y)
    made = search.predict_groups(X).to_frame(wide=True)
    assert_allclose(made["estimate[1]"], search.best_estimator_.predict(X)[1])


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"a": [1]}, "got dict"),
        (pd.Series([1.0]), "got Series"),
        (pl.Series([1.0]), "got Series"),
        (pa.array([1.0]), "got DoubleArray"),
    ],
)
def test_what_is_no_table_is_named(source: Any, says: str) -> None:
    """The refusal spoke of parameters of narwhals."""
    with pytest.raises(TypeError, match=f"a data frame of pandas, polars or pyarrow .* {says}"):
        predict_groups(fitted(), source)


def test_a_column_that_is_there_twice_is_named() -> None:
    frame = pd.DataFrame(columns(40))
    frame.columns = [*frame.columns[:-1], frame.columns[0]]
    name = repr(str(frame.columns[0]))
    with pytest.raises(ValueError, match=f"the column {name} is there twice: rename one"):
        predict_groups(fitted(), frame)
