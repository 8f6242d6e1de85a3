"""Null bags: bags in which nothing but the prevalence differs from training.

A null bag has the size and the prevalence of the bag that is checked, and its instances are
training points. The training points, with which the check compares a bag, are themselves a sample.
We therefore draw each null bag from a bootstrap sample of the training classes, so that the null
distribution reflects both the size of the bag and that of the training set.

Null bag number b uses the same random numbers whatever the prevalence and size: one number per
instance chooses its class and its place in the class, and b has one bootstrap sample of the
training set. The null bags of a bag therefore do not depend on the other bags that are checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Bags, offsets_of
from kdey.diagnostics.densities import Array, Indices, TrainingDensities

#: Up to this number of classes, comparing with each class in turn is faster than a search.
_FEW_CLASSES = 12


@dataclass(frozen=True, eq=False)
class _Draws:
    """Random numbers of some null bags.

    Attributes
    ----------
    uniform : array of shape (n_null, size)
        Uniform numbers that choose the class of each instance and its place in the class.
    resampled : int32 array of shape (n_null, n)
        A bootstrap sample of the training points of each class, as positions of references.
    """

    uniform: Array
    resampled: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class NullBags:
    """A source of null bags.

    Attributes
    ----------
    training : TrainingDensities
    seed : int
        At least zero.
    largest : int
        Number of instances of the largest bag.
    """

    training: TrainingDensities
    seed: int
    largest: int
    _draws: dict[tuple[int, int], _Draws] = field(default_factory=dict, repr=False)

    def draw(
        self,
        prevalences: Array,
        sizes: Indices,
        numbers: range,
        weights: list[Array] | None = None,
    ) -> Bags:
        """Return null bags, as bags over the training points.

        Parameters
        ----------
        prevalences : array of shape (n_bags, k)
        sizes : int64 array of shape (n_bags,)
        numbers : range
            Which null bags to draw for each of the bags.
        weights : list of n_bags arrays, optional
            Weights of the instances of each bag; null bags have them too, in a random order.

        Returns
        -------
        Bags
            All null bags of the first bag, then those of the second, and so on. Unweighted bags
            that are larger than the training set are given by the number of times that each
            training point was drawn.
        """
        draws, n = self._random_numbers(numbers), len(self.training.labels)
        edges = np.cumsum(prevalences, axis=1)
        edges /= edges[:, -1:]
        before = np.concatenate([np.zeros((len(edges), 1)), edges[:, :-1]], axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):  # absent classes are never chosen
            # Within the interval of its class a number is uniform again, and chooses the place.
            slopes = self.training.counts / (edges - before)
            shifts = self.training.references.offsets[:-1] - slopes * before
        parts = [
            _positions(draws, edges[bag], slopes[bag], shifts[bag], int(size)).ravel()
            for bag, size in enumerate(sizes)
        ]
        indices = np.concatenate(parts).astype(np.int64)
        n_null = len(numbers)
        null_sizes = np.repeat(sizes, n_null)
        offsets = offsets_of(null_sizes)
        if weights is None:
            bags = Bags(indices, offsets, n)
            return _counted(bags) if offsets[-1] > n * len(null_sizes) else bags
        orders = self._stream(numbers, 2).random((self.largest, n_null), dtype=np.float32).T
        shuffled = [
            w[np.argsort(order[: len(w)], kind="stable")] for w in weights for order in orders
        ]
        return Bags(indices, offsets, n, np.concatenate(shuffled))

    def _random_numbers(self, numbers: range) -> _Draws:
        """Return the random numbers of some null bags, which are drawn once."""
        key = (numbers.start, numbers.stop)
        if key not in self._draws:
            # Instances come first in the shape, so that small bags use the first numbers of large
            # ones: the null bags of a bag do not depend on the largest.
            uniform = self._stream(numbers, 0).random((self.largest, len(numbers)))
            resampled = self._resample(self._stream(numbers, 1), len(numbers))
            self._draws[key] = _Draws(np.ascontiguousarray(uniform.T), resampled)
        return self._draws[key]

    def _stream(self, numbers: range, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, numbers.start, purpose])

    def _resample(self, rng: np.random.Generator, n_null: int) -> NDArray[np.int32]:
        """Return bootstrap samples of every class, as positions of references, (n_null, n)."""
        training = self.training
        labels, counts = training.labels, training.counts
        starts = training.references.offsets[:-1]
        uniform = rng.random((n_null, len(labels)))
        if training.references.weights is None:
            drawn = starts[labels] + (uniform * counts[labels]).astype(np.int64)
        else:
            # The weights of class i fill the interval from i to i + 1.
            edges = np.cumsum(training.class_weights)
            ends = edges[starts + counts - 1]
            first = np.concatenate([[0.0], ends[:-1]])
            drawn = np.searchsorted(
                edges, first[labels] + uniform * (ends - first)[labels], side="right"
            )
        last = (starts + counts - 1)[labels]
        return np.asarray(np.clip(drawn, starts[labels], last), dtype=np.int32)


def _positions(
    draws: _Draws, edges: Array, slopes: Array, shifts: Array, size: int
) -> NDArray[np.int32]:
    """Return the training points of the null bags of one bag, shape (n_null, size).

    The classes fill the intervals between ``edges``, shape (k,); ``slopes`` and ``shifts`` map the
    interval of a class to its places among the references.
    """
    uniform, n = draws.uniform[:, :size], draws.resampled.shape[1]
    code = _choose_classes(edges, uniform)
    place = (slopes[code] * uniform + shifts[code]).astype(np.int64)
    np.clip(place, 0, n - 1, out=place)  # rounding
    place += (np.arange(len(uniform)) * n)[:, None]
    return np.asarray(draws.resampled.ravel()[place])


def _choose_classes(edges: Array, uniform: Array) -> Indices:
    """Return the class of each number: the first whose edge is above it."""
    last = int(np.searchsorted(edges, 1.0))  # the last class of positive prevalence
    if last >= _FEW_CLASSES:
        return np.asarray(np.minimum(np.searchsorted(edges, uniform, side="right"), last))
    code = np.zeros(uniform.shape, dtype=np.int64)
    for edge in edges[:last]:
        code += uniform >= edge
    return code


def _counted(bags: Bags) -> Bags:
    """Return unweighted bags with each point once, weighted by the times that it occurs."""
    n = bags.pool_size
    owner = np.repeat(np.arange(len(bags)), bags.sizes)
    counts = np.bincount(owner * n + bags.indices, minlength=len(bags) * n)
    drawn = np.flatnonzero(counts)
    offsets = np.searchsorted(drawn, np.arange(len(bags) + 1) * n)
    return Bags(drawn % n, offsets.astype(np.int64), n, counts[drawn].astype(np.float64))
