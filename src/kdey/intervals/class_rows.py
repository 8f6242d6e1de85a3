"""Which rows make up each class: runs of a sorted array, or soft shares of a bag.

Rows of training instances as if they were new: what a class looks like to the templates.

A training instance is inside the templates it is to be compared with. For kernel densities its
own kernel is left out of its row; for the methods whose templates are a few numbers per class the
effect is of order 1 / n and the plain row is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, offsets_of
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import RowMap
from kdey.rows.references import reference_order

TINY = np.finfo(np.float64).tiny


class Parts(Protocol):
    """Weights of n' rows in the means of k classes; those of one class sum to one."""

    @property
    def counts(self) -> Array:
        """Effective number of rows of each class, 1 / sum w^2, shape (k,)."""
        ...

    def means(self, values: Array) -> Array:
        """Return the mean of ``values`` (n', c) in each class, shape (c, k)."""
        ...

    def powers(self, values: Array) -> tuple[Array, Array, Array, Array]:
        """Return the means of the first four powers of ``values`` (n', c), each (c, k)."""
        ...

    def products(self, z: Array) -> Array:
        """Return the mean of z_i z_l in class l as entry (i, l), from ``z`` (n', k)."""
        ...

    def spread_out(self, shares: Array) -> Array:
        """Return the weight of each row in sum_l shares_l mean_l, shape (n',)."""
        ...


