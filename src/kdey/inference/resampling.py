"""Bootstrap counts: how often each instance of a bag, or of the training data, is drawn."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags, offsets_of
from kdey.inference.bag import Sampled
from kdey.posteriors import TrainingPosteriors

Indices = NDArray[np.int64]


def bag_generator(seed: int, estimate: Array) -> np.random.Generator:
    """Return a generator of a bag's own: two bags must not be resampled in step.

    It is made of digits of the estimate on which processors and the NumPy path agree, so that a
    seed gives the same replicates on all of them.
    """
    digits = np.rint(estimate * 1e4).astype(np.int64)
    return np.random.default_rng([seed, 1, zlib.crc32(digits.tobytes())])


def bag_counts(bag: Sampled, n: int, rng: np.random.Generator) -> Indices:
    """Return n replicates of a bag as counts of its instances, shape (n, m).

    Units (instances, or clusters with all of theirs) are drawn with replacement.
    """
    units = bag.n_units
    drawn = rng.integers(units, size=(n, units)) + units * np.arange(n)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=n * units).reshape(n, units)
    return counts if bag.clusters is None else counts[:, bag.clusters]


class TrainingReplicates:
    """Replicates of the training data as weights.

    Instances are drawn within their class, so that no class is lost. Replicates depend on the
    seed and their number alone: every bag meets the same ones.
    """

    def __init__(self, training: TrainingPosteriors, seed: int) -> None:
        self._training, self._seed = training, seed
        self._order = np.argsort(training.labels, kind="stable")
        counts = np.bincount(training.labels)
        self._counts = np.repeat(counts, counts)
        self._starts = np.repeat(np.cumsum(counts) - counts, counts)

    def __call__(self, number: int) -> Array:
        """Return the weights of the training instances in one replicate, shape (n,)."""
        rng = np.random.default_rng([self._seed, 2, number])
        shift = (rng.random(len(self._order)) * self._counts).astype(np.int64)
        drawn = self._order[self._starts + shift]
        times = np.bincount(drawn, minlength=len(drawn)).astype(np.float64)
        return times if self._training.weights is None else self._weighted(times)

    def _weighted(self, times: Array) -> Array:
        """Return counts times weights; a class that lost all its weight keeps its own."""
        labels, given = self._training.labels, np.asarray(self._training.weights)
        w = times * given
        lost = np.bincount(labels, weights=w) <= 0
        return np.where(lost[labels], given, w)


def counted_bags(bag: Sampled, counts: Indices, n_rows: int) -> Bags:
    """Return replicates of a bag, counts (n, m), as bags over rows 0..m-1, or over n x m rows.

    With ``n_rows`` = m all replicates share the rows; with n m each has rows of its own.
    """
    m = counts.shape[1]
    replicate, position = np.nonzero(counts)
    offsets = offsets_of(np.count_nonzero(counts, axis=1))
    weights = counts[replicate, position] * bag.weights[position] * m
    indices = position if n_rows == m else replicate * m + position
    return Bags(indices.astype(np.int64), offsets, n_rows, weights)


def drawn_shares(
    bag: Sampled, counts: Indices, membership: Array, rng: np.random.Generator
) -> Array:
    """Return the realised class shares of replicates whose labels are drawn, shape (n, k).

    Each drawn instance gets a label from its row of ``membership`` (m, k), whose rows are
    posteriors adapted to the estimate.
    """
    replicate, position = np.nonzero(counts)
    times = counts[replicate, position]
    replicate, position = np.repeat(replicate, times), np.repeat(position, times)
    k = membership.shape[1]
    limits = np.cumsum(membership, axis=1)[:, :-1]
    u = rng.random(len(position))
    labels = np.zeros(len(position), dtype=np.int64)
    for i in range(k - 1):
        labels += u > limits[position, i]
    w = bag.weights[position]
    shares = np.bincount(replicate * k + labels, weights=w, minlength=len(counts) * k)
    made: Any = shares.reshape(len(counts), k)
    return np.asarray(made / made.sum(axis=1, keepdims=True))
