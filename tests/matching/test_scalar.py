"""Binary searches against dense grids."""

import numpy as np
import pytest

from kdey.matching.divergence import Divergence, solve_divergence
from kdey.matching.histograms import CdfDistance, solve_cdf_distance, ternary_search

GRID = np.linspace(0, 1, 2001)


def _cdfs(seed, t=30, bags=6):
    rng = np.random.default_rng(seed)
    templates = np.sort(rng.random((t, 2)), axis=0)
    alpha = rng.random(bags)
    targets = (1 - alpha)[:, None] * templates[:, 0] + alpha[:, None] * templates[:, 1]
    return templates, np.sort(targets + 0.1 * rng.normal(size=(bags, t)), axis=1), rng.random(t)


def _grid_best(problem):
    pairs = np.stack([1 - GRID, GRID], axis=1)
    return np.array(
        [problem.take(np.full(len(GRID), b)).objective(pairs).min() for b in range(problem.n_bags)]
    )


@pytest.mark.parametrize("norm", ["l1", "max"])
@pytest.mark.parametrize("seed", range(5))
def test_not_above_a_dense_grid(norm, seed):
    problem = CdfDistance(*_cdfs(seed), norm)
    solution = solve_cdf_distance(problem)
    assert solution.converged.all()
    assert (solution.objective <= _grid_best(problem) + 1e-7).all()
    np.testing.assert_allclose(solution.prevalence.sum(axis=1), 1)


@pytest.mark.parametrize("seed", range(5))
def test_weighted_median_is_certified_and_the_gap_is_a_bound(seed):
    problem = CdfDistance(*_cdfs(seed))
    solution = solve_cdf_distance(problem)
    assert (solution.gap <= 1e-12).all()
    other = np.random.default_rng(seed).dirichlet(np.ones(2), size=problem.n_bags)
    assert (problem.objective(other) - solution.objective <= problem.gap(other) + 1e-12).all()


def test_maximum_norm_has_no_certificate():
    assert np.isnan(solve_cdf_distance(CdfDistance(*_cdfs(0), "max")).gap).all()


@pytest.mark.parametrize("norm", ["l1", "max"])
def test_optimum_at_the_border(norm):
    templates, _, weights = _cdfs(1)
    beyond = 1.5 * templates[:, 1] - 0.5 * templates[:, 0]
    problem = CdfDistance(templates, np.stack([beyond, templates[:, 0]]), weights, norm)
    solution = solve_cdf_distance(problem)
    np.testing.assert_allclose(solution.prevalence[:, 1], [1, 0], atol=1e-7)


def test_classes_that_look_alike():
    templates = np.full((4, 2), 0.5)
    solution = solve_cdf_distance(CdfDistance(templates, np.ones((1, 4)), np.ones(4)))
    assert solution.converged[0]
    assert solution.gap[0] == 0


def test_ternary_search_agrees_with_the_certified_solver():
    rng = np.random.default_rng(2)
    problem = Divergence(rng.random((10, 2)), rng.random((7, 10)), "topsoe")
    exact = solve_divergence(problem)
    search = ternary_search(problem.objective, 7)
    np.testing.assert_allclose(search.objective, exact.objective, atol=1e-10)
    np.testing.assert_allclose(search.prevalence, exact.prevalence, atol=1e-4)


@pytest.mark.parametrize("target", [0.0, 0.3, 1.0])
def test_ternary_search_reaches_borders_exactly(target):
    search = ternary_search(lambda x: np.abs(x[:, 1] - target), 1)
    np.testing.assert_allclose(search.prevalence[0, 1], target, atol=1e-8)
    assert search.objective[0] <= 1e-8


@pytest.mark.parametrize("tol", [0.0, -1.0, 1.0, 1.5, 2.0, np.nan])
def test_bad_tolerance_is_refused(tol):
    with pytest.raises(ValueError, match="tol must lie"):
        ternary_search(lambda x: x[:, 0], 1, tol=tol)


def test_classes_next_to_alike_do_not_overflow():
    """A bag far from classes that differ by next to nothing: the ratio is beyond any number."""
    problem = CdfDistance(
        np.array([[0.0, 1e-300], [1.0, 1.0]]), np.array([[1e10, 1.0]]), np.ones(2)
    )
    solved = solve_cdf_distance(problem)
    np.testing.assert_array_equal(solved.prevalence, [[0.0, 1.0]])
    assert solved.converged.all()
