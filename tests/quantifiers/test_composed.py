"""Methods that are composed are the named methods, and have all that these have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import kdey
from kdey.matching.divergence import MatchDivergence
from kdey.matching.likelihood import MaximiseLikelihood
from kdey.matching.squares import MatchEmbeddings, MatchMeans
from kdey.rows.embedding import EmbeddingMap
from kdey.rows.histogram import HistogramMap
from kdey.rows.posterior import PosteriorMap, RatioMap
from tests.strangers.power import PowerMap
from tests.strangers.relative import MatchRelative, RelativePACC


def data(n: int = 200, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 2)) + 1.5 * np.array([[0, 0], [1, 0], [0, 1]])[y], y


PAIRS = {
    "PACC": (kdey.PACC(), PosteriorMap(crisp=False, adjusted=True), MatchMeans()),
    "EMQ": (kdey.EMQ(), RatioMap(), MaximiseLikelihood(log_rows=False)),
    "DM": (kdey.DM(n_bins=8), HistogramMap(8), MatchDivergence("hellinger")),
    "EDy": (kdey.EDy(), EmbeddingMap("manhattan"), MatchEmbeddings()),
    "own": (RelativePACC(power=2.0), PowerMap(2.0), MatchRelative()),
}


@pytest.mark.parametrize("name", list(PAIRS))
def test_composed_is_the_named_method(name: str) -> None:
    named, rows, matching = PAIRS[name]
    y = np.arange(200) % 3
    p = np.random.default_rng(0).dirichlet(np.ones(3), 200) + np.eye(3)[y]
    p /= p.sum(axis=1, keepdims=True)
    expected = clone(named).fit_posteriors(p, y).estimate_posteriors(p[:50])
    estimate = kdey.compose(rows, matching).fit_posteriors(p, y).estimate_posteriors(p[:50])
    np.testing.assert_allclose(estimate.estimate, expected.estimate, atol=1e-9)
    np.testing.assert_allclose(estimate.low, expected.low, atol=1e-9)
    assert estimate.method == expected.method


def test_on_features() -> None:
    X, y = data()
    q = kdey.compose(EmbeddingMap("manhattan"), MatchEmbeddings(), on="features").fit(X, y)
    expected = kdey.EDx(standardise=False).fit(X, y).predict(X[:40])
    np.testing.assert_allclose(q.predict(X[:40]), expected, atol=1e-12)


def test_files_and_searches(tmp_path: Path) -> None:
    X, y = data()
    classifier = LogisticRegression(max_iter=200)
    q = kdey.compose(HistogramMap(8), MatchMeans(), classifier, cv=3)
    loaded = kdey.load(kdey.save(clone(q).fit(X, y), tmp_path / "model.kdey"))
    np.testing.assert_array_equal(loaded.predict(X[:30]), clone(q).fit(X, y).predict(X[:30]))
    candidates = [HistogramMap(2), HistogramMap(12)]
    protocol = kdey.APP(20, 60, random_state=0)
    search = kdey.GridSearchQ(q, {"rows": candidates}, protocol=protocol, verbose=False).fit(X, y)
    assert search.best_params_["rows"] in candidates
    assert len(search.cv_results_["params"]) == 2


@pytest.mark.parametrize(
    ("rows", "matching", "options", "error", "message"),
    [
        ("PACC", MatchMeans(), {}, TypeError, "rows must be a row spec"),
        (HistogramMap, MatchMeans(), {}, TypeError, "rows must be a row spec"),
        (HistogramMap(4), "means", {}, TypeError, "matching must be a matching"),
        (HistogramMap(4), MatchMeans(), {"on": "bags"}, ValueError, "on must be one of"),
        (
            EmbeddingMap(),
            MatchEmbeddings(),
            {"on": "features", "classifier": LogisticRegression()},
            ValueError,
            "has no classifier",
        ),
    ],
)
def test_parts_are_checked(
    rows: Any, matching: Any, options: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        kdey.compose(rows, matching, **options)
