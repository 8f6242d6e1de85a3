"""Projected Newton: against non-negative least squares, on singular and unattained minima."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import nnls

from kdey.calibration import projected_newton


def quadratic(matrix, target):
    def evaluate(x):
        residual = matrix @ x - target
        return 0.5 * residual @ residual, matrix.T @ residual, matrix.T @ matrix

    return evaluate


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.booleans())
def test_bounded_quadratics_are_nnls(seed, d, at_bound):
    rng = np.random.default_rng(seed)
    matrix, target = rng.normal(size=(d + 3, d)), rng.normal(size=d + 3)
    start = np.zeros(d) if at_bound else np.ones(d)
    point, objective, _, converged = projected_newton(
        quadratic(matrix, target), start, np.zeros(d), tol=1e-14, max_iter=500
    )
    assert converged
    assert (point >= 0).all()
    expected, norm = nnls(matrix, target)
    assert objective == pytest.approx(0.5 * norm**2, abs=1e-8)
    np.testing.assert_allclose(point, expected, atol=1e-3)


def test_free_quadratic_takes_one_step_and_confirms_it():
    rng = np.random.default_rng(0)
    matrix, target = rng.normal(size=(9, 4)), rng.normal(size=9)
    point, _, n_iter, _ = projected_newton(
        quadratic(matrix, target), np.zeros(4), np.full(4, -np.inf), tol=1e-12, max_iter=50
    )
    assert n_iter == 2
    np.testing.assert_allclose(point, np.linalg.lstsq(matrix, target, rcond=None)[0], atol=1e-9)


def test_unseen_directions_stay_where_they_started():
    evaluate = quadratic(np.array([[1.0, 1.0]]), np.array([4.0]))
    point, *_ = projected_newton(
        evaluate, np.array([1.0, -1.0]), np.full(2, -np.inf), tol=1e-14, max_iter=50
    )
    np.testing.assert_allclose(point, [3.0, 1.0], atol=1e-6)


def steep(x):
    """Return log cosh, where plain Newton diverges from any start beyond 1.09."""
    value = float(np.logaddexp(x, -x)[0])
    return value, np.tanh(x), np.atleast_2d(np.cosh(x) ** -2)


def test_overlong_steps_are_shortened():
    point, _, _, converged = projected_newton(
        steep, np.array([3.0]), np.array([-np.inf]), tol=1e-14, max_iter=100
    )
    assert converged
    assert abs(point[0]) < 1e-6


def decaying(x):
    value = np.exp(-x)
    return float(value[0]), -value, np.atleast_2d(value)


def test_minimum_that_is_not_attained_stops_when_low_enough():
    arguments = (decaying, np.zeros(1), np.array([-np.inf]))
    _, objective, _, converged = projected_newton(*arguments, tol=0.0, max_iter=100, enough=1e-6)
    assert converged
    assert 1e-8 < objective <= 1e-6
    assert not projected_newton(*arguments, tol=0.0, max_iter=5)[3]


def test_start_below_the_bound_is_moved_to_it():
    point, *_ = projected_newton(decaying, np.array([-5.0]), np.array([2.0]), tol=0.0, max_iter=1)
    assert point[0] == pytest.approx(3.0)
