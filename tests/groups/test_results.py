"""What can be done with the estimates of groups once they are there."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

from kdey import Estimates, Options, predict_groups

from .cases import SCORES, columns, fitted


def estimates(frame: Any = None, **keywords: Any) -> Estimates:
    table = pd.DataFrame(columns()) if frame is None else frame
    return predict_groups(fitted(), table, "region", scores=SCORES, **keywords)


@pytest.mark.parametrize("merge", [{"pet": ["cat", "dog"]}, {"eel": "eel", "dog": "dog"}])
def test_merged_later_or_at_once_is_the_same_table(merge: dict[str, Any]) -> None:
    at_once = estimates(merge=merge).to_frame()
    later = estimates().merge(merge).to_frame()
    assert later["class"].tolist() == at_once["class"].tolist()
    assert later["status"].tolist() == at_once["status"].tolist()
    numbers = ["n", "estimate", "low", "high", "classify_and_count", "training_prevalence"]
    assert_allclose(later[numbers].to_numpy(float), at_once[numbers].to_numpy(float))


def test_merging_keeps_groups_without_an_answer() -> None:
    frame = pd.DataFrame(columns())
    frame.loc[frame["region"] == "east", SCORES] = np.nan
    merge = {"pet": ["cat", "dog"]}
    later = estimates(frame).merge(merge).to_frame()
    assert later.loc[later["region"] == "east", ["estimate", "low", "high"]].isna().all(axis=None)
    pd.testing.assert_frame_equal(later, estimates(frame, merge=merge).to_frame())


def test_what_cannot_be_merged_later_says_where_it_can() -> None:
    with pytest.raises(ValueError, match="merged where they are estimated"):
        estimates(shrink=True).merge({"pet": ["cat", "dog"]})
    frame = pd.DataFrame(columns()).assign(label=["cat"] + [None] * 239)
    with pytest.raises(ValueError, match="merged where they are estimated"):
        estimates(frame, labelled="label").merge({"pet": ["cat", "dog"]})


def test_labels_that_are_written_alike_do_not_share_a_column() -> None:
    # The wide table had one column "estimate[1]" for both.
    with pytest.raises(ValueError, match="1 and '1', which are the same once written"):
        estimates(merge={1: ["cat", "dog"], "1": "eel"})


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("keywords", [{}, {"merge": {"pet": ["cat", "dog"]}}, {"shrink": True}])
def test_a_pickle_holds_the_whole_result(library: Any, keywords: dict[str, Any]) -> None:
    made = estimates(library(columns()), **keywords)[1:]
    again = pickle.loads(pickle.dumps(made))
    assert again.to_frame().equals(made.to_frame())
    assert again[0].status == made[0].status
    assert_allclose(again[1].covariance, made[1].covariance)


@pytest.mark.parametrize(
    "options", [Options(strata="shop"), Options(method="bootstrap", n_replicates=20)]
)
def test_pickles_of_other_kinds_of_uncertainty(options: Options) -> None:
    made = estimates(options=options)
    again = pickle.loads(pickle.dumps(made))
    assert_allclose(again[2].covariance, made[2].covariance)


def test_json_says_which_group_a_result_is_of() -> None:
    made = predict_groups(
        fitted(), pd.DataFrame(columns()), "region", time="day", every="1mo", scores=SCORES
    )
    held = json.loads(made.to_json())
    assert [bag["keys"]["region"] for bag in held] == made.to_frame()["region"].tolist()[::3]
    assert held[0]["keys"]["day"].startswith("2024-01-01")
    assert "keys" not in json.loads(made[0].to_json())


def test_groups_are_taken_by_a_list_of_positions() -> None:
    assert estimates().take([2, 0]).to_frame()["region"].tolist() == ["south"] * 3 + ["east"] * 3


@pytest.mark.parametrize(
    ("first", "second"),
    [("east", "east "), ("east", "east\u00a0"), ("S\u00e3o", "Sa\u0303o"), ("a b", "a  b")],
)
def test_groups_that_are_written_nearly_alike_are_pointed_out(first: str, second: str) -> None:
    regions = pd.Series([first, second]).iloc[np.arange(240) % 2].to_numpy()
    with pytest.warns(UserWarning, match="are 2 groups, which differ in characters that are not"):
        made = estimates(pd.DataFrame(columns()).assign(region=regions))
    assert len(made) == 2
