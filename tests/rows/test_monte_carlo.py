"""Monte Carlo rows against numerical integration of the divergences.

Densities of posteriors share one Gaussian factor across the plane of the simplex, so that an
f-divergence in the ambient space equals that of the plane's own densities: a one- or
two-dimensional integral.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import rel_entr
from sklearn.neighbors import KernelDensity

from kdey.bags import Bags
from kdey.matching.divergence import Divergence, resolve_generator
from kdey.rows.kernel import KernelSpec
from kdey.rows.monte_carlo import MonteCarloMap

from .cases import plane_density, plane_grid, posteriors, repeated, training

#: The divergences of p (mixture) and q (bag) as textbooks write them, pointwise.
TEXTBOOK = {
    "hellinger": lambda p, q: p + q - 2 * np.sqrt(p * q),
    "topsoe": lambda p, q: rel_entr(p, (p + q) / 2) + rel_entr(q, (p + q) / 2),
    "jensen-shannon": lambda p, q: rel_entr(p, (p + q) / 2) / 2 + rel_entr(q, (p + q) / 2) / 2,
    "kl": lambda p, q: rel_entr(q, p),
    "reverse-kl": lambda p, q: rel_entr(p, q),
    "chi2": lambda p, q: (p - q) ** 2 / (p + q),
}
GRIDS = {2: (0.01, 1.8), 3: (0.04, 1.6)}


def spec(h, n_points, seed=0, kernel="gaussian", sampling="plain"):
    return MonteCarloMap(KernelSpec(h, kernel, 1e-3, "double"), n_points, seed, sampling)


def log_density(centres, h, at, weights=None):
    return KernelDensity(bandwidth=h).fit(centres, sample_weight=weights).score_samples(at)


@pytest.mark.parametrize(("k", "h"), [(2, 0.1), (3, 0.15)])
@pytest.mark.parametrize("name", list(TEXTBOOK))
def test_the_estimate_is_the_integral_within_its_standard_error(k, h, name):
    given, bag = training(k, 45), posteriors(k, 25, 3, sharpness=0.5)[0]
    alpha = np.random.default_rng(1).dirichlet(5 * np.ones(k))
    grid, area = plane_grid(k, *GRIDS[k])
    classes = [given.required()[given.labels == i] for i in range(k)]
    p = alpha @ np.stack([plane_density(grid, own, h) for own in classes])
    q = plane_density(grid, bag, h)
    assert area * p.sum() == pytest.approx(1)
    seen = (p > 1e-200) & (q > 1e-200)
    exact = area * TEXTBOOK[name](p[seen], q[seen]).sum()

    made = spec(h, 30_000).fit(given, k)
    targets = made(bag).mean(Bags.whole(len(bag)))
    generator = resolve_generator(name)
    terms = generator.value(made.templates @ alpha, targets[0])
    problem = Divergence(made.templates, targets, generator, np.full(30_000, 30_000.0))
    estimate = problem.objective(alpha[None])[0]
    assert estimate == pytest.approx(terms.mean())
    error = terms.std() / np.sqrt(len(terms))
    assert abs(estimate - exact) < 4 * error
    assert error < 0.03 * exact  # so that the line above could fail


@pytest.mark.parametrize("weighted", [False, True])
def test_templates_and_targets_are_density_ratios(weighted):
    h, given, bag = 0.1, training(3, weighted=weighted), posteriors(3, 20, 1)[0]
    made = spec(h, 101).fit(given, 3)
    classes = [given.labels == i for i in range(3)]
    w = [None if given.weights is None else given.weights[own] for own in classes]
    logs = [
        log_density(given.required()[own], h, made.points, w[i]) for i, own in enumerate(classes)
    ]
    p = np.exp(np.stack(logs, axis=1))
    r = p.mean(axis=1)
    np.testing.assert_allclose(made.templates, p / r[:, None], atol=1e-7)
    bags = Bags.from_indices([np.arange(20), [3, 3, 5]], 20, [np.ones(20), [1.0, 1.0, 4.0]])
    q = [
        np.exp(log_density(bag, h, made.points)),
        np.exp(log_density(bag[[3, 5]], h, made.points, [2.0, 4.0])),
    ]
    np.testing.assert_allclose(made(bag).mean(bags), q / r, rtol=1e-4, atol=1e-6)


def test_points_are_drawn_from_the_class_densities():
    k, h, n = 3, 0.2, 60_001
    given = training(k, weighted=True)
    points = spec(h, n).fit(given, k).points
    assert len(points) == n
    for i, drawn in enumerate(np.split(points, np.cumsum([20_001, 20_000]))):
        own, w = given.required()[given.labels == i], given.weights[given.labels == i]
        mean = np.average(own, axis=0, weights=w)
        np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=5 * 0.4 / np.sqrt(20_000))
        covariance = np.cov(own.T, aweights=w, bias=True) + h * h * np.eye(k)
        np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=3e-3)


def test_noise_is_independent_between_classes():
    points = spec(0.1, 300).fit(training(3), 3).points
    first = points[:100] - points[:100].mean(axis=0)
    second = points[100:200] - points[100:200].mean(axis=0)
    assert abs(np.corrcoef(first[:, 0], second[:, 0])[0, 1]) < 0.3


def test_a_seed_determines_the_points_whatever_the_order_of_training():
    given, order = training(3), np.random.default_rng(0).permutation(60)
    shuffled = type(given)(given.required()[order], given.labels[order])
    one, same = spec(0.1, 50, 7).fit(given, 3).points, spec(0.1, 50, 7).fit(shuffled, 3).points
    np.testing.assert_array_equal(one, same)
    assert (one != spec(0.1, 50, 8).fit(given, 3).points).any()


def test_weights_are_repetitions_to_the_last_point():
    given = training(3, weighted=True)
    weighted, written = spec(0.1, 90).fit(given, 3), spec(0.1, 90).fit(repeated(given), 3)
    np.testing.assert_array_equal(weighted.points, written.points)
    np.testing.assert_allclose(weighted.templates, written.templates, atol=1e-9)


def test_given_points_are_taken_as_they_are():
    made = spec(0.1, 3).fit(training(3), 3)
    points = posteriors(3, 17, 1)[0]
    again = made.at(made.references, points)
    np.testing.assert_array_equal(again.points, points)
    assert again.n_terms == 17
    np.testing.assert_allclose(again.templates.mean(axis=1), 1)


@pytest.mark.parametrize("name", list(TEXTBOOK))
def test_no_estimate_is_negative(name):
    # With u log u instead of u log u - u + 1 the Kullback-Leibler estimates here go below zero.
    made, rng = spec(0.1, 60).fit(training(3), 3), np.random.default_rng(0)
    alphas = rng.dirichlet(np.ones(3), 200)
    targets = alphas @ made.templates.T
    problem = Divergence(made.templates, targets, name, np.full(60, 60.0))
    assert (problem.objective(np.roll(alphas, 1, axis=0)) >= 0).all()
    np.testing.assert_allclose(problem.objective(alphas), 0, atol=1e-12)
    if name == "kl":
        mixtures = np.roll(alphas, 1, axis=0) @ made.templates.T
        assert rel_entr(targets, mixtures).mean(axis=1).min() < 0


@pytest.mark.parametrize("n_points", [0, -1, 2.5, "many", None])
def test_number_of_points_is_checked(n_points):
    with pytest.raises(ValueError, match="n_points must be a positive integer"):
        spec(0.1, n_points)
