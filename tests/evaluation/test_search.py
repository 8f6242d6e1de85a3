"""Searches: equal to a plain loop, one fit per classifier, scikit-learn's rules."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import ParameterGrid

import kdey
from kdey.evaluation.searches import GridEdgeWarning
from tests.evaluation.cases import CountingClassifier, blobs

PROTOCOL = kdey.APP(n_bags=20, bag_size=50, random_state=5)
GRID = {"classifier__C": [0.01, 1.0], "bandwidth": [0.05, 0.1, 0.2, 0.4]}


@pytest.fixture(autouse=True)
def _no_edges() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        yield


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any, Any]:
    return *blobs(400, seed=1), *blobs(300, seed=2)


def classifier() -> CountingClassifier:
    return CountingClassifier(max_iter=300)


def loop(quantifier: Any, grid: Any, data: Any, metric: str = "ae") -> list[float]:
    """The slow obvious way: fit and evaluate each candidate on its own."""
    X, y, X_val, y_val = data
    scores = []
    for params in ParameterGrid(grid):
        fitted = clone(quantifier).set_params(**params).fit(X, y)
        found = kdey.evaluate(fitted, X_val, y_val, PROTOCOL, metrics=metric)
        scores.append(-found.errors(metric).mean())
    return scores


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("quantifier", "grid"),
    [
        (kdey.KDEyML(classifier(), cv=3), GRID),
        (kdey.KDEyCS(classifier(), cv=3), GRID),
        (kdey.KDEyL2(classifier(), cv=3), GRID),
        (kdey.KDEyHD(classifier(), cv=3, n_points=300, random_state=0), {"bandwidth": [0.1, 0.3]}),
        (kdey.KDEyML(classifier(), cv=3), {"kernel": ["gaussian", "ilr"], "bandwidth": [0.2, 0.5]}),
        (kdey.EMQ(classifier(), cv=3), {"calibration": [None, "temperature"]}),
        (kdey.DM(classifier(), cv=3), {"n_bins": [4, 8], "divergence": ["topsoe", "hellinger"]}),
        (kdey.PACC(classifier()), {"cv": [3, 0.4], "random_state": [0]}),
        (kdey.DMx(), {"n_bins": [4, 8]}),
        (kdey.OneVsAll(kdey.HDy(classifier(), cv=3)), {"quantifier__cv": [2, 3]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_equals_a_loop_over_candidates(quantifier: Any, grid: Any, data: Any) -> None:
    X, y, X_val, y_val = data
    search = kdey.GridSearchQ(quantifier, grid, protocol=PROTOCOL)
    search.fit(X, y, X_val=X_val, y_val=y_val)
    expected = loop(quantifier, grid, data)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, atol=3e-6)
    assert search.best_index_ == np.argmax(search.cv_results_["mean_test_score"])
    assert search.best_params_ == list(ParameterGrid(grid))[search.best_index_]
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()


def test_refit_is_on_both_parts(data: Any) -> None:
    X, y, X_val, y_val = data
    quantifier = kdey.KDEyML(classifier(), cv=3)
    search = kdey.GridSearchQ(quantifier, GRID, protocol=PROTOCOL)
    search.fit(X, y, X_val=X_val, y_val=y_val)
    both, labels = np.concatenate([X, X_val]), np.concatenate([y, y_val])
    alone = clone(quantifier).set_params(**search.best_params_).fit(both, labels)
    assert np.array_equal(search.predict(X_val), alone.predict(X_val))
    assert np.array_equal(search.classes_, alone.classes_)


def test_each_classifier_is_fitted_once(data: Any) -> None:
    X, y, _, _ = data
    CountingClassifier.calls.clear()
    search = kdey.GridSearchQ(kdey.KDEyML(classifier(), cv=4), GRID, protocol=PROTOCOL)
    search.fit(X, y)
    # Two classifiers and the refit, each with four folds and all data; pool posteriors of two.
    assert CountingClassifier.calls == {"fit": 3 * 5, "predict_proba": 3 * 4 + 2}


def test_searches_share_a_cache(data: Any) -> None:
    X, y, X_val, y_val = data
    cache = kdey.evaluation.StageCache()
    made = {}
    CountingClassifier.calls.clear()
    for method in (kdey.KDEyML, kdey.KDEyCS):
        for metric in ("ae", "rae"):
            search = kdey.GridSearchQ(
                method(classifier(), cv=4), GRID, protocol=PROTOCOL, scoring=metric, cache=cache
            )
            made[method, metric] = clone(search).fit(X, y, X_val=X_val, y_val=y_val)
    refits = {made[key].best_params_["classifier__C"] for key in made}
    assert CountingClassifier.calls["fit"] == 5 * (2 + len(refits))
    assert "solutions" in repr(cache)
    for (method, metric), search in made.items():
        alone = kdey.GridSearchQ(
            method(classifier(), cv=4), GRID, protocol=PROTOCOL, scoring=metric
        ).fit(X, y, X_val=X_val, y_val=y_val)
        a, b = search.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"]
        assert np.array_equal(a, b)


def test_a_bounded_cache_forgets(data: Any) -> None:
    X, y, _, _ = data
    cache = kdey.evaluation.StageCache(max_stages=1)
    search = kdey.GridSearchQ(
        kdey.PACC(classifier(), cv=3),
        {"classifier__C": [0.1, 1.0]},
        protocol=PROTOCOL,
        cache=cache,
        refit=False,
    )
    CountingClassifier.calls.clear()
    search.fit(X, y)
    search.fit(X, y)
    assert CountingClassifier.calls["fit"] == 4 * 4
    with pytest.raises(ValueError, match="max_stages must be an integer of at least 1"):
        kdey.evaluation.StageCache(0)


def test_other_data_are_not_taken_for_these(data: Any) -> None:
    X, y, X_val, y_val = data
    cache = kdey.evaluation.StageCache()
    grid = {"bandwidth": [0.1, 0.2]}
    for shift in (0.0, 1.0):
        moved = X.copy()
        moved[:, 0] += shift * np.arange(len(X)) / 100
        shared, own = (
            kdey.GridSearchQ(kdey.KDEyML(classifier(), cv=3), grid, protocol=PROTOCOL, cache=c).fit(
                moved, y, X_val=X_val, y_val=y_val
            )
            for c in (cache, None)
        )
        a, b = shared.cv_results_["mean_test_score"], own.cv_results_["mean_test_score"]
        assert np.array_equal(a, b)


def test_several_metrics_and_the_one_that_decides(data: Any) -> None:
    X, y, X_val, y_val = data
    search = kdey.GridSearchQ(
        kdey.KDEyML(classifier(), cv=3), GRID, protocol=PROTOCOL, scoring=["ae", "rae"], refit="rae"
    ).fit(X, y, X_val=X_val, y_val=y_val)
    for metric in ("ae", "rae"):
        expected = loop(kdey.KDEyML(classifier(), cv=3), GRID, data, metric)
        np.testing.assert_allclose(search.cv_results_[f"mean_test_{metric}"], expected, rtol=1e-3)
    assert search.best_index_ == np.argmax(search.cv_results_["mean_test_rae"])
    assert set(search.scorer_) == {"ae", "rae"}


def test_threads_and_processes_do_not_matter(data: Any) -> None:
    X, y, _, _ = data
    quantifier = kdey.KDEyHD(classifier(), cv=3, n_points=200, random_state=1)
    grid = {"bandwidth": [0.1, 0.2, 0.4], "classifier__C": [0.1, 1.0]}
    one, two = (
        kdey.GridSearchQ(quantifier, grid, protocol=PROTOCOL, n_jobs=n).fit(X, y) for n in (1, 2)
    )
    for name in ("mean_test_score", "std_test_score", "rank_test_score"):
        assert np.array_equal(one.cv_results_[name], two.cv_results_[name])
    assert np.array_equal(one.predict(X), two.predict(X))


def test_unknown_names_are_refused_before_any_work(data: Any) -> None:
    X, y, _, _ = data
    CountingClassifier.calls.clear()
    for grid in ({"bandwith": [0.1]}, {"classifier__c": [1]}, [{"cv": [3]}, {"nothing__x": [1]}]):
        with pytest.raises(ValueError, match="is unknown to KDEyML; it has"):
            kdey.GridSearchQ(kdey.KDEyML(classifier()), grid, protocol=PROTOCOL).fit(X, y)
    with pytest.raises(ValueError, match="'c' is unknown to KDEyML"):
        kdey.evaluation.RandomSearchQ(kdey.KDEyML(classifier()), {"c": [1]}, protocol=PROTOCOL).fit(
            X, y
        )
    for wrong in ([1, 2], [], "c"):
        with pytest.raises(ValueError, match="param_distributions must be a mapping or a list"):
            kdey.evaluation.RandomSearchQ(kdey.KDEyML(classifier()), wrong, protocol=PROTOCOL).fit(
                X, y
            )
    assert not CountingClassifier.calls


def test_the_default_classifier_has_parameters_too(data: Any) -> None:
    X, y, _, _ = data
    search = kdey.GridSearchQ(kdey.PACC(), {"classifier__C": [0.1, 1.0]}, protocol=PROTOCOL)
    assert search.fit(X, y).best_estimator_.classifier_.C in (0.1, 1.0)
    with pytest.raises(ValueError, match="unknown"):
        kdey.GridSearchQ(kdey.PACC(), {"classifier__depth": [1]}, protocol=PROTOCOL).fit(X, y)


@pytest.mark.filterwarnings("ignore:.*candidates failed")
def test_failures_follow_error_score(data: Any) -> None:
    X, y, _, _ = data
    quantifier = kdey.KDEyML(classifier(), cv=3)
    grid = [{"bandwidth": [-1.0, 0.1]}, {"classifier__C": [-5.0]}]
    search = kdey.GridSearchQ(quantifier, grid, protocol=PROTOCOL)
    with pytest.warns(FitFailedWarning, match="2 of 3 candidates failed"):
        search.fit(X, y)
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [True, False, True]
    reasons = search.cv_results_["error"]
    assert "bandwidth" in reasons[0]
    assert reasons[1] == ""
    assert "C" in reasons[2]
    assert search.best_index_ == 1
    assert search.cv_results_["rank_test_score"].tolist() == [2, 1, 2]
    numbered = clone(search).set_params(error_score=7.0).fit(X, y)
    assert numbered.cv_results_["mean_test_score"][0] == 7.0
    assert numbered.best_index_ == 1  # however good the error score is
    with pytest.raises(ValueError, match="bandwidth"):
        clone(search).set_params(error_score="raise").fit(X, y)
    with pytest.raises(ValueError, match="no candidate can be chosen: all 1 failed"):
        kdey.GridSearchQ(quantifier, {"bandwidth": [-1.0]}, protocol=PROTOCOL).fit(X, y)


def test_nan_scores_are_never_chosen(data: Any) -> None:
    X, y, _, _ = data
    seen: list[float] = []

    def metric(true: Any, estimated: Any) -> Any:
        seen.append(1.0)
        return np.full(len(true), np.nan if len(seen) == 1 else float(len(seen)))

    grid = {"bandwidth": [0.1, 0.2, 0.4]}
    search = kdey.GridSearchQ(
        kdey.KDEyML(classifier(), cv=3), grid, protocol=PROTOCOL, scoring=metric
    ).fit(X, y)
    assert search.best_index_ == 1
    assert np.isnan(search.cv_results_["mean_test_score"][0])


def test_random_search(data: Any) -> None:
    X, y, _, _ = data
    space = {"bandwidth": loguniform(0.05, 0.5), "classifier__C": [0.1, 1.0]}
    search = kdey.evaluation.RandomSearchQ(
        kdey.KDEyML(classifier(), cv=3), space, n_iter=7, protocol=PROTOCOL, random_state=3
    )
    CountingClassifier.calls.clear()
    first = search.fit(X, y).cv_results_
    assert len(first["params"]) == 7
    assert CountingClassifier.calls["fit"] <= 3 * 4
    again = clone(search).fit(X, y).cv_results_
    assert first["params"] == again["params"]
    assert np.array_equal(first["mean_test_score"], again["mean_test_score"])


def test_given_bags_without_labels(data: Any) -> None:
    X, y, X_val, y_val = data
    drawn = PROTOCOL.bags(y_val)
    given = kdey.evaluation.GivenBags(drawn.bags, drawn.prevalences)
    quantifier, grid = kdey.KDEyML(classifier(), cv=3), {"bandwidth": [0.1, 0.3]}
    a = kdey.GridSearchQ(quantifier, grid, protocol=given).fit(X, y, X_val=X_val)
    b = kdey.GridSearchQ(quantifier, grid, protocol=PROTOCOL).fit(X, y, X_val=X_val, y_val=y_val)
    assert np.array_equal(a.cv_results_["mean_test_score"], b.cv_results_["mean_test_score"])
    alone = clone(quantifier).set_params(**a.best_params_).fit(X, y)
    assert np.array_equal(a.predict(X_val), alone.predict(X_val))


def test_frozen_classifiers_and_weights(data: Any) -> None:
    X, y, X_val, y_val = data
    frozen = FrozenEstimator(classifier().fit(X, y))
    CountingClassifier.calls.clear()
    search = kdey.GridSearchQ(kdey.KDEyML(frozen), {"bandwidth": [0.1, 0.2]}, protocol=PROTOCOL)
    search.fit(X_val, y_val)
    assert CountingClassifier.calls["fit"] == 0
    w = np.random.default_rng(0).integers(1, 3, len(y))
    search = kdey.GridSearchQ(kdey.PACC(classifier(), cv=3), {"cv": [3]}, protocol=PROTOCOL)
    search.fit(X, y, w)
    alone = kdey.PACC(classifier(), cv=3).fit(X, y, w)
    assert np.array_equal(search.predict(X_val), alone.predict(X_val))


def test_results_as_a_frame(data: Any) -> None:
    X, y, _, _ = data
    search = kdey.GridSearchQ(kdey.KDEyML(classifier(), cv=3), GRID, protocol=PROTOCOL).fit(X, y)
    frame = search.to_frame("pandas")
    assert len(frame) == 8
    assert frame["mean_test_score"].is_monotonic_decreasing
    assert frame["param_bandwidth"][0] == search.best_params_["bandwidth"]
    for backend in ("polars", "pyarrow"):
        assert search.to_frame(backend).shape == frame.shape


def test_bad_arguments(data: Any) -> None:
    X, y, X_val, y_val = data
    quantifier, grid = kdey.KDEyML(classifier(), cv=3), {"bandwidth": [0.1, 0.2]}

    def fit(**options: Any) -> Any:
        return kdey.GridSearchQ(quantifier, grid, **({"protocol": PROTOCOL} | options)).fit(X, y)

    with pytest.raises(ValueError, match="validation must be a fraction"):
        fit(validation=1.5)
    with pytest.raises(ValueError, match="refit must be a bool or one of"):
        fit(refit="kld")
    with pytest.raises(ValueError, match="error_score must be"):
        fit(error_score="ignore")
    with pytest.raises(ValueError, match="error_score must be"):
        fit(error_score=None)
    with pytest.raises(ValueError, match="scoring must name"):
        fit(scoring=["ae", "ae"])
    with pytest.raises(ValueError, match="larger than the pool"):
        fit(protocol=kdey.APP(5, 10_000, replace=False))
    with pytest.raises(ValueError, match="without X_val"):
        kdey.GridSearchQ(quantifier, grid).fit(X, y, y_val=y_val)
    with pytest.raises(AttributeError, match="refit=True"):
        fit(refit=False).predict(X)
    only = y != "c"
    with pytest.raises(ValueError, match="instances of class 'c'"):
        kdey.GridSearchQ(quantifier, grid, protocol=PROTOCOL).fit(
            X,
            y,
            X_val=X_val[: only.sum()][y_val[: only.sum()] != "c"],
            y_val=y_val[: only.sum()][y_val[: only.sum()] != "c"],
        )
    rare = np.append(y[:-1], "z")
    with pytest.raises(ValueError, match=r"'z'.* has one instance"):
        kdey.GridSearchQ(quantifier, grid, protocol=PROTOCOL).fit(X, rare)


def test_a_search_is_a_quantifier() -> None:
    search = kdey.GridSearchQ(
        kdey.PACC(classifier()), {"cv": [2, 3]}, protocol=kdey.APP(10, 30), validation=0.3
    )
    kdey.evaluation.check_quantifier(search)
