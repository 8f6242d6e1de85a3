"""The edge of a grid: warned of, or gone beyond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kdey
from kdey.evaluation.searches import GridEdgeWarning, find_edges
from tests.evaluation.cases import CountingClassifier, blobs

PROTOCOL = kdey.APP(n_bags=15, bag_size=50)


@pytest.mark.parametrize(
    ("values", "best", "beyond"),
    [
        ([0.01, 0.02, 0.03, 0.04], 0.04, [0.05, 0.06]),
        ([0.01, 0.02, 0.03, 0.04], 0.01, [0.005, 0.0025]),
        ([0.1, 1.0, 10.0], 10.0, [100.0, 1000.0]),
        ([0.1, 1.0, 10.0], 0.1, [0.01, 0.001]),
        ([2, 4, 6, 8], 8, [10, 12]),
        ([2, 4, 6, 8], 2, [1]),
        ([-1.0, 0.0, 1.0], -1.0, [-2.0, -3.0]),
        ([0.1, 0.2, 0.3], 0.2, None),
        ([0.1, 0.2], 0.2, None),
        ([True, False, True], True, None),
        (["a", "b", "c"], "c", None),
        ([None, 0.1, 0.2], 0.2, None),
        (np.array([0.3, 0.1, 0.2]), 0.3, [0.4, 0.5]),
    ],
)
def test_edges_and_what_lies_beyond(values: Any, best: Any, beyond: list[Any] | None) -> None:
    edges = find_edges({"p": list(values)}, {"p": best})
    if beyond is None:
        assert edges == {}
    else:
        assert edges["p"] == pytest.approx(beyond)


def falling() -> Any:
    """Return an error that falls with every candidate scored: the last one is the best."""
    count = iter(range(1000, 0, -1))
    return lambda true, estimated: np.full(len(true), float(next(count)))


def search(**options: Any) -> kdey.GridSearchQ:
    return kdey.GridSearchQ(
        kdey.KDEyML(CountingClassifier(max_iter=300), cv=3),
        {"bandwidth": [0.1, 0.2, 0.3, 0.4], "classifier__C": [0.1, 1.0]},
        protocol=PROTOCOL,
        scoring=falling(),
        **options,
    )


def test_the_edge_is_warned_of() -> None:
    X, y = blobs(300)
    with pytest.warns(GridEdgeWarning, match=r"bandwidth=0\.4 is the largest value"):
        search(refit=False).fit(X, y)


def test_extension_goes_on_without_new_classifier_fits() -> None:
    X, y = blobs(300)
    CountingClassifier.calls.clear()
    with pytest.warns(GridEdgeWarning):
        plain = search(refit=False).fit(X, y)
    fits = CountingClassifier.calls["fit"]
    CountingClassifier.calls.clear()
    with pytest.warns(GridEdgeWarning):
        longer = search(refit=False, extend=True, max_extensions=2).fit(X, y)
    assert CountingClassifier.calls["fit"] == fits
    tried = sorted({one["bandwidth"] for one in longer.cv_results_["params"]})
    np.testing.assert_allclose(tried, np.arange(1, 10) / 10)  # 4, then 2, then 3 more
    assert len(longer.cv_results_["params"]) == 2 * len(tried)
    assert longer.best_score_ >= plain.best_score_
    n = len(plain.cv_results_["params"])
    a, b = (s.cv_results_["mean_test_score"][:n] for s in (plain, longer))
    assert np.array_equal(a, b)
