"""The edge of a grid is warned of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kdey
from kdey.evaluation.searches import GridEdgeWarning, find_edges
from tests.evaluation.cases import CountingClassifier, blobs

PROTOCOL = kdey.APP(n_bags=15, bag_size=50)


@pytest.mark.parametrize(
    ("values", "best", "edge"),
    [
        ([0.01, 0.02, 0.03, 0.04], 0.04, "largest"),
        ([0.01, 0.02, 0.03, 0.04], 0.01, "smallest"),
        ([8, 2, 6, 4], 8, "largest"),
        ([-1.0, 0.0, 1.0], -1.0, "smallest"),
        ([0.1, 0.2, 0.3], 0.2, None),
        ([0.1, 0.2], 0.2, None),
        ([0.1, 0.2, 0.2], 0.2, None),
        ([True, False, True], True, None),
        (["a", "b", "c"], "c", None),
        ([None, 0.1, 0.2], 0.2, None),
        (np.array([0.3, 0.1, 0.2]), 0.3, "largest"),
    ],
)
def test_edges(values: Any, best: Any, edge: str | None) -> None:
    assert find_edges({"p": list(values)}, {"p": best}) == ({} if edge is None else {"p": edge})


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


def test_the_edge_is_that_of_the_grid_that_won() -> None:
    """Of two grids the second has the best value, inside; the first would have it on its edge."""
    X, y = blobs(300)
    grids = [{"bandwidth": [0.1, 0.2, 0.3]}, {"bandwidth": [0.1, 0.4, 0.3], "classifier__C": [0.1]}]
    two = search(refit=False).set_params(param_grid=grids, scoring=falling())
    two.fit(X, y)  # a warning would be an error
    assert two.best_index_ == 5
