"""Dirichlet fits: against a general optimiser, known parameters and hard rows."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize
from scipy.stats import dirichlet

from kdey.rows.posterior import (
    MAX_CONCENTRATION,
    dirichlet_log_density,
    fit_dirichlet,
    shrink_zeros,
)


def mean_log_density(alpha, p, weights=None):
    return np.average([dirichlet.logpdf(row, alpha) for row in p], weights=weights)


@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("scale", [0.05, 1.0, 50.0])
def test_fit_is_as_likely_as_that_of_a_general_optimiser(k, scale):
    rng = np.random.default_rng(k)
    p = shrink_zeros(rng.dirichlet(scale * rng.uniform(0.5, 2.0, k), 60))
    weights = rng.random(60)
    alpha = fit_dirichlet(p, weights)
    logs = weights @ np.log(p) / weights.sum()

    def loss(log_alpha):
        alpha = np.exp(log_alpha)
        return -dirichlet.logpdf(np.full(k, 1 / k), alpha) - (alpha - 1) @ (logs + np.log(k))

    found = minimize(
        loss,
        np.zeros(k),
        method="Nelder-Mead",
        options={
            "maxiter": 20000,
            "maxfev": 20000,
            "xatol": 1e-9,
            "fatol": 1e-13,
            "adaptive": True,
        },
    )
    assert mean_log_density(alpha, p, weights) >= -found.fun - 1e-8
    np.testing.assert_allclose(alpha, np.exp(found.x), rtol=1e-3)


def test_known_parameters_are_recovered():
    alpha = np.array([0.3, 1.0, 4.0, 12.0])
    p = np.random.default_rng(0).dirichlet(alpha, 50_000)
    np.testing.assert_allclose(fit_dirichlet(p), alpha, rtol=0.03)


@settings(max_examples=150)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([2, 3, 10, 100]),
    st.sampled_from([3, 20, 300]),
    st.floats(-12, -3),
)
def test_any_rows_end_at_a_stationary_point(seed, k, n, log_shrinkage):
    rng = np.random.default_rng(seed)
    p = rng.gamma(np.exp(rng.uniform(-5, 6, k)), size=(n, k)) + 1e-300
    p = shrink_zeros(p / p.sum(axis=1, keepdims=True), 10.0**log_shrinkage)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        alpha = fit_dirichlet(p)
    if caught:
        return
    # F is concave: if no small move in any tried direction gains, the fit is at its maximum.
    for factor in (0.99, 1.01):
        assert mean_of(p, alpha * factor) <= mean_of(p, alpha) + 1e-8
        i = rng.integers(k)
        moved = alpha.copy()
        moved[i] *= factor
        assert mean_of(p, moved) <= mean_of(p, alpha) + 1e-8


def mean_of(p, alpha):
    return dirichlet_log_density(p, alpha[None, :]).mean()


def test_weights_equal_repetition_and_scale_does_not_matter():
    p = np.random.default_rng(0).dirichlet([2.0, 3.0, 1.0], 10)
    counts = np.arange(10)
    repeated = fit_dirichlet(np.repeat(p, counts, axis=0))
    np.testing.assert_allclose(fit_dirichlet(p, counts), repeated, rtol=1e-8)
    np.testing.assert_allclose(fit_dirichlet(p, 1e6 * counts), repeated, rtol=1e-8)


def test_class_permutation_permutes_alpha():
    p = np.random.default_rng(0).dirichlet([2.0, 3.0, 0.1], 30)
    order = [2, 0, 1]
    np.testing.assert_allclose(fit_dirichlet(p[:, order]), fit_dirichlet(p)[order])


@pytest.mark.parametrize(
    "rows", [[[0.2, 0.3, 0.5]], [[0.2, 0.3, 0.5]] * 7, shrink_zeros([[1.0, 0.0, 0.0]] * 4)]
)
def test_equal_rows_are_capped_with_a_warning(rows):
    with pytest.warns(UserWarning, match="unbounded, its concentration is capped at 1e"):
        alpha = fit_dirichlet(np.array(rows))
    np.testing.assert_allclose(alpha, MAX_CONCENTRATION * np.asarray(rows)[0])


def test_nearly_equal_rows_are_fitted():
    p = np.random.default_rng(0).dirichlet([2e5, 3e5, 5e5], 200)
    alpha = fit_dirichlet(p)
    assert alpha.sum() == pytest.approx(1e6, rel=0.3)


def test_rows_of_a_sure_classifier_are_fitted():
    p = np.eye(4)[[0] * 95 + [1, 2, 3, 1, 2]]
    alpha = fit_dirichlet(shrink_zeros(p))
    assert alpha.argmax() == 0


def test_log_density_is_scipys():
    rng = np.random.default_rng(0)
    p = shrink_zeros(rng.dirichlet([0.3] * 4, 20))
    alphas = rng.uniform(0.01, 20, (3, 4))
    expected = [[dirichlet.logpdf(row, alpha) for alpha in alphas] for row in p]
    np.testing.assert_allclose(dirichlet_log_density(p, alphas), expected, rtol=1e-9)


def test_shrinking_moves_towards_uniform_and_keeps_the_simplex():
    shrunk = shrink_zeros([[1.0, 0.0, 0.0, 0.0]], 0.4)
    np.testing.assert_allclose(shrunk, [[0.7, 0.1, 0.1, 0.1]])
    assert shrink_zeros(np.eye(3)).min() == pytest.approx(1e-6 / 3)
    for bad in (0.0, 1.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="shrinkage must lie strictly between 0 and 1"):
            shrink_zeros(np.eye(2), bad)


@pytest.mark.parametrize(("n", "weights"), [(0, None), (2, np.zeros(2))])
def test_a_class_without_weight_is_named(n, weights):
    with pytest.raises(ValueError, match="a class has no training posterior"):
        fit_dirichlet(np.full((n, 2), 0.5), weights)
