r"""Analytic intervals: from a model and bags to their moment equations.

``moments.py`` explains the equation and ``profile.py`` the intervals that follow from it. For each
bag the likelihood methods need one product of the training rows with the estimate, and ACC and PACC
need nothing; the rest are matrices of k rows.

**Rows.** Any features give a valid moment equation, but not an equally sharp one. Those of a kernel
density fail with few labels: eight kernels send the other points of their class to the majority,
and leave-one-out rows of seven kernels are not those of eight. Calibrated posteriors have k + 1
parameters only, and are close to the efficient score of the bag's likelihood whichever method
estimates it. All likelihood methods on posteriors therefore share them. What is computed from the
training data is computed once per model.

**Any other method on mean rows** has numerical derivatives of its matching.

Let g map a mean row q to the estimate, and let column l of T be the mean row of training class l.
A method that answers a mixture of the classes with its prevalence has :math:`g(T \alpha) = \alpha`,
so that its derivative J satisfies :math:`J (T_l - T_m) = e_l - e_m` wherever it is taken, and

.. math:: c = \tilde\alpha + J (q - T \tilde\alpha)

is free of bias to first order: the moment equation of ``moments.py`` with J for the inverse of T.
J is taken by central differences at a point :math:`\tilde\alpha` inside the simplex, along the
directions in which training rows differ. Where it does not exist (two step lengths disagree, or g
does not return the prevalence of a mixture) there is no such interval, and a bootstrap is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kdey._display import muted
from kdey.bags import Array, Bags, SampledBag, SampledBags
from kdey.calibration import BCTS, Minimum
from kdey.intervals.many_classes import many_bag_moments, many_training_moments
from kdey.intervals.moments import (
    MOST_CLASSES,
    ClassRows,
    MomentEquations,
    Moments,
    adapted,
    adapting_prevalence,
    bag_moments,
    class_rows,
    moments_of,
    projected_moments,
    smoothed,
    training_moments,
)
from kdey.intervals.region import (
    TEMPLATE_DRAWS,
    Region,
    Uncertainty,
    region_from_covariance,
)
from kdey.model import Model
from kdey.posteriors import TrainingPosteriors
from kdey.rows import ArrayRows, CompositeRows, RowMap, Rows
from kdey.rows.posterior import RatioMap
from kdey.validation import as_tensor


class RegularisedBCTS(BCTS):
    """BCTS to labels of which one in all, spread over the classes, is taken to be wrong.

    Without it the scale grows without bound where the training posteriors separate the classes, and
    posteriors between those of training would depend on where the fit happened to stop.
    """

    def _minimise(self, p: Array, hot: Array, weights: Array) -> Minimum:
        effective_size = float(weights.sum() ** 2 / (weights**2).sum())
        wrong = 1.0 / (effective_size + 1.0)
        return super()._minimise(p, (1.0 - wrong) * hot + wrong / p.shape[1], weights)


def calibrated_map(training: TrainingPosteriors, n_classes: int) -> RatioMap:
    """Return the map from posteriors to calibrated posteriors over training prevalences.

    Parameters
    ----------
    training : TrainingPosteriors
    n_classes : int

    Returns
    -------
    RatioMap
        Its rows are proportional to the class densities.
    """
    with muted(UserWarning):  # any features are valid, those of an unfinished fit too
        return RatioMap(RegularisedBCTS()).fit(training, n_classes)


def moment_map(model: Model) -> RowMap:
    """Return the map whose rows are the densities or features of the moment equation.

    Likelihood methods on posteriors share calibrated posteriors, whichever rows and however many
    members they have; all others have their own rows, and so have pools of scores by several
    models, whose rows are calibrated posteriors.
    """
    training, k = model.training, model.n_classes
    if model.likelihood is None or not (model.takes_posteriors and model.is_learnt):
        return model.row_map
    assert training is not None
    if training.required().shape[1] != k:
        return model.row_map  # scores of several models, which the rows pool and calibrate
    return model.derived("moment map", lambda: calibrated_map(training, k))


def has_calibrated_moments(model: Model) -> bool:
    """Return whether the moment equation has rows of its own."""
    return moment_map(model) is not model.row_map


def training_rows(model: Model, n_threads: int = 1) -> ClassRows | None:
    """Return rows of the training instances as if these were new; None if nothing was learnt."""
    training = model.training
    if training is None or not model.is_learnt:
        return None
    own = partial(moment_rows, model)
    return model.derived(
        "class rows", lambda: class_rows(model.row_map, training, model.n_classes, own, n_threads)
    )


def moment_training_rows(model: Model, n_threads: int = 1) -> ClassRows | None:
    """As :func:`training_rows`, for the rows of the moment equation."""
    training, row_map = model.training, moment_map(model)
    if row_map is model.row_map:
        return training_rows(model, n_threads)
    assert training is not None
    plain = partial(densities, logs=False)
    return model.derived(
        "moment class rows",
        lambda: class_rows(row_map, training, model.n_classes, plain, n_threads),
    )


def feature_moments(model: Model, n_threads: int = 1) -> Moments:
    """Return the moments of rows that are features, which are the same for every bag."""
    rows = training_rows(model, n_threads)
    if rows is None:
        raise ValueError(
            "analytic intervals need training posteriors: fit with a cv that is not None, or "
            "use method='bootstrap'"
        )
    learn = training_moments if model.n_classes <= MOST_CLASSES else many_training_moments
    return model.derived("feature moments", lambda: learn(rows, None))


def moment_densities(model: Model, points: NDArray[Any], n_threads: int = 1) -> Array:
    """Return the densities (m, k) of points (m, d) in the moment equation of a likelihood."""
    rows = moment_map(model)(points, n_threads).each()
    return (
        densities(rows, logs=False) if has_calibrated_moments(model) else moment_rows(model, rows)
    )


def moment_rows(model: Model, rows: NDArray[np.floating]) -> Array:
    """Return rows of the model as the moment equation needs them: relative densities, or features.

    Parameters
    ----------
    model : Model
    rows : array of shape (n, r)
        As the row map of the model returns them.
    """
    if model.likelihood is None:
        return np.asarray(rows, dtype=np.float64)
    return densities(rows, model.likelihood.log_rows)


def densities(rows: NDArray[np.floating], logs: bool) -> Array:
    """Return class densities relative to the largest of each row.

    Parameters
    ----------
    rows : array of shape (n, k)
        Densities, or their logarithms.
    logs : bool
        Whether the rows are logarithms.

    Returns
    -------
    array of shape (n, k)
        Rows without any positive density become ones, as they say nothing about the classes.
    """
    array = np.asarray(rows, dtype=np.float64)
    if logs:
        largest = array.max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            array = np.exp(array - np.where(np.isneginf(largest), 0.0, largest))
    else:
        largest = array.max(axis=1, keepdims=True)
        array = array / np.where(largest > 0, largest, 1.0)
    empty = ~(array.max(axis=1) > 0)
    if empty.any():
        array[empty] = 1.0
    return array


def linearise_features(
    model: Model, rows: Rows, bags: SampledBags, estimates: Array, n_threads: int = 1
) -> MomentEquations:
    """Return the moment equation of every bag for methods whose rows are features (ACC, PACC).

    Parameters
    ----------
    model : Model
    rows : Rows
        Of the pool.
    bags : SampledBags
    estimates : array of shape (n_bags, k)

    Returns
    -------
    MomentEquations
    """
    moments = feature_moments(model, n_threads)

    def shares(number: int, bag: SampledBag) -> Array:
        return np.asarray(rows.each()[bag.indices] @ moments.inverse.T)

    return linearised(rows.mean(bags.bags), estimates, bags, [moments], shares)


def linearise_likelihood(
    model: Model, rows: Array, bags: SampledBags, estimates: Array, n_threads: int = 1
) -> MomentEquations:
    """Return the moment equation of every bag for the likelihood methods: EMQ, DIR, KDEy-ML.

    Parameters
    ----------
    model : Model
    rows : array of shape (pool_size, k)
        As :func:`moment_densities` returns them.
    bags : SampledBags
    estimates : array of shape (n_bags, k)

    Returns
    -------
    MomentEquations
    """
    training, has_many = moment_training_rows(model, n_threads), model.n_classes > MOST_CLASSES
    means, moments = np.empty(estimates.shape), list[Moments]()
    prevalences = adapting_prevalence(estimates, bags.effective_sizes, training)
    for number, bag in enumerate(bags):
        prevalence, bag_rows = prevalences[number], rows[bag.indices]
        if training is None:
            learn_bag = many_bag_moments if has_many else bag_moments
            moments.append(learn_bag(bag_rows, bag.weights, prevalence))
        else:
            learn = many_training_moments if has_many else training_moments
            moments.append(learn(training, prevalence))
        # The mean of the adapted posteriors, computed without an array of all of them.
        means[number] = prevalence * ((bag.weights / (bag_rows @ prevalence)) @ bag_rows)

    def shares(number: int, bag: SampledBag) -> Array:
        phi = adapted(rows[bag.indices], prevalences[number])
        return np.asarray(phi @ moments[number].inverse.T)

    return linearised(means, estimates, bags, moments, shares)


def linearise_likelihood_on(
    model: Model, points: Any, bags: SampledBags, estimates: Array, device: Any
) -> MomentEquations:
    """Return :func:`linearise_likelihood` for bags without weights and clusters, on a device.

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
    from kdey.gpu.device_rows import ClassTensors, adapted_bag_means, batch_moments  # imports torch

    training = moment_training_rows(model)
    assert training is not None, "calibrated moments come from training rows"
    prevalences = adapting_prevalence(estimates, bags.effective_sizes, training)
    tensor_rows = moment_map(model).tensor_rows
    assert tensor_rows is not None, "calibrated posteriors are computed on tensors"
    densities = tensor_rows(as_tensor(points, device))
    means = adapted_bag_means(densities, bags.bags, prevalences)
    thin = training.thinned
    matrices, covariances = batch_moments(
        ClassTensors.of(training.rows, training.weights, training.offsets, device),
        ClassTensors.of(thin.rows, thin.weights, thin.offsets, device),
        prevalences,
    )
    moments = [
        moments_of(training, *each) for each in zip(prevalences, matrices, covariances, strict=True)
    ]
    return linearised(means, estimates, bags, moments)


