r"""Limits of shares whose variance has a constant part and a part that depends on the share.

The limits of a share with estimate a are all t with

.. math:: (t - a)^2 \le q^2 \, [v + s\, t (1 - t)]

the roots of a quadratic. With v = 0 and s = 1 / n these are Wilson's limits of n labels.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri, stdtrit

from kdey.bags import Array


def score_limits(
    estimate: Array, constant: Array | float, slope: Array | float, quantile: float
) -> tuple[Array, Array]:
    """Return the limits of the formula at the top of this file, within [0, 1].

    Parameters
    ----------
    estimate : array of shape (k,)
        Shares in [0, 1].
    constant, slope : arrays of shape (k,) or floats
        The parts v and s of the variance.
    quantile : float

    Returns
    -------
    low, high : arrays of shape (k,)
        They contain the estimate.
    """
    q2 = quantile**2
    a = 1.0 + q2 * np.asarray(slope)
    half = estimate + 0.5 * q2 * np.asarray(slope)
    root = np.sqrt(np.maximum(half**2 - a * (estimate**2 - q2 * np.asarray(constant)), 0.0))
    low, high = (half - root) / a, (half + root) / a
    low, high = np.minimum(low, estimate), np.maximum(high, estimate)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def upper_quantile(tail: float, freedom: float) -> float:
    """Return the upper quantile of Student's t, normal if ``freedom`` is infinite."""
    return float(-ndtri(tail)) if np.isinf(freedom) else float(-stdtrit(freedom, tail))


def onto_simplex(shares: Array) -> Array:
    """Return shares (k,) clipped at zero and scaled to a sum of one."""
    inside = np.maximum(shares, 0.0)
    return np.asarray(inside / inside.sum())
