"""The methods of the field in everything around them: evaluation, searches, groups, model files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import kdey
from kdey import native
from kdey.groups import predict_groups

pytestmark = pytest.mark.skipif(
    not native.available(), reason="what stands around the methods is the same on both paths"
)

C = LogisticRegression(max_iter=200)
#: Each method with a grid of two settings, for three classes or for two.
METHODS: dict[str, tuple[Any, dict[str, Any], int]] = {
    "EDy": (kdey.EDy(C, cv=3), {"distance": ["manhattan", "euclidean"]}, 3),
    "EDx": (kdey.EDx(), {"standardise": [True, False]}, 3),
    "KMM": (kdey.KMM(random_features=50), {"bandwidth": ["median", 2.0]}, 3),
    "RLLS": (kdey.RLLS(C, cv=3), {"strength": ["finite-sample", 0.1]}, 3),
    "Friedman": (kdey.Friedman(C, cv=3), {"classifier__C": [0.1, 1.0]}, 3),
    "Ordered": (kdey.Ordered(kdey.PACC(C, cv=3)), {"strength": [0.0, 0.01]}, 3),
    "Ordered-EMQ": (kdey.Ordered(kdey.EMQ(C)), {"strength": [0.0, 0.01]}, 3),
    "Ensemble": (
        kdey.Ensemble(kdey.PACC(C, cv=3), n_members=4, random_state=0),
        {"selection": ["all", "prevalence"]},
        3,
    ),
    "T50": (kdey.T50(C, cv=3), {"classifier__C": [0.1, 1.0]}, 2),
    "MAX": (kdey.MAX(C, cv=3), {"classifier__C": [0.1, 1.0]}, 2),
    "ThresholdX": (kdey.ThresholdX(C, cv=3), {"classifier__C": [0.1, 1.0]}, 2),
    "MS": (kdey.MS(C, cv=3), {"classifier__C": [0.1, 1.0]}, 2),
    "MS2": (kdey.MS2(C, cv=3), {"classifier__C": [0.1, 1.0]}, 2),
    "SORD": (kdey.SORD(C, cv=3), {"classifier__C": [0.1, 1.0]}, 2),
}


def data(k: int, n: int = 240, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return rng.normal(size=(n, 3)) + 1.5 * np.eye(3)[y], y


@pytest.mark.parametrize("name", list(METHODS))
def test_evaluation_and_search(name: str) -> None:
    quantifier, grid, k = METHODS[name]
    (X, y), (X_pool, y_pool) = data(k), data(k, seed=1)
    protocol = kdey.APP(15, 60, random_state=0)
    fitted = clone(quantifier).fit(X, y)
    results = kdey.evaluate({name: fitted}, X_pool, y_pool, protocol, verbose=False)
    assert results.errors("ae", name).mean() < 0.15
    search = kdey.GridSearchQ(clone(quantifier), grid, protocol=protocol, verbose=False)
    search.fit(X, y)
    assert set(search.best_params_) == set(grid)
    assert search.cv_results_["error"].tolist() == ["", ""]
    assert search.predict(X_pool).shape == (k,)


@pytest.mark.parametrize("name", list(METHODS))
def test_groups_and_model_files(name: str, tmp_path: Path) -> None:
    quantifier, _, k = METHODS[name]
    X, y = data(k)
    fitted = clone(quantifier).fit(X, y)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        field=np.where(np.arange(len(X)) % 3 == 0, "east", "west")
    )
    loaded = kdey.load(kdey.save(fitted, tmp_path / "model.kdey"))
    np.testing.assert_array_equal(loaded.predict(X[:50]), fitted.predict(X[:50]))
    named = clone(quantifier).fit(frame[["a", "b", "c"]], y)
    table = predict_groups(named, frame, "field", options=kdey.Options(n_replicates=20)).to_frame()
    assert len(table) == 2 * k
    east = frame.loc[frame["field"] == "east", ["a", "b", "c"]]
    expected = named.predict(east)
    estimates = table.loc[table["field"] == "east", "estimate"]
    np.testing.assert_allclose(estimates, expected, atol=1e-6)
    assert (table["low"] <= table["high"]).all()
