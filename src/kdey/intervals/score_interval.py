"""Limits that need no model: Wilson's interval, quantiles, and corrections of limits of any source.

:func:`ensure_minimum_width` makes limits at least as wide as Wilson's, or shares that the bag can
have; :func:`widen_unsupported` sets them to 0 and 1 where there is too little data. Both serve the
bootstrap too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from kdey._display import warn
from kdey.bags import Array
from kdey.intervals.sampled_bags import SampledBags
from kdey.options import IntervalWarning, Options


def t_quantile(tail: float, freedom: Array) -> Array:
    """Return the upper quantile of Student's t at a tail probability, in the shape of ``freedom``.

    From 60 degrees of freedom the Cornish-Fisher expansion is accurate enough, and faster.
    """
    z = float(-ndtri(tail))
    f = np.maximum(freedom, 1.0)
    out = z + (z**3 + z) / 4 / f + (5 * z**5 + 16 * z**3 + 3 * z) / 96 / f / f
    few = f < 60.0
    if few.any():
        out[few] = -stdtrit(f[few], tail)
    return np.asarray(out)


def wilson(prevalence: Array, sizes: Array, tail: float) -> tuple[Array, Array]:
    """Return Wilson's limits for shares of error-free labels, in the shape of ``prevalence``.

    Parameters
    ----------
    prevalence : array of shape (n_bags, k)
    sizes : array of shape (n_bags, 1) or (n_bags, k)
    tail : float
        Probability outside each end.

    Returns
    -------
    low, high : arrays of shape (n_bags, k)
    """
    q2 = float(ndtri(tail)) ** 2
    n = sizes + q2
    middle = (sizes * prevalence + q2 / 2.0) / n
    half = np.sqrt(q2 * (sizes * prevalence * (1.0 - prevalence) + q2 / 4.0)) / n
    return np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0)


def ensure_minimum_width(
    estimates: Array, low: Array, high: Array, bags: SampledBags, options: Options
) -> tuple[Array, Array]:
    """Return limits that contain the estimate and say no more than labels of the bag would.

    The interval of the population must contain the one that error-free labels of the bag would
    give, Wilson's interval at the estimate. The limits of the bag are shares that it can have:
    multiples of one over its size, unless its instances have different weights.

    Parameters
    ----------
    estimates, low, high : arrays of shape (n_bags, k)
    bags : SampledBags
    options : Options

    Returns
    -------
    low, high : arrays of shape (n_bags, k)
    """
    low, high = np.minimum(low, estimates), np.maximum(high, estimates)
    if options.target == "bag":
        low, high = attainable_shares(low, high, bags)
        return np.minimum(low, estimates), np.maximum(
            high, estimates
        )  # exactly, not up to rounding
    sizes = np.minimum(bags.effective_sizes, bags.n_units)[:, None]
    first, last = wilson(estimates, sizes, options.tail(estimates.shape[1]))
    return np.minimum(low, first), np.maximum(high, last)


def attainable_shares(low: Array, high: Array, bags: SampledBags) -> tuple[Array, Array]:
    """Return limits extended to shares that the instances of a bag can have.

    Parameters
    ----------
    low, high : arrays of shape (n_bags, k)
    bags : SampledBags

    Returns
    -------
    low, high : arrays of shape (n_bags, k)
        Those of bags whose instances have different weights are unchanged: any share may be near
        one that they can have.
    """
    m = bags.sizes.astype(np.float64)[:, None]
    equal = bags.effective_sizes[:, None] >= m * (1.0 - 1e-9)
    slack = 1e-6  # of an instance: a limit that is a share up to rounding stays there
    below, above = np.floor(low * m + slack) / m, np.ceil(high * m - slack) / m
    return np.where(equal, below, low), np.where(equal, above, high)


def widen_unsupported(
    low: Array, high: Array, bags: SampledBags, rare: NDArray[np.bool_]
) -> list[list[str]]:
    """Set limits without enough data to 0 and 1, in place, and return notes for each bag.

    Parameters
    ----------
    low, high : arrays of shape (n_bags, k)
        Changed in place.
    bags : SampledBags
    rare : bool array of shape (k,)
        Classes with fewer than two training instances.

    Returns
    -------
    list of n_bags lists of str

    Warns
    -----
    IntervalWarning
        If any limits were set.
    """
    notes: list[list[str]] = [[] for _ in range(len(bags))]
    single = np.flatnonzero(bags.n_units < 2).tolist()
    for number in single:
        low[number], high[number] = 0.0, 1.0
        notes[number].append(
            "the bag has one instance or cluster, which says almost nothing: limits are 0 and 1"
        )
    if single:
        _warn(f"{len(single)} bag(s) have a single instance or cluster; their limits are 0 and 1")
    if rare.any():
        low[:, rare], high[:, rare] = 0.0, 1.0
        remark = "a class with one training instance has limits 0 and 1"
        notes = [[*texts, remark] for texts in notes]
        _warn(
            f"{int(rare.sum())} class(es) have a single training instance, whose spread is "
            "unknown: their limits are 0 and 1, and those of the other classes are rough"
        )
    return notes


def _warn(message: str) -> None:
    warn(message, IntervalWarning, stacklevel=6)
