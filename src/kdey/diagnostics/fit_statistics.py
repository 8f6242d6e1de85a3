r"""Statistics of the fit check: kernel distance, and local p-values of instances.

**Kernel distance** between a bag and its fitted mixture. With mean kernels
:math:`\mu(l) = E\, K(X, l)` at landmarks l, the statistic is

.. math:: \sum_l \Big(\sum_j w_j K(x_j, l) - \sum_i \alpha_i \mu_i(l)\Big)^2,

the squared maximum mean discrepancy (Gretton et al., 2012) with a sum over landmarks in place of an
integral. It detects a class that moved to the place of another, which the density under the mixture
does not.

**Local p-value** of a point: the share of the fitted mixture whose density is no higher,

.. math:: u(x) = \sum_i \alpha_i P_i\{p_\alpha(X) \le p_\alpha(x)\},

which is uniform for points of the mixture. If a share s of the bag comes from elsewhere, where
densities are low, then the distribution F of the bag's local p-values is F(t) = (1 - s) t + s G(t),
so that (F(t) - t) / (1 - t) <= s for every t: the largest excess is a lower bound on s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Bags
from kdey.diagnostics.densities import Array, Densities, Indices, TrainingDensities
from kdey.kernels import class_log_sums
from kdey.rows.references import ClassReferences

#: Approximate number of landmarks in all, and smallest number for each class; the smallest number
#: gives way where there are so many classes that it would make more than ``MOST_LANDMARKS``.
N_LANDMARKS = 200
MIN_PER_CLASS = 8
MOST_LANDMARKS = 800
#: Width of the kernel of the distance, in bandwidths of the densities.
RELATIVE_WIDTH = 2.0
#: Local p-values at which we look for an excess of outlying points.
THRESHOLDS = np.array([0.01, 0.02, 0.05, 0.1, 0.2])


@dataclass(frozen=True, eq=False)
class Embedding:
    """Kernels between training points and landmarks.

    Attributes
    ----------
    references : ClassReferences
    landmarks : array of shape (n_landmarks, k)
        Evenly spaced training points of every class.
    kernels : array of shape (n, n_landmarks)
        Kernels between the training points and the landmarks.
    class_means : array of shape (k, n_landmarks)
        Mean kernels of each class.
    """

    references: ClassReferences
    landmarks: NDArray[np.floating]
    kernels: Array
    class_means: Array

    @classmethod
    def fit(cls, training: TrainingDensities, n_threads: int = 1) -> Embedding:
        """Return the embedding of the training points."""
        refs = training.references
        landmarks = np.ascontiguousarray(refs.points[_landmark_positions(training)])
        kernels = _kernels(refs, refs.points, landmarks, n_threads)
        return cls(refs, landmarks, kernels, training.class_means(kernels))

    def at(self, posteriors: NDArray[Any], n_threads: int = 1) -> Array:
        """Return the kernels of new points, posteriors of shape (m, k)."""
        points = self.references.coordinates(posteriors)
        return _kernels(self.references, points, self.landmarks, n_threads)

    def distance(self, kernels: Array, bags: Bags, prevalences: Array) -> Array:
        """Return the squared distances of bags from their mixtures, shape (n_bags,).

        Parameters
        ----------
        kernels : array of shape (n_points, n_landmarks)
            Kernels between the points that bags are made of and the landmarks.
        bags : Bags
            Over these points.
        prevalences : array of shape (n_bags, k)
            The mixture that each bag is compared with.

        Returns
        -------
        array of shape (n_bags,)
        """
        gaps = bags.mean(kernels) - prevalences @ self.class_means
        return np.asarray((gaps**2).sum(axis=1))


def _landmark_positions(training: TrainingDensities) -> Indices:
    """Return the positions of evenly spaced references of every class."""
    k = training.n_classes
    per_class = max(1, min(max(MIN_PER_CLASS, N_LANDMARKS // k), MOST_LANDMARKS // k))
    starts, counts = training.references.offsets[:-1], training.counts
    positions = [
        start + np.unique(np.linspace(0, n - 1, min(per_class, n)).astype(np.int64))
        for start, n in zip(starts, counts, strict=True)
    ]
    return np.concatenate(positions)


def _kernels(
    refs: ClassReferences,
    points: NDArray[np.floating],
    landmarks: NDArray[np.floating],
    n_threads: int,
) -> Array:
    """Return the kernels between points (m, d) and landmarks, shape (m, n_landmarks)."""
    # We treat every landmark as a class by itself: log-sums of one term are log-kernels.
    offsets = np.arange(len(landmarks) + 1)
    width = RELATIVE_WIDTH * refs.bandwidth
    logs = class_log_sums(points, landmarks, offsets, width, n_threads=n_threads)[0]
    return np.asarray(np.exp(logs, out=logs))


def local_p_values(
    training: TrainingDensities, bag: Densities, prevalence: Array
) -> tuple[Array, Array]:
    """Return the local p-values of the bag's points and of the training points.

    Parameters
    ----------
    training : TrainingDensities
    bag : Densities
        Of the bag's m points.
    prevalence : array of shape (k,)
        The fitted mixture.

    Returns
    -------
    bag : array of shape (m,)
    training : array of shape (n,)
    """
    alpha = prevalence[None]
    reference = training.held_out.floored_log(alpha)[:, 0]
    mass = training.class_weights * prevalence[training.labels]
    order = np.argsort(reference, kind="stable")
    below = np.concatenate([[0.0], np.cumsum(mass[order])])
    ordered = reference[order]

    def share(values: Array) -> Array:
        positions = np.searchsorted(ordered, values, side="right")
        return np.asarray(np.minimum(below[positions] / below[-1], 1.0))

    return share(bag.floored_log(alpha)[:, 0]), share(reference)


def outlying_excess(local: Array, bags: Bags) -> Array:
    """Return (F(t) - t) / (1 - t) of bags at each threshold t, shape (n_bags, n_thresholds).

    Parameters
    ----------
    local : array of shape (n_points,)
        Local p-values, of which F is the distribution function in a bag.
    bags : Bags
        Over these points.
    """
    below = bags.mean((local[:, None] <= THRESHOLDS).astype(np.float64))
    return np.asarray((below - THRESHOLDS) / (1.0 - THRESHOLDS))


def unknown_share(observed: Array, null: Array, level: float) -> tuple[float, bool]:
    """Return the excess share of outlying points, and whether it exceeds what chance gives.

    Parameters
    ----------
    observed : array of shape (1, n_thresholds)
        The excess of the bag (:func:`outlying_excess`).
    null : array of shape (n_null, n_thresholds)
        The excess of null bags, whose median is subtracted at each threshold.
    level : float
        Significance level.

    Returns
    -------
    share : float
        At least zero.
    significant : bool
    """
    middle = np.median(null, axis=0)
    share = float((observed - middle).max())
    largest = (null - middle).max(axis=1)
    return max(share, 0.0), bool(share > np.quantile(largest, 1.0 - level))
