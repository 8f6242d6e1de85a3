"""The closed limits against the definition, Wilson's interval and the t distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from kdey.intervals.score_interval import freedom, score_interval, t_quantile, variance, wilson

RNG = np.random.default_rng(0)


def slow_variance(t: float, i: int, mix, spread, m: float, n, population: bool) -> float:
    """Return v(t) of the module's formula, term by term."""
    total = t * (1 - t) / m if population else 0.0
    for j in range(len(mix)):
        share = t if j == i else mix[j] / (1 - mix[i]) * (1 - t)
        total += (share / m + share**2 / n[j]) * spread[i, j]
    return total


@pytest.mark.parametrize("population", [True, False])
def test_limits_solve_their_equation(population: bool) -> None:
    k, m, q = 4, 80.0, 1.9
    mix = RNG.dirichlet(np.full(k, 5.0))
    spread = RNG.random((k, k)) * 0.5
    n = np.array([50.0, 80.0, 40.0, 200.0])
    centre = mix + 0.01 * RNG.normal(size=k)
    low, high = score_interval(
        centre[None], mix[None], spread, np.full((1, k), m), n, np.full((1, k), q), population
    )
    for i in range(k):

        def excess(t: float, i: int = i) -> float:
            v = slow_variance(t, i, mix, spread, m, n, population)
            return (t - centre[i]) ** 2 - q**2 * v

        c = centre[i]
        expected_high = brentq(excess, c, 1.0) if excess(1.0) > 0 else 1.0
        expected_low = brentq(excess, 0.0, c) if excess(0.0) > 0 else 0.0
        assert high[0, i] == pytest.approx(expected_high, abs=1e-10)
        assert low[0, i] == pytest.approx(expected_low, abs=1e-10)


def test_perfect_classes_give_wilson() -> None:
    p = np.array([[0.0, 0.1, 0.9]])
    quantile = np.full((1, 3), stats.norm.ppf(0.975))
    mix = np.array([[0.01, 0.1, 0.89]])
    made = score_interval(
        p, mix, np.zeros((3, 3)), np.full((1, 3), 40.0), np.full(3, 30.0), quantile, True
    )
    np.testing.assert_allclose(made, wilson(p, np.array([[40.0]]), 0.025), atol=1e-12)
    expected = stats.binomtest(4, 40).proportion_ci(0.95, method="wilson")
    assert (made[0][0, 1], made[1][0, 1]) == pytest.approx((expected.low, expected.high))


def test_unbounded_interval_is_everything() -> None:
    one = np.full((1, 2), 0.5)
    low, high = score_interval(
        one, one, np.full((2, 2), 50.0), np.full((1, 2), 100.0), np.full(2, 10.0), 2 * one + 1, True
    )
    assert (low == 0).all()
    assert (high == 1).all()


def test_variance_is_that_of_the_formula() -> None:
    mix, spread, n = np.array([[0.2, 0.3, 0.5]]), RNG.random((3, 3)), np.array([20.0, 30.0, 9.0])
    for population in (True, False):
        made = variance(mix, spread, np.full((1, 3), 70.0), n, population)
        for i in range(3):
            slow = slow_variance(mix[0, i], i, mix[0], spread, 70.0, n, population)
            assert made[0, i] == pytest.approx(slow)


def test_freedom_of_one_class_is_its_own() -> None:
    mix, spread = np.array([[1.0, 0.0]]), np.ones((2, 2))
    m, n = np.full((1, 2), 50.0), np.array([20.0, 20.0])
    total = variance(mix, spread, m, n, False)
    made = freedom(mix, spread, m, n, np.full((2, 2), 7.0), total)
    np.testing.assert_allclose(made, 7.0)


@pytest.mark.parametrize("tail", [0.05, 0.025, 0.001])
def test_t_quantiles(tail: float) -> None:
    degrees = np.array([1.0, 2.5, 10.0, 29.9, 30.1, 100.0, 1e5, np.inf])
    np.testing.assert_allclose(t_quantile(tail, degrees), stats.t.isf(tail, degrees), rtol=2e-4)
