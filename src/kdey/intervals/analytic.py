"""Analytic limits: the moment equation of every bag, and the limits that follow from it.

For each bag the likelihood methods need one product of the training rows with the estimate, and ACC
and PACC need nothing; the rest are matrices of k rows. ``moments.py`` explains the equation,
``profile.py`` the limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kdey._parallel import as_tensor
from kdey.bags import Array
from kdey.intervals.moment_rows import feature_moments, moment_map, moment_training_rows
from kdey.intervals.moments import (
    MomentEquations,
    Moments,
    adapted,
    adapting_prevalence,
    bag_moments,
    moments_of,
    smoothed,
    training_moments,
)
from kdey.intervals.profile import profile_limits
from kdey.intervals.sampled_bags import SampledBags
from kdey.model import Model
from kdey.rows.base import Rows


def linearise_features(
    model: Model,
    means: Array,
    rows: Rows,
    bags: SampledBags,
    estimates: Array,
    n_threads: int = 1,
) -> MomentEquations:
    """Return the moment equation of every bag for methods whose rows are features (ACC, PACC).

    Parameters
    ----------
    model : Model
    means : array of shape (n_bags, k)
        Mean row of every bag.
    rows : Rows
        Of the pool; needed for the design effects of bags drawn in clusters.
    bags : SampledBags
    estimates : array of shape (n_bags, k)

    Returns
    -------
    MomentEquations
    """
    moments = feature_moments(model, n_threads)
    effects = np.ones(estimates.shape)
    if bags.codes is not None:
        each = rows.each()
        for number, bag in enumerate(bags):
            effects[number] = bag.design_effect(each[bag.indices] @ moments.inverse.T)
    return linearised(means, estimates, effects, bags, [moments])


def linearise_likelihood(
    model: Model, rows: Array, bags: SampledBags, estimates: Array, n_threads: int = 1
) -> MomentEquations:
    """Return the moment equation of every bag for the likelihood methods: EMQ, DIR, KDEy-ML.

    Parameters
    ----------
    model : Model
    rows : array of shape (pool_size, k)
        As :func:`~kdey.intervals.moment_rows.moment_densities` returns them.
    bags : SampledBags
    estimates : array of shape (n_bags, k)

    Returns
    -------
    MomentEquations
    """
    training, all_moments = moment_training_rows(model, n_threads), []
    means, effects = np.empty(estimates.shape), np.ones(estimates.shape)
    prevalences = adapting_prevalence(estimates, bags.effective_sizes, training)
    for number, bag in enumerate(bags):
        prevalence, bag_rows = prevalences[number], rows[bag.indices]
        if training is None:
            moments = bag_moments(bag_rows, bag.weights, prevalence)
        else:
            moments = training_moments(training, prevalence)
        # The mean of the adapted posteriors, computed without an array of all of them.
        means[number] = prevalence * ((bag.weights / (bag_rows @ prevalence)) @ bag_rows)
        if bag.clusters is not None:
            z = adapted(bag_rows, prevalence) @ moments.inverse.T
            effects[number] = bag.design_effect(z)
        all_moments.append(moments)
    return linearised(means, estimates, effects, bags, all_moments)


def linearise_likelihood_on(
    model: Model, points: Any, bags: SampledBags, estimates: Array, device: Any
) -> MomentEquations:
    """Return :func:`linearise_likelihood` for bags without clusters, computed on a device.

    Parameters
    ----------
    model : Model
        Its moment map must have rows on tensors, and training rows.
    points : array or tensor of shape (pool_size, k)
        Posteriors.
    bags : SampledBags
    estimates : array of shape (n_bags, k)
    device : torch.device

    Returns
    -------
    MomentEquations
    """
    from kdey.gpu.bags import (
        SortedRows,  # imports torch
        adapted_bag_means,  # imports torch
        batch_moments,  # imports torch
    )

    training = moment_training_rows(model)
    assert training is not None, "calibrated moments come from training rows"
    prevalences = adapting_prevalence(estimates, bags.effective_sizes, training)
    densities = moment_map(model).tensor_rows(as_tensor(points, device))
    means = adapted_bag_means(densities, bags.bags, prevalences)
    thin = training.thin_weights
    batch = batch_moments(
        SortedRows(training.rows, training.weights, training.offsets),
        SortedRows(training.thin_rows, thin.weights, thin.offsets),
        prevalences,
        device,
    )
    moments = [
        moments_of(training, prevalence, matrix, covariances)
        for prevalence, matrix, covariances in zip(
            prevalences, batch.matrices, batch.covariances, strict=True
        )
    ]
    return linearised(means, estimates, np.ones(estimates.shape), bags, moments)


def linearised(
    means: Array, estimates: Array, effects: Array, bags: SampledBags, moments: Sequence[Moments]
) -> MomentEquations:
    """Return the moment equation of bags.

    Parameters
    ----------
    means : array of shape (n_bags, r)
        Mean features q.
    estimates : array of shape (n_bags, k)
    effects : array of shape (n_bags, k)
        Design effects, one without clusters.
    bags : SampledBags
    moments : sequence of Moments
        One per bag, or a single one that all bags share.

    Returns
    -------
    MomentEquations
    """
    sizes = bags.effective_sizes
    units = (
        np.full(len(bags), np.inf) if bags.codes is None else np.maximum(bags.n_units - 1.0, 1.0)
    )
    return MomentEquations(means, estimates, sizes, sizes[:, None] / effects, units, moments)


@dataclass(frozen=True, eq=False)
class AnalyticLimits:
    """What the moment equations of all bags give.

    Attributes
    ----------
    equations : MomentEquations
    low, high : arrays of shape (n_bags, k)
    moment_estimates : array of shape (n_bags, k)
        Prevalences that fit the moment equation best, inside the simplex.
    population : bool
        Whether the target is the population; otherwise it is the bag.
    """

    equations: MomentEquations
    low: Array
    high: Array
    moment_estimates: Array
    population: bool

    def mix(self, bag: int) -> Array:
        """Return a prevalence without zeros at which variances of one bag are taken, (k,)."""
        return smoothed(self.moment_estimates[bag], self.equations.sizes[bag])

    def centre(self, bag: int) -> Array:
        """Return the unconstrained moment estimate of one bag, shape (k,)."""
        return self.equations.centre(bag, self.mix(bag))

    def covariance(self, bag: int) -> Array:
        """Return the covariance of :meth:`centre`, shape (k, k)."""
        return self.equations.covariance(bag, self.mix(bag), self.population)

    def template_errors(self, bag: int) -> TemplateErrors:
        """Return the errors of one bag's centre that are due to the templates."""
        return TemplateErrors(self.equations.at(bag), self.mix(bag))

    def sampling_variance(self, bag: int) -> Array:
        """Return the variance of each class of :meth:`centre` with exact templates, (k,)."""
        mix, m = self.mix(bag), float(np.min(self.equations.bag_sizes[bag]))
        covariance = self.equations.at(bag).covariance(mix / m, np.zeros(len(mix)))
        population = mix * (1.0 - mix) / m if self.population else 0.0
        return np.asarray(np.diag(covariance) + population)

    def freedom(self, bag: int) -> Array:
        """Return the degrees of freedom of each class's variance, shape (k,)."""
        return self.equations.freedom(bag, self.mix(bag), self.population)


