r"""The moment equation that every analytic interval stands on.

Let :math:`\phi(x)` be any k numbers per instance, q their mean in the bag and column l of T their
mean among the training instances of class l. Under label shift

.. math:: E[q] = T \alpha

whatever :math:`\phi` is, so :math:`c = T^{-1} q` is free of the bias that smoothed densities,
miscalibrated posteriors or a held-on-to prior bring. ACC and PACC are this equation, with the
decision or the posterior as :math:`\phi`. For the likelihood methods :math:`\phi` are the
posteriors adapted to the estimate,

.. math:: \phi_i(x) = \frac{\alpha_i D_i(x)}{\sum_l \alpha_l D_l(x)}

which is the score of the likelihood up to a factor per class. The equation holds at every alpha, so
the error of the alpha inside :math:`\phi` has no effect of first order, nor has that of D.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array
from kdey.intervals.class_rows import ClassRows, Parts, SoftParts

#: Pseudo-instances per class, spread evenly over the classes: a class without a single error
#: among n instances may still have an error rate of order 1 / n.
PSEUDO = 0.75
#: Singular values of T below this share of the largest count as nothing.
CUTOFF = 1e-6
#: Part that a class must have in a direction without inverse to be called confused.
PART = 1e-3


@dataclass(frozen=True, eq=False)
class Moments:
    r"""T and the spread within classes, in the coordinates of the prevalence.

    With :math:`z(x) = T^{-1} \phi(x)`, whose mean in class l is the l-th unit vector:

    Attributes
    ----------
    inverse : array of shape (k, r)
        The inverse of T (a pseudo-inverse where classes cannot be told apart).
    spread : array of shape (k, k)
        Entry (i, l): variance of z_i within class l.
    rows : array of shape (n', r)
        Densities or features that the spread was seen on.
    prevalence : array of shape (k,) or None
        What the rows, as densities, are adapted to; None: the rows are features.
    parts : Parts
        Which rows make up each class.
    sizes : array of shape (k,)
        Training instances that each column of T is a mean of; inf where T is not learnt.
    freedom : array of shape (k, k)
        Degrees of freedom of each spread: 2 n / (kurtosis - 1), fewer where a few rows make it.
    tilt : array of shape (k, k)
        Entry (i, l): covariance of z_i and z_l within class l, the bias that the inverse of an
        uncertain T brings.
    confused : bool array of shape (k,)
        Classes that T cannot tell apart from mixtures of others.
    """

    inverse: Array
    spread: Array
    rows: NDArray[np.floating]
    prevalence: Array | None
    parts: Parts
    sizes: Array
    freedom: Array
    tilt: Array
    confused: NDArray[np.bool_]

    @property
    def z(self) -> Array:
        """Rows in the coordinates of the prevalence, shape (n', k); kept by no bag of many."""
        phi = _features(self.rows.astype(np.float64), self.prevalence)
        return np.asarray(phi @ self.inverse.T)

    def covariance(self, shares: Array) -> Array:
        """Return sum_l shares_l Cov_l(z), shape (k, k)."""
        cross = self.cross(self, shares)
        # The spread of a class holds more than its rows show: pseudo-instances, lone instances.
        missing = np.maximum(self.spread @ shares - np.diag(cross), 0.0)
        return np.asarray(cross + np.diag(missing))

    def cross(self, other: Moments, shares: Array) -> Array:
        """Return sum_l shares_l Cov_l(z, z of ``other``), shape (k, k); rows must be the same."""
        mine, theirs = self.z, other.z
        gram = mine.T @ (theirs * self.parts.spread_out(shares)[:, None])
        means = self.parts.means(mine), self.parts.means(theirs)
        return np.asarray(gram - (means[0] * shares) @ means[1].T)


def adapted(rows: NDArray[np.floating], prevalence: Array) -> Array:
    """Return posteriors adapted to a prevalence, shape (m, k), from densities of that shape."""
    joint = np.asarray(rows * prevalence)
    joint /= (rows @ prevalence)[:, None]
    return joint


def smoothed(prevalence: Array, size: Array | float) -> Array:
    """Return prevalences (..., k) with half an instance of every class added: none is absent."""
    k = prevalence.shape[-1]
    n = np.asarray(size, dtype=np.float64)[..., None]
    return np.asarray((n * prevalence + 0.5) / (n + 0.5 * k))


def training_moments(training: ClassRows, prevalence: Array | None) -> Moments:
    """Return the moments from training rows.

    Parameters
    ----------
    training : ClassRows
    prevalence : array of shape (k,) or None
        What the rows, as densities, are adapted to; None: the rows are features.
    """
    rows, w = training.rows, training.weights
    if prevalence is not None:
        w = w / (rows @ prevalence.astype(np.float32))
    runs = (slice(a, b) for a, b in pairwise(training.offsets.tolist()))
    matrix = np.array([w[run] @ rows[run] for run in runs], dtype=np.float64).T
    if prevalence is not None:
        matrix *= prevalence[:, None]
    parts, sizes = training.thin_parts, training.sizes
    return moments_of(matrix, training.thin_rows, prevalence, parts, sizes, sizes)


def bag_moments(rows: Array, weights: Array, prevalence: Array) -> Moments:
    """Return the moments where there are no training rows: classes are soft parts of the bag.

    The densities are then taken to be right (EMQ without training posteriors), which is what the
    observed information of a likelihood does too, and T is not uncertain.

    Parameters
    ----------
    rows : array of shape (m, k)
        Densities of the bag's instances.
    weights : array of shape (m,)
    prevalence : array of shape (k,)
    """
    phi = adapted(rows, prevalence)
    soft = phi * weights[:, None]
    mass = np.maximum(soft.sum(axis=0), np.finfo(np.float64).tiny)
    soft /= mass
    known = np.full(len(prevalence), np.inf)
    seen = mass * weights.sum() / (weights**2).sum()
    parts = SoftParts(soft)
    return moments_of(parts.means(phi), rows, prevalence, parts, known, np.maximum(seen, 0.5))


def _features(rows: NDArray[np.floating], prevalence: Array | None) -> Any:
    """Return phi of rows, shape (n', k), as precise as the rows."""
    return rows if prevalence is None else adapted(rows, prevalence.astype(rows.dtype))


def moments_of(
    matrix: Array,
    rows: NDArray[np.floating],
    prevalence: Array | None,
    parts: Parts,
    sizes: Array,
    seen: Array,
) -> Moments:
    """Return the moments of features with means ``matrix``, spreads seen on ``rows`` (n', k).

    ``seen`` says how many instances of each class the spread was seen on.
    """
    inverse, confused = invert(matrix)
    return moments_along(inverse, confused, rows, prevalence, parts, sizes, seen)


def moments_along(
    inverse: Array,
    confused: NDArray[np.bool_],
    rows: NDArray[np.floating],
    prevalence: Array | None,
    parts: Parts,
    sizes: Array,
    seen: Array,
) -> Moments:
    """Return the moments where the inverse (k, r) of the map from prevalences to means is known.

    Parameters as in :class:`Moments` and :func:`moments_of`.
    """
    z = _features(rows, prevalence) @ inverse.T.astype(rows.dtype)
    powers = parts.powers(z)
    spread, freedom = _spread(powers, parts.counts)
    tilt = parts.products(z) - powers[0] * np.diag(powers[0])
    spread += _pseudo(seen)
    return Moments(inverse, spread, rows, prevalence, parts, sizes, freedom, tilt, confused)


def _spread(powers: tuple[Array, Array, Array, Array], counts: Array) -> tuple[Array, Array]:
    """Return variances within classes and their degrees of freedom, both (k, k).

    From the means of the first four powers, (k, k) each, over ``counts`` (k,) rows.
    """
    means, second, third, fourth = powers
    spread = np.maximum(second - means**2, 0.0)
    fourth = fourth - 4.0 * means * third + 6.0 * means**2 * second - 3.0 * means**4
    kurtosis = np.maximum(fourth, spread**2) / np.maximum(spread**2, 1e-24)
    freedom = np.clip(2.0 * counts / np.maximum(kurtosis - 1.0, 1e-12), 1.0, np.maximum(counts, 1))
    lone = counts < 1.5
    spread *= np.where(lone, 1.0, counts / np.where(lone, 1.0, counts - 1.0))
    if lone.any() and not lone.all():  # nothing is known of their spread
        spread[:, lone] = spread[:, ~lone].max(axis=1, keepdims=True)
        freedom[:, lone] = 1.0
    return spread, freedom


def _pseudo(seen: Array) -> Array:
    """Return the spread that the pseudo-instances add, shape (k, k)."""
    k = len(seen)
    return np.asarray(PSEUDO * (1.0 / k + (1.0 - 2.0 / k) * np.eye(k)) / seen)


def invert(matrix: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return the inverse (k, r), pseudo where there is none, and the classes it confuses, (k,)."""
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return _pseudo_inverse(matrix)
    # The norms bound the ratio of singular values from above: most matrices need no SVD.
    condition = np.linalg.norm(matrix) * np.linalg.norm(inverse)
    if condition < 1.0 / CUTOFF:
        return np.asarray(inverse, dtype=np.float64), np.zeros(len(matrix), dtype=np.bool_)
    return _pseudo_inverse(matrix)


def _pseudo_inverse(matrix: Array) -> tuple[Array, NDArray[np.bool_]]:
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    small = values < CUTOFF * values[0]
    inverse = (right.T / np.where(small, np.inf, values)) @ left.T
    confused = (np.abs(right[small]) > PART).any(axis=0)
    return np.asarray(inverse), np.asarray(confused)
