"""Analytic intervals: the moment equation's centre, its sandwich variance, and closed limits.

Per bag this needs one product of the training rows with the estimate (for the likelihood methods;
nothing for ACC and PACC) and matrices of k x k, so that tables of many groups get intervals for
next to nothing. See ``moments.py`` for the equation and ``score_interval.py`` for the limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kdey.bags import Array
from kdey.inference.bag import Sampled
from kdey.inference.model import FittedModel
from kdey.inference.moments import Moments, adapted, bag_moments, smoothed, training_moments
from kdey.inference.score_interval import freedom, score_interval, t_quantile, variance


@dataclass(frozen=True, eq=False)
class Linearised:
    """Bags in the moment equation.

    Attributes
    ----------
    centre : array of shape (n_bags, k)
        Moment estimates; they sum to one but may leave the simplex.
    mix : array of shape (n_bags, k)
        Prevalences on the simplex without zeros, for variances.
    bag_sizes : array of shape (n_bags, k)
        Effective sizes, design effects included.
    units : array of shape (n_bags,)
        Degrees of freedom that the clusters leave; inf without clusters.
    moments : list of Moments, one per bag or one for all
    """

    centre: Array
    mix: Array
    bag_sizes: Array
    units: Array
    moments: Sequence[Moments]

    def at(self, bag: int) -> Moments:
        """Return the moments of one bag."""
        return self.moments[0 if len(self.moments) == 1 else bag]

    @property
    def spread(self) -> Array:
        """Spreads of shape (k, k), or (n_bags, k, k) where they differ."""
        if len(self.moments) == 1:
            return self.moments[0].spread
        return np.stack([one.spread for one in self.moments])

    def covariance(self, bag: int, population: bool) -> Array:
        """Return the covariance of one bag's centre, shape (k, k)."""
        a, m, one = self.mix[bag], self.bag_sizes[bag], self.at(bag)
        worth = float(np.min(m))
        out = one.covariance(a / worth + a**2 / one.sizes)
        if population:
            out = out + (np.diag(a) - np.outer(a, a)) / worth
        return np.asarray(out)


def linearise(
    model: FittedModel, rows: Array, bags: Sequence[Sampled], estimates: Array
) -> Linearised:
    """Return the moment equation of every bag.

    Parameters
    ----------
    model : FittedModel
    rows : array of shape (pool_size, k)
        Rows of the pool as ``model.hold`` gives them.
    bags : sequence of Sampled
    estimates : array of shape (n_bags, k)
    """
    sizes = np.array([bag.effective_size for bag in bags])
    moments: list[Moments] = []
    means, effects = [], []
    tilts = smoothed(estimates, sizes)
    for bag, tilt in zip(bags, tilts, strict=True):
        own, phi = _one(model, rows[bag.indices], bag, tilt, moments)
        moments.append(own)
        means.append(own.inverse @ (bag.weights @ phi))
        effects.append(bag.design_effect(phi @ own.inverse.T) if bag.clusters is not None else 1.0)
    centre = np.array(means)
    mix = np.maximum(centre, 0.0)
    mix = smoothed(mix / mix.sum(axis=1, keepdims=True), sizes)
    worth = sizes[:, None] / np.array([np.broadcast_to(e, centre.shape[1]) for e in effects])
    units = np.array([np.inf if bag.clusters is None else bag.n_units - 1.0 for bag in bags])
    shared = moments[:1] if not model.is_likelihood else moments
    return Linearised(centre, mix, worth, units, shared)


def _one(
    model: FittedModel, rows: Array, bag: Sampled, tilt: Array, before: list[Moments]
) -> tuple[Moments, Array]:
    """Return the moments and the features of one bag."""
    training = model.class_rows
    if not model.is_likelihood:
        assert training is not None  # what is_analytic asks for
        return (before[0] if before else training_moments(training, None)), rows
    phi = adapted(rows, tilt)
    if training is None:
        return bag_moments(rows, bag.weights, tilt), phi
    return training_moments(training, tilt), phi


def analytic_limits(line: Linearised, tail: float, population: bool) -> tuple[Array, Array]:
    """Return the limits of every class and bag, two arrays of shape (n_bags, k)."""
    first = line.moments[0]
    spread, m, n = line.spread, line.bag_sizes, first.sizes
    total = variance(line.mix, spread, m, n, population)
    degrees = freedom(line.mix, spread, m, n, first.freedom, total)
    degrees = np.minimum(degrees, line.units[:, None])
    quantile = t_quantile(tail, degrees)
    low, high = score_interval(line.centre, line.mix, spread, m, n, quantile, population)
    for bag in range(len(low)):
        confused = line.at(bag).confused
        low[bag, confused], high[bag, confused] = 0.0, 1.0
    return low, high
