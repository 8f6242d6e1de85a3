r"""Bootstrap intervals: draws of an estimate for either target, and limits from draws.

*Population.* Replicate b resamples the bag and, within classes, the training data; its estimate
:math:`\alpha^*_b` is one draw.

*Bag.* The target is the share :math:`\bar y` of each class in this very bag, so the noise of
drawing a bag must not count. Every instance in replicate b gets a label, drawn from its posterior
adapted to the estimate, and the draw is

.. math:: \hat\alpha + (\alpha^*_b - \bar y^*_b)

with :math:`\bar y^*_b` the shares of these labels. If classes are perfectly separable the
difference is zero however few instances the bag has. (We use the mean of :math:`\bar y^*` in place
of :math:`\hat\alpha`, because adapted posteriors need not average to the estimate.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from kdey.bags import Array
from kdey.intervals.moment_rows import moment_rows
from kdey.intervals.moments import adapted
from kdey.intervals.replicates import (
    REFITS,
    EstimatedBag,
    ReplicateSolver,
    bag_counts,
    bag_generator,
    drawn_shares,
    replicate_solver,
)
from kdey.model import Model
from kdey.options import Options

#: Numbers in memory at a time: instances x classes x replicates.
CHUNK = 1 << 24


def bootstrap_draws(model: Model, bag: EstimatedBag, options: Options, n_threads: int = 1) -> Array:
    """Return draws of the target around the estimate, shape (n_replicates, k).

    Parameters
    ----------
    model : Model
    bag : EstimatedBag
    options : Options

    Returns
    -------
    array of shape (n_replicates, k)

    Raises
    ------
    ValueError
        If the target is the bag and the method has no posteriors.
    """
    solve = replicate_solver(
        model, bag, options.resample_templates, options.random_state, n_threads
    )
    membership = None if options.target == "population" else memberships(model, bag)
    return draws_by(solve, bag, options, membership, model.n_classes)


def draws_by(
    solve: ReplicateSolver,
    bag: EstimatedBag,
    options: Options,
    membership: Array | None,
    n_classes: int,
) -> Array:
    """Return draws of the target from any solver of replicates, shape (n_replicates, k).

    Parameters
    ----------
    solve : ReplicateSolver
    bag : EstimatedBag
    options : Options
    membership : array of shape (m, k) or None
        Class probabilities of the instances if the target is the bag; None if it is the
        population.
    n_classes : int

    Returns
    -------
    array of shape (n_replicates, k)
    """
    rng = bag_generator(options.random_state, bag.estimate)
    step = max(1, CHUNK // (len(bag.sampled.indices) * n_classes))
    step = max(REFITS, step // REFITS * REFITS)  # so that a refit serves many replicates
    parts = []
    for first in range(0, options.n_replicates, step):
        n = min(step, options.n_replicates - first)
        counts = bag_counts(bag.sampled, n, rng)
        draws = solve(counts, first)
        if membership is not None:
            shares = drawn_shares(bag.sampled, counts, membership, rng)
            # Memberships need not average to the estimate, so we subtract their mean.
            draws = draws - (shares - bag.sampled.weights @ membership)
        parts.append(draws)
    return np.concatenate(parts)


def memberships(model: Model, bag: EstimatedBag) -> Array:
    """Return the posteriors of a bag's instances adapted to its estimate, shape (m, k)."""
    if model.likelihood is not None:
        return _adapted(moment_rows(model, bag.rows.each()), bag.estimate)
    if not model.takes_posteriors:
        raise ValueError(
            "target='bag' needs posteriors, which say how likely each instance is of each class, "
            "and this method has none; use target='population'"
        )
    # The prevalence is NaN if the user supplied the templates; we then assume a uniform prior.
    prior = np.where(model.prevalence > 0, model.prevalence, 1.0)
    return _adapted(np.asarray(bag.points, dtype=np.float64) / prior, bag.estimate)


def _adapted(rows: Array, prevalence: Array) -> Array:
    """Return adapted posteriors (m, k), uniform densities standing for rows without mass."""
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
        Probability outside each end.
    interval : {"percentile", "bias-corrected", "basic"}
        Quantiles of the draws; quantiles moved by twice the median bias z0 (Efron, 1981);
        quantiles mirrored at the estimate.

    Returns
    -------
    low, high : arrays of shape (k,)
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
    """Return z0: the normal quantile of the share of draws below the estimate.

    Draws equal to the estimate count half.
    """
    n = len(draws)
    below = (draws < estimate).sum(axis=0) + 0.5 * (draws == estimate).sum(axis=0)
    return np.asarray(ndtri(np.clip(below / n, 1.0 / (n + 1), n / (n + 1))))


def _quantiles(draws: Array, levels: NDArray[np.floating]) -> Array:
    return np.array([np.quantile(draws[:, i], level) for i, level in enumerate(levels)])
