r"""Analytic limits: the moment equation of every bag, and the limits that follow from it.

For each bag the likelihood methods need one product of the training rows with the estimate, and ACC
and PACC need nothing; the rest are matrices of k rows. ``moments.py`` explains the equation,
``profile.py`` the limits.

Analytic limits of any method on mean rows, by numerical derivatives of its matching.

Let g map a mean row q to the estimate, and let column l of T be the mean row of training class l.
A method that answers a mixture of the classes with its prevalence has :math:`g(T \alpha) = \alpha`,
so that its derivative J satisfies :math:`J (T_l - T_m) = e_l - e_m` wherever it is taken, and

.. math:: c = \tilde\alpha + J (q - T \tilde\alpha)

is free of bias to first order: the moment equation of ``moments.py`` with J for the inverse of T.
J is taken by central differences at a point :math:`\tilde\alpha` inside the simplex, along the
directions in which training rows differ. Where it does not exist (two step lengths disagree, or g
does not return the prevalence of a mixture) there are no such limits, and a bootstrap is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey._parallel import as_tensor
from kdey.bags import Array, Bags
from kdey.intervals.class_rows import ClassRows
from kdey.intervals.moment_rows import (
    feature_moments,
    moment_map,
    moment_training_rows,
    training_rows,
)
from kdey.intervals.moments import (
    MomentEquations,
    Moments,
    adapted,
    adapting_prevalence,
    bag_moments,
    moments_of,
    projected_moments,
    smoothed,
    training_moments,
)
from kdey.intervals.profile import profile_limits
from kdey.intervals.sampled_bags import SampledBags
from kdey.model import Model
from kdey.rows.base import ArrayRows, CompositeRows, Rows


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


#: Share of the uniform prevalence in the point at which derivatives are taken, so that steps stay
#: inside the simplex.
INSIDE = 0.1
#: Length of a step, in standard deviations of the training rows along its direction.
STEP = 0.02
#: We ignore directions in which rows differ by less than this share of the largest difference.
FLAT = 1e-7
#: Largest accepted error of derivatives (between two step lengths) and of returned mixtures.
TOLERANCE = 0.05
#: With longer rows than this a bootstrap is cheaper.
WIDEST = 512


def linearise_matching(
    model: Model,
    means: Array,
    bags: SampledBags,
    estimates: Array,
    rows: Rows | None = None,
    n_threads: int = 1,
) -> MomentEquations | None:
    """Return the moment equation of every bag; None if a derivative does not exist.

    Parameters
    ----------
    model : Model
        Has training rows, and a matching that summarises a bag by its mean row.
    means : array of shape (n_bags, r)
        Mean row of every bag.
    bags : SampledBags
    estimates : array of shape (n_bags, k)
    rows : Rows, optional
        Rows of the pool, needed if the bags were drawn in clusters.

    Returns
    -------
    MomentEquations or None
    """
    training = training_rows(model, n_threads)
    if training is None or training.rows.shape[1] > WIDEST:
        return None
    directions = Directions.of(training)
    centres, effects = np.empty(estimates.shape), np.ones(estimates.shape)
    moments: list[Moments] = []
    for number in range(len(bags)):
        inside = (1.0 - INSIDE) * estimates[number] + INSIDE / model.n_classes
        derivative = directions.derivative(model, inside, n_threads)
        if derivative is None:
            return None
        moments.append(projected_moments(training, derivative))
        centres[number] = inside + derivative @ (means[number] - directions.means @ inside)
        if rows is not None and bags.codes is not None:
            bag = bags[number]
            effects[number] = bag.design_effect(rows.each()[bag.indices] @ derivative.T)
    return linearised(centres, estimates, effects, bags, moments)


@dataclass(frozen=True, eq=False)
class Directions:
    """The directions in which training rows differ.

    Attributes
    ----------
    means : array of shape (r, k)
        Mean row of each class: T.
    basis : array of shape (r, d)
        Orthonormal directions.
    lengths : array of shape (d,)
        Standard deviation of the rows along each.
    """

    means: Array
    basis: Array
    lengths: Array

    @classmethod
    def of(cls, training: ClassRows) -> Directions:
        """Return the directions of training rows, by a singular value decomposition."""
        rows = training.rows.astype(np.float64)
        weighted = rows * training.weights.astype(np.float64)[:, None]
        means = np.add.reduceat(weighted, training.offsets[:-1]).T
        centred = training.thin_rows.astype(np.float64) - means.mean(axis=1)
        _, values, right = np.linalg.svd(centred, full_matrices=False)
        kept = values > FLAT * max(values[0], np.finfo(np.float64).tiny)
        return cls(means, right[kept].T, values[kept] / np.sqrt(len(centred)))

    def derivative(self, model: Model, prevalence: Array, n_threads: int = 1) -> Array | None:
        """Return the derivative of the estimate by the mean row, (k, r); None if there is none."""
        long = self._difference(model, prevalence, STEP, n_threads)
        short = self._difference(model, prevalence, STEP / 2.0, n_threads)
        if long is None or short is None:
            return None
        tangent = np.eye(len(prevalence)) - 1.0 / len(prevalence)
        returned = short @ self.means @ tangent
        scale = np.abs(short * self._spread).max()
        smooth = np.abs((long - short) * self._spread).max() <= TOLERANCE * scale
        consistent = np.abs(returned - tangent).max() <= TOLERANCE
        return short if smooth and consistent else None

    @property
    def _spread(self) -> Array:
        """Standard deviation of each number of a row, shape (r,)."""
        return np.asarray(np.sqrt((self.basis**2) @ self.lengths**2))

    def _difference(
        self, model: Model, prevalence: Array, step: float, n_threads: int
    ) -> Array | None:
        """Return central differences of one step length, shape (k, r); None if they fail."""
        middle = self.means @ prevalence
        moves = step * (self.basis * self.lengths).T
        try:
            answers = match_means(
                model, np.concatenate([middle[None], middle + moves, middle - moves]), n_threads
            )
        except ValueError:  # A step left the domain of the problem: there is no derivative.
            return None
        d = len(moves)
        if np.abs(answers[0] - prevalence).max() > TOLERANCE * INSIDE:
            return None
        slopes = (answers[1 : d + 1] - answers[d + 1 :]) / (2.0 * step * self.lengths[:, None])
        return np.asarray(slopes.T @ self.basis.T)


def match_means(model: Model, means: NDArray[np.floating], n_threads: int = 1) -> Array:
    """Return the prevalences (n, k) of n bags that are known by their mean rows (n, r) only."""
    n = len(means)
    single = Bags(np.arange(n, dtype=np.int64), np.arange(n + 1, dtype=np.int64), n)
    rows: Rows = ArrayRows(np.asarray(means, dtype=np.float64))
    if model.row_map.is_composite:
        rows = CompositeRows((rows,) * len(model.row_map.members))
    return model.matching.match(model.row_map, rows, single, n_threads).prevalence
