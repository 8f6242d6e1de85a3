"""Comparisons of groups: which with which, by what difference, adjusted for how many tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kdey
from kdey.groups import adjust_p_values, compare_groups

from .cases import CLASSES, SCORES, columns, fitted


@pytest.fixture(scope="module")
def quantifier() -> Any:
    return fitted()


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.DataFrame(columns()).drop(columns="shop")


def compared(quantifier: Any, frame: Any, by: Any = (), **options: Any) -> pd.DataFrame:
    return compare_groups(
        quantifier, frame, by, scores=SCORES, **options, options=kdey.Options(check_fit=False)
    ).to_frame()


def pairs(table: pd.DataFrame, *names: str) -> list[tuple[Any, ...]]:
    return list(table[[*names, "against"]].drop_duplicates().itertuples(index=False, name=None))


@pytest.mark.smoke
def test_a_comparison_is_the_difference_of_two_estimates(
    quantifier: Any, frame: pd.DataFrame
) -> None:
    table = compared(quantifier, frame, "region", against={"region": "east"})
    assert pairs(table, "region") == [("north", "region=east"), ("south", "region=east")]
    sides = [
        quantifier.estimate_posteriors(part[SCORES].to_numpy(), check_fit=False)
        for part in (frame[frame.region == "south"], frame[frame.region == "east"])
    ]
    change, rows = kdey.difference(*sides), table[table.region == "south"]
    assert_array_equal(rows["class"], CLASSES)
    for name in ("difference", "low", "high", "ratio", "ratio_low", "ratio_high", "p_value"):
        assert_allclose(rows[name], getattr(change, name), rtol=1e-6, atol=1e-9)
    assert_allclose(rows.estimate, sides[0].estimate)
    assert_allclose(rows.estimate_against, sides[1].estimate)
    assert_array_equal(rows.n_against, len(frame[frame.region == "east"]))


def test_with_the_previous_period_of_the_same_region(quantifier: Any, frame: pd.DataFrame) -> None:
    table = compared(quantifier, frame, "region", time="day", every="2w")
    assert len(table) == 3 * len(pairs(table, "region", "day"))
    days = sorted(pd.Timestamp(day) for day in set(table.day))
    assert len(days) >= 2
    east = table[(table.region == "east") & (table["class"] == "cat")].sort_values("day")
    assert_allclose(east.estimate_against.iloc[1:], east.estimate.iloc[:-1])
    assert [pd.Timestamp(text) for text in east.against.iloc[1:]] == days[:-1]


def test_with_the_rest_of_the_same_period(quantifier: Any, frame: pd.DataFrame) -> None:
    alone = compared(quantifier, frame, "region", against="rest")
    assert pairs(alone, "region") == [("east", "rest"), ("north", "rest"), ("south", "rest")]
    assert_array_equal(alone.n + alone.n_against, len(frame))
    timed = compared(quantifier, frame, "region", time="day", every="1mo", against="rest")
    sizes = frame.groupby(pd.PeriodIndex(frame.day, freq="M").to_timestamp()).size()
    assert_array_equal(timed.n + timed.n_against, [sizes[day] for day in timed.day])


def test_frames_of_all_libraries_and_files_agree(
    quantifier: Any, frame: pd.DataFrame, tmp_path: Path
) -> None:
    expected = compared(quantifier, frame, "region", against="rest")
    other = compared(quantifier, pl.from_pandas(frame), "region", against="rest")
    assert isinstance(other, pl.DataFrame)
    assert other.columns == list(expected.columns)
    frame.to_parquet(tmp_path / "a.parquet")
    unchecked = kdey.Options(check_fit=False)
    read = compare_groups(
        quantifier,
        tmp_path / "a.parquet",
        "region",
        against="rest",
        scores=SCORES,
        options=unchecked,
    ).to_frame("pandas")
    for name in expected.columns:
        if expected[name].dtype.kind == "f":
            assert_allclose(other[name].to_numpy(), expected[name])
            assert_allclose(read[name], expected[name])
        else:
            assert list(other[name]) == list(read[name]) == list(expected[name])


def test_shared_templates_make_differences_sharper(quantifier: Any, frame: pd.DataFrame) -> None:
    table = compared(quantifier, frame, "region", against={"region": "east"})
    sides = quantifier.predict_groups(
        frame, "region", scores=SCORES, options=kdey.Options(check_fit=False)
    ).to_frame()
    widths = {g: (part.high - part.low).to_numpy() for g, part in sides.groupby("region")}
    independent = np.hypot(widths["south"], widths["east"])
    south = table[table.region == "south"]
    assert ((south.high - south.low).to_numpy() < independent).all()


def test_corrections_are_those_of_statsmodels() -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    p = np.random.default_rng(2).random((7, 3)) ** 4
    for correction, name in (("holm", "holm"), ("fdr", "fdr_bh")):
        expected = multitest.multipletests(p.ravel(), method=name)[1]
        assert_allclose(adjust_p_values(p, correction).ravel(), expected, rtol=1e-12)


def test_corrections_of_a_known_case() -> None:
    p = np.array([[0.01, 0.04, 0.03], [np.nan, np.nan, np.nan]])
    assert_allclose(adjust_p_values(p, "holm")[0], [0.03, 0.06, 0.06])
    assert_allclose(adjust_p_values(p, "fdr")[0], [0.03, 0.04, 0.04])
    assert_array_equal(adjust_p_values(p, None), p)
    assert np.isnan(adjust_p_values(p, "holm")[1]).all()


def test_two_classes_are_one_test() -> None:
    p = np.array([[0.01, 0.01], [0.2, 0.2]])
    assert_allclose(adjust_p_values(p, "holm"), [[0.02, 0.02], [0.2, 0.2]])


def test_a_group_without_usable_rows_is_not_tested(quantifier: Any, frame: pd.DataFrame) -> None:
    holes = frame.copy()
    holes.loc[holes.region == "north", "p_cat"] = np.nan
    table = compared(quantifier, holes, "region", against={"region": "east"})
    north, south = table[table.region == "north"], table[table.region == "south"]
    assert north.difference.isna().all()
    assert north.status.str.startswith("empty").all()
    assert_allclose(
        south.adjusted_p_value, adjust_p_values(south.p_value.to_numpy()[None], "holm")[0]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs groups"),
        ({"by": "region", "against": "next"}, "must be 'previous', 'rest' or a mapping"),
        ({"by": "region", "against": {}}, "must be 'previous', 'rest' or a mapping"),
        ({"by": "region", "against": {"shop": 1}}, "'shop', which is no key"),
        ({"by": "region", "against": {"region": "west"}}, "no group has region=west"),
        ({"by": "region", "correction": "sidak"}, "correction must be"),
        ({"by": "region", "correction": np.ones((2, 2))}, "correction must be"),
        ({"by": "region", "confidence": np.ones((2, 2))}, "confidence must be"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    quantifier: Any, frame: pd.DataFrame, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        compared(quantifier, frame, **options)


def test_one_group_has_no_other_side(quantifier: Any, frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="no group can be compared"):
        compared(quantifier, frame[frame.region == "east"], "region", against="rest")


def test_keys_must_not_have_the_names_of_results(quantifier: Any, frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="'ratio' has the name of a column of the result"):
        compared(quantifier, frame.rename(columns={"region": "ratio"}), "ratio")
