"""The selections of Ensemble against loops, and Friedman's rows by hand."""

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


def ensemble(selection: str, **options: Any) -> Any:
    return kdey.Ensemble(kdey.PACC(), n_members=8, selection=selection, random_state=0, **options)


def test_accuracy_keeps_the_members_that_do_best_on_the_bags_of_the_others(training: Any) -> None:
    p, y = training
    everyone = ensemble("all").fit_posteriors(p, y)
    bags = [rows for _, _, rows in ensemble("all")._parts(kdey.PACC(), y, np.arange(3))]
    errors = [
        np.mean(
            [
                np.abs(answer(member, p[bag]) - np.bincount(y[bag], minlength=3) / len(bag)).mean()
                for other, bag in enumerate(bags)
                if other != number
            ]
        )
        for number, member in enumerate(everyone.model_.members)
    ]
    q = ensemble("accuracy", n_selected=3).fit_posteriors(p, y)
    assert q.model_.combination.selected.tolist() == np.sort(np.argsort(errors)[:3]).tolist()
    bag = draw(80, 6)[0]
    votes = [answer(everyone.model_.members[i], bag) for i in q.model_.combination.selected]
    np.testing.assert_allclose(q.aggregate(bag), np.mean(votes, axis=0), atol=1e-9)


def test_distribution_keeps_the_members_whose_bags_look_like_the_bag(training: Any) -> None:
    p, y = training
    q = ensemble("distribution", n_selected=2).fit_posteriors(p, y)
    draws = [rows for _, _, rows in ensemble("all")._parts(kdey.PACC(), y, np.arange(3))]
    bag = draw(90, 7, (0.1, 0.1, 0.8))[0]

    def histograms(P: Any) -> Any:
        return np.array(
            [np.histogram(P[:, i], bins=np.linspace(0, 1, 9))[0] / len(P) for i in range(3)]
        )

    def distance(a: Any, b: Any) -> float:
        return float(
            np.mean(
                [np.sqrt(((np.sqrt(u) - np.sqrt(v)) ** 2).sum()) for u, v in zip(a, b, strict=True)]
            )
        )

    distances = [distance(histograms(p[d]), histograms(bag)) for d in draws]
    nearest = np.argsort(distances)[:2]
    votes = [answer(q.model_.members[i], bag) for i in nearest]
    np.testing.assert_allclose(q.aggregate(bag), np.mean(votes, axis=0), atol=1e-9)


def test_prevalence_keeps_as_many_as_asked_for(training: Any) -> None:
    p, y = training
    q = ensemble("prevalence", n_selected=1).fit_posteriors(p, y)
    bag = draw(90, 8)[0]
    votes = np.array([answer(member, bag) for member in q.model_.members])
    nearest = np.abs(q.model_.combination.prevalences - votes.mean(axis=0)).sum(axis=1).argmin()
    np.testing.assert_allclose(q.aggregate(bag), votes[nearest], atol=1e-9)


def test_selection_from_features() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(150) % 3
    X = rng.normal(size=(150, 2)) + 2 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    bag = X[y != 1][:40]
    for selection in ("accuracy", "distribution"):
        answer = ensemble(selection).fit(X, y).predict(bag)
        assert answer[1] < 0.25


@pytest.mark.parametrize("n_selected", [0, 9, 1.5])
def test_numbers_of_members_are_checked(training: Any, n_selected: Any) -> None:
    with pytest.raises(ValueError, match="n_selected"):
        ensemble("prevalence", n_selected=n_selected).fit_posteriors(*training)
