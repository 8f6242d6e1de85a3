r"""The moment equation, on which every analytic interval is based.

Let :math:`\phi(x)` be any k numbers per instance, q their mean in the bag and column l of T their
mean among the training instances of class l. Under label shift

.. math:: E[q] = T \alpha

whatever :math:`\phi` is, so :math:`c = T^{-1} q` is free of the bias that comes from smoothed
densities, miscalibrated posteriors or the training prior. ACC and PACC solve this equation, with
the decision or the posterior as :math:`\phi`. For the likelihood methods :math:`\phi` are the
posteriors adapted to the estimate,

.. math:: \phi_i(x) = \frac{\alpha_i D_i(x)}{\sum_l \alpha_l D_l(x)}

which is the score of the likelihood up to a factor per class. The equation holds at every alpha, so
neither the error of the alpha inside :math:`\phi` nor that of D has an effect of first order.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array
from kdey.intervals.class_rows import ClassRows, ClassWeights, MembershipWeights

#: We add 0.75 pseudo-observations per class, spread evenly over the classes, because a class
#: without a single error among n instances may still have an error rate of order 1 / n.
PSEUDO_OBSERVATIONS = 0.75
#: Singular values of T below this share of the largest count as zero.
CUTOFF = 1e-6
#: A class is called confused if its entry in a direction that T cannot invert exceeds this.
CONFUSED_SHARE = 1e-3


@dataclass(frozen=True, eq=False)
class Moments:
    r"""T and the variances within classes, in the coordinates of the prevalence.

    These coordinates are :math:`z(x) = T^{-1} \phi(x)`, whose mean in class l is the l-th unit
    vector.

    Attributes
    ----------
    inverse : array of shape (k, r)
        The inverse of T (a pseudo-inverse if classes cannot be distinguished).
    spread : array of shape (k, k)
        Entry (i, l): variance of z_i within class l.
    rows : array of shape (n', r)
        Densities or features from which the spread was computed.
    prevalence : array of shape (k,) or None
        The prevalence that the densities are adapted to; None if the rows are features.
    class_weights : ClassWeights
        The weights of the rows in the mean of each class.
    sizes : array of shape (k,)
        Number of training instances behind each column of T; inf if T is not learnt.
    freedom : array of shape (k, k)
        Degrees of freedom of each spread: 2 n / (kurtosis - 1), few if few rows dominate it.
    bias : array of shape (k, k)
        Entry (i, l): covariance of z_i and z_l within class l, which gives the bias that comes from
        inverting an uncertain T.
    confused : bool array of shape (k,)
        Classes that T cannot distinguish from mixtures of others.
    """

    inverse: Array
    spread: Array
    rows: NDArray[np.floating]
    prevalence: Array | None
    class_weights: ClassWeights
    sizes: Array
    freedom: Array
    bias: Array
    confused: NDArray[np.bool_]

    @property
    def z(self) -> Array:
        """Rows in the coordinates of the prevalence, shape (n', k).

        Computed on every access, because many bags together would need too much memory.
        """
        phi = _features(self.rows.astype(np.float64), self.prevalence)
        return np.asarray(phi @ self.inverse.T)

    def covariance(self, shares: Array) -> Array:
        """Return sum_l shares_l Cov_l(z), shape (k, k)."""
        cross = self.cross(self, shares)
        # The spread includes what the rows do not show: pseudo-observations, and the assumed
        # variance of classes with a single instance.
        missing = np.maximum(self.spread @ shares - np.diag(cross), 0.0)
        return np.asarray(cross + np.diag(missing))

    def cross(self, other: Moments, shares: Array) -> Array:
        """Return sum_l shares_l Cov_l(z, z of ``other``), shape (k, k).

        Parameters
        ----------
        other : Moments
            Moments of the same rows, adapted to another prevalence or not.
        shares : array of shape (k,)

        Returns
        -------
        array of shape (k, k)
        """
        z, other_z = self.z, other.z
        gram = z.T @ (other_z * self.class_weights.row_weights(shares)[:, None])
        means, other_means = self.class_weights.means(z), self.class_weights.means(other_z)
        return np.asarray(gram - (means * shares) @ other_means.T)


def adapted(rows: NDArray[np.floating], prevalence: Array) -> Array:
    """Return posteriors adapted to a prevalence (k,), shape (m, k), from densities (m, k)."""
    joint = np.asarray(rows * prevalence)
    joint /= (rows @ prevalence)[:, None]
    return joint


def smoothed(prevalence: Array, size: Array | float) -> Array:
    """Return prevalences (..., k) after adding half an instance of every class.

    Parameters
    ----------
    prevalence : array of shape (..., k)
    size : array of shape (...,) or float
        Number of instances that each prevalence was estimated from.

    Returns
    -------
    array of shape (..., k)
        Prevalences without zeros.
    """
    k = prevalence.shape[-1]
    n = np.asarray(size, dtype=np.float64)[..., None]
    return np.asarray((n * prevalence + 0.5) / (n + 0.5 * k))


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
    class_weights, sizes = training.thin_weights, training.sizes
    return moments_of(matrix, training.thin_rows, prevalence, class_weights, sizes, sizes)


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
    exact = np.full(len(prevalence), np.inf)
    observed = np.maximum(mass * weights.sum() / (weights**2).sum(), 0.5)
    class_weights = MembershipWeights(membership)
    return moments_of(class_weights.means(phi), rows, prevalence, class_weights, exact, observed)


def moments_of(
    matrix: Array,
    rows: NDArray[np.floating],
    prevalence: Array | None,
    class_weights: ClassWeights,
    sizes: Array,
    observed: Array,
) -> Moments:
    """Return the moments of features whose class means are known.

    Parameters
    ----------
    matrix : array of shape (r, k)
        T, the mean features of each class.
    rows : array of shape (n', r)
        The rows from which spreads are computed.
    prevalence, class_weights, sizes
        As in :class:`Moments`.
    observed : array of shape (k,)
        Number of instances of each class from which the spread is computed.

    Returns
    -------
    Moments
    """
    inverse, confused = invert(matrix)
    return moments_along(inverse, confused, rows, prevalence, class_weights, sizes, observed)


def moments_along(
    inverse: Array,
    confused: NDArray[np.bool_],
    rows: NDArray[np.floating],
    prevalence: Array | None,
    class_weights: ClassWeights,
    sizes: Array,
    observed: Array,
) -> Moments:
    """Return the moments if the inverse (k, r) of the map from prevalences to means is known.

    Parameters as in :class:`Moments` and :func:`moments_of`.
    """
    z = _features(rows, prevalence) @ inverse.T.astype(rows.dtype)
    powers = class_weights.powers(z)
    spread, freedom = _spread(powers, class_weights.counts)
    bias = class_weights.products(z) - powers[0] * np.diag(powers[0])
    spread += _pseudo_spread(observed)
    return Moments(inverse, spread, rows, prevalence, class_weights, sizes, freedom, bias, confused)


def _features(rows: NDArray[np.floating], prevalence: Array | None) -> Any:
    """Return phi of rows, shape (n', k), in the precision of the rows."""
    return rows if prevalence is None else adapted(rows, prevalence.astype(rows.dtype))


def _spread(powers: tuple[Array, Array, Array, Array], counts: Array) -> tuple[Array, Array]:
    """Return variances within classes and their degrees of freedom, both (k, k).

    ``powers`` are the means of the first four powers, (k, k) each, over ``counts`` (k,) rows.
    """
    means, second, third, fourth = powers
    spread = np.maximum(second - means**2, 0.0)
    fourth = fourth - 4.0 * means * third + 6.0 * means**2 * second - 3.0 * means**4
    kurtosis = np.maximum(fourth, spread**2) / np.maximum(spread**2, 1e-24)
    freedom = np.clip(2.0 * counts / np.maximum(kurtosis - 1.0, 1e-12), 1.0, np.maximum(counts, 1))
    single = counts < 1.5
    spread *= np.where(single, 1.0, counts / np.where(single, 1.0, counts - 1.0))
    if single.any() and not single.all():  # one instance shows no spread: assume the largest
        spread[:, single] = spread[:, ~single].max(axis=1, keepdims=True)
        freedom[:, single] = 1.0
    return spread, freedom


def _pseudo_spread(observed: Array) -> Array:
    """Return the variance that the pseudo-observations add, shape (k, k)."""
    k = len(observed)
    return np.asarray(PSEUDO_OBSERVATIONS * (1.0 / k + (1.0 - 2.0 / k) * np.eye(k)) / observed)


def invert(matrix: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return the inverse of T and the classes that it confuses.

    Parameters
    ----------
    matrix : array of shape (r, k)

    Returns
    -------
    inverse : array of shape (k, r)
        A pseudo-inverse if the matrix is singular or nearly so.
    confused : bool array of shape (k,)
    """
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return _pseudo_inverse(matrix)
    # The Frobenius norms bound the condition number from above, so most matrices need no SVD.
    condition = np.linalg.norm(matrix) * np.linalg.norm(inverse)
    if condition < 1.0 / CUTOFF:
        return np.asarray(inverse, dtype=np.float64), np.zeros(len(matrix), dtype=np.bool_)
    return _pseudo_inverse(matrix)


def _pseudo_inverse(matrix: Array) -> tuple[Array, NDArray[np.bool_]]:
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    small = values < CUTOFF * values[0]
    inverse = (right.T / np.where(small, np.inf, values)) @ left.T
    confused = (np.abs(right[small]) > CONFUSED_SHARE).any(axis=0)
    return np.asarray(inverse), np.asarray(confused)
