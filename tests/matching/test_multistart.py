"""Problems that are not convex: no certificate, but nothing better is found by brute force."""

import numpy as np
import pytest
from scipy.optimize import minimize

from kdey.matching.histograms import HistogramCauchySchwarz, MeanHellinger, solve_nonconvex

KINDS = [HistogramCauchySchwarz, MeanHellinger]


def _data(seed, k=3, bins=6, bags=4, noise=0.3):
    rng = np.random.default_rng(seed)
    templates = rng.dirichlet(np.full(bins, 0.5), size=(k, k)).transpose(0, 2, 1)
    alpha = rng.dirichlet(np.ones(k), size=bags)
    targets = np.einsum("cbk,nk->ncb", templates, alpha)
    targets = targets * np.exp(noise * rng.normal(size=targets.shape))
    return templates, targets / targets.sum(axis=2, keepdims=True), alpha


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_not_above_a_fine_grid(kind, seed, path):
    templates, targets, _ = _data(seed)
    problem = kind(templates, targets)
    solution = solve_nonconvex(problem)
    assert solution.converged.all()
    assert np.isnan(solution.gap).all()
    ticks = np.linspace(0, 1, 61)
    grid = np.array([(a, b, max(0.0, 1 - a - b)) for a in ticks for b in ticks if a + b <= 1])
    for b in range(problem.n_bags):
        values = problem.take(np.full(len(grid), b)).objective(grid)
        assert solution.objective[b] <= values.min() + 1e-9


def test_a_class_that_was_dropped_too_early_comes_back(path):
    """Small bags in many bins: most bins of an absent class are empty in the bag as well."""
    rng = np.random.default_rng(1)
    shapes = rng.dirichlet(np.full(24, 0.15), size=(3, 3))
    templates = (rng.multinomial(40, shapes) / 40).transpose(0, 2, 1)
    mixtures = np.einsum("cbk,nk->ncb", templates, rng.dirichlet(np.ones(3), size=30))
    problem = MeanHellinger(templates, rng.multinomial(15, mixtures) / 15)
    solution = solve_nonconvex(problem)
    everywhere = rng.dirichlet(np.full(3, 0.5), size=1000)
    for b in range(problem.n_bags):
        near = np.abs(solution.prevalence[b] + rng.normal(0, 0.01, size=(500, 3)))
        points = np.vstack([everywhere, near / near.sum(axis=1, keepdims=True)])
        values = problem.take(np.full(len(points), b)).objective(points)
        assert solution.objective[b] <= values.min() + 1e-9


# Older SciPy says of its SLSQP, the oracle here, that it left the bounds.
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_not_above_slsqp(kind, path):
    templates, targets, _ = _data(9, k=8, bins=5, bags=3)
    problem = kind(templates, targets)
    solution = solve_nonconvex(problem)
    for b in range(3):
        one = problem.take(np.array([b]))
        found = minimize(
            lambda x, one=one: one.objective(x[None])[0],
            np.full(8, 1 / 8),
            bounds=[(1e-9, 1)] * 8,
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 300},
        )
        assert solution.objective[b] <= found.fun + 1e-8


@pytest.mark.parametrize("kind", KINDS)
def test_recovers_an_exact_mixture(kind, path):
    templates, targets, alpha = _data(5, k=5, bins=8, noise=0.0)
    solution = solve_nonconvex(kind(templates, targets))
    np.testing.assert_allclose(solution.prevalence, alpha, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_batch_is_the_loop(kind, path):
    templates, targets, _ = _data(6)
    problem = kind(templates, targets)
    whole = solve_nonconvex(problem)
    for b in range(problem.n_bags):
        one = solve_nonconvex(problem.take(np.array([b])))
        np.testing.assert_allclose(one.prevalence[0], whole.prevalence[b], atol=1e-8)


def test_more_bags_than_one_chunk(needs_native):
    templates, targets, _ = _data(7, k=2, bags=300)
    solution = solve_nonconvex(HistogramCauchySchwarz(templates, targets))
    assert len(solution) == 300
    assert solution.converged.all()


@pytest.mark.parametrize("kind", KINDS)
def test_empty_bins_and_pure_bags(kind, path):
    templates = np.stack([np.eye(4)[:, :3]] * 3)  # class i sits in bin i, bin 3 is always empty
    targets = np.stack([np.eye(4)[[0, 0, 0]], np.full((3, 4), 0.25)])
    solution = solve_nonconvex(kind(templates, targets))
    np.testing.assert_allclose(solution.prevalence[0], [1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(solution.prevalence[1], 1 / 3, atol=1e-5)
