"""The classifiers that names stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdey.stacking import CLASSIFIERS, portfolio
from kdey.stacking.pooled_classifier import TEXT_CLASSIFIERS
from kdey.tables.features import SparseColumns

LOW = "low"


def test_auto_is_the_portfolio_for_the_kinds() -> None:
    assert list(portfolio("auto", None, LOW)) == list(CLASSIFIERS)
    for found in (
        portfolio("auto", ("text",), LOW),
        portfolio("auto", None, LOW, sparse="alike"),
        portfolio("auto", None, LOW, sparse="mixed"),
    ):
        assert list(found) == list(TEXT_CLASSIFIERS)


def test_forests_are_left_out_of_wide_sparse_tables_unless_they_are_named() -> None:
    wide: Any = {"sparse": "alike", "shape": (50_000, 50_000)}
    assert list(portfolio("auto", None, LOW, **wide)) == ["logistic regression", "naive Bayes"]
    assert "extra trees" in portfolio(["extra trees"], None, LOW, **wide)
    assert "extra trees" in portfolio("auto", None, LOW, sparse="alike", shape=(50_000, 5_000))
    assert "extra trees" in portfolio("auto", None, LOW, shape=(50_000, 50_000))


@pytest.mark.parametrize("sparse", ["alike", "mixed"])
def test_sparse_matrices_are_taken(sparse: SparseColumns) -> None:
    y = np.arange(90) % 3
    X = sp.csr_matrix(np.eye(3)[y] + 0.01)
    for classifier, _ in portfolio("auto", None, LOW, sparse=sparse).values():
        assert (classifier.fit(X, y).predict(X) == y).all()


def test_names_of_classifiers() -> None:
    linear = make_pipeline(StandardScaler(), LogisticRegression())
    found = portfolio([linear, LogisticRegression(C=2), "extra trees"], None, LOW)
    assert list(found) == ["LogisticRegression 1", "LogisticRegression 2", "extra trees"]
    assert found["LogisticRegression 1"] == (linear, False)
    assert found["extra trees"][1]
    assert list(portfolio({"mine": linear}, None, LOW)) == ["mine"]
    assert list(portfolio(linear, None, LOW)) == ["LogisticRegression"]


def test_forests_of_large_tables_are_bounded() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(900, 4)).astype(np.float32), rng.integers(3, size=900)  # pure noise
    (small, _), (large, _) = (
        portfolio("extra trees", None, LOW, shape=(n, 4))["extra trees"] for n in (20_000, 60_000)
    )
    assert not small.bootstrap
    forests = [forest.fit(X, y) for forest in (small, large)]
    nodes = [[tree.tree_.node_count for tree in forest.estimators_] for forest in forests]
    drawn = forests[1].estimators_[0].tree_.n_node_samples
    assert large.max_samples == pytest.approx(1 / 3)
    assert drawn.min() >= 5 * 0.5  # distinct rows of a leaf: rows are drawn with replacement
    assert max(nodes[1]) < 0.2 * min(nodes[0])


@pytest.mark.parametrize("classifiers", ["boosting", [], {}, ["extra trees", "no such"]])
def test_unknown_names_and_nothing_are_refused(classifiers: Any) -> None:
    with pytest.raises(ValueError, match="classifiers"):
        portfolio(classifiers, None, LOW)


def test_a_class_is_refused() -> None:
    with pytest.raises(TypeError, match="instances"):
        portfolio(LogisticRegression, None, LOW)
