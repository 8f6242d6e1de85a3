"""Ratios and p-values of differences agree with the limits they come from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kdey
from kdey.intervals import differences

from ..groups.cases import fitted, posteriors


@pytest.fixture(scope="module")
def sides() -> dict[float, tuple[Any, Any]]:
    rng = np.random.default_rng(5)
    labels = rng.choice(3, 160, p=[0.5, 0.3, 0.2]), rng.choice(3, 120, p=[0.3, 0.3, 0.4])
    bags = [posteriors(part, rng) for part in labels]
    q = fitted()
    return {
        c: tuple(q.estimate_posteriors(bag, confidence=c, check_fit=False) for bag in bags)
        for c in (0.8, 0.95, 0.999)
    }


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_p_value_is_small_where_the_limits_exclude_zero(
    sides: dict[float, tuple[Any, Any]], confidence: float
) -> None:
    change = kdey.difference(*sides[confidence])
    excluded = (change.low > 0) | (change.high < 0)
    assert ((change.p_value <= 1 - confidence) == excluded).all()
    assert excluded.any() or confidence == 0.999
    assert not excluded.all()


def test_p_values_hardly_depend_on_the_confidence(sides: dict[float, tuple[Any, Any]]) -> None:
    p = [kdey.difference(*pair).p_value for pair in sides.values()]
    assert_allclose(p[0], p[1], rtol=0.5, atol=0.01)
    assert_allclose(p[2], p[1], rtol=0.5, atol=0.01)


def test_a_bag_against_itself_has_p_value_one(sides: dict[float, tuple[Any, Any]]) -> None:
    first, _ = sides[0.95]
    change = kdey.difference(first, first)
    assert_allclose(change.p_value, 1.0)
    assert_allclose(change.ratio, 1.0)


def test_a_ratio_is_inside_its_limits_where_the_difference_may_be_zero(
    sides: dict[float, tuple[Any, Any]],
) -> None:
    """At the limits r of the ratio, zero is exactly at a limit of the difference a - r b."""
    first, second = sides[0.95]
    rho = np.array([0.3, 0.0, -0.2])
    _, low, high = differences._ratio_interval(first, second, rho)
    a, b = first.estimate, second.estimate
    down = differences._combine(a - first.low, low * (second.high - b), rho)
    assert_allclose(a - low * b - down, 0.0, atol=1e-12)
    up = differences._combine(first.high - a, high * (b - second.low), rho)
    assert_allclose(a - high * b + up, 0.0, atol=1e-12)
    assert (low < a / b).all()
    assert (a / b < high).all()


def test_ratios_with_absent_classes() -> None:
    rng = np.random.default_rng(0)
    q = fitted()
    both = [
        q.estimate_posteriors(posteriors(np.repeat(code, 80), rng), check_fit=False)
        for code in (0, 1)
    ]
    change = kdey.difference(*both)
    assert change.ratio[0] > 10  # the class that only the first bag has
    assert change.ratio_high[0] == np.inf
    assert change.ratio_low[0] > 1
    assert change.ratio_low[2] == 0
    assert change.ratio_high[2] == np.inf
    assert not np.isnan(change.ratio_low).any()


@pytest.mark.filterwarnings("error")
def test_ratios_where_the_squares_of_limits_vanish() -> None:
    tiny = np.array([1e-200, 1.0])
    side: Any = SimpleNamespace(estimate=2 * tiny / 2, low=tiny / 2, high=np.array([0.1, 1.0]))
    _, low, high = differences._ratio_interval(side, side, np.zeros(2))
    assert low[0] == 0
    assert high[0] == np.inf


def test_bootstrap_has_p_values_and_ratios_too() -> None:
    rng = np.random.default_rng(1)
    q = fitted()
    both = [
        q.estimate_posteriors(
            posteriors(rng.choice(3, 60, p=p), rng),
            check_fit=False,
            options=kdey.Options(method="bootstrap", n_replicates=60),
        )
        for p in ([0.8, 0.1, 0.1], [0.1, 0.1, 0.8])
    ]
    change = kdey.difference(*both)
    assert change.p_value[0] < 0.01
    assert change.ratio_low[0] > 1
    assert ((change.p_value <= 0.05) == ((change.low > 0) | (change.high < 0))).all()


def test_a_bag_of_one_instance_can_be_compared() -> None:
    rng = np.random.default_rng(3)
    q = fitted()
    points = posteriors(np.repeat(0, 40), rng)
    with pytest.warns(kdey.options.IntervalWarning):
        single = q.estimate_posteriors(points[:1], check_fit=False)
    change = kdey.difference(single, q.estimate_posteriors(points, check_fit=False))
    assert (change.p_value > 0.1).all()
    assert (change.high - change.low >= 1.0).all()


def test_errors_shared_with_the_same_bag_are_the_variance_of_the_templates() -> None:
    """Few labels raise the variance above what rows show, and shared errors with it."""
    rng = np.random.default_rng(3)
    q = kdey.PACC().fit_posteriors(rng.dirichlet(np.ones(3), 24), np.arange(24) % 3)
    one, two = (q.estimate_posteriors(rng.dirichlet(np.ones(3), 60)).uncertainty for _ in "ab")
    own = one.template_covariance()
    np.testing.assert_allclose(one.template_covariance(one), own, rtol=1e-6, atol=1e-9)
    shared = one.template_covariance(two)
    np.testing.assert_allclose(shared.sum(axis=0), 0.0, atol=1e-6)  # rows are float32
