r"""Bootstrap replicates of an estimate, for either target.

*Population.* Replicate b resamples the bag and, within classes, the training data; its estimate
:math:`\alpha^*_b` is one draw.

*Bag.* What is wanted is the share :math:`\bar y` of each class in this very bag, and the noise of
drawing a bag must not be counted. Replicate b gets labels too, each drawn instance one from its
posterior adapted to the estimate, and the draw is

.. math:: \hat\alpha + (\alpha^*_b - \bar y^*_b)

with :math:`\bar y^*_b` the shares of these labels. Where classes are told apart perfectly the
difference is zero however few instances the bag has. (The mean of :math:`\bar y^*` is taken for
:math:`\hat\alpha`, as adapted posteriors need not average to the estimate.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from kdey.bags import Array
from kdey.intervals.model import FittedModel
from kdey.intervals.moments import adapted
from kdey.intervals.options import IntervalOptions
from kdey.intervals.replicates import (
    REFITS,
    BagReplicates,
    Resolver,
    bag_counts,
    bag_generator,
    drawn_shares,
    resolver,
)

#: Numbers held at a time: instances x classes x replicates.
CHUNK = 1 << 24


def bootstrap_draws(model: FittedModel, given: BagReplicates, options: IntervalOptions) -> Array:
    """Return draws of the target around the estimate, shape (n_replicates, k)."""
    solve = resolver(model, given, options.resample_templates, options.random_state)
    membership = None if options.target == "population" else memberships(model, given)
    return draws_by(solve, given, options, membership, model.n_classes)


def draws_by(
    solve: Resolver,
    given: BagReplicates,
    options: IntervalOptions,
    membership: Array | None,
    n_classes: int,
) -> Array:
    """Return draws from any resolver; ``membership`` (m, k) makes the bag the target."""
    rng = bag_generator(options.random_state, given.estimate)
    step = max(1, CHUNK // (len(given.bag.indices) * n_classes))
    step = max(REFITS, step // REFITS * REFITS)  # a refit then serves a whole run of replicates
    parts = []
    for first in range(0, options.n_replicates, step):
        n = min(step, options.n_replicates - first)
        counts = bag_counts(given.bag, n, rng)
        found = solve(counts, first)
        if membership is not None:
            shares = drawn_shares(given.bag, counts, membership, rng)
            # Memberships need not average to the estimate: only their noise is wanted.
            found = found - (shares - given.bag.weights @ membership)
        parts.append(found)
    return np.concatenate(parts)


def memberships(model: FittedModel, given: BagReplicates) -> Array:
    """Return the posteriors of a bag's instances adapted to its estimate, shape (m, k)."""
    if model.likelihood is not None:
        return _adapted(model.hold(given.rows.each()), given.estimate)
    if not model.on_posteriors:
        raise ValueError(
            "target='bag' needs posteriors to tell which instance is of which class, and this "
            "method has none; use target='population'"
        )
    # Unknown (NaN) where the templates were given: the posteriors' own prior is then taken as even.
    prior = np.where(model.prevalence > 0, model.prevalence, 1.0)
    return _adapted(np.asarray(given.points, dtype=np.float64) / prior, given.estimate)


def _adapted(rows: Array, prevalence: Array) -> Array:
    joint = rows @ prevalence
    return adapted(np.where((joint > 0)[:, None], rows, 1.0), prevalence)


def bootstrap_limits(
    estimate: Array, draws: Array, tail: float, interval: str
) -> tuple[Array, Array]:
    """Return the limits of each class, two arrays of shape (k,), within [0, 1].

    Parameters
    ----------
    estimate : array of shape (k,)
    draws : array of shape (n, k)
    tail : float
        Probability left out at each end.
    interval : {"percentile", "bias-corrected", "basic"}
        Quantiles of the draws; quantiles moved by twice the median bias z0 (Efron, 1981);
        quantiles mirrored at the estimate.
    """
    low, high = np.full(len(estimate), tail), np.full(len(estimate), 1.0 - tail)
    if interval == "bias-corrected":
        shift = 2.0 * _median_bias(estimate, draws)
        low, high = ndtr(shift + ndtri(low)), ndtr(shift + ndtri(high))
    first, last = _quantiles(draws, low), _quantiles(draws, high)
    if interval == "basic":
        first, last = 2.0 * estimate - last, 2.0 * estimate - first
    return np.clip(first, 0.0, 1.0), np.clip(last, 0.0, 1.0)


def _median_bias(estimate: Array, draws: Array) -> Array:
    """Return z0: the normal quantile of the share of draws below the estimate, ties halved."""
    n = len(draws)
    below = (draws < estimate).sum(axis=0) + 0.5 * (draws == estimate).sum(axis=0)
    return np.asarray(ndtri(np.clip(below / n, 1.0 / (n + 1), n / (n + 1))))


def _quantiles(draws: Array, levels: NDArray[np.floating]) -> Array:
    return np.array([np.quantile(draws[:, i], level) for i, level in enumerate(levels)])
