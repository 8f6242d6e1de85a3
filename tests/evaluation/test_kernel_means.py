"""Mean kernels of bags: equal to the obvious sums, and each bag's own whatever stands beside it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import kdey
from kdey import kernels as module
from kdey.bags import Bags
from kdey.kernels import kernel_means


def oracle(
    points: np.ndarray, scale: np.ndarray, x: np.ndarray, bags: Bags, h: float
) -> np.ndarray:
    kernels = np.exp(-cdist(x, points, "sqeuclidean") / (2 * h * h) - scale)
    rows = []
    for b, bag in enumerate(bags):
        w = bags.bag_weights(b)
        rows.append((w[:, None] * kernels[bag]).sum(axis=0) / w.sum())
    return np.array(rows)


def cases(rng: np.random.Generator) -> list[Bags]:
    sizes = [1, 3, 40, 200]
    drawn = [rng.integers(0, 200, n) for n in sizes]
    weights = [rng.random(n) + 0.1 for n in sizes]
    few = [rng.integers(0, 3, 2) for _ in range(60)]
    return [
        Bags.from_indices(drawn, 200),
        Bags.from_indices(drawn, 200, weights),
        Bags.from_indices(few, 200),
    ]


@pytest.mark.parametrize("block", [1, 700, 1 << 21])
@pytest.mark.parametrize("dense", [0.0, 1.0])
@pytest.mark.parametrize("h", [0.02, 0.1, 1.0])
def test_equals_the_sums(
    monkeypatch: pytest.MonkeyPatch, block: int, dense: float, h: float
) -> None:
    monkeypatch.setattr(module.native, "available", lambda: False)
    monkeypatch.setattr(module, "_BLOCK", block)
    monkeypatch.setattr(module, "_DENSE_SHARE", dense)
    rng = np.random.default_rng(0)
    x, points = rng.dirichlet(np.full(4, 0.4), 200), rng.dirichlet(np.full(4, 0.4), 37)
    scale = rng.normal(size=37)
    for bags in cases(rng):
        expected = oracle(points, scale, x, bags, h)
        found = kernel_means(points, scale, x, bags, h, n_threads=2)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-200)


@pytest.mark.parametrize("k", [1, 2, 9])
@pytest.mark.parametrize("t", [1, 16, 37])
@pytest.mark.parametrize("h", [0.02, 0.1, 1.0])
def test_the_native_core_equals_the_sums(k: int, t: int, h: float) -> None:
    rng = np.random.default_rng(k + t)
    x, points = rng.normal(size=(200, k)) / 3, rng.normal(size=(t, k)) / 3
    scale = rng.normal(size=t)
    for bags in cases(rng):
        expected = oracle(points, scale, x, bags, h)
        for n_threads in (1, 2):
            found = kernel_means(points, scale, x, bags, h, n_threads)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-200)


def test_a_pool_of_many_instances_and_bags_that_hold_most_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # More than 4,096 instances come in several runs; bags that hold most of the pool may go through
    # a matrix product. Both give what single bags give.
    rng = np.random.default_rng(0)
    x, points = rng.dirichlet(np.full(3, 0.4), 9_000), rng.dirichlet(np.full(3, 0.4), 5)
    bags = Bags.from_indices([rng.permutation(9_000)[:n] for n in (8_000, 3, 5_000)], 9_000)
    expected = oracle(points, np.zeros(5), x, bags, 0.1)
    for most in (64, 1):
        monkeypatch.setattr(module, "_PRODUCT_BAGS", most)
        found = kernel_means(points, np.zeros(5), x, bags, 0.1)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_kernel_far_above_its_scale_stays_finite() -> None:
    x = np.array([[1.0, 0.0]])
    for quick in (False, True):
        assert np.isfinite(kernel_means(x, np.array([-800.0]), x, Bags.whole(1), 0.1, quick=quick))


def test_quick_means_are_good_to_six_digits() -> None:
    rng = np.random.default_rng(0)
    x, points = rng.dirichlet(np.full(4, 0.4), 200), rng.dirichlet(np.full(4, 0.4), 37)
    for bags in cases(rng):
        expected = oracle(points, np.zeros(37), x, bags, 0.1)
        found = kernel_means(points, np.zeros(37), x, bags, 0.1, quick=True)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-30)


def test_far_instances_count_as_almost_nothing_but_not_as_zero() -> None:
    x = np.array([[1.0, 0.0], [0.0, 1.0]])
    bags = Bags.from_indices([[0], [1], [0, 1]], 2)
    found = kernel_means(x[:1], np.zeros(1), x, bags, 1e-3)[:, 0]
    np.testing.assert_allclose(found, [1.0, 0.0, 0.5], atol=1e-200)
    assert (found > 0).all()


@pytest.mark.parametrize("divergence", ["hellinger", "topsoe"])
def test_a_bag_does_not_feel_the_bags_beside_it(divergence: str) -> None:
    rng = np.random.default_rng(1)
    k = 5
    y = np.repeat(np.arange(k), 80)
    p = rng.dirichlet(np.full(k, 0.3), len(y)) * 0.4 + 0.6 * np.eye(k)[y]
    pool = np.concatenate([np.tile(np.eye(k)[0], (50, 1)), rng.dirichlet(np.full(k, 0.2), 300)])
    made = kdey.KDEyHD(
        bandwidth=0.03, n_points=500, random_state=0, divergence=divergence
    ).fit_posteriors(p, y)
    corner, spread = np.arange(50), np.arange(50, 350)
    bags = [corner, spread, spread[:20], np.r_[corner, spread[:5]]]
    together = made.aggregate_bags(pool, bags)
    alone = np.array([made.aggregate(pool[bag]) for bag in bags])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-8)
