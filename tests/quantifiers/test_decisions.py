"""Classifiers without probabilities, and labels that were decided elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC, LinearSVC

import kdey
from kdey.classifiers import DecisionPosteriors, ScorePosteriors, one_hot, strictest


def data(k: int = 3, n: int = 300, seed: int = 0) -> Any:
    X, y = make_classification(n, 6, n_informative=4, n_classes=k, class_sep=1.2, random_state=seed)
    return X, np.array(["ant", "bee", "cat"])[y]


class Rule(BaseEstimator):
    """A classifier with fit and predict only, not even ``classes_``."""

    def fit(self, X: Any, y: Any) -> Rule:
        self.middle_ = float(np.median(X[:, 0]))
        self.labels_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return self.labels_[(X[:, 0] > self.middle_).astype(int)]


@pytest.mark.parametrize("k", [2, 3])
def test_counting_needs_predict_only(k: int) -> None:
    X, y = data(k)
    classes = np.unique(y)
    bag = X[200:]
    classifier = RidgeClassifier()
    decided = clone(classifier).fit(X, y).predict(bag)
    shares = np.array([np.mean(decided == c) for c in classes])
    np.testing.assert_allclose(kdey.CC(classifier).fit(X, y).predict(bag), shares)
    folds = cross_val_predict(classifier, X, y, cv=StratifiedKFold(5))
    M = np.array([[np.mean(folds[y == c] == d) for c in classes] for d in classes])
    expected = kdey.ACC.from_misclassification(M, classes).adjust(shares)
    np.testing.assert_allclose(kdey.ACC(classifier).fit(X, y).predict(bag), expected, atol=1e-9)


def test_a_rule_without_classes() -> None:
    X, y = data(2)
    q = kdey.ACC(Rule(), cv=3).fit(X, y)
    assert isinstance(q.classifier_, DecisionPosteriors)
    assert q.classifier_.classes_.tolist() == ["ant", "bee"]
    assert q.predict(X).shape == (2,)
    with pytest.raises(TypeError, match="give it the attribute classes_, or use fit_decisions"):
        kdey.ACC(FrozenEstimator(Rule().fit(X, y))).fit(X, y)


@pytest.mark.parametrize("k", [2, 3])
def test_scores_are_a_softmax_and_their_log_ratios_the_scores(k: int) -> None:
    X, y = data(k)
    adapter = ScorePosteriors(LinearSVC()).fit(X, y)
    p = adapter.predict_proba(X)
    raw = adapter.classifier_.decision_function(X)
    scores = np.stack([np.zeros(len(X)), raw], axis=1) if k == 2 else raw
    ratios = np.log(p) - np.log(p[:, :1])
    np.testing.assert_allclose(ratios * adapter.scale_, scores - scores[:, :1], atol=1e-9)
    centred = np.abs(scores - scores.mean(axis=1, keepdims=True))
    assert adapter.scale_ == pytest.approx(np.median(centred))
    assert (adapter.predict(X) == adapter.classes_[p.argmax(axis=1)]).all()


def test_the_size_of_scores_does_not_matter() -> None:
    class Loud(LinearSVC):
        def decision_function(self, X: Any) -> Any:
            return 1e6 * super().decision_function(X)

    X, y = data()
    quiet = ScorePosteriors(LinearSVC(random_state=0)).fit(X, y).predict_proba(X)
    loud = ScorePosteriors(Loud(random_state=0)).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(loud, quiet, atol=1e-9)


METHODS = {
    "PACC": kdey.PACC,
    "KDEyML": kdey.KDEyML,
    "EMQ-BCTS": lambda c: kdey.EMQ(c, calibration="bcts"),
    "EDy": kdey.EDy,
    "Friedman": kdey.Friedman,
    "Ordered": lambda c: kdey.Ordered(kdey.PACC(c), strength=0.0),
}


@pytest.mark.parametrize("name", list(METHODS))
def test_methods_that_learn_templates_take_scores(name: str) -> None:
    X, y = data(n=600)
    pool, labels = X[300:], y[300:]
    q = METHODS[name](LinearSVC(random_state=0)).fit(X[:300], y[:300])
    assert isinstance(q.classifier_, ScorePosteriors)
    bags = kdey.APP(20, 100, random_state=0).bags(labels)
    error = np.abs(q.predict_bags(pool, bags.bags) - bags.prevalences).mean()
    naive = kdey.CC(LinearSVC(random_state=0)).fit(X[:300], y[:300])
    assert error < np.abs(naive.predict_bags(pool, bags.bags) - bags.prevalences).mean()
    assert q.estimate(pool[:50]).low.shape == (3,)


@pytest.mark.parametrize("quantifier", [kdey.PCC(LinearSVC()), kdey.EMQ(LinearSVC())])
def test_methods_that_read_probabilities_refuse_scores(quantifier: Any) -> None:
    with pytest.raises(TypeError, match="PCC and EMQ read posteriors as probabilities"):
        quantifier.fit(*data())


def test_scores_are_not_enough_where_there_are_none() -> None:
    with pytest.raises(TypeError, match="predict_proba or decision_function, and Rule has neither"):
        kdey.PACC(Rule()).fit(*data(2))


def test_scores_of_pairs_are_refused() -> None:
    X, y = make_classification(200, 6, n_informative=4, n_classes=4, random_state=0)
    with pytest.raises(ValueError, match="decision_function_shape='ovr'"):
        kdey.PACC(SVC(decision_function_shape="ovo", break_ties=False)).fit(X, y)


def test_a_prefit_classifier_is_not_fitted_again() -> None:
    X, y = data()
    svm = LinearSVC(random_state=0).fit(X[:150], y[:150])
    q = kdey.PACC(FrozenEstimator(svm)).fit(X[150:], y[150:])
    raw = svm.decision_function(X[150:])
    raw /= np.median(np.abs(raw - raw.mean(axis=1, keepdims=True)))
    expected = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(q.training_.posteriors, expected, atol=1e-9)
    counted = kdey.CC(FrozenEstimator(svm)).fit(X[150:], y[150:]).predict(X[:80])
    np.testing.assert_allclose(counted, [np.mean(svm.predict(X[:80]) == c) for c in np.unique(y)])


@pytest.mark.parametrize("k", [2, 3])
def test_the_scale_of_frozen_scores_does_not_matter(k: int) -> None:
    """Scores in the thousands are not pressed to zero and one, where all their order is lost."""
    X, y = data(k)
    small = LinearSVC(random_state=0).fit(X[:150], y[:150])
    large = LinearSVC(random_state=0).fit(X[:150], y[:150])
    large.coef_, large.intercept_ = 5000 * large.coef_, 5000 * large.intercept_
    methods = [kdey.PACC(FrozenEstimator(svm)).fit(X[150:], y[150:]) for svm in (small, large)]
    estimates = [method.predict(X[:80]) for method in methods]
    np.testing.assert_allclose(estimates[0], estimates[1], atol=1e-9)
    inside = methods[1].training_.posteriors
    assert np.mean((inside > 0.01) & (inside < 0.99)) > 0.5


class Callable:
    """A rule that is no estimator."""

    def fit(self, X: Any, y: Any) -> Callable:
        return self

    def predict(self, X: Any) -> Any:
        return np.where(X[:, 0] > 0, "ant", "bee")


@pytest.mark.parametrize("classifier", [Callable(), FrozenEstimator(Callable()), lambda X: X])
def test_rules_that_are_no_estimators_are_told_what_to_do(classifier: Any) -> None:
    X, y = data(2)
    for method in (kdey.ACC(classifier), kdey.PACC(classifier)):
        with pytest.raises(TypeError, match=r"an estimator of scikit-learn.*fit_decisions"):
            method.fit(X, y)


def test_calibration_is_no_advice_where_there_is_nothing_to_calibrate() -> None:
    X, y = data(2)
    with pytest.raises(TypeError, match=r"Rule has neither\. Methods that count decisions"):
        kdey.PACC(Rule()).fit(X, y)
    with pytest.raises(TypeError, match=r"CalibratedClassifierCV\(classifier\) adds it"):
        kdey.PCC(LinearSVC()).fit(X, y)


def test_weights_reach_the_classifier_inside() -> None:
    X, y = data(2)
    weights = np.where(np.arange(len(y)) % 2 == 0, 1.0, 1e-6)
    q = kdey.CC(LinearSVC(random_state=0)).fit(X, y, sample_weight=weights)
    direct = LinearSVC(random_state=0).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(q.classifier_.classifier_.coef_, direct.coef_, rtol=1e-6)


def test_searches_files_and_nested_parameters(tmp_path: Path) -> None:
    X, y = data()
    q = kdey.PACC(LinearSVC(random_state=0), cv=3)
    search = kdey.GridSearchQ(
        q, {"classifier__C": [0.1, 1.0]}, protocol=kdey.APP(10, 60), verbose=False
    ).fit(X, y)
    assert search.best_params_["classifier__C"] in (0.1, 1.0)
    for fitted in (q.fit(X, y), kdey.ACC(LinearSVC(random_state=0), cv=3).fit(X, y)):
        loaded = kdey.load(kdey.save(fitted, tmp_path / "model.kdey"))
        np.testing.assert_array_equal(loaded.predict(X[:40]), fitted.predict(X[:40]))


def test_probabilities_are_used_where_they_exist() -> None:
    X, y = data()
    q = kdey.ACC(LogisticRegression()).fit(X, y)
    assert isinstance(q.classifier_, LogisticRegression)


def test_decided_labels() -> None:
    rng = np.random.default_rng(0)
    y = rng.choice(["no", "yes"], 400, p=[0.7, 0.3])
    wrong = rng.random(400) < np.where(y == "yes", 0.2, 0.1)
    decided = np.where(wrong, np.where(y == "yes", "no", "yes"), y)
    q = kdey.ACC().fit_decisions(decided, y)
    M = np.array([[np.mean(decided[y == c] == d) for c in ("no", "yes")] for d in ("no", "yes")])
    np.testing.assert_allclose(q.row_map_.templates, M)
    bag = np.repeat(["no", "yes"], [60, 40])
    expected = np.clip((0.4 - M[1, 0]) / (M[1, 1] - M[1, 0]), 0, 1)
    assert q.aggregate_decisions(bag)[1] == pytest.approx(expected)
    estimate = q.estimate_decisions(bag)
    assert estimate.low[1] < expected < estimate.high[1]
    bags = q.estimate_decisions(bag, [np.arange(50), np.arange(50, 100)])
    assert bags.estimate.shape == (2, 2)
    weighted = q.aggregate_decisions(["no", "yes"], sample_weight=[60, 40])
    np.testing.assert_allclose(weighted, q.aggregate_decisions(bag))
    counted = kdey.CC().fit_decisions(decided, y).aggregate_decisions(bag)
    np.testing.assert_allclose(counted, [0.6, 0.4])


def test_decisions_for_no_class_are_refused() -> None:
    q = kdey.ACC().fit_decisions(["a", "b", "a"], ["a", "b", "b"])
    with pytest.raises(ValueError, match="not among the classes: 'cannot say'; leave these"):
        q.aggregate_decisions(["a", "cannot say"])
    with pytest.raises(ValueError, match="not among the classes"):
        kdey.ACC().fit_decisions(["a", "c"], ["a", "b"])
    with pytest.raises(ValueError, match="must be a vector of labels"):
        one_hot([["a"]], ["a", "b"])
    with pytest.raises(ValueError, match="not among the classes: '1'"):
        one_hot(["1"], [0, 1])


def test_the_strictest_need_wins() -> None:
    assert strictest(["decisions", "probabilities", "scores"]) == "probabilities"
    assert strictest(["decisions", "scores"]) == "scores"
