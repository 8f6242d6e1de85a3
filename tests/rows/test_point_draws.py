"""Points drawn from the class densities: their distribution, their spread and their seeds."""

from __future__ import annotations

import numpy as np
import pytest

from kdey.rows.kernel import KernelSpec
from kdey.rows.monte_carlo import (
    SAMPLINGS,
    MonteCarloMap,
    draw_points,
    resolve_n_points,
    spatial_order,
)
from kdey.tuning import for_tuning

from .cases import repeated, training


def references(given, h=0.1, k=3):
    return KernelSpec(h, "gaussian", 1e-3, "double").fit_quietly(given, k)


def draw(given, n, seed=0, sampling="quasi-random", h=0.1, k=3):
    return draw_points(references(given, h, k), n, sampling, np.random.RandomState(seed))


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_points_have_the_mean_and_the_covariance_of_the_class_densities(sampling):
    k, h, n = 3, 0.2, 30_001
    given = training(k, weighted=True)
    points = draw(given, n, 0, sampling, h)
    assert len(points) == n
    for i, drawn in enumerate(np.split(points, np.cumsum([10_001, 10_000]))):
        own, w = given.required()[given.labels == i], given.weights[given.labels == i]
        mean = np.average(own, axis=0, weights=w)
        np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=5 * 0.4 / np.sqrt(10_000))
        covariance = np.cov(own.T, aweights=w, bias=True) + h * h * np.eye(k)
        np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=5e-3)


@pytest.mark.parametrize("k", [2, 3, 6])
def test_quasi_random_averages_have_less_noise(k):
    # The integral of every class density is one: the mean of its ratio to the mixture.
    given = training(k, 40 * k)

    def noise(sampling):
        specs = [
            MonteCarloMap(KernelSpec(0.1, "gaussian", 1e-3, "double"), 100 * k, seed, sampling)
            for seed in range(12)
        ]
        means = [spec.fit(given, k).templates.mean(axis=0) for spec in specs]
        return float(np.sqrt(np.mean(np.square(np.array(means) - 1.0))))

    assert noise("quasi-random") < 0.7 * noise("plain")


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_draws_do_not_depend_on_the_order_of_training(sampling):
    given, order = training(3), np.random.default_rng(0).permutation(60)
    shuffled = type(given)(given.required()[order], given.labels[order])
    np.testing.assert_array_equal(draw(given, 50, 7, sampling), draw(shuffled, 50, 7, sampling))
    assert (draw(given, 50, 7, sampling) != draw(given, 50, 8, sampling)).any()


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_weights_are_repetitions_to_the_last_point(k, sampling):
    given = training(k, 40 * k, weighted=True)
    weighted, written = (draw(g, 90, 0, sampling, k=k) for g in (given, repeated(given)))
    np.testing.assert_array_equal(weighted, written)


def test_classes_are_drawn_independently():
    points = draw(training(3), 300)
    first, second = (part - part.mean(axis=0) for part in (points[:100], points[100:200]))
    assert abs(np.corrcoef(first[:, 0], second[:, 0])[0, 1]) < 0.3


@pytest.mark.parametrize("n_points", [1, 2, 3, 5])
def test_fewer_points_than_classes(n_points):
    assert draw(training(3), n_points).shape == (n_points, 3)


def test_a_class_of_one_reference():
    given = training(3)
    keep = np.r_[np.flatnonzero(given.labels != 0), np.flatnonzero(given.labels == 0)[0]]
    few = type(given)(given.required()[keep], given.labels[keep])
    assert np.isfinite(draw(few, 60)).all()


def test_the_order_keeps_classes_together_and_neighbours_near():
    rng = np.random.default_rng(0)
    points, offsets = rng.random((600, 2)), np.array([0, 200, 600])
    order = spatial_order(points, np.ones(600), offsets, 64)
    np.testing.assert_array_equal(np.sort(order[:200]), np.arange(200))
    np.testing.assert_array_equal(np.sort(order), np.arange(600))
    steps = np.linalg.norm(np.diff(points[order[200:]], axis=0), axis=1).mean()
    assert steps < 0.4 * np.linalg.norm(np.diff(points[200:], axis=0), axis=1).mean()


def test_halves_have_equal_weight():
    points, weights = np.arange(8.0)[:, None], np.array([1, 1, 1, 1, 1, 1, 1, 7.0])
    order = spatial_order(points[::-1], weights[::-1], np.array([0, 8]), 8)
    np.testing.assert_array_equal(points[::-1][order][:, 0], np.arange(8.0))


@pytest.mark.parametrize(("k", "expected"), [(2, 2_000), (4, 2_000), (10, 5_000), (100, 10_000)])
def test_the_automatic_number_of_points(k, expected):
    assert resolve_n_points("auto", k) == expected
    assert resolve_n_points(17, k) == 17


def test_a_given_number_of_points_is_drawn_plainly_and_an_automatic_one_spread():
    kernel, given = KernelSpec(0.1, "gaussian", 1e-3, "double"), training(3)
    for n_points, same, other in ((70, "plain", "quasi-random"), ("auto", "quasi-random", "plain")):
        points = {
            sampling: MonteCarloMap(kernel, n_points, 0, sampling).fit(given, 3).points
            for sampling in ("auto", same, other)
        }
        np.testing.assert_array_equal(points["auto"], points[same])
        assert (points["auto"] != points[other]).any()


def test_the_points_of_a_tuning_are_few_and_drawn_alike():
    kernel = KernelSpec(0.1, "gaussian", 1e-3)
    few = for_tuning(MonteCarloMap(kernel, "auto"), 3)
    assert (few.n_points, few.sampling, few.random_state) == (500, "quasi-random", 3)
    assert for_tuning(MonteCarloMap(kernel, 100), 3).n_points == 100
    assert for_tuning(MonteCarloMap(kernel, 10_000), 3).sampling == "plain"


def test_parameters_are_checked():
    kernel = KernelSpec(0.1, "gaussian", 1e-3)
    with pytest.raises(ValueError, match="sampling must be one of auto, quasi-random, plain"):
        MonteCarloMap(kernel, 10, None, "sobol")
    for n_points in (True, 0, "many"):
        with pytest.raises(ValueError, match='n_points must be a positive integer or "auto"'):
            MonteCarloMap(kernel, n_points)
