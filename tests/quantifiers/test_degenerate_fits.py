"""Training data that leave nothing to go by: no NaN from them."""

from __future__ import annotations

import warnings

import numpy as np

import kdey


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


def test_limits_where_templates_are_alike_to_the_last_digits() -> None:
    """The inverse of T is rounding then, and so would be limits around it."""
    rng = np.random.default_rng(0)
    p = 0.5 + 1e-12 * rng.normal(size=60)
    made = kdey.PACC().fit_posteriors(np.column_stack([p, 1 - p]), np.arange(60) % 2)
    found = made.estimate_posteriors(np.column_stack([p, 1 - p])[:30])
    np.testing.assert_allclose(found.low, 0.0, atol=1e-9)
    np.testing.assert_allclose(found.high, 1.0, atol=1e-9)
