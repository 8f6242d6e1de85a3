"""Gradients against finite differences of objectives, Hessians against those of gradients."""

import numpy as np
import pytest

from kdey.bags import Bags
from kdey.matching.divergence import GENERATORS, Divergence
from kdey.matching.histograms import HistogramCauchySchwarz, MeanHellinger
from kdey.matching.likelihood import MixtureLikelihood
from kdey.matching.squares import CauchySchwarz, LeastSquares, QuadraticMatch

K, B = 5, 4


def _rng():
    return np.random.default_rng(7)


def _mixture():
    rng = _rng()
    bags = Bags.from_indices(
        [rng.integers(0, 40, n) for n in (9, 1, 30, 12)],
        40,
        [rng.random(n) for n in (9, 1, 30, 12)],
    )
    return MixtureLikelihood(
        rng.gamma(0.5, size=(40, K)) * 10.0 ** rng.uniform(-9, 9, (40, 1)), bags
    )


def _profiles(t=30):
    rng = _rng()
    return rng.gamma(1.0, size=(t, K)), rng.gamma(1.0, size=(B, t)), rng.random(t) + 0.5


def _histograms():
    rng = _rng()
    templates = rng.dirichlet(np.ones(6), size=(3, K)).transpose(0, 2, 1)
    return templates, rng.dirichlet(np.ones(6), size=(B, 3))


def _gram():
    m, q, _ = _profiles()
    return m.T @ m, q @ m


PROBLEMS = {
    "mixture": _mixture,
    "least squares": lambda: LeastSquares(*_profiles()[:2]),
    "quadratic": lambda: QuadraticMatch(*_gram()),
    "cauchy-schwarz": lambda: CauchySchwarz.from_targets(*_gram()),
    "histogram cauchy-schwarz": lambda: HistogramCauchySchwarz(*_histograms()),
    "mean hellinger": lambda: MeanHellinger(*_histograms()),
    **{
        name: lambda name=name: Divergence(*_profiles()[:2], name, _profiles()[2])
        for name in GENERATORS
    },
}
EXACT_HESSIAN = ["mixture", "least squares", "quadratic", *GENERATORS]


def _difference(function, x, eps=1e-6):
    columns = []
    for i in range(K):
        step = np.zeros(K)
        step[i] = eps
        columns.append((function(x + step) - function(x - step)) / (2 * eps))
    return np.stack(columns, axis=-1)


@pytest.fixture
def point():
    return np.random.default_rng(3).dirichlet(np.full(K, 3.0), size=B)


@pytest.mark.parametrize("name", PROBLEMS)
def test_gradient_is_the_derivative_of_the_objective(name, point):
    problem = PROBLEMS[name]()
    expected = _difference(problem.objective, point)
    np.testing.assert_allclose(problem.gradient(point), expected, rtol=2e-7, atol=2e-7)


@pytest.mark.parametrize("name", EXACT_HESSIAN)
def test_hessian_is_the_derivative_of_the_gradient(name, point):
    problem = PROBLEMS[name]()
    expected = _difference(problem.gradient, point)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(problem.hessian(point), expected, rtol=1e-6, atol=1e-7 * scale)


@pytest.mark.parametrize("name", ["cauchy-schwarz", "histogram cauchy-schwarz"])
def test_gauss_newton_models_are_exact_where_the_match_is(name, point):
    if name == "cauchy-schwarz":
        gram, _ = _gram()
        problem = CauchySchwarz.from_targets(gram, point @ gram)
    else:
        templates, _ = _histograms()
        problem = HistogramCauchySchwarz(templates, np.einsum("cbk,nk->ncb", templates, point))
    expected = _difference(problem.gradient, point)
    np.testing.assert_allclose(problem.hessian(point), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", PROBLEMS)
def test_hessian_models_are_positive_semidefinite(name, point):
    values = np.linalg.eigvalsh(PROBLEMS[name]().hessian(point))
    assert values.min() >= -1e-10 * values.max()


@pytest.mark.parametrize("name", PROBLEMS)
def test_take_picks_and_repeats_bags(name, point):
    problem = PROBLEMS[name]()
    which = np.array([2, 0, 2])
    part = problem.take(which)
    assert part.n_bags == 3
    assert part.n_classes == K
    np.testing.assert_allclose(part.objective(point[which]), problem.objective(point)[which])
    np.testing.assert_allclose(part.gradient(point[which]), problem.gradient(point)[which])
    np.testing.assert_allclose(part.hessian(point[which]), problem.hessian(point)[which])
    np.testing.assert_allclose(part.gap(point[which]), problem.gap(point)[which])


@pytest.mark.parametrize("name", [name for name in PROBLEMS if PROBLEMS[name]().convex])
def test_convex_problems_lie_above_their_tangents(name, point):
    problem = PROBLEMS[name]()
    other = np.random.default_rng(4).dirichlet(np.full(K, 0.3), size=B)
    tangent = problem.objective(point) + (problem.gradient(point) * (other - point)).sum(axis=1)
    assert (problem.objective(other) >= tangent - 1e-9 * np.abs(tangent)).all()
