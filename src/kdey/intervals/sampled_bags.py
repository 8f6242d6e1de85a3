"""What a bag brings to its interval: weights, clusters, and how much they are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.bags import Array, Bags

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sampled:
    """One bag over the rows of a pool, as drawn.

    Attributes
    ----------
    indices : int64 array of shape (m,)
        Positions in the pool, those of weight zero left out.
    weights : array of shape (m,)
        Summing to one.
    clusters : int64 array of shape (m,) or None
        Number of the cluster that each instance was drawn with.
    """

    indices: Indices
    weights: Array
    clusters: Indices | None

    @property
    def n_units(self) -> int:
        """Number of units drawn independently: instances, or clusters."""
        if self.clusters is None:
            return len(self.indices)
        return int(self.clusters.max()) + 1

    @cached_property
    def effective_size(self) -> float:
        """(sum w)^2 / sum w^2: how many equally weighted instances the bag is worth."""
        return float(1.0 / (self.weights @ self.weights))

    def design_effect(self, values: Array) -> Array:
        """Return the variance of the mean of ``values`` (m, k) over that of independent draws.

        Shape (k,); at least one, as few clusters can show too little variance by chance.
        """
        if self.clusters is None or self.n_units < 2:
            return np.ones(values.shape[1])
        residual = (values - self.weights @ values) * self.weights[:, None]
        sums = np.zeros((self.n_units, values.shape[1]))
        np.add.at(sums, self.clusters, residual)
        n, m = self.n_units, len(values)
        clustered = (sums**2).sum(axis=0) * n / (n - 1)
        independent = (residual**2).sum(axis=0) * m / (m - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(independent > 0, clustered / independent, 1.0)
        return np.maximum(ratio, 1.0)


@dataclass(frozen=True, eq=False)
class SampledBags(Sequence[Sampled]):
    """Every bag as drawn; single ones are made when asked for, numbers of all at once.

    Attributes
    ----------
    bags : Bags
    codes : int64 array of shape (pool_size,) or None
        Cluster of each instance of the pool.
    """

    bags: Bags
    codes: Indices | None

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.bags)

    @overload
    def __getitem__(self, index: int) -> Sampled: ...

    @overload
    def __getitem__(self, index: slice) -> SampledBags: ...

    def __getitem__(self, index: int | slice) -> Sampled | SampledBags:
        """Return one bag, or those of a contiguous slice."""
        if isinstance(index, slice):
            return SampledBags(self.bags[index], self.codes)
        return self._one(range(len(self))[index])

    def _one(self, number: int) -> Sampled:
        first, last = self.bags.offsets[number : number + 2]
        where, w = self.bags.indices[first:last], self.bags.bag_weights(number)
        if self.bags.weights is not None:
            where, w = where[w > 0], w[w > 0]
        if self.codes is None:
            return Sampled(where, w / w.sum(), None)
        own = np.unique(self.codes[where], return_inverse=True)[1]
        return Sampled(where, w / w.sum(), own.astype(np.int64))

    @cached_property
    def sizes(self) -> Indices:
        """Instances of positive weight of each bag, shape (n_bags,)."""
        if self.bags.weights is None:
            return self.bags.sizes
        return np.add.reduceat(self.bags.weights > 0, self.bags.offsets[:-1], dtype=np.int64)

    @cached_property
    def effective_sizes(self) -> Array:
        """(sum w)^2 / sum w^2 of each bag, shape (n_bags,)."""
        w, starts = self.bags.weights, self.bags.offsets[:-1]
        if w is None:
            return self.bags.sizes.astype(np.float64)
        w = w / np.repeat(np.maximum.reduceat(w, starts), self.bags.sizes)  # no overflow
        return np.asarray(np.add.reduceat(w, starts) ** 2 / np.add.reduceat(w * w, starts))

    @cached_property
    def n_units(self) -> Indices:
        """Independently drawn units of each bag, shape (n_bags,)."""
        if self.codes is None:
            return self.sizes
        return np.array([bag.n_units for bag in self], dtype=np.int64)


def sampled_bags(bags: Bags, clusters: ArrayLike | None) -> SampledBags:
    """Return every bag with its weights; ``clusters`` holds one id per instance of the pool."""
    return SampledBags(bags, None if clusters is None else _cluster_codes(clusters, bags.pool_size))


def _cluster_codes(clusters: ArrayLike, pool_size: int) -> Indices:
    given = np.asarray(clusters)
    if given.shape != (pool_size,):
        raise ValueError(
            f"clusters must hold one id per instance, shape ({pool_size},), got {given.shape}"
        )
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        raise ValueError("clusters contains NaN or infinity: give every instance an id")
    return np.unique(given, return_inverse=True)[1].astype(np.int64)