def linearised(
    means: Array,
    estimates: Array,
    bags: SampledBags,
    moments: Sequence[Moments],
    shares: Callable[[int, SampledBag], Array] | None = None,
) -> MomentEquations:
    """Return the moment equation of bags.

    Parameters
    ----------
    means : array of shape (n_bags, r)
        Mean features q.
    estimates : array of shape (n_bags, k)
    bags : SampledBags
    moments : sequence of Moments
        One per bag, or a single one that all bags share.
    shares : callable, optional
        From a bag and its number to z = T^-1 phi of its instances, (m, k), from which design
        effects follow; not needed without weights, clusters and strata.

    Returns
    -------
    MomentEquations
    """
    effects = np.ones(estimates.shape)
    if not bags.is_simple:
        assert shares is not None, "a device has simple bags"
        effects = np.array([bag.design_effect(shares(b, bag)) for b, bag in enumerate(bags)])
    sizes = bags.effective_sizes
    return MomentEquations(means, estimates, sizes, sizes[:, None] / effects, bags.freedom, moments)


@dataclass(frozen=True, eq=False)
class AnalyticUncertainty(Uncertainty):
    """The moment equation of one bag.

    Attributes
    ----------
    model : Model
    equations : MomentEquations
        Those of all bags.
    number : int
        Number of this bag among them.
    moment_estimate : array of shape (k,)
        The prevalence that fits the moment equation best, inside the simplex.
    unseen : float
        Share of the population that is not in the bag; zero if the target is the bag itself.
    """

    model: Model
    equations: MomentEquations
    number: int
    moment_estimate: Array
    unseen: float
    method: ClassVar[str] = "analytic"

    @property
    def shared_model(self) -> Model:
        """The fitted model."""
        return self.model

    @cached_property
    def mix(self) -> Array:
        """A prevalence near the truth and without zeros, at which variances are taken, (k,)."""
        return smoothed(self.moment_estimate, self.equations.sizes[self.number])

    @property
    def moments(self) -> Moments:
        """The moments of this bag."""
        return self.equations.at(self.number)

    def corrected(self) -> Array:
        """Return the moment estimate inside the simplex, shape (k,)."""
        return self.moment_estimate

    def centre(self) -> Array:
        """Return the moment estimate, shape (k,), which may leave the simplex."""
        return self.equations.centre(self.number, self.mix)

    def covariance(self) -> Array:
        """Return the covariance of the moment estimate, shape (k, k)."""
        return self.covariance_at(self.mix)

    def covariance_at(self, prevalence: Array) -> Array:
        """Return the covariance of the moment estimate if this prevalence (k,) were true."""
        return self.equations.covariance(self.number, prevalence, self.unseen)

    def sampling_variance(self) -> Array:
        """Return the variance of the moment estimate if the templates were exact, shape (k,)."""
        mix, m = self.mix, float(np.min(self.equations.bag_sizes[self.number]))
        covariance = self.moments.covariance(mix / m, np.zeros(len(mix)))
        return np.asarray(np.diag(covariance) + self.unseen * mix * (1.0 - mix) / m)

    def template_covariance(self, other: Uncertainty | None = None) -> Array | None:
        """Return the covariance of the errors that templates cause with those of another bag.

        By default it is their variance, shape (k, k).
        """
        sizes = self.moments.sizes
        if other is not None and not isinstance(other, AnalyticUncertainty):
            return None
        if not np.isfinite(sizes).all():
            return np.zeros((len(sizes), len(sizes)))
        if other is None:
            return self.moments.covariance(np.zeros(len(sizes)), self.mix)
        whole = self.moments.weighs_otherwise(other.moments)
        return np.asarray(self._influences(whole).T @ other._influences(whole))

    def template_draws(self) -> Array | None:
        """Return draws of the error that templates cause, shape (TEMPLATE_DRAWS, k)."""
        if self.moments.training is None:
            return None
        influences = self._influences()
        return np.asarray(_signs(len(influences)) @ influences)

    def _influences(self, whole: bool = False) -> Array:
        """How much each row of the templates moves the centre; see :meth:`Moments.influences`.

        They are as large as the variance, which few labels do not leave too small.
        """
        if whole:
            return self._scaled(self.moments.influences(self.mix, whole))
        return self._thinned_influences

    @cached_property
    def _thinned_influences(self) -> Array:
        return self._scaled(self.moments.influences(self.mix))

    def _scaled(self, moved: Array) -> Array:
        variances = self.template_covariance()
        assert variances is not None, "that of analytic intervals is known"
        return np.asarray(moved @ _root(moved.T @ moved, inverse=True) @ _root(variances))

    def freedom(self) -> float:
        """Return the harmonic mean of the degrees of freedom of the classes."""
        degrees = self.equations.freedom(self.number, self.mix, self.unseen)
        return float(len(degrees) / (1.0 / degrees).sum())

    def region(self, confidence: float) -> Region:
        """Return the joint region of all classes."""
        return region_from_covariance(self.centre(), self.covariance(), self.freedom(), confidence)


