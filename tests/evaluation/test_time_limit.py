"""A search stops trying candidates when its time is over; the clock is ours."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import kdey
from kdey.evaluation.searches import NOT_TRIED

GRID = {"bandwidth": [0.05, 0.1, 0.2, 0.4]}


def data() -> Any:
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    return rng.normal(size=(120, 2)) + y[:, None], y


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let every look at the clock of the search take a second."""
    readings = [0.0]

    def tick() -> float:
        readings[0] += 1.0
        return readings[0]

    monkeypatch.setattr("kdey.evaluation.searches.monotonic", tick)
    return readings


def search(**options: Any) -> kdey.GridSearchQ:
    q = kdey.KDEyML(LogisticRegression(), cv=3, random_state=0)
    protocol = kdey.APP(10, 40, random_state=0)
    return kdey.GridSearchQ(q, GRID, protocol=protocol, verbose=False, **options)


def fit(made: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kdey.evaluation.searches.GridEdgeWarning)
        return made.fit(*data())


def test_the_best_of_those_tried_is_taken(clock: list[float]) -> None:
    with pytest.warns(UserWarning, match=r"time_limit=1.5 s was over before 2 of 4 candidates"):
        limited = fit(search(time_limit=1.5))
    assert limited.cv_results_["error"].tolist() == ["", "", NOT_TRIED, NOT_TRIED]
    whole = fit(search())
    tried = whole.cv_results_["mean_test_score"][:2]
    assert limited.best_index_ == int(np.argmax(tried))
    assert limited.best_score_ == pytest.approx(tried.max(), abs=1e-9)
    assert limited.predict(data()[0]).shape == (2,)


def test_at_least_one_candidate_is_tried(clock: list[float]) -> None:
    with pytest.warns(UserWarning, match="3 of 4 candidates"):
        assert fit(search(time_limit=1e-9)).best_index_ == 0


def test_the_log_continues_where_the_time_was_over(clock: list[float], tmp_path: Path) -> None:
    log = tmp_path / "search.log"
    with pytest.warns(UserWarning, match="time_limit"):
        fit(search(time_limit=1.5, log=log))
    resumed, whole = fit(search(log=log)), fit(search())
    np.testing.assert_array_equal(
        resumed.cv_results_["mean_test_score"], whole.cv_results_["mean_test_score"]
    )


def test_failures_and_missing_time_are_told_apart(clock: list[float]) -> None:
    q = kdey.KDEyML(LogisticRegression(), cv=3, random_state=0)
    grid = {"bandwidth": [-1.0, 0.1, 0.2, 0.4]}
    with pytest.warns(Warning, match="candidates") as caught:
        fit(kdey.GridSearchQ(q, grid, verbose=False, time_limit=1.5))
    words = " ".join(str(warning.message) for warning in caught)
    assert "before 2 of 4 candidates were tried" in words
    assert "1 of 4 candidates failed" in words


def test_other_searches_have_it_too(clock: list[float]) -> None:
    q = kdey.KDEyML(LogisticRegression(), cv=3, random_state=0)
    with pytest.warns(UserWarning, match="time_limit"):
        kdey.evaluation.RandomSearchQ(q, GRID, n_iter=4, time_limit=0.5, verbose=False).fit(*data())


@pytest.mark.parametrize("limit", [0, -1.0, "soon", True])
def test_limits_are_checked(limit: Any) -> None:
    with pytest.raises(ValueError, match="time_limit must be a positive number"):
        search(time_limit=limit).fit(*data())


def test_without_a_limit_all_are_tried(clock: list[float]) -> None:
    assert NOT_TRIED not in fit(search()).cv_results_["error"].tolist()
