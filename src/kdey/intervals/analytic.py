"""Analytic intervals: centre and sandwich variance of the moment equation, limits in closed form.

For each bag the likelihood methods need one product of the training rows with the estimate, and ACC
and PACC need nothing; the rest are k x k matrices. Intervals of many groups therefore cost little
more than their estimates. ``moments.py`` explains the equation, ``score_interval.py`` the limits.
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
    """The moment equation of every bag.

    Attributes
    ----------
    centre : array of shape (n_bags, k)
        Moment estimates; they sum to one but may leave the simplex.
    mix : array of shape (n_bags, k)
        Prevalences on the simplex without zeros, at which variances are computed.
    bag_sizes : array of shape (n_bags, k)
        Effective sizes, divided by the design effects.
    units : array of shape (n_bags,)
        Degrees of freedom that the clusters leave; inf without clusters.
    moments : sequence of Moments
        One per bag, or a single one that all bags share.
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
        """Variances within classes, shape (k, k), or (n_bags, k, k) if bags differ."""
        return _stacked(self.moments, "spread")

    def covariance(self, bag: int, population: bool) -> Array:
        """Return the covariance of one bag's centre, shape (k, k)."""
        a, moments = self.mix[bag], self.at(bag)
        m = float(np.min(self.bag_sizes[bag]))
        covariance = moments.covariance(a / m + a**2 / moments.sizes)
        if population:
            covariance = covariance + (np.diag(a) - np.outer(a, a)) / m
        return np.asarray(covariance)


def linearise_features(
    model: FittedModel, means: Array, rows: Array, bags: SampledBags
) -> Linearised:
    """Return the moment equation of every bag for methods whose rows are features (ACC, PACC).

    Parameters
    ----------
    model : FittedModel
    means : array of shape (n_bags, k)
        Mean row of every bag.
    rows : array of shape (pool_size, k)
        Needed for the design effects of bags drawn in clusters.
    bags : SampledBags

    Returns
    -------
    Linearised
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
    """Return the moment equation of every bag for methods whose rows are densities.

    These are the likelihood methods: EMQ, DIR and KDEy-ML.

    Parameters
    ----------
    model : FittedModel
    rows : array of shape (pool_size, k)
        Densities as ``model.moment_rows`` returns them.
    bags : SampledBags
    estimates : array of shape (n_bags, k)

    Returns
    -------
    Linearised
    """
    training, all_moments = model.class_rows, []
    # A prevalence far below 1 / n makes features of events that n training instances hardly show,
    # so that their means would be noise: we smooth by the training size where it is the smaller.
    largest_size = np.inf if training is None else training.typical_size
    centre, effects = np.empty(estimates.shape), np.ones(estimates.shape)
    for number, bag in enumerate(bags):
        prevalence = smoothed(estimates[number], min(bag.effective_size, largest_size))
        bag_rows = rows[bag.indices]
        if training is None:
            moments = bag_moments(bag_rows, bag.weights, prevalence)
        else:
            moments = training_moments(training, prevalence)
        # The mean of the adapted posteriors, computed without an array of all of them.
        mean = prevalence * ((bag.weights / (bag_rows @ prevalence)) @ bag_rows)
        centre[number] = moments.inverse @ mean
        if bag.clusters is not None:
            z = adapted(bag_rows, prevalence) @ moments.inverse.T
            effects[number] = bag.design_effect(z)
        all_moments.append(moments)
    return linearised(centre, effects, bags, all_moments)


def linearised(
    centre: Array, effects: Array, bags: SampledBags, moments: Sequence[Moments]
) -> Linearised:
    """Return the moment equation of bags from their centres, after bias correction.

    Parameters
    ----------
    centre : array of shape (n_bags, k)
        T^-1 q.
    effects : array of shape (n_bags, k)
        Design effects, one without clusters.
    bags : SampledBags
    moments : sequence of Moments
        One per bag, or a single one that all bags share.

    Returns
    -------
    Linearised
    """
    sizes = bags.effective_sizes
    mix = _inside_simplex(centre, sizes)
    centre = centre - sum_over_classes(_stacked(moments, "bias"), mix / moments[0].sizes)
    mix = _inside_simplex(centre, sizes)
    units = (
        np.full(len(bags), np.inf) if bags.codes is None else np.maximum(bags.n_units - 1.0, 1.0)
    )
    return Linearised(centre, mix, sizes[:, None] / effects, units, moments)


def _inside_simplex(centre: Array, sizes: Array) -> Array:
    """Return moment estimates (n_bags, k) moved into the simplex, every class above zero."""
    inside = np.maximum(centre, 0.0)
    total = inside.sum(axis=1, keepdims=True)
    # Nearly equal templates can push every class below zero: the mix is then unknown.
    uniform = np.full_like(inside, 1.0 / inside.shape[1])
    return smoothed(np.divide(inside, total, out=uniform, where=total > 0), sizes)


def _stacked(moments: Sequence[Moments], name: str) -> Array:
    """Return a field of the moments, shape (k, k), or (n_bags, k, k) if there are several."""
    if len(moments) == 1:
        return np.asarray(getattr(moments[0], name))
    return np.stack([getattr(item, name) for item in moments])


def degrees_of_freedom(line: Linearised, population: bool) -> Array:
    """Return the degrees of freedom of every variance, shape (n_bags, k)."""
    n = line.moments[0].sizes
    total = variance(line.mix, line.spread, line.bag_sizes, n, population)
    class_freedom = _stacked(line.moments, "freedom")
    degrees = freedom(line.mix, line.spread, line.bag_sizes, n, class_freedom, total)
    return np.minimum(degrees, line.units[:, None])


def analytic_limits(line: Linearised, tail: float, population: bool) -> tuple[Array, Array]:
    """Return the limits of every class and bag, two arrays of shape (n_bags, k).

    Parameters
    ----------
    line : Linearised
    tail : float
        Probability outside each end.
    population : bool
        Whether the target is the population; otherwise it is the bag.

    Returns
    -------
    low, high : arrays of shape (n_bags, k)
        0 and 1 for classes that the moments cannot distinguish from mixtures of others.
    """
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
    for number, moments in enumerate(line.moments):
        if moments.confused.any():
            bags = slice(None) if len(line.moments) == 1 else number
            low[bags, moments.confused], high[bags, moments.confused] = 0.0, 1.0
    return low, high
