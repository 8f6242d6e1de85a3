"""Mixture likelihoods with pseudo-instances of each class."""

from __future__ import annotations

import numpy as np
import pytest

from kdey.bags import Bags
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture, solve_mixture_em


def problem(share: float, weights: bool = False, k: int = 4) -> MixtureLikelihood:
    rng = np.random.default_rng(0)
    rows = rng.random((60, k)) * rng.gamma(1.0, size=(60, 1))
    bags = [rng.integers(60, size=size) for size in (1, 5, 80)]
    w = [rng.random(len(bag)) + 0.1 for bag in bags] if weights else None
    return MixtureLikelihood(rows, Bags.from_indices(bags, 60, w), pseudo_share=share)


@pytest.mark.parametrize("weights", [False, True])
def test_the_objective_is_that_of_the_formula(weights: bool) -> None:
    p = problem(0.05, weights)
    alpha = np.random.default_rng(1).dirichlet(np.ones(4), size=3)
    for b, bag in enumerate(p.bags):
        w = p.bags.bag_weights(b)
        rows = p.rows[bag] * np.exp(p.log_scales[bag])[:, None]
        likelihood = np.average(np.log(rows @ alpha[b]), weights=w)
        expected = -(likelihood + 0.05 * np.log(alpha[b]).sum()) / (1 + 4 * 0.05)
        assert p.objective(alpha)[b] == pytest.approx(expected)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("share", [0.001, 0.05, 1.0])
def test_solutions_are_certified_by_the_problem(share: float, weights: bool) -> None:
    p = problem(share, weights)
    solution = solve_mixture(p)
    assert solution.converged.all()
    assert p.gap(solution.prevalence).max() < 1e-7
    assert solution.objective == pytest.approx(p.objective(solution.prevalence))
    assert (solution.prevalence > 0).all()


def test_em_goes_to_the_same_place() -> None:
    p = problem(0.05)
    em = solve_mixture_em(p, tol=1e-12, max_iter=100_000)
    assert em.prevalence == pytest.approx(solve_mixture(p).prevalence, abs=1e-5)


def test_a_share_of_zero_changes_nothing() -> None:
    plain, none = problem(0.0), problem(0.0).with_pseudo_rows()
    assert none is not None
    assert none.rows.shape == plain.rows.shape


def test_repeating_a_bag_changes_nothing() -> None:
    p = problem(0.05)
    bags = [np.tile(bag, 3) for bag in p.bags]
    tripled = MixtureLikelihood(p.rows, Bags.from_indices(bags, 60), pseudo_share=0.05)
    assert solve_mixture(tripled).prevalence == pytest.approx(solve_mixture(p).prevalence, abs=1e-6)


def test_classes_that_cannot_be_told_apart_share_equally() -> None:
    rows = np.random.default_rng(0).random((50, 3))
    rows[:, 2] = rows[:, 1]
    p = MixtureLikelihood(rows, Bags.whole(50), pseudo_share=0.01)
    alpha = solve_mixture(p).prevalence[0]
    assert alpha[1] == pytest.approx(alpha[2], abs=1e-6)


def test_a_bag_without_information_is_still_reported() -> None:
    rows = np.vstack([np.zeros((3, 2)), [[1.0, 0.5]]])
    bags = Bags.from_indices([[0, 1, 2], [0, 3]], 4)
    p = MixtureLikelihood(rows, bags, pseudo_share=0.1)
    with pytest.warns(UserWarning, match="every row is zero"):
        solution = solve_mixture(p)
    assert solution.converged.tolist() == [False, True]


def test_a_negative_share_is_refused() -> None:
    with pytest.raises(ValueError, match="pseudo_share"):
        problem(-0.1)
