"""The selection of Ensemble by hand, and Friedman's rows by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import nnls

import kdey


def draw(n: int, seed: int, prevalence: Any = (0.3, 0.4, 0.3)) -> Any:
    rng = np.random.default_rng(seed)
    k = len(prevalence)
    y = np.concatenate([np.arange(k), rng.choice(k, n - k, p=prevalence)])
    p = rng.dirichlet(np.ones(k), n) + 1.5 * np.eye(k)[y] * rng.random((n, 1))
    return p / p.sum(axis=1, keepdims=True), y


def test_friedman_by_hand() -> None:
    (p, y), bag = draw(150, 3), draw(70, 4, (0.7, 0.2, 0.1))[0]
    prior = np.bincount(y) / len(y)
    rows = (p >= prior).astype(float)
    M = np.stack([rows[y == i].mean(axis=0) for i in range(3)], axis=1)
    q = (bag >= prior).mean(axis=0)
    # A heavy row of ones makes non-negative least squares sum to one.
    expected = nnls(np.vstack([M, 1e5 * np.ones(3)]), np.append(q, 1e5))[0]
    fitted = kdey.Friedman().fit_posteriors(p, y)
    np.testing.assert_allclose(fitted.aggregate(bag), expected, atol=1e-6)
    estimate = fitted.estimate_posteriors(bag)
    assert estimate.method == "analytic"


@pytest.fixture(scope="module")
def training() -> Any:
    return draw(300, 5)


def answer(model: Any, posteriors: Any) -> Any:
    bag = kdey.Bags.whole(len(posteriors))
    return model.solver(model.points_from_posteriors(posteriors))(bag).prevalence[0]


def ensemble(**options: Any) -> Any:
    chosen = {"selection": "prevalence", "random_state": 0, **options}
    return kdey.Ensemble(kdey.PACC(), n_members=8, **chosen)


def test_prevalence_keeps_as_many_as_asked_for(training: Any) -> None:
    p, y = training
    q = ensemble(n_selected=1).fit_posteriors(p, y)
    bag = draw(90, 8)[0]
    votes = np.array([answer(member, bag) for member in q.model_.members])
    bags = [y[rows] for _, _, rows in q._parts(kdey.PACC(), y, np.arange(3))]
    shares = np.array([np.bincount(labels, minlength=3) / len(labels) for labels in bags])
    nearest = np.abs(shares - votes.mean(axis=0)).sum(axis=1).argmin()
    np.testing.assert_allclose(q.aggregate(bag), votes[nearest], atol=1e-9)


@pytest.mark.parametrize("n_selected", [0, 9, 1.5])
def test_numbers_of_members_are_checked(training: Any, n_selected: Any) -> None:
    with pytest.raises(ValueError, match="n_selected"):
        ensemble(n_selected=n_selected).fit_posteriors(*training)