@dataclass(frozen=True, eq=False)
class TemplateErrors:
    """The errors of one bag's moment estimate that are due to the templates.

    Bags that are estimated by the same templates have such errors in common.

    Attributes
    ----------
    moments : Moments
    mix : array of shape (k,)
        A prevalence near the truth.
    """

    moments: Moments
    mix: Array

    def covariance(self, other: TemplateErrors | None = None) -> Array:
        """Return their covariance with those of another bag, by default the variance, (k, k)."""
        sizes = self.moments.sizes
        if not np.isfinite(sizes).all():
            return np.zeros((len(sizes), len(sizes)))
        if other is None:
            return self.moments.covariance(np.zeros(len(sizes)), self.mix**2 / sizes)
        return self.moments.cross(other.moments, self.mix * other.mix / sizes)


def analytic_limits(
    equations: MomentEquations, tail: float, population: bool, n_threads: int = 1
) -> AnalyticLimits:
    """Return the limits of every class and bag.

    Parameters
    ----------
    equations : MomentEquations
    tail : float
        Probability outside each end.
    population : bool
        Whether the target is the population; otherwise it is the bag.
    n_threads : int

    Returns
    -------
    AnalyticLimits
    """
    low, high, moment_estimates = profile_limits(equations, tail, population, n_threads)
    return AnalyticLimits(equations, low, high, moment_estimates, population)