@dataclass(frozen=True, eq=False)
class Runs:
    """Rows sorted by class.

    Attributes
    ----------
    weights : array of shape (n',)
        Sum to one within each class.
    offsets : int64 array of shape (k + 1,)
        Class l owns rows ``offsets[l]`` to ``offsets[l + 1]``; none is without rows.
    """

    weights: Array
    offsets: NDArray[np.int64]

    @cached_property
    def owners(self) -> NDArray[np.int64]:
        """Class of each row, shape (n',)."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @cached_property
    def counts(self) -> Array:
        """Effective number of rows of each class, shape (k,)."""
        squares = np.add.reduceat(self.weights**2, self.offsets[:-1])
        return np.asarray(1.0 / np.maximum(squares, TINY))

    def means(self, values: Array) -> Array:
        """Return the mean of ``values`` (n', c) in each class, shape (c, k)."""
        return self._sum(values * self._column(values))

    def powers(self, values: Array) -> tuple[Array, Array, Array, Array]:
        """Return the means of the first four powers of ``values`` (n', c), each (c, k)."""
        power = values * self._column(values)
        first = self._sum(power)
        second, third, fourth = (self._sum(np.multiply(power, values, out=power)) for _ in range(3))
        return first, second, third, fourth

    def products(self, z: Array) -> Array:
        """Return the mean of z_i z_l in class l as entry (i, l), from ``z`` (n', k)."""
        own = z[np.arange(len(z)), self.owners] * self._column(z)[:, 0]
        return self._sum(z * own[:, None])

    def spread_out(self, shares: Array) -> Array:
        """Return the weight of each row in sum_l shares_l mean_l, shape (n',)."""
        return np.asarray(self.weights * shares[self.owners])

    def _column(self, like: NDArray[np.floating]) -> NDArray[np.floating]:
        """Weights as a column of the type of the values: a product keeps its precision."""
        return self.weights.astype(like.dtype)[:, None]

    def _sum(self, values: Array) -> Array:
        return np.add.reduceat(values, self.offsets[:-1]).T.astype(np.float64)


@dataclass(frozen=True, eq=False)
class SoftParts:
    """Rows that belong to every class a little: ``membership`` (n', k), columns summing to one."""

    membership: Array

    @property
    def counts(self) -> Array:
        """Effective number of rows of each class, shape (k,)."""
        return np.asarray(1.0 / np.maximum((self.membership**2).sum(axis=0), TINY))

    def means(self, values: Array) -> Array:
        """Return the mean of ``values`` (n', c) in each class, shape (c, k)."""
        return np.asarray(values.T @ self.membership)

    def powers(self, values: Array) -> tuple[Array, Array, Array, Array]:
        """Return the means of the first four powers of ``values`` (n', c), each (c, k)."""
        square = values * values
        first, second = self.means(values), self.means(square)
        return first, second, self.means(square * values), self.means(square * square)

    def products(self, z: Array) -> Array:
        """Return the mean of z_i z_l in class l as entry (i, l), from ``z`` (n', k)."""
        return np.asarray(z.T @ (self.membership * z))

    def spread_out(self, shares: Array) -> Array:
        """Return the weight of each row in sum_l shares_l mean_l, shape (n',)."""
        return np.asarray(self.membership @ shares)


Indices = NDArray[np.int64]

#: Rows of all classes together, and least of one class, from which spreads are computed; means
#: take all rows.
THIN, THIN_CLASS = 2_000, 60
#: Rows per class that are made at all; beyond it the training-by-training pass costs too much.
MOST = 5_000


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Training rows sorted by class.

    Attributes
    ----------
    rows : float32 array of shape (n, k)
        Densities relative to each row's largest, or features; float32, as a pass over all of
        them is made for every bag.
    offsets : int64 array of shape (k + 1,)
        Class l owns ``rows[offsets[l]:offsets[l + 1]]``.
    weights : float32 array of shape (n,)
        Sum to one within each class.
    thin : int64 array
        Positions of the rows that spreads are computed from.
    """

    rows: NDArray[np.float32]
    offsets: Indices
    weights: NDArray[np.float32]
    thin: Indices

    @property
    def counts(self) -> Indices:
        """Number of rows of each class, shape (k,)."""
        return np.diff(self.offsets)

    @cached_property
    def thin_rows(self) -> NDArray[np.float32]:
        """The rows that spreads are computed from, shape (n', k)."""
        return self.rows[self.thin]

    @cached_property
    def thin_parts(self) -> Runs:
        """The classes of the thinned rows."""
        owners = np.searchsorted(self.offsets, self.thin, side="right") - 1
        counts = np.bincount(owners, minlength=len(self.offsets) - 1)
        offsets = offsets_of(counts)
        w = self.weights[self.thin].astype(np.float64)
        return Runs(w / np.add.reduceat(w, offsets[:-1])[owners], offsets)

    @property
    def typical_size(self) -> float:
        """Harmonic mean of the sizes: small where one class is."""
        return float(len(self.sizes) / (1.0 / self.sizes).sum())

    @cached_property
    def sizes(self) -> Array:
        """Effective number of rows of each class, 1 / sum w^2, shape (k,)."""
        squares = self.weights.astype(np.float64) ** 2
        return np.asarray(1.0 / np.add.reduceat(squares, self.offsets[:-1]))


def class_rows(
    row_map: RowMap,
    training: TrainingPosteriors,
    n_classes: int,
    hold: Callable[[NDArray[np.floating]], Array],
    n_threads: int = 1,
) -> ClassRows:
    """Return the rows of the training instances, each as if it were new.

    Parameters
    ----------
    row_map : fitted row map
    training : TrainingPosteriors
    n_classes : int
    hold : callable
        From the map's own rows to what is held: densities on a common scale, or features.
    n_threads : int
    """
    w = np.ones(len(training.labels)) if training.weights is None else training.weights
    picks = _picks(training, n_classes)
    rows = hold(row_map.new_rows(training, picks, n_threads))
    labels, w = training.labels[picks], w[picks]
    counts = np.bincount(labels, minlength=n_classes)
    offsets = offsets_of(counts)
    mass = np.bincount(labels, weights=w, minlength=n_classes)
    shares = (w / mass[labels]).astype(np.float32)
    thin = _spaced(offsets, max(THIN // n_classes, THIN_CLASS))
    return ClassRows(rows.astype(np.float32), offsets, shares, thin)


def _picks(training: TrainingPosteriors, n_classes: int) -> Indices:
    """Return the instances to use, sorted by class: all, or evenly spaced ones of each class."""
    order = reference_order(training)
    counts = np.bincount(training.labels[order], minlength=n_classes)
    offsets = offsets_of(counts)
    return np.asarray(order[_spaced(offsets, MOST)])


def _spaced(offsets: Indices, most: int) -> Indices:
    """Return at most ``most`` evenly spaced positions of each class."""
    parts = [
        np.unique(np.linspace(start, stop - 1, min(most, stop - start)).astype(np.int64))
        for start, stop in pairwise(offsets.tolist())
    ]
    return np.concatenate(parts)
