"""Search by Optuna."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import kdey
from kdey.evaluation.searches import OptunaSearchQ
from tests.evaluation.cases import CountingClassifier, blobs

optuna = pytest.importorskip("optuna")
PROTOCOL = kdey.APP(n_bags=15, bag_size=50)


def search(**options: Any) -> OptunaSearchQ:
    space = {
        "bandwidth": optuna.distributions.FloatDistribution(0.02, 0.5, log=True),
        "classifier__C": [0.1, 1.0],
    }
    given = {"n_trials": 9, "batch_size": 4, "protocol": PROTOCOL} | options
    return OptunaSearchQ(kdey.KDEyML(CountingClassifier(max_iter=300), cv=3), space, **given)


def test_trials_are_scored_with_one_fit_per_classifier() -> None:
    X, y = blobs(300)
    CountingClassifier.calls.clear()
    found = search().fit(X, y)
    assert len(found.cv_results_["params"]) == 9
    assert CountingClassifier.calls["fit"] <= 3 * 4
    values = [trial.value for trial in found.study_.trials]
    np.testing.assert_array_equal(values, found.cv_results_["mean_test_score"])
    assert found.study_.best_params == found.best_params_
    assert found.predict(X).shape == (3,)


def test_repeats_itself_and_resumes(tmp_path: Path) -> None:
    X, y = blobs(300)
    whole = search(log=tmp_path / "log").fit(X, y)
    log = (tmp_path / "log").read_bytes().splitlines(keepends=True)
    (tmp_path / "log").write_bytes(b"".join(log[:7]))
    again = clone(whole).fit(X, y)
    for name in ("params", "mean_test_score"):
        assert list(whole.cv_results_[name]) == list(again.cv_results_[name])


@pytest.mark.filterwarnings("ignore:.*candidates failed")
def test_failed_trials_are_told_as_failed() -> None:
    X, y = blobs(300)
    found = search(n_trials=20, batch_size=20).set_params(
        param_distributions={"bandwidth": [-1.0, 0.1, 0.2]}
    )
    found.fit(X, y)
    states = [trial.state.name for trial in found.study_.trials]
    failed = [bool(reason) for reason in found.cv_results_["error"]]
    assert [state == "FAIL" for state in states] == failed
    assert any(failed)


def test_refuses_bad_arguments() -> None:
    X, y = blobs(300)
    with pytest.raises(ValueError, match="n_trials must be"):
        search(n_trials=0).fit(X, y)
    with pytest.raises(ValueError, match="'width' is unknown"):
        search().set_params(param_distributions={"width": [1]}).fit(X, y)
