r"""The distance between a bag and its fitted mixture, seen through a kernel.

With mean kernels :math:`\mu(l) = E\, K(X, l)` at landmarks l, the statistic is

.. math:: \sum_l \Big(\sum_j w_j K(x_j, l) - \sum_i \alpha_i \mu_i(l)\Big)^2,

the squared maximum mean discrepancy (Gretton et al., 2012) with landmarks for an integral.
It sees classes that moved to where others were, which a density under the mixture does not.

Instances far from every class, and how many more of them there are than there should be.

The local p-value of a point is the share of the fitted mixture whose density is no higher,

.. math:: u(x) = \sum_i \alpha_i P_i\{p_\alpha(X) \le p_\alpha(x)\},

uniform for points of the mixture. If a share s of the bag comes from elsewhere, where densities are
low, then F(t) = (1 - s) t + s G(t) for the distribution F of the bag's local p-values, so that
(F(t) - t) / (1 - t) <= s for every t: the largest excess is a lower bound on s.

Bags as they would be if nothing but the prevalence had changed.
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


#: Local p-values at which an excess is looked for.
THRESHOLDS = np.array([0.01, 0.02, 0.05, 0.1, 0.2])


def local_p_values(
    training: TrainingDensities, bag: Densities, prevalence: Array
) -> tuple[Array, Array]:
    """Return the local p-values of the bag's points and of the training points."""
    alpha = prevalence[None]
    reference = training.held_out.floored_log(alpha)[:, 0]
    mass = training.class_weights * prevalence[training.labels]
    order = np.argsort(reference, kind="stable")
    below = np.concatenate([[0.0], np.cumsum(mass[order])])
    ordered = reference[order]

    def share(values: Array) -> Array:
        at = np.searchsorted(ordered, values, side="right")
        return np.asarray(np.minimum(below[at] / below[-1], 1.0))

    return share(bag.floored_log(alpha)[:, 0]), share(reference)


def unknown_share(
    local: Array, weights: Array | None, null: Array, null_weights: Array | None, level: float
) -> tuple[float, bool]:
    """Return the excess share of outlying points, and whether it is more than chance.

    Parameters
    ----------
    local : array of shape (m,)
        Local p-values of the bag.
    null : array of shape (n_null, m)
        Those of null bags, whose median excess is taken off at each threshold.
    weights, null_weights : arrays of the shapes of ``local`` and ``null``, optional
    level : float
    """
    seen, by_chance = _excess(local[None], weights), _excess(null, null_weights)
    middle = np.median(by_chance, axis=0)
    found = float((seen - middle).max())
    largest = (by_chance - middle).max(axis=1)
    return max(found, 0.0), bool(found > np.quantile(largest, 1.0 - level))


def _excess(local: Array, weights: Array | None) -> Array:
    """Return (F(t) - t) / (1 - t) of each bag at each threshold, (n_bags, n_thresholds)."""
    given = None if weights is None else np.broadcast_to(weights, local.shape)
    below = [np.average(local <= t, axis=1, weights=given) for t in THRESHOLDS]
    return np.asarray((np.stack(below, axis=1) - THRESHOLDS) / (1.0 - THRESHOLDS))


def null_positions(
    training: TrainingDensities,
    prevalence: Array,
    size: int,
    n_bags: int,
    rng: np.random.Generator,
) -> Indices:
    """Return bags drawn from the training points at ``prevalence``, positions (n_bags, size).

    The training points are themselves a draw from the classes, and the check compares a bag
    with them: each bag comes from training classes that were redrawn (bootstrapped) for it, so
    that the null spreads by the bag's size and by the training set's.
    """
    k = training.n_classes
    counts = rng.multinomial(size, prevalence / prevalence.sum(), size=n_bags)
    classes = np.repeat(np.tile(np.arange(k), n_bags), counts.ravel()).reshape(n_bags, size)
    positions = np.empty((n_bags, size), dtype=np.int64)
    for i in np.flatnonzero(counts.any(axis=0)):
        own = classes == i
        redrawn = _redraw(training, int(i), n_bags, rng)
        slots = rng.integers(redrawn.shape[1], size=np.count_nonzero(own))
        positions[own] = redrawn[np.nonzero(own)[0], slots]
    return positions


def _redraw(
    training: TrainingDensities, i: int, n_bags: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Return the references of class i redrawn for every bag, shape (n_bags, n_i)."""
    first, last = (int(end) for end in training.references.offsets[i : i + 2])
    shape = (n_bags, last - first)
    if training.references.weights is None:
        return rng.integers(first, last, size=shape, dtype=np.int32)
    edges = np.cumsum(training.class_weights[first:last])
    drawn = np.searchsorted(edges / edges[-1], rng.random(shape), side="right")
    return np.asarray(first + np.minimum(drawn, shape[1] - 1), dtype=np.int32)
