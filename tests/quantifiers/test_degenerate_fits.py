"""Training data that leave nothing to go by: no NaN from them."""

from __future__ import annotations

import warnings

import numpy as np

import kdey
from kdey.intervals.analytic import _inside_simplex


def test_a_calibrator_that_calls_a_class_impossible() -> None:
    """Posteriors that are sure and wrong: 0 / 0 in the rows of EMQ."""
    y = np.r_[0, np.ones(49, dtype=int)]
    weights = np.r_[0.004, np.random.default_rng(0).gamma(0.5, size=49)]
    p = np.tile([1.0, 0.0], (50, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it says that it did not converge
        q = kdey.EMQ(calibration="bcts").fit_posteriors(p, y, weights)
        found = q.aggregate(np.array([[0.3, 0.7], [1.0, 0.0], [0.0, 1.0]]))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(), 1.0)


def test_limits_where_no_class_is_left_in_the_moment_estimate() -> None:
    """Templates alike to the last digits: 0 / 0 in the mix that the variances are taken at."""
    mix = _inside_simplex(np.array([[-1.0, -2.0], [0.3, 0.7]]), np.array([10.0, 10.0]))
    assert np.isfinite(mix).all()
    np.testing.assert_allclose(mix[0], 0.5)
