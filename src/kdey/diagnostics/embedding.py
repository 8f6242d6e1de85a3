r"""The distance between a bag and its fitted mixture, seen through a kernel.

With mean kernels :math:`\mu(l) = E\, K(X, l)` at landmarks l, the statistic is

.. math:: \sum_l \Big(\sum_j w_j K(x_j, l) - \sum_i \alpha_i \mu_i(l)\Big)^2,

the squared maximum mean discrepancy (Gretton et al., 2012) with landmarks for an integral.
It sees classes that moved to where others were, which a density under the mixture does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Bags
from kdey.diagnostics.densities import Array, Indices, TrainingDensities
from kdey.kernels import class_log_sums
from kdey.rows.references import ClassReferences

#: About how many landmarks there are in all, and how many at least for each class.
N_LANDMARKS = 200
MIN_PER_CLASS = 8
#: Width of the kernel, in bandwidths of the densities.
WIDER = 2.0


@dataclass(frozen=True, eq=False)
class Embedding:
    """Kernels between points and landmarks.

    Attributes
    ----------
    references : ClassReferences
    landmarks : array of shape (n_landmarks, k)
        Training points, evenly picked from every class.
    kernels : array of shape (n, n_landmarks)
        Of the training points.
    class_means : array of shape (k, n_landmarks)
    """

    references: ClassReferences
    landmarks: NDArray[np.floating]
    kernels: Array
    class_means: Array

    @classmethod
    def fit(cls, training: TrainingDensities, n_threads: int = 1) -> Embedding:
        """Return the embedding of the training points."""
        refs = training.references
        landmarks = np.ascontiguousarray(refs.points[_evenly(training)])
        kernels = _kernels(refs, refs.points, landmarks, n_threads)
        return cls(refs, landmarks, kernels, training.class_means(kernels))

    def at(self, posteriors: NDArray[Any], n_threads: int = 1) -> Array:
        """Return the kernels of new points, posteriors of shape (m, k)."""
        points = self.references.coordinates(posteriors)
        return _kernels(self.references, points, self.landmarks, n_threads)

    def distance(
        self, kernels: Array, positions: Indices, weights: Array | None, prevalences: Array
    ) -> Array:
        """Return the squared distance of bags, positions (n_bags, size), from their mixtures."""
        n_bags, size = positions.shape
        offsets = np.arange(n_bags + 1, dtype=np.int64) * size
        flat = None if weights is None else np.ascontiguousarray(weights).ravel()
        bags = Bags(np.ascontiguousarray(positions).ravel(), offsets, len(kernels), flat)
        gaps = bags.mean(kernels) - prevalences @ self.class_means
        return np.asarray((gaps**2).sum(axis=1))


def _evenly(training: TrainingDensities) -> Indices:
    per_class = max(MIN_PER_CLASS, N_LANDMARKS // training.n_classes)
    starts, counts = training.references.offsets[:-1], training.counts
    picks = [
        start + np.unique(np.linspace(0, n - 1, min(per_class, n)).astype(np.int64))
        for start, n in zip(starts, counts, strict=True)
    ]
    return np.concatenate(picks)


def _kernels(
    refs: ClassReferences,
    points: NDArray[np.floating],
    landmarks: NDArray[np.floating],
    n_threads: int,
) -> Array:
    # Every landmark is a class of its own: log-sums of one term are the kernels.
    offsets = np.arange(len(landmarks) + 1)
    width = WIDER * refs.bandwidth
    logs = class_log_sums(points, landmarks, offsets, width, n_threads=n_threads)[0]
    return np.asarray(np.exp(logs, out=logs))
