r"""The moment equation, on which every analytic interval is based.

Let :math:`\phi(x)` be any r numbers per instance, q their mean in the bag and column l of T their
mean among the training instances of class l. Under label shift

.. math:: E[q] = T \alpha

whatever :math:`\phi` is, so that smoothed densities, miscalibrated posteriors and the training
prior cause no bias. ACC and PACC solve this equation, with the decision or the posterior as
:math:`\phi`. For the likelihood methods :math:`\phi` are calibrated posteriors adapted to the
estimate,

.. math:: \phi_i(x) = \frac{\alpha_i D_i(x)}{\sum_l \alpha_l D_l(x)}

which is the score of the likelihood up to a factor per class. The equation holds at every alpha, so
neither the error of the alpha inside :math:`\phi` nor that of D has an effect of first order.

With m instances in the bag and n_l labels of class l, the error of the equation at the true
prevalence has covariance

.. math:: V(\alpha) = \sum_l \frac{\alpha_l}{m} C_l + \sum_l \frac{\alpha_l^2}{n_l} \tilde C_l
          \;\Bigl[ + \frac{1}{m} T (\operatorname{diag} \alpha - \alpha \alpha') T' \Bigr]

where C_l is the covariance of :math:`\phi` within class l, and the last term is there if the target
is the population and not the bag. A finite population of which the bag is a share f has it times
1 - f: the bag itself is the limit. With weights or clusters m is the effective size divided by the
design effect of :math:`T^{-1} \phi` (``SampledBag.design_effect``). Few labels make C_l
unreliable; the constants below say how we regularise it, and :math:`\tilde C_l` what we add for
the classifier.

:class:`ClassRows` are the rows of the training instances as if these were new. A training instance
is part of the templates that produce its row, and would look better placed than a new instance.
Kernel densities therefore leave the instance's own kernel out of its row; for methods whose
templates are a few numbers per class the effect is of order 1 / n, and we use the plain row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Indices, offsets_of
from kdey.posteriors import TrainingPosteriors
from kdey.rows import RowMap
from kdey.rows.kernel import reference_order

#: Spreads are computed from about 2,000 rows in all, and from at least 60 of each class; means use
#: all rows.
SPREAD_ROWS, SPREAD_ROWS_PER_CLASS = 2_000, 60
#: Largest number of rows per class that is computed at all; with more, the pass over all pairs of
#: training instances costs too much.
MAX_ROWS_PER_CLASS = 5_000


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Training rows sorted by class.

    Attributes
    ----------
    rows : float32 array of shape (n, k)
        Densities relative to the largest of each row, or features. They are float32 because every
        bag needs a pass over all of them.
    offsets : int64 array of shape (k + 1,)
        Class l owns ``rows[offsets[l]:offsets[l + 1]]``.
    weights : array of shape (n,)
        Sum to one within each class.
    thin : int64 array of shape (n',)
        Positions of the rows from which spreads are computed.
    """

    rows: NDArray[np.float32]
    offsets: Indices
    weights: NDArray[np.floating]
    thin: Indices

    @property
    def counts(self) -> Indices:
        """Number of rows of each class, shape (k,)."""
        return np.diff(self.offsets)

    @cached_property
    def owners(self) -> Indices:
        """Class of each row, shape (n,)."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @cached_property
    def thinned(self) -> ClassRows:
        """The rows from which spreads are computed, with weights in double precision."""
        owners = self.owners[self.thin]
        offsets = offsets_of(np.bincount(owners, minlength=len(self.counts)))
        w = self.weights[self.thin].astype(np.float64)
        w = w / np.add.reduceat(w, offsets[:-1])[owners]
        return ClassRows(self.rows[self.thin], offsets, w, np.arange(len(w)))

    def means(self, values: Array) -> Array:
        """Return the mean of values (n, c) of the rows in each class, shape (c, k)."""
        return np.add.reduceat(values * self.weights[:, None], self.offsets[:-1]).T

    def covariances(self, values: Array) -> Array:
        """Return the covariance of values (n, c) of the rows within each class, (k, c, c)."""
        centred = values - self.means(values).T[self.owners]
        weighted = centred * self.weights[:, None]
        runs = [slice(a, b) for a, b in pairwise(self.offsets.tolist())]
        return np.array([weighted[run].T @ centred[run] for run in runs])

    def row_weights(self, shares: Array) -> Array:
        """Return the weight of each row in sum_l shares_l mean_l, shape (n,)."""
        return np.asarray(self.weights * shares[self.owners])

    @property
    def typical_size(self) -> float:
        """Harmonic mean of the sizes, which is small if one class is small."""
        return float(len(self.sizes) / (1.0 / self.sizes).sum())

    @cached_property
    def sizes(self) -> Array:
        """Effective number of rows of each class, 1 / sum w^2, shape (k,)."""
        squares = self.weights.astype(np.float64) ** 2
        return np.asarray(1.0 / np.add.reduceat(squares, self.offsets[:-1]))


def class_rows(
    row_map: RowMap,
    training: TrainingPosteriors,
    n_classes: int,
    moment_rows: Callable[[NDArray[np.floating]], Array],
    n_threads: int = 1,
) -> ClassRows:
    """Return the rows of the training instances, each as if the instance were new.

    Parameters
    ----------
    row_map : fitted row map
    training : TrainingPosteriors
    n_classes : int
    moment_rows : callable
        Turns rows of the map into densities on a common scale, or features.
    n_threads : int

    Returns
    -------
    ClassRows
    """
    w = np.ones(len(training.labels)) if training.weights is None else training.weights
    selected = selected_rows(training, n_classes)
    rows = moment_rows(row_map.new_rows(training, selected, n_threads))
    labels, w = training.labels[selected], w[selected]
    counts = np.bincount(labels, minlength=n_classes)
    offsets = offsets_of(counts)
    mass = np.bincount(labels, weights=w, minlength=n_classes)
    shares = (w / mass[labels]).astype(np.float32)
    thin = _spaced(offsets, max(SPREAD_ROWS // n_classes, SPREAD_ROWS_PER_CLASS))
    return ClassRows(rows.astype(np.float32), offsets, shares, thin)


def selected_rows(training: TrainingPosteriors, n_classes: int) -> Indices:
    """Return the positions of the instances to use, sorted by class and evenly spaced in it."""
    order = reference_order(training)
    counts = np.bincount(training.labels[order], minlength=n_classes)
    offsets = offsets_of(counts)
    return np.asarray(order[_spaced(offsets, MAX_ROWS_PER_CLASS)])


def _spaced(offsets: Indices, most: int) -> Indices:
    """Return at most ``most`` evenly spaced positions of each class."""
    parts = [
        np.unique(np.linspace(start, stop - 1, min(most, stop - start)).astype(np.int64))
        for start, stop in pairwise(offsets.tolist())
    ]
    return np.concatenate(parts)


#: We add 0.75 pseudo-observations per class, spread evenly over the classes, because a class
#: without a single error among n instances may still have an error rate of order 1 / n.
PSEUDO_OBSERVATIONS = 0.75
#: The covariance of each class is averaged with this many observations of the pooled covariance:
#: that of a class with a handful of labels is hardly known.
POOLED_OBSERVATIONS = 5.0
#: The training rows come from classifiers that saw a part of the labels, the rows of a bag from one
#: that saw all. The two differ more the fewer labels a class has, and its features with them: in
#: templates we multiply the variance of feature i by 1 + (5 / n_i)^2.
UNSTABLE_LABELS = 5.0
#: Features are adapted to an estimate after adding this many instances, at least half a one of
#: every class.
ADAPTING_INSTANCES = 4.0
#: Singular values of T below this share of the largest count as zero.
CUTOFF = 1e-6


@dataclass(frozen=True, eq=False)
class Moments:
    r"""T and the covariances of the features within classes.

    Attributes
    ----------
    matrix : array of shape (r, k)
        T: the mean features of each class.
    covariances : array of shape (k, r, r)
        C_l: covariance of the features within class l, regularised.
    sizes : array of shape (k,)
        Number of training instances behind each column of T; inf if T is not learnt.
    freedom : array of shape (k,)
        Degrees of freedom of each covariance.
    training : ClassRows or None
        The rows that T was learnt from; None if it was not learnt.
    prevalence : array of shape (k,) or None
        The prevalence that densities are adapted to; None if the rows are features.
    projection : array of shape (r, c) or None
        Turns rows into features where these are linear combinations of the former.
    """

    matrix: Array
    covariances: Array
    sizes: Array
    freedom: Array
    training: ClassRows | None = None
    prevalence: Array | None = None
    projection: Array | None = None

    @cached_property
    def template_covariances(self) -> Array:
        r"""The matrices :math:`\tilde C_l` of the errors of templates, shape (k, r, r)."""
        return unstable(self.covariances, self.sizes)

    @cached_property
    def inverse(self) -> Array:
        """The inverse of T, shape (k, r); a pseudo-inverse if classes cannot be distinguished."""
        return invert(self.matrix)

    @cached_property
    def spread(self) -> Array:
        """Entry (i, l): variance within class l of z_i, where z = T^-1 phi, shape (k, k)."""
        return self._variances(self.covariances)

    @cached_property
    def template_spread(self) -> Array:
        """The same of the errors of templates, shape (k, k)."""
        return self._variances(self.template_covariances)

    @cached_property
    def bias(self) -> Array:
        """Entry (i, l): covariance of z_i and z_l within class l, shape (k, k).

        It gives the bias of T^-1 q that comes from inverting an uncertain T.
        """
        half = self.covariances @ self.inverse.T  # (k, r, k)
        own = half[np.arange(len(half)), :, np.arange(len(half))]  # (k, r)
        return np.asarray(self.inverse @ own.T)

    def covariance(self, bag_shares: Array, template_shares: Array) -> Array:
        """Return the covariance of T^-1 q, shape (k, k).

        Parameters
        ----------
        bag_shares : array of shape (k,)
            alpha_l / m.
        template_shares : array of shape (k,)
            alpha_l^2 / n_l.

        Returns
        -------
        array of shape (k, k)
        """
        total = np.tensordot(bag_shares, self.covariances, axes=1)
        total = total + np.tensordot(template_shares, self.template_covariances, axes=1)
        return np.asarray(self.inverse @ total @ self.inverse.T)

    def influences(self, shares: Array) -> Array:
        """Return how much each row of the templates moves T^-1 q, shape (n', k), as rows show it.

        The products of two such arrays are covariances of the errors that two bags have in common.
        Bags that are estimated by the same templates have them at every prevalence.

        Parameters
        ----------
        shares : array of shape (k,)
            The prevalence of the bag.
        """
        assert self.training is not None, "templates that are given have no error"
        rows = self.training.thinned
        z = features(rows.rows, self.prevalence, self.projection) @ self.inverse.T
        z = (z - rows.means(z).T[rows.owners]) * shares[rows.owners][:, None]
        return np.asarray(z * np.sqrt(rows.weights / self.sizes[rows.owners])[:, None])

    def _variances(self, covariances: Array) -> Array:
        half = self.inverse @ covariances  # (k, k, r): class l, then class i
        return np.asarray((half * self.inverse).sum(axis=2).T)


@dataclass(frozen=True, eq=False)
class MomentEquations:
    """The moment equations of many bags.

    Attributes
    ----------
    means : array of shape (n_bags, r)
        Mean features of each bag.
    estimates : array of shape (n_bags, k)
        The prevalences that the quantifier answers.
    sizes : array of shape (n_bags,)
        Effective sizes of the bags.
    bag_sizes : array of shape (n_bags, k)
        The same divided by the design effect of each class.
    units : array of shape (n_bags,)
        Degrees of freedom that the clusters leave; inf without clusters.
    moments : sequence of Moments
        One per bag, or a single one that all bags share.
    """

    means: Array
    estimates: Array
    sizes: Array
    bag_sizes: Array
    units: Array
    moments: Sequence[Moments]

    def at(self, bag: int) -> Moments:
        """Return the moments of one bag."""
        return self.moments[0 if len(self.moments) == 1 else bag]

    def centre(self, bag: int, mix: Array) -> Array:
        """Return T^-1 q of one bag without the bias that an uncertain T brings, shape (k,).

        It sums to one but may leave the simplex. ``mix`` (k,) is a prevalence near the truth.
        """
        moments = self.at(bag)
        return np.asarray(moments.inverse @ self.means[bag] - moments.bias @ (mix / moments.sizes))

    def covariance(self, bag: int, mix: Array, unseen: float) -> Array:
        """Return the covariance of one bag's centre at the prevalence ``mix``, shape (k, k).

        ``unseen`` is the share of the population that is not in the bag, zero if the target is the
        bag itself.
        """
        moments, m = self.at(bag), float(np.min(self.bag_sizes[bag]))
        covariance = moments.covariance(mix / m, mix**2 / moments.sizes)
        return np.asarray(covariance + unseen * (np.diag(mix) - np.outer(mix, mix)) / m)

    def freedom(self, bag: int, mix: Array, unseen: float) -> Array:
        """Return the degrees of freedom of each class's variance (Satterthwaite), shape (k,)."""
        moments, m = self.at(bag), self.bag_sizes[bag]
        parts = mix / m[:, None] * moments.spread
        parts = parts + mix**2 / moments.sizes * moments.template_spread
        total = parts.sum(axis=1) + unseen * mix * (1.0 - mix) / m
        uncertain = (parts**2 / moments.freedom).sum(axis=1)
        degrees = total**2 / np.maximum(uncertain, np.finfo(np.float64).tiny)
        return np.asarray(np.minimum(np.maximum(degrees, 1.0), self.units[bag]))


def features(
    rows: NDArray[np.floating], prevalence: Array | None, projection: Array | None = None
) -> Array:
    """Return phi of rows, shape (n', r); parameters as the attributes of :class:`Moments`."""
    values = rows.astype(np.float64, copy=False)
    phi = values if prevalence is None else adapted(values, prevalence)
    return np.asarray(phi if projection is None else phi @ projection.T)


def adapted(rows: NDArray[np.floating], prevalence: Array) -> Array:
    """Return posteriors adapted to a prevalence (k,), shape (m, k), from densities (m, k)."""
    joint = np.asarray(rows * prevalence)
    joint /= (rows @ prevalence)[:, None]
    return joint


def smoothed(prevalence: Array, size: Array | float, per_class: float = 0.5) -> Array:
    """Return prevalences (..., k) after adding ``per_class`` instances of every class.

    Parameters
    ----------
    prevalence : array of shape (..., k)
    size : array of shape (...,) or float
        Number of instances that each prevalence was estimated from.
    per_class : float

    Returns
    -------
    array of shape (..., k)
        Prevalences without zeros.
    """
    k = prevalence.shape[-1]
    n = np.asarray(size, dtype=np.float64)[..., None]
    return np.asarray((n * prevalence + per_class) / (n + per_class * k))


def adapting_prevalence(
    estimates: Array, sizes: Array | float, training: ClassRows | None
) -> Array:
    """Return the prevalences that densities are adapted to, shape (..., k).

    A prevalence far below 1 / n makes features of events that n training instances hardly show, so
    that their means would be noise: we smooth by the training size where it is the smaller.

    Parameters
    ----------
    estimates : array of shape (..., k)
    sizes : array of shape (...,) or float
        Effective sizes of the bags.
    training : ClassRows or None

    Returns
    -------
    array of shape (..., k)
    """
    largest = np.inf if training is None else training.typical_size
    per_class = max(0.5, ADAPTING_INSTANCES / estimates.shape[-1])
    return smoothed(estimates, np.minimum(sizes, largest), per_class)


def training_moments(training: ClassRows, prevalence: Array | None) -> Moments:
    """Return the moments from training rows.

    Parameters
    ----------
    training : ClassRows
    prevalence : array of shape (k,) or None
        The prevalence that densities are adapted to; None if the rows are features.

    Returns
    -------
    Moments
    """
    rows, w = training.rows, training.weights
    if prevalence is not None:
        w = w / (rows @ prevalence.astype(np.float32))
    runs = (slice(a, b) for a, b in pairwise(training.offsets.tolist()))
    matrix = np.array([w[run] @ rows[run] for run in runs], dtype=np.float64).T
    if prevalence is not None:
        matrix *= prevalence[:, None]
    phi = features(training.thinned.rows, prevalence)
    covariances = training.thinned.covariances(phi)
    return moments_of(training, prevalence, matrix, covariances)


def moments_of(
    training: ClassRows, prevalence: Array | None, matrix: Array, covariances: Array
) -> Moments:
    """Return the moments from means and covariances of the training rows.

    Parameters
    ----------
    training : ClassRows
    prevalence : array of shape (k,) or None
        The prevalence that densities are adapted to; None if the rows are features.
    matrix : array of shape (r, k)
        T.
    covariances : array of shape (k, r, r)
        Before regularisation.

    Returns
    -------
    Moments
    """
    raised, sizes = regularised(covariances, matrix, training.sizes), training.sizes
    return Moments(matrix, raised, sizes, freedom_of(sizes), training, prevalence)


def bag_moments(rows: Array, weights: Array, prevalence: Array) -> Moments:
    """Return the moments without training rows, by the adapted posteriors of the bag itself.

    Every instance then belongs to each class with its posterior probability. The densities are
    assumed to be correct (EMQ without training posteriors), as they are in the observed
    information of a likelihood, so T has no uncertainty.

    Parameters
    ----------
    rows : array of shape (m, k)
        Densities of the bag's instances.
    weights : array of shape (m,)
        Weights of the instances, summing to one.
    prevalence : array of shape (k,)
        The prevalence that the densities are adapted to.

    Returns
    -------
    Moments
    """
    phi = adapted(rows, prevalence)
    membership = phi * weights[:, None]
    mass = np.maximum(membership.sum(axis=0), np.finfo(np.float64).tiny)
    membership /= mass
    observed = mass * weights.sum() / (weights**2).sum()
    matrix = np.asarray(phi.T @ membership)
    grams = np.array([(phi * column[:, None]).T @ phi for column in membership.T])
    within = grams - matrix.T[:, :, None] * matrix.T[:, None, :]
    covariances = regularised(within, matrix, np.maximum(observed, 1.0))
    # The densities are assumed to be right, so every instance has its say about every class: a
    # class that the bag lacks is not one of which nothing is known.
    freedom = np.full(len(observed), freedom_of(observed.sum()))
    return Moments(matrix, covariances, np.full(len(observed), np.inf), freedom)


def projected_moments(training: ClassRows, projection: Array) -> Moments:
    """Return the moments of linear combinations of rows whose class means are unit vectors.

    Parameters
    ----------
    training : ClassRows
    projection : array of shape (k, r)
        The derivative of an estimate by the mean row (``analytic.py``).

    Returns
    -------
    Moments
    """
    sizes, matrix = training.sizes, np.eye(len(projection))
    phi = features(training.thinned.rows, None, projection)
    covariances = regularised(training.thinned.covariances(phi), matrix, sizes)
    return Moments(matrix, covariances, sizes, freedom_of(sizes), training, None, projection)


def freedom_of(observed: Array) -> Array:
    """Return the degrees of freedom of covariances from so many observations, at least one."""
    return np.maximum(observed - 1.0, 1.0)


def regularised(covariances: Array, matrix: Array, observed: Array) -> Array:
    """Return covariances within classes (k, r, r) that few observations do not leave too small.

    Parameters
    ----------
    covariances : array of shape (k, r, r)
        Means of squared deviations, not corrected for the number of observations.
    matrix : array of shape (r, k)
        T.
    observed : array of shape (k,)
        Number of observations of each class.

    Returns
    -------
    array of shape (k, r, r)
        Unbiased estimates, averaged with the pooled covariance; the pseudo-observations are added.
    """
    several = observed > 1.5
    factor = np.where(several, observed / np.where(several, observed - 1.0, 1.0), 0.0)
    unbiased = covariances * factor[:, None, None]
    share = np.where(several, observed - 1.0, 0.0)
    pooled = np.tensordot(share, unbiased, axes=1) / max(share.sum(), 1.0)
    n = np.where(several, observed, 0.0)[:, None, None]
    averaged = (n * unbiased + POOLED_OBSERVATIONS * pooled) / (n + POOLED_OBSERVATIONS)
    # Entry l: the mean over classes j of (T_j - T_l)(T_j - T_l)'.
    apart = matrix.T[None, :, :] - matrix.T[:, None, :]
    between = apart.transpose(0, 2, 1) @ apart / len(matrix.T)
    return np.asarray(averaged + (PSEUDO_OBSERVATIONS / observed)[:, None, None] * between)


def unstable(covariances: Array, sizes: Array) -> Array:
    """Return covariances (k, r, r) with those features raised whose class has few labels.

    Features sum to one, so the result is projected to deviations that sum to zero. Feature i must
    belong to class i (r = k).
    """
    if not (np.isfinite(sizes).any() and covariances.shape[1] == len(sizes)):
        return covariances
    factor = np.sqrt(1.0 + (UNSTABLE_LABELS / sizes) ** 2)
    raised = covariances * factor[:, None] * factor
    raised = raised - raised.mean(axis=1, keepdims=True)
    return np.asarray(raised - raised.mean(axis=2, keepdims=True))


def invert(matrix: Array) -> Array:
    """Return the inverse (k, r) of T (r, k), a pseudo-inverse if it is singular or nearly so."""
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return _pseudo_inverse(matrix)
    # The Frobenius norms bound the condition number from above, so most matrices need no SVD.
    condition = np.linalg.norm(matrix) * np.linalg.norm(inverse)
    if condition < 1.0 / CUTOFF:
        return np.asarray(inverse, dtype=np.float64)
    return _pseudo_inverse(matrix)


def _pseudo_inverse(matrix: Array) -> Array:
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    small = values < CUTOFF * values[0]
    return np.asarray((right.T / np.where(small, np.inf, values)) @ left.T)
