"""Searches take the X their classifiers take: frames, sparse matrices, lists of texts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import kdey
from kdey.evaluation.searches import GridEdgeWarning
from tests.evaluation.cases import blobs

GRID = {"bandwidth": [0.1, 0.2, 0.4]}
PROTOCOL = kdey.APP(n_bags=10, bag_size=40, random_state=5)


@pytest.fixture(autouse=True)
def _no_edges() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        yield


def search(classifier: Any) -> Any:
    quantifier = kdey.KDEyML(classifier, kernel="gaussian", cv=3, random_state=0)
    return kdey.GridSearchQ(quantifier, GRID, protocol=PROTOCOL, random_state=0)


def frame(X: Any) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])


FORMS = {
    "pandas": frame,
    "polars": lambda X: pl.from_pandas(frame(X)),
    "csr": sp.csr_matrix,
    "csr array": sp.csr_array,
    "csc": sp.csc_matrix,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("given", [True, False], ids=["validation given", "split off"])
def test_every_form_of_x_gives_the_scores_of_an_array(form: str, given: bool) -> None:
    X, y = blobs(300, seed=1)
    X_val, y_val = blobs(200, seed=2)
    results = []
    for make in (np.asarray, FORMS[form]):
        extra = {"X_val": make(X_val), "y_val": y_val} if given else {}
        found = search(LogisticRegression())
        found.fit(make(X), y, **extra)
        results.append((found.cv_results_["mean_test_score"], found.predict(make(X_val))))
    np.testing.assert_allclose(results[1][0], results[0][0], atol=1e-4)
    np.testing.assert_allclose(results[1][1], results[0][1], atol=1e-3)


def test_columns_by_name_reach_the_classifier() -> None:
    X, y = blobs(300, seed=1)
    table = frame(X).assign(colour=np.where(X[:, 0] > 0, "red", "blue"))
    columns = make_column_transformer(
        (StandardScaler(), ["f0", "f1"]), (OneHotEncoder(), ["colour"])
    )
    found = search(make_pipeline(columns, LogisticRegression())).fit(table, y)
    assert found.best_estimator_.feature_names_in_.tolist() == list(table.columns)
    with pytest.raises(ValueError, match="feature names"):
        found.predict(table.drop(columns="colour"))


def test_texts() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 240)
    words = np.array([["good", "fine", "nice"], ["bad", "poor", "ugly"]])
    flip = rng.random(240) < 0.2
    X = [" ".join(rng.choice(words[c ^ int(f)], 4)) for c, f in zip(y, flip, strict=True)]
    found = search(make_pipeline(CountVectorizer(), LogisticRegression())).fit(X, y)
    assert np.isfinite(found.best_score_)
    assert found.predict(X).shape == (2,)
