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

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array
from kdey.inference.class_rows import ClassRows

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
    inverse : array of shape (k, k)
        The inverse of T (a pseudo-inverse where classes cannot be told apart).
    spread : array of shape (k, k)
        Entry (i, l): variance of z_i within class l.
    z : array of shape (n', k)
    membership : array of shape (n', k)
        Weight of each row in the mean of each class; columns sum to one.
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
    z: Array
    membership: Array
    sizes: Array
    freedom: Array
    tilt: Array
    confused: NDArray[np.bool_]

    def covariance(self, shares: Array) -> Array:
        """Return sum_l shares_l Cov_l(z), shape (k, k)."""
        cross = self.cross(self, shares)
        # The spread of a class holds more than its rows show: pseudo-instances, lone instances.
        missing = np.maximum(self.spread @ shares - np.diag(cross), 0.0)
        return np.asarray(cross + np.diag(missing))

    def cross(self, other: Moments, shares: Array) -> Array:
        """Return sum_l shares_l Cov_l(z, z of ``other``), shape (k, k); rows must be the same."""
        weight = self.membership @ shares
        means = (self.z.T @ self.membership, other.z.T @ self.membership)
        gram = self.z.T @ (other.z * weight[:, None])
        return np.asarray(gram - (means[0] * shares) @ means[1].T)


def adapted(rows: Array, prevalence: Array) -> Array:
    """Return posteriors adapted to a prevalence, shape (m, k), from densities of that shape."""
    joint = rows * prevalence
    joint /= joint.sum(axis=1, keepdims=True)
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
    rows, w, offsets = training.rows, training.weights, training.offsets
    if prevalence is not None:
        w = w / (rows @ prevalence.astype(np.float32))
    parts = [slice(a, b) for a, b in pairwise(offsets.tolist())]
    matrix = np.array([w[part] @ rows[part] for part in parts], dtype=np.float64).T
    phi = rows[training.thin].astype(np.float64)
    if prevalence is not None:
        matrix *= prevalence[:, None]
        phi = adapted(phi, prevalence)
    return _moments(matrix, phi, training.thin_membership, training.sizes, training.sizes)


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
    return _moments(phi.T @ soft, phi, soft, known, np.maximum(seen, 0.5))


def _moments(matrix: Array, phi: Array, membership: Array, sizes: Array, seen: Array) -> Moments:
    """Return the moments of features ``phi`` of shape (n', k) with means ``matrix``.

    ``seen`` says how many instances of each class the spread was seen on.
    """
    inverse, confused = _invert(matrix)
    z = phi @ inverse.T
    counts = 1.0 / np.maximum((membership**2).sum(axis=0), np.finfo(np.float64).tiny)
    means = z.T @ membership
    spread, freedom = _spread(z, membership, means, counts)
    tilt = z.T @ (membership * z) - means * np.diag(means)
    spread += _pseudo(seen)
    return Moments(inverse, spread, z, membership, sizes, freedom, tilt, confused)


def _spread(z: Array, membership: Array, means: Array, counts: Array) -> tuple[Array, Array]:
    """Return the variance of z within classes and its degrees of freedom, both (k, k)."""
    square = z * z
    second, third, fourth = (power.T @ membership for power in (square, square * z, square**2))
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


def _invert(matrix: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return the inverse, and the classes on directions that have none."""
    left, values, right = np.linalg.svd(matrix)
    small = values < CUTOFF * values[0]
    inverse = (right.T / np.where(small, np.inf, values)) @ left.T
    confused = (np.abs(right[small]) > PART).any(axis=0)
    return np.asarray(inverse), np.asarray(confused)
