"""Evaluation: equal to a plain loop, work shared, independent of threads and chunks."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import kdey
from kdey.metrics import absolute_error, relative_absolute_error
from tests.evaluation.cases import CountingClassifier, blobs

PROTOCOL = kdey.APP(n_bags=23, bag_size=40, random_state=3)


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any, Any]:
    return *blobs(500, seed=1), *blobs(400, seed=2)


@pytest.fixture(scope="module")
def fitted(data: Any) -> dict[str, Any]:
    X, y, _, _ = data
    c = CountingClassifier(max_iter=300)
    return kdey.evaluation.fit_many(
        {
            "cc": kdey.CC(c),
            "pacc": kdey.PACC(c, cv=3),
            "ml": kdey.KDEyML(c, cv=3),
            "cs": kdey.KDEyCS(c, cv=3),
            "hd": kdey.KDEyHD(c, cv=3, n_points=300, random_state=None),
            "dmx": kdey.DMx(),
            "ova": kdey.OneVsAll(kdey.HDy(c, cv=3)),
            "median": kdey.Median(kdey.KDEyML(c, cv=3), {"bandwidth": [0.1, 0.2]}),
            "ensemble": kdey.Ensemble(kdey.PACC(c, cv=3), n_members=3, random_state=0),
        },
        X,
        y,
    )


@pytest.mark.smoke
def test_equals_a_loop_over_bags(data: Any, fitted: dict[str, Any]) -> None:
    _, _, X, y = data
    results = kdey.evaluate(fitted, X, y, PROTOCOL)
    labelled = PROTOCOL.bags(y, fitted["cc"].classes_)
    assert np.array_equal(results.true, labelled.prevalences)
    for name, quantifier in fitted.items():
        looped = np.array([quantifier.predict(X[bag]) for bag in labelled.bags])
        np.testing.assert_allclose(results.estimated(name), looped, atol=2e-5)
        np.testing.assert_allclose(
            results.errors("ae", name), absolute_error(labelled.prevalences, looped), atol=2e-5
        )
        expected = relative_absolute_error(labelled.prevalences, looped, bag_size=40)
        np.testing.assert_allclose(results.errors("rae", name), expected, atol=1e-3)


def test_one_fit_and_one_prediction_per_classifier(
    data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, X_pool, y_pool = data
    c = CountingClassifier(max_iter=300)
    methods = {"pacc": kdey.PACC(c, cv=4), "ml": kdey.KDEyML(c, cv=4), "dm": kdey.DM(c, cv=4)}
    CountingClassifier.calls.clear()
    fitted = kdey.evaluation.fit_many(methods, X, y)
    assert CountingClassifier.calls == {"fit": 5, "predict_proba": 4}
    assert fitted["pacc"].classifier_ is fitted["dm"].classifier_
    CountingClassifier.calls.clear()
    monkeypatch.setattr(sys.modules["kdey.evaluation.evaluating"], "BATCH", 200)
    kdey.evaluate(fitted, X_pool, y_pool, PROTOCOL)
    assert CountingClassifier.calls == {"predict_proba": 1}


def test_fit_many_gives_what_fit_gives(data: Any) -> None:
    X, y, X_pool, _ = data
    c = CountingClassifier(max_iter=300)
    methods = {"a": kdey.KDEyML(c, cv=3), "b": kdey.KDEyML(c, cv=4), "c": kdey.EMQ(c)}
    together = kdey.evaluation.fit_many(methods, X, y)
    for name, quantifier in methods.items():
        alone = quantifier.fit(X, y)
        assert np.array_equal(alone.predict(X_pool), together[name].predict(X_pool)), name
        assert together[name].n_features_in_ == 4


@pytest.mark.parametrize("n_bags", [1, 7, 22])
def test_batches_do_not_matter(
    data: Any, fitted: dict[str, Any], n_bags: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, X, y = data
    whole = kdey.evaluate(fitted, X, y, PROTOCOL)
    size = PROTOCOL.bag_size
    monkeypatch.setattr(sys.modules["kdey.evaluation.evaluating"], "BATCH", n_bags * size)
    parts = kdey.evaluate(fitted, X, y, PROTOCOL)
    for name in fitted:
        np.testing.assert_allclose(
            whole.estimated(name), parts.estimated(name), rtol=0, atol=1e-10, err_msg=name
        )


def test_threads_do_not_matter(data: Any, fitted: dict[str, Any]) -> None:
    _, _, X, y = data
    one, two = (kdey.evaluate(fitted, X, y, PROTOCOL, n_jobs=n) for n in (1, 2))
    for name in fitted:
        assert np.array_equal(one.estimated(name), two.estimated(name)), name


def test_batches_hold_a_bounded_number_of_instances(
    data: Any, fitted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, X, y = data
    seen: list[int] = []
    one = fitted["pacc"]
    original = type(one.model_.matching).match

    def spy(self: Any, row_map: Any, rows: Any, bags: Any, n_threads: int = 1) -> Any:
        seen.append(len(bags.indices))
        return original(self, row_map, rows, bags, n_threads)

    monkeypatch.setattr(sys.modules["kdey.evaluation.evaluating"], "BATCH", 130)
    monkeypatch.setattr(type(one.model_.matching), "match", spy)
    results = kdey.evaluate(one, X, y, PROTOCOL)
    assert seen == [120] * 7 + [80]
    assert len(results) == 23


def test_a_stranger_with_predict_only(data: Any, fitted: dict[str, Any]) -> None:
    _, _, X, y = data

    class Stranger:
        classes_ = fitted["pacc"].classes_

        def predict(self, bag: Any) -> Any:
            return fitted["pacc"].predict(bag)

    results = kdey.evaluate({"s": Stranger(), "pacc": fitted["pacc"]}, X, y, PROTOCOL)
    np.testing.assert_allclose(results.estimated("s"), results.estimated("pacc"), atol=1e-9)
    found = results.methods["s"].solution
    assert np.isnan(found.gap).all()
    assert found.converged.all()


def test_given_bags_need_no_labels(data: Any, fitted: dict[str, Any]) -> None:
    _, _, X, y = data
    drawn = PROTOCOL.bags(y)
    given = kdey.evaluation.GivenBags(drawn.bags, drawn.prevalences)
    a = kdey.evaluate(fitted["ml"], X, None, given)
    b = kdey.evaluate(fitted["ml"], X, y, PROTOCOL)
    assert np.array_equal(a.errors("ae"), b.errors("ae"))


def test_refuses_bad_input(data: Any, fitted: dict[str, Any]) -> None:
    _, _, X, y = data
    ml = fitted["ml"]
    with pytest.raises(NotFittedError, match="'ml' is not fitted"):
        kdey.evaluate({"ml": kdey.KDEyML()}, X, y, PROTOCOL)
    with pytest.raises(ValueError, match="quantifiers is empty"):
        kdey.evaluate({}, X, y, PROTOCOL)
    with pytest.raises(ValueError, match="metric 'nonsense' is unknown"):
        kdey.evaluate(ml, X, y, PROTOCOL, metrics="nonsense")
    with pytest.raises(ValueError, match="each only once"):
        kdey.evaluate(ml, X, y, PROTOCOL, metrics=("ae", "mae"))
    with pytest.raises(ValueError, match="X has 399 instances"):
        kdey.evaluate(ml, X[:-1], y, PROTOCOL)
    with pytest.raises(ValueError, match=r"needs .* instances of class 'c'"):
        kdey.evaluate(ml, X[y != "c"], y[y != "c"], PROTOCOL)
    with pytest.raises(ValueError, match="larger than the pool"):
        kdey.evaluate(ml, X, y, kdey.APP(5, 401, replace=False))
    other = kdey.PACC().fit(X, np.where(y == "c", "b", y))
    with pytest.raises(ValueError, match="agree on the classes, but 'other'"):
        kdey.evaluate({"ml": ml, "other": other}, X, y, PROTOCOL)
