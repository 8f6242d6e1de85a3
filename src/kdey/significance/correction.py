"""Correction of p-values for making several tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kdey.significance.tables import as_numbers
from kdey.simplex import Array


def holm(p_values: ArrayLike) -> Array:
    r"""Return p-values adjusted by Holm's step-down method, in the given order.

    With :math:`p_{(1)}\le\dots\le p_{(m)}` the adjusted values are
    :math:`\max_{j\le i}\min(1,(m-j+1)\,p_{(j)})`. Rejecting where they are at most a level keeps
    the chance of any false rejection among the m tests below it, whatever their dependence
    (Holm, "A simple sequentially rejective multiple test procedure", 1979).

    Parameters
    ----------
    p_values : array-like of shape (m,)
        An empty one gives an empty result.

    Examples
    --------
    >>> from kdey.significance import holm
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = as_numbers(p_values, "p_values")
    if p.ndim != 1:
        raise ValueError(f"p_values must be a vector, got shape {p.shape}")
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p_values must lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    steps = np.minimum(p[order] * np.arange(len(p), 0, -1), 1.0)
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted
