"""Posteriors and weights at another prevalence."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from kdey import PACC, AdaptedClassifier, adapt_posteriors
from kdey.diagnostics import importance_weights


def test_bayes_rule() -> None:
    x = np.linspace(-3, 3, 13)
    densities = np.stack([norm.pdf(x, -1), norm.pdf(x, 1)], axis=1)

    def posterior(prevalence):
        joint = densities * prevalence
        return joint / joint.sum(axis=1, keepdims=True)

    before, after = np.array([0.8, 0.2]), np.array([0.3, 0.7])
    np.testing.assert_allclose(adapt_posteriors(posterior(before), before, after), posterior(after))


def test_same_prevalence_changes_nothing_and_back_again() -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(3), 20)
    a, b = np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.3, 0.1])
    np.testing.assert_allclose(adapt_posteriors(p, a, a), p)
    np.testing.assert_allclose(adapt_posteriors(adapt_posteriors(p, a, b), b, a), p)


def test_rows_without_support_become_the_prevalence() -> None:
    found = adapt_posteriors([[1.0, 0.0, 0.0]], [1 / 3] * 3, [0.0, 0.4, 0.6])
    np.testing.assert_allclose(found, [[0.0, 0.4, 0.6]])


def test_importance_weights() -> None:
    y = np.array(["b", "a", "a", "b", "a"])
    before, after = [0.6, 0.4], [0.2, 0.8]
    np.testing.assert_allclose(importance_weights(before, after), [1 / 3, 2.0])
    w = importance_weights(before, after, y)
    np.testing.assert_allclose(w, np.where(y == "a", 1 / 3, 2.0))
    assert w[y == "a"].sum() / w.sum() == pytest.approx(0.2)
    np.testing.assert_allclose(importance_weights([0.4, 0.6], [0.8, 0.2], y, classes=["b", "a"]), w)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0, 1.0], [0.5, 0.5]), "training_prevalence must be positive"),
        (([0.5, 0.5], [0.5, 0.2]), "prevalence must have rows that sum to one"),
        (([0.5, 0.5], [0.2, 0.3, 0.5]), "columns"),
        (([0.5, 0.5], [0.5, 0.5], ["a", "b", "c"]), "classes must have shape"),
        (([0.5, 0.5], [0.5, 0.5], ["a", "c"], ["a", "b"]), "labels that are not in classes"),
        (([0.5, 0.5], [0.5, 0.5], [None, 1, "a"]), "y has missing values"),
        (([0.5, 0.5], [0.5, 0.5], [{1}, "a"], ["a", "b"]), "y mixes types"),
    ],
)
def test_bad_weights(arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        importance_weights(*arguments)


def test_adapted_classifier_gains_on_a_shifted_bag() -> None:
    rng = np.random.default_rng(0)
    y = rng.random(2000) < 0.5
    X = rng.normal(size=(2000, 1)) + y[:, None]
    labels = np.where(y, "yes", "no")
    made = PACC(LogisticRegression()).fit(X, labels)
    late = rng.random(2000) < 0.95
    X_late, y_late = rng.normal(size=(2000, 1)) + late[:, None], np.where(late, "yes", "no")
    adapted = AdaptedClassifier.from_quantifier(made, made.predict(X_late))
    check_is_fitted(adapted)
    assert adapted.score(X_late, y_late) > made.classifier_.score(X_late, y_late) + 0.1
    np.testing.assert_allclose(adapted.predict_proba(X_late).mean(axis=0), [0.05, 0.95], atol=0.03)
    assert adapted.fit(X, y) is adapted
    assert set(clone(adapted).get_params(deep=False)) == set(adapted.get_params(deep=False))


def test_no_classifier_to_adapt() -> None:
    made = PACC().fit_posteriors([[0.9, 0.1], [0.2, 0.8]], [0, 1])
    with pytest.raises(ValueError, match="no classifier to adapt"):
        AdaptedClassifier.from_quantifier(made, [0.5, 0.5])
