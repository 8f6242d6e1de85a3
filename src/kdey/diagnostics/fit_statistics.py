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

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Bags
from kdey.diagnostics.densities import Array, Densities, Indices, TrainingDensities
from kdey.rows.references import ClassReferences

#: Approximate number of landmarks in all, and smallest number for each class; the smallest number
#: gives way where there are so many classes that it would make more than ``MOST_LANDMARKS``.
N_LANDMARKS = 200
MIN_PER_CLASS = 8
MOST_LANDMARKS = 800
#: Width of the kernel of the distance, in bandwidths of the densities.
RELATIVE_WIDTH = 2.0
#: Directions in which the kernels of landmarks vary less than this, relative to the largest, are
#: left out: they hold less than the distances of null bags differ by.
SMALLEST_DIRECTION = 1e-6
#: Numbers of a temporary array (16 MB).
_CHUNK = 2_000_000
#: Local p-values at which we look for an excess of outlying points.
THRESHOLDS = np.array([0.01, 0.02, 0.05, 0.1, 0.2])


@dataclass(frozen=True, eq=False)
class Embedding:
    """Features of points whose differences have the length of kernel distances.

    The features are the kernels to the landmarks in an orthonormal basis of the directions in which
    the kernels of landmarks vary. There are fewer of them than landmarks, because kernels to
    neighbouring landmarks are nearly the same.

    Attributes
    ----------
    references : ClassReferences
    landmarks : array of shape (n_landmarks, d)
        Evenly spaced training points of every class.
    basis : array of shape (n_landmarks, r)
    features : array of shape (n, r)
        Features of the training points.
    class_means : array of shape (k, r)
        Mean features of each class.
    """

    references: ClassReferences
    landmarks: Array
    basis: Array
    features: Array
    class_means: Array

    @classmethod
    def fit(cls, training: TrainingDensities) -> Embedding:
        """Return the embedding of the training points."""
        refs = training.references
        landmarks = refs.points[_landmark_positions(training)].astype(np.float64)
        width = RELATIVE_WIDTH * refs.bandwidth
        values, vectors = np.linalg.eigh(_kernels(landmarks, landmarks, width))
        basis = vectors[:, values > SMALLEST_DIRECTION * values[-1]]
        empty = np.empty((0, basis.shape[1]))
        unfitted = cls(refs, landmarks, np.ascontiguousarray(basis), empty, empty)
        features = unfitted._features(refs.points)
        return replace(unfitted, features=features, class_means=training.class_means(features))

    def at(self, posteriors: NDArray[Any]) -> Array:
        """Return the features of new points, posteriors of shape (m, k)."""
        return self._features(self.references.coordinates(posteriors))

    def _features(self, points: NDArray[np.floating]) -> Array:
        width = RELATIVE_WIDTH * self.references.bandwidth
        out = np.empty((len(points), self.basis.shape[1]))
        step = max(1, _CHUNK // len(self.landmarks))
        for start in range(0, len(points), step):
            part = points[start : start + step]
            out[start : start + step] = _kernels(part, self.landmarks, width) @ self.basis
        return out

    def distance(self, features: Array, bags: Bags, prevalences: Array) -> Array:
        """Return the squared distances of bags from their mixtures, shape (n_bags,).

        Parameters
        ----------
        features : array of shape (n_points, r)
            Features of the points that bags are made of.
        bags : Bags
            Over these points.
        prevalences : array of shape (n_bags, k)
            The mixture that each bag is compared with.

        Returns
        -------
        array of shape (n_bags,)
        """
        gaps = bags.mean(features) - prevalences @ self.class_means
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


def _kernels(points: NDArray[np.floating], landmarks: Array, width: float) -> Array:
    """Return Gaussian kernels between points (m, d) and landmarks, shape (m, n_landmarks)."""
    x = np.asarray(points, dtype=np.float64)
    squares = (x**2).sum(axis=1)[:, None] + (landmarks**2).sum(axis=1)
    squares -= 2.0 * (x @ landmarks.T)
    np.maximum(squares, 0.0, out=squares)
    squares *= -0.5 / width**2
    return np.asarray(np.exp(squares, out=squares))


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
        Between zero and one.
    significant : bool
    """
    middle = np.median(null, axis=0)
    share = float((observed - middle).max())
    largest = (null - middle).max(axis=1)
    return min(max(share, 0.0), 1.0), bool(share > np.quantile(largest, 1.0 - level))
