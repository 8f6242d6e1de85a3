r"""Overlap rows: mean kernels between an instance and each class, for KDEy-CS and KDEy-L2.

The product of two Gaussians of bandwidth h integrates to one Gaussian of bandwidth
:math:`\sqrt 2 h` of their distance (the paper writes 2h; the covariance is 2 h^2 I). So

.. math:: \int p_i q = a_i, \qquad \int p_i p_j = B_{ij}, \qquad \int q^2 = c

are mean kernels at :math:`\sqrt 2 h` between class i and the bag, between classes, and within
the bag, all up to a common normaliser on which neither problem depends.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from kdey.bags import Bags
from kdey.kernels import class_log_sums
from kdey.kernels.sums import Precision
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import Array, Rows, TuningEffort
from kdey.rows.references import ClassReferences, Floats, KernelMap, KernelRowSpec

#: References evaluated at a time when the classes are compared with each other.
_CHUNK = 1 << 16


@dataclass(frozen=True)
class OverlapSpec(KernelRowSpec):
    """Spec of :class:`OverlapMap`."""

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> OverlapMap:
        """Return the map, with the Gram matrix of the class densities."""
        refs = self.kernel.fit(training, n_classes)
        return _overlap_maps([refs], n_threads)[0]

    @property
    def family(self) -> Hashable:
        """Specs with the same key share one pass over the distances, and so do their rows."""
        return ("overlap", *self.kernel.family)

    def fit_together(
        self,
        specs: Sequence[Self],
        training: TrainingPosteriors,
        n_classes: int,
        n_threads: int = 1,
    ) -> list[OverlapMap]:
        """Return the maps of specs of one family, in one pass over the distances."""
        references = self.kernel.fit_quietly(training, n_classes)
        return _overlap_maps([references.at(spec.kernel) for spec in specs], n_threads)

    @property
    def tuning_effort(self) -> TuningEffort:
        """Few references, because the cost of the Gram matrix is their number squared."""
        return TuningEffort(rows=3_000)


@dataclass(frozen=True, eq=False)
class OverlapMap(KernelMap):
    """Fitted overlap rows; ``templates`` is the Gram matrix B of the class densities, (k, k)."""

    references: ClassReferences
    templates: Array

    def kernel_width(self) -> float:
        """Return the kernel's width between two densities, sqrt(2) times the bandwidth."""
        return math.sqrt(2.0) * self.references.bandwidth

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> OverlapRows:
        """Return the rows of posteriors of shape (m, k)."""
        return self.rows_together([self], points, n_threads)[0]

    def rows_together(
        self, maps: Sequence[Self], points: NDArray[Any], n_threads: int = 1
    ) -> list[OverlapRows]:
        """Return the rows of ``points`` under maps of one family, in one pass over distances."""
        references = self.references
        x = references.coordinates(points)
        widths = [row_map.kernel_width() for row_map in maps]
        logs = references.log_means_at(x, widths, n_threads)
        precision = references.spec.precision
        return [OverlapRows(a, x, w, precision) for a, w in zip(logs, widths, strict=True)]


@dataclass(frozen=True, eq=False)
class OverlapRows(Rows):
    """Logs of the mean kernels between instances and classes, shape (m, k)."""

    log_kernels: Array
    coordinates: Floats
    width: float
    precision: Precision = "mixed"

    def __len__(self) -> int:
        """Return the number of instances m."""
        return len(self.log_kernels)

    def mean(self, bags: Bags) -> Array:
        """Return the mean kernel between each bag and each class, shape (n_bags, k)."""
        return bags.mean(np.exp(self.log_kernels))

    def log_mean(self, bags: Bags) -> Array:
        """Return the log of :meth:`mean`, without underflow at any bandwidth."""
        with np.errstate(divide="ignore"):
            out = np.log(self.mean(bags))
        # Bags whose means all underflow are computed again in the log domain.
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
            precision=self.precision,
            n_threads=n_threads,
        )[0, :, 0]
        return float(logsumexp(log_sums, b=w)) - 2.0 * math.log(w.sum())


def _overlap_maps(references: Sequence[ClassReferences], n_threads: int) -> list[OverlapMap]:
    """Return the maps of the same references at several bandwidths."""
    widths = [math.sqrt(2.0) * refs.bandwidth for refs in references]
    grams = _grams(references[0], widths, n_threads)
    return [OverlapMap(refs, gram) for refs, gram in zip(references, grams, strict=True)]


def _grams(refs: ClassReferences, widths: Sequence[float], n_threads: int) -> Array:
    """Return B at each width: mean kernels between classes, (n_widths, k, k), symmetric."""
    k = len(refs.offsets) - 1
    labels = np.repeat(np.arange(k), np.diff(refs.offsets))
    w = np.ones(len(labels)) if refs.weights is None else refs.weights
    total = np.zeros((len(widths), k, k))
    step = max(1, _CHUNK // len(widths))
    for start in range(0, len(labels), step):
        part = slice(start, start + step)
        kernels = np.exp(refs.log_means_at(refs.points[part], widths, n_threads))
        onehot = np.zeros((k, kernels.shape[1]))
        onehot[labels[part], np.arange(kernels.shape[1])] = w[part]
        total += onehot @ kernels
    grams = total / np.exp(refs.log_mass)[:, None]
    return np.asarray((grams + grams.transpose(0, 2, 1)) / 2.0)
