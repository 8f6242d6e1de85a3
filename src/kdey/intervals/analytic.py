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
from kdey.intervals.model import FittedModel
from kdey.intervals.moments import Moments, adapted, bag_moments, smoothed, training_moments
from kdey.intervals.sampled_bags import SampledBags
from kdey.intervals.score_interval import (
    freedom,
    score_interval,
    sum_over_classes,
    t_quantile,
    variance,
)


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
        return _each(self.moments, "spread")

    def covariance(self, bag: int, population: bool) -> Array:
        """Return the covariance of one bag's centre, shape (k, k)."""
        a, m, one = self.mix[bag], self.bag_sizes[bag], self.at(bag)
        worth = float(np.min(m))
        out = one.covariance(a / worth + a**2 / one.sizes)
        if population:
            out = out + (np.diag(a) - np.outer(a, a)) / worth
        return np.asarray(out)


def linearise_features(
    model: FittedModel, means: Array, rows: Array, bags: SampledBags
) -> Linearised:
    """Return the moment equation of every bag where rows are features (ACC, PACC).

    Parameters
    ----------
    model : FittedModel
    means : array of shape (n_bags, k)
        Mean row of every bag.
    rows : array of shape (pool_size, k)
    bags : SampledBags
    """
    moments = model.feature_moments
    effects = np.ones((len(means), model.n_classes))
    if bags.codes is not None:
        for number, bag in enumerate(bags):
            effects[number] = bag.design_effect(rows[bag.indices] @ moments.inverse.T)
    return linearised(means @ moments.inverse.T, effects, bags, [moments])


def linearise_likelihood(
    model: FittedModel, rows: Array, bags: SampledBags, estimates: Array
) -> Linearised:
    """Return the moment equation of every bag where rows are densities (EMQ, DIR, KDEy-ML).

    Parameters
    ----------
    model : FittedModel
    rows : array of shape (pool_size, k)
        Densities as ``model.hold`` gives them.
    bags : SampledBags
    estimates : array of shape (n_bags, k)
    """
    training, moments = model.class_rows, []
    # Features that look for rarer things than the training data can show would be all noise.
    least = np.inf if training is None else training.typical_size
    centre, effects = np.empty(estimates.shape), np.ones(estimates.shape)
    for number, bag in enumerate(bags):
        tilt = smoothed(estimates[number], min(bag.effective_size, least))
        own = rows[bag.indices]
        if training is None:
            one = bag_moments(own, bag.weights, tilt)
        else:
            one = training_moments(training, tilt)
        # The mean of the adapted posteriors, without making them.
        mean = tilt * ((bag.weights / (own @ tilt)) @ own)
        centre[number] = one.inverse @ mean
        if bag.clusters is not None:
            effects[number] = bag.design_effect(adapted(own, tilt) @ one.inverse.T)
        moments.append(one)
    return linearised(centre, effects, bags, moments)


def linearised(
    centre: Array, effects: Array, bags: SampledBags, moments: Sequence[Moments]
) -> Linearised:
    """Return the moment equation of bags from their centres, whose bias is taken off.

    Parameters
    ----------
    centre, effects : arrays of shape (n_bags, k)
        T^-1 q, and the design effects.
    bags : SampledBags
    moments : one per bag, or one for all
    """
    sizes = bags.effective_sizes
    mix = _inside(centre, sizes)
    centre = centre - sum_over_classes(_each(moments, "tilt"), mix / moments[0].sizes)
    mix = _inside(centre, sizes)
    units = (
        np.full(len(bags), np.inf) if bags.codes is None else np.maximum(bags.n_units - 1.0, 1.0)
    )
    return Linearised(centre, mix, sizes[:, None] / effects, units, moments)


def _inside(centre: Array, sizes: Array) -> Array:
    """Return moment estimates moved into the simplex, with no class absent."""
    inside = np.maximum(centre, 0.0)
    total = inside.sum(axis=1, keepdims=True)
    # Templates all but alike can send every class below zero: then nothing is known of the mix.
    uniform = np.full_like(inside, 1.0 / inside.shape[1])
    return smoothed(np.divide(inside, total, out=uniform, where=total > 0), sizes)


def _each(moments: Sequence[Moments], name: str) -> Array:
    """Return a field of the moments, shape (k, k), or (n_bags, k, k) where they differ."""
    if len(moments) == 1:
        return np.asarray(getattr(moments[0], name))
    return np.stack([getattr(one, name) for one in moments])


def degrees_of_freedom(line: Linearised, population: bool) -> Array:
    """Return those of every variance, shape (n_bags, k)."""
    n = line.moments[0].sizes
    total = variance(line.mix, line.spread, line.bag_sizes, n, population)
    known = _each(line.moments, "freedom")
    found = freedom(line.mix, line.spread, line.bag_sizes, n, known, total)
    return np.minimum(found, line.units[:, None])


def analytic_limits(line: Linearised, tail: float, population: bool) -> tuple[Array, Array]:
    """Return the limits of every class and bag, two arrays of shape (n_bags, k)."""
    quantile = t_quantile(tail, degrees_of_freedom(line, population))
    low, high = score_interval(
        line.centre,
        line.mix,
        line.spread,
        line.bag_sizes,
        line.moments[0].sizes,
        quantile,
        population,
    )
    for number, one in enumerate(line.moments):
        if one.confused.any():
            where = slice(None) if len(line.moments) == 1 else number
            low[where, one.confused], high[where, one.confused] = 0.0, 1.0
    return low, high
