"""Preparation of columns for classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import ComplementNB, GaussianNB

from kdey import EMQ, Quantifier
from kdey.tables.features import prepare, sparse_columns
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


def test_columns_of_a_sparse_matrix_on_one_scale_are_left_alone() -> None:
    rng = np.random.default_rng(0)
    words = sp.csr_matrix(rng.random((60, 8)) * (rng.random((60, 8)) < 0.3))
    counts = sp.csr_matrix(rng.poisson(0.5, size=(60, 8)))
    for alike in (words, counts, sp.csr_matrix((60, 8)), sp.csc_array(words)):
        assert sparse_columns(alike) == "alike"
    far_apart = sp.csr_matrix(words @ sp.diags([1.0] * 7 + [1e5]))
    for mixed_scales in (far_apart, words * 1e-5, words * 1e5):
        assert sparse_columns(mixed_scales) == "mixed"
    assert sparse_columns(words.toarray()) is None
    linear = LogisticRegression()
    assert prepare(linear, sparse="alike") is linear
    scaled = prepare(linear, sparse="mixed")[0].fit_transform(far_apart)
    assert abs(scaled).max(axis=0).toarray() == pytest.approx(1.0)


def test_frequent_and_rare_words_keep_their_weights() -> None:
    """A pool reads TF-IDF weights as its classifier alone does; rare words were made large."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = sp.csr_matrix(np.eye(3)[y] * 0.2 + rng.random((90, 3)) * np.array([1.0, 0.1, 0.02]))
    pool = Quantifier("logistic regression", methods=[EMQ()], random_state=0).fit(X, y).classifier_
    alone = LogisticRegression(max_iter=1000).fit(X, y)
    (model,) = pool.models_["logistic regression"]
    assert model.predict_proba(X) == pytest.approx(alone.predict_proba(X))
