"""Preparation of columns for classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import ComplementNB, GaussianNB

from kdey.tables.preparation import prepare
from kdey.tables.schema import Kind

ALL = [
    LogisticRegression(),
    ExtraTreesClassifier(5, random_state=0),
    HistGradientBoostingClassifier(max_iter=5),
    ComplementNB(),
    GaussianNB(),  # takes no sparse columns
]


def mixed(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers with gaps, codes of categories and texts, and labels that all of them tell."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    X = np.empty((n, 3), dtype=object)
    X[:, 0] = np.where(rng.random(n) < 0.2, np.nan, y + rng.normal(scale=0.5, size=n))
    X[:, 1] = np.where(rng.random(n) < 0.1, np.nan, 3.0 * y + rng.integers(3, size=n))
    words = np.array([["rain cloud storm", "sun beach warm"], ["grey wet wind", "light blue sky"]])
    X[:, 2] = words[rng.integers(2, size=n), y]
    return X, y


@pytest.mark.parametrize("classifier", ALL, ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("kinds", [("number", "category"), ("number", "category", "text")])
def test_every_classifier_takes_every_kind(classifier: Any, kinds: tuple[Kind, ...]) -> None:
    X, y = mixed()
    X = X[:, : len(kinds)]
    if "text" not in kinds:
        X = X.astype(float)
    model = clone(prepare(classifier, kinds)).fit(X[:80], y[:80])
    assert (model.predict(X[80:]) == y[80:]).mean() > 0.75


@pytest.mark.parametrize("classifier", ALL, ids=lambda c: type(c).__name__)
def test_new_gaps_and_new_categories_are_taken(classifier: Any) -> None:
    X, y = mixed()
    X = X[:, :2].astype(float)
    complete = ~np.isnan(X).any(axis=1)
    model = prepare(classifier, ("number", "category")).fit(X[complete], y[complete])
    new = np.array([[np.nan, 1.0], [0.2, 17.0], [np.nan, np.nan]])
    posteriors = model.predict_proba(new)
    assert np.isfinite(posteriors).all()


def test_kinds_of_numbers_need_no_transformer_of_columns() -> None:
    assert prepare(ALL[2]) is ALL[2]
    steps = prepare(LogisticRegression(), ("number", "date", "score")).named_steps
    assert list(steps) == ["prepare", "classify"]
    assert list(steps["prepare"].named_steps) == ["impute", "scale"]


def test_many_categories_are_bounded() -> None:
    X = np.column_stack([np.arange(600) % 400, np.arange(600) % 3]).astype(float)
    y = np.arange(600) % 2
    for classifier in (HistGradientBoostingClassifier(max_iter=2), LogisticRegression()):
        pipeline = prepare(classifier, ("category", "number")).fit(X, y)
        assert pipeline[0].transform(X).shape[1] <= 101