def _root(covariance: Array, inverse: bool = False) -> Array:
    """Return the symmetric root of a covariance (k, k), or that of its pseudo-inverse.

    Changes of shares sum to zero, and still do after both.
    """
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-12 * max(values[-1], np.finfo(np.float64).tiny)  # the rest is rounding
    roots = np.sqrt(values[kept])
    return np.asarray((vectors[:, kept] * (1.0 / roots if inverse else roots)) @ vectors[:, kept].T)


def _signs(n_rows: int) -> Array:
    """Return the signs of the rows of templates in every draw, (TEMPLATE_DRAWS, n_rows).

    They are the same on every machine and with every version of NumPy, as bit generators are.
    """
    words = np.random.PCG64(0).random_raw(n_rows * TEMPLATE_DRAWS // 64)
    bits = np.unpackbits(words.astype("<u8").view(np.uint8)).reshape(n_rows, TEMPLATE_DRAWS)
    return np.asarray(2.0 * bits.T - 1.0, dtype=np.float64)


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
    model: Model, rows: Rows, bags: SampledBags, estimates: Array, n_threads: int = 1
) -> MomentEquations | None:
    """Return the moment equation of every bag; None if a derivative does not exist.

    Parameters
    ----------
    model : Model
        Has training rows, and a matching that summarises a bag by its mean row.
    rows : Rows
        Of the pool.
    bags : SampledBags
    estimates : array of shape (n_bags, k)

    Returns
    -------
    MomentEquations or None
    """
    training = training_rows(model, n_threads)
    if training is None or training.rows.shape[1] > WIDEST:
        return None
    directions = Directions.of(training)
    means, centres = rows.mean(bags.bags), np.empty(estimates.shape)
    moments: list[Moments] = []
    derivatives: list[Array] = []
    for number, estimate in enumerate(estimates):
        inside = (1.0 - INSIDE) * estimate + INSIDE / model.n_classes
        derivative = directions.derivative(model, inside, n_threads)
        if derivative is None:
            return None
        derivatives.append(derivative)
        if model.n_classes > MOST_CLASSES:
            moments.append(many_training_moments(training, None, derivative))
        else:
            moments.append(projected_moments(training, derivative))
        centres[number] = inside + derivative @ (means[number] - directions.means @ inside)

    def shares(number: int, bag: SampledBag) -> Array:
        return np.asarray(rows.each()[bag.indices] @ derivatives[number].T)

    return linearised(centres, estimates, bags, moments, shares)


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
        centred = training.thinned.rows.astype(np.float64) - means.mean(axis=1)
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
