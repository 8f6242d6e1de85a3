r"""Overlap rows: mean kernels between an instance and each class, for KDEy-CS and KDEy-L2.

The product of two Gaussians of bandwidth h integrates to one Gaussian of bandwidth
:math:`\sqrt 2 h` of their distance (the paper writes 2h; the covariance is 2 h^2 I). So

.. math:: \int p_i q = a_i, \qquad \int p_i p_j = B_{ij}, \qquad \int q^2 = c

are mean kernels at :math:`\sqrt 2 h` between class i and the bag, between classes, and within
the bag, all up to one common normaliser that neither problem sees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from kdey.bags import Bags
from kdey.kernels import class_log_sums
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import Array
from kdey.rows.references import ClassReferences, Floats, KernelSpec

#: Rows evaluated at a time when the classes are compared with each other.
_CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class OverlapRows:
    """Logs of the mean kernels between instances and classes, shape (m, k)."""

    log_kernels: Array
    coordinates: Floats
    width: float
    precision: str = "mixed"

    def mean(self, bags: Bags) -> Array:
        """Return the mean kernel between each bag and each class, shape (n_bags, k)."""
        return bags.mean(np.exp(self.log_kernels))

    def log_mean(self, bags: Bags) -> Array:
        """Return the log of :meth:`mean`, without underflow at any bandwidth."""
        with np.errstate(divide="ignore"):
            out = np.log(self.mean(bags))
        # Where everything underflowed, the bag is done again in the log domain.
        for b in np.flatnonzero(out.max(axis=1) < -600.0):
            part = bags[b : b + 1]
            w = part.bag_weights(0)[:, None]
            rows = self.log_kernels[part.indices]
            out[b] = np.asarray(logsumexp(rows, axis=0, b=w)) - math.log(w.sum())
        return out

    def log_self(self, bags: Bags, n_threads: int = 1) -> Array:
        """Return the log mean kernel within each bag, shape (n_bags,)."""
        return np.array([self._log_self(bags[b : b + 1], n_threads) for b in range(len(bags))])

    def _log_self(self, bag: Bags, n_threads: int) -> float:
        points = np.ascontiguousarray(self.coordinates[bag.indices])
        w = bag.bag_weights(0)
        log_sums = class_log_sums(
            points,
            points,
            [0, len(points)],
            [self.width],
            weights=w,
            precision=self.precision,  # type: ignore[arg-type]
            n_threads=n_threads,
        )[0, :, 0]
        return float(logsumexp(log_sums, b=w)) - 2.0 * math.log(w.sum())


@dataclass(frozen=True, eq=False)
class OverlapMap:
    """Fitted overlap rows; ``templates`` is the Gram matrix B of the class densities, (k, k)."""

    references: ClassReferences
    templates: Array

    @property
    def width(self) -> float:
        """The kernel's width between two densities, sqrt(2) times the bandwidth."""
        return math.sqrt(2.0) * self.references.bandwidth

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> OverlapRows:
        """Return the rows of posteriors of shape (m, k)."""
        refs = self.references
        x = refs.coordinates(points)
        log_means = refs.log_means(x, self.width, n_threads)
        return OverlapRows(log_means, x, self.width, refs.spec.precision)


@dataclass(frozen=True)
class OverlapSpec:
    """Spec of :class:`OverlapMap`."""

    kernel: KernelSpec

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> OverlapMap:
        """Return the map, with the Gram matrix of the class densities."""
        refs = self.kernel.fit(training, n_classes)
        return OverlapMap(refs, _gram(refs, n_threads))


def _gram(refs: ClassReferences, n_threads: int) -> Array:
    """Return B: mean kernels between all pairs of classes, shape (k, k), symmetric."""
    k = len(refs.offsets) - 1
    width = math.sqrt(2.0) * refs.bandwidth
    labels = np.repeat(np.arange(k), np.diff(refs.offsets))
    w = np.ones(len(labels)) if refs.weights is None else refs.weights
    total = np.zeros((k, k))
    for start in range(0, len(labels), _CHUNK):
        part = slice(start, start + _CHUNK)
        kernels = np.exp(refs.log_means(refs.points[part], width, n_threads))
        onehot = np.zeros((k, len(kernels)))
        onehot[labels[part], np.arange(len(kernels))] = w[part]
        total += onehot @ kernels
    gram = total / np.exp(refs.log_mass)[:, None]
    return (gram + gram.T) / 2.0
