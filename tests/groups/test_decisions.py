"""Groups of labels that rules, people or a language model decided, without any score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import kdey
from kdey.matching.squares import MatchMeans
from kdey.rows.posterior import PosteriorMap

CLASSES = np.array(["complaint", "praise", "question"])


def judged(n: int, prevalence: list[float], seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return true labels, and those that a judge decides who errs in a fifth of the cases."""
    rng = np.random.default_rng(seed)
    y = rng.choice(CLASSES, n, p=prevalence)
    return y, np.where(rng.random(n) < 0.3, rng.choice(CLASSES, n), y)


@pytest.fixture(scope="module")
def adjusted() -> kdey.ACC:
    y, decided = judged(300, [0.3, 0.4, 0.3], 0)
    return kdey.ACC().fit_decisions(decided, y)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    _, decided = judged(200, [0.6, 0.1, 0.3], 1)
    return pd.DataFrame({"week": np.arange(200) % 2, "llm": decided})


def test_a_column_of_decisions_is_estimated_by_group(
    adjusted: kdey.ACC, table: pd.DataFrame
) -> None:
    groups = kdey.predict_groups(adjusted, table, "week", scores=["llm"]).to_frame()
    for week, rows in groups.groupby("week"):
        estimate = adjusted.estimate_decisions(table.llm[table.week == week])
        assert isinstance(estimate, kdey.Estimate)
        assert_allclose(rows.estimate, estimate.estimate, atol=1e-12)
        assert_allclose(rows.low, estimate.low, atol=1e-12)
        shares = [(table.llm[table.week == week] == label).mean() for label in CLASSES]
        assert_allclose(rows.classify_and_count, shares)


def test_items_without_a_decision_are_counted_as_missing(
    adjusted: kdey.ACC, table: pd.DataFrame
) -> None:
    holes = table.assign(llm=table.llm.where(np.arange(len(table)) % 10 != 0))
    groups = kdey.predict_groups(adjusted, holes, scores=["llm"]).to_frame()
    assert groups.n.tolist() == [180] * 3
    assert groups.n_missing.tolist() == [20] * 3
    with pytest.raises(ValueError, match="column 'llm' has no value in row 1"):
        kdey.predict_groups(
            adjusted, holes, scores=["llm"], options=kdey.Options(missing="error")
        ).to_frame()


def test_a_decision_for_no_class_names_its_row(adjusted: kdey.ACC, table: pd.DataFrame) -> None:
    unsure = table.assign(llm=table.llm.where(table.index != 7, "unsure"))
    with pytest.raises(ValueError, match="column 'llm' has the class 'unsure' in row 8"):
        kdey.predict_groups(adjusted, unsure, scores=["llm"]).to_frame()


def test_every_method_that_counts_takes_decisions_and_no_other(table: pd.DataFrame) -> None:
    y, decided = judged(300, [0.3, 0.4, 0.3], 0)
    one_hot = (decided[:, None] == CLASSES).astype(float)
    composed = kdey.compose(PosteriorMap(crisp=True, adjusted=True), MatchMeans())
    for method in (kdey.CC(), kdey.Ordered(kdey.ACC(), strength=0.1), composed):
        groups = kdey.predict_groups(
            method.fit_posteriors(one_hot, y),
            table,
            "week",
            scores=["llm"],
            options=kdey.Options(check_fit=False),
        ).to_frame()
        assert_allclose(groups.groupby("week").estimate.sum(), 1.0)
    pacc = kdey.PACC().fit_posteriors(one_hot, y)
    with pytest.raises(ValueError, match=r"decided labels is for methods that count them \(ACC"):
        kdey.predict_groups(pacc, table, "week", scores=["llm"]).to_frame()


def test_numbers_as_classes_keep_their_type() -> None:
    """A column of whole numbers with holes is one of floats in pandas."""
    y = np.arange(60) % 2
    q = kdey.ACC().fit_decisions(np.where(np.arange(60) < 6, 1 - y, y), y)
    frame = pd.DataFrame({"decided": [1.0, 0.0, np.nan, 1.0] * 10})
    groups = kdey.predict_groups(q, frame, scores=["decided"]).to_frame()
    assert groups.n.tolist() == [30, 30]
    expected = q.estimate_decisions(frame.decided.dropna().astype(int))
    assert isinstance(expected, kdey.Estimate)
    assert_allclose(groups.estimate, expected.estimate, atol=1e-12)
