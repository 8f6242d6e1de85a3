"""A gap must bound the distance to the optimum at any point, and vanish at the optimum."""

import numpy as np
import pytest

from kdey.bags import Bags
from kdey.matching import frank_wolfe_gap
from kdey.matching.divergence import GENERATORS, Divergence
from kdey.matching.histograms import HistogramCauchySchwarz, MeanHellinger
from kdey.matching.likelihood import MixtureLikelihood
from kdey.matching.squares import CauchySchwarz, LeastSquares, QuadraticMatch

K = 3


def _grid(step=0.025):
    ticks = np.arange(0, 1 + step / 2, step)
    a, b = np.meshgrid(ticks, ticks)
    keep = a + b <= 1 + 1e-12
    return np.stack([a[keep], b[keep], np.maximum(1 - a[keep] - b[keep], 0)], axis=1)


def _problems(seed):
    rng = np.random.default_rng(seed)
    m = rng.gamma(0.7, size=(12, K))
    q = rng.gamma(0.7, size=(1, 12))
    yield MixtureLikelihood(m, Bags.whole(12, rng.random(12)))
    yield LeastSquares(m, q)
    yield QuadraticMatch(m.T @ m, q @ m)
    yield CauchySchwarz.from_targets(m.T @ m, q @ m)
    for name in GENERATORS:
        yield Divergence(m, q, name)


@pytest.mark.parametrize("seed", range(6))
def test_gap_bounds_the_distance_to_the_best_of_a_fine_grid(seed):
    grid = _grid()
    points = np.concatenate([np.random.default_rng(seed).dirichlet(np.ones(K), 20), np.eye(K)])
    for problem in _problems(seed):
        repeated = problem.take(np.zeros(len(grid), dtype=np.int64))
        best = repeated.objective(grid).min()
        at = problem.take(np.zeros(len(points), dtype=np.int64))
        excess, gap = at.objective(points) - best, at.gap(points)
        assert (gap >= 0).all()
        assert (excess <= gap + 1e-12).all(), type(problem).__name__
        # Not a bound that is always huge: it shrinks with the distance to the grid's best.
        near = problem.gap(grid[[repeated.objective(grid).argmin()]])
        assert near[0] < 0.5 * np.median(gap)


def test_mixture_gap_is_the_frank_wolfe_gap():
    rng = np.random.default_rng(0)
    problem = MixtureLikelihood(rng.random((20, 4)), Bags.whole(20))
    x = rng.dirichlet(np.ones(4), size=1)
    np.testing.assert_allclose(problem.gap(x), frank_wolfe_gap(x, problem.gradient(x)))


def test_frank_wolfe_gap_of_infinite_slopes():
    x = np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]])
    g = np.array([[1.0, -np.inf], [1.0, np.inf], [2.0, 0.0]])
    np.testing.assert_array_equal(frank_wolfe_gap(x, g), [np.inf, 0.0, 1.0])


def test_cauchy_schwarz_gap_is_zero_at_an_exact_match_and_ignores_scales():
    rng = np.random.default_rng(1)
    m = rng.random((9, 4))
    gram, x = m.T @ m, rng.dirichlet(np.ones(4), size=2)
    problem = CauchySchwarz.from_targets(gram, x @ gram)
    np.testing.assert_allclose(problem.gap(x), 0, atol=1e-14)
    y = rng.dirichlet(np.ones(4), size=2)
    scaled = CauchySchwarz(7.0 * gram, problem.log_targets - 5000.0)
    np.testing.assert_allclose(scaled.gap(y), problem.gap(y), rtol=1e-9)


def test_cauchy_schwarz_value_is_the_divergence_of_the_mixtures():
    rng = np.random.default_rng(2)
    m, q, x = rng.random((9, 4)), rng.random(9), rng.dirichlet(np.ones(4), size=1)
    problem = CauchySchwarz.from_targets(m.T @ m, q[None] @ m)
    p = m @ x[0]
    cosine = p @ q / np.sqrt((p @ p) * (q @ q))
    np.testing.assert_allclose(problem.objective(x) + np.log(q @ q) / 2, -np.log(cosine))


@pytest.mark.parametrize("kind", [HistogramCauchySchwarz, MeanHellinger])
def test_problems_without_certificate_say_nan(kind):
    rng = np.random.default_rng(0)
    templates = rng.dirichlet(np.ones(4), size=(2, K)).transpose(0, 2, 1)
    problem = kind(templates, rng.dirichlet(np.ones(4), size=(3, 2)))
    assert np.isnan(problem.gap(np.full((3, K), 1 / K))).all()
    assert not problem.convex
