"""Sampled bags: bags with weights and clusters, and their effective sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.arrays import for_numpy
from kdey.bags import Array, Bags
from kdey.validation import group_codes

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SampledBag:
    """One bag over the rows of a pool, as it was sampled.

    Attributes
    ----------
    indices : int64 array of shape (m,)
        Positions in the pool of the instances with positive weight.
    weights : array of shape (m,)
        Weights that sum to one.
    clusters : int64 array of shape (m,) or None
        Number of the cluster, from 0, in which each instance was drawn.
    """

    indices: Indices
    weights: Array
    clusters: Indices | None

    @property
    def n_units(self) -> int:
        """Number of independently drawn units: instances, or clusters."""
        if self.clusters is None:
            return len(self.indices)
        return int(self.clusters.max()) + 1

    @cached_property
    def effective_size(self) -> float:
        """(sum w)^2 / sum w^2: the number of equally weighted instances with the same variance."""
        return float(1.0 / (self.weights @ self.weights))

    def design_effect(self, values: Array) -> Array:
        """Return the variance of a mean relative to that of independent draws.

        Parameters
        ----------
        values : array of shape (m, k)

        Returns
        -------
        array of shape (k,)
            At least one, because few clusters can show too little variance by chance.
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
class SampledBags(Sequence[SampledBag]):
    """Every bag as it was sampled.

    Single bags are created on access; sizes are computed for all bags at once.

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
    def __getitem__(self, index: int) -> SampledBag: ...

    @overload
    def __getitem__(self, index: slice) -> SampledBags: ...

    def __getitem__(self, index: int | slice) -> SampledBag | SampledBags:
        """Return one bag, or those of a contiguous slice."""
        if isinstance(index, slice):
            return SampledBags(self.bags[index], self.codes)
        return self._bag(range(len(self))[index])

    def _bag(self, number: int) -> SampledBag:
        first, last = self.bags.offsets[number : number + 2]
        indices, w = self.bags.indices[first:last], self.bags.bag_weights(number)
        if self.bags.weights is not None:
            indices, w = indices[w > 0], w[w > 0]
        if self.codes is None:
            return SampledBag(indices, w / w.sum(), None)
        clusters = np.unique(self.codes[indices], return_inverse=True)[1]
        return SampledBag(indices, w / w.sum(), clusters.astype(np.int64))

    @cached_property
    def sizes(self) -> Indices:
        """Number of instances with positive weight in each bag, shape (n_bags,)."""
        if self.bags.weights is None:
            return self.bags.sizes
        return np.add.reduceat(self.bags.weights > 0, self.bags.offsets[:-1], dtype=np.int64)

    @cached_property
    def effective_sizes(self) -> Array:
        """(sum w)^2 / sum w^2 of each bag, shape (n_bags,)."""
        w, starts = self.bags.weights, self.bags.offsets[:-1]
        if w is None:
            return self.bags.sizes.astype(np.float64)
        # Weights relative to the largest of their bag, so that squares do not overflow.
        w = w / np.repeat(np.maximum.reduceat(w, starts), self.bags.sizes)
        return np.asarray(np.add.reduceat(w, starts) ** 2 / np.add.reduceat(w * w, starts))

    @cached_property
    def n_units(self) -> Indices:
        """Number of independently drawn units in each bag, shape (n_bags,)."""
        if self.codes is None:
            return self.sizes
        return np.array([bag.n_units for bag in self], dtype=np.int64)


def sampled_bags(bags: Bags, clusters: ArrayLike | None) -> SampledBags:
    """Return every bag with its weights and clusters.

    Parameters
    ----------
    bags : Bags
    clusters : array-like of shape (pool_size,) or None
        Id of the cluster in which each instance of the pool was drawn.

    Returns
    -------
    SampledBags

    Raises
    ------
    ValueError
        If ``clusters`` has another shape, missing ids, or ids that cannot be ordered.
    """
    return SampledBags(bags, None if clusters is None else _cluster_codes(clusters, bags.pool_size))


def _cluster_codes(clusters: ArrayLike, pool_size: int) -> Indices:
    """Return the number of each instance's cluster, from 0, shape (pool_size,)."""
    ids = np.asarray(for_numpy(clusters, "clusters"))
    if ids.shape != (pool_size,):
        raise ValueError(
            f"clusters must hold one id per instance, shape ({pool_size},), got {ids.shape}"
        )
    if ids.dtype.kind == "f" and not np.isfinite(ids).all():
        raise ValueError("clusters contains NaN or infinity: give every instance an id")
    if np.ma.is_masked(clusters):
        raise ValueError("clusters has masked entries: give every instance an id")
    return group_codes(ids, "clusters")[1]
