"""Class rows: the rows of the training instances as if these were new.

The moment equation needs the mean and the spread of rows within each class. A training instance is
part of the templates that produce its row, and would look better placed than a new instance. Kernel
densities therefore leave the instance's own kernel out of its row; for methods whose templates are
a few numbers per class the effect is of order 1 / n, and we use the plain row.

:class:`ClassWeights` is the interface to class means of rows. Training rows are sorted by class;
where there are none, the instances of a bag belong to every class in part.
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

Indices = NDArray[np.int64]

TINY = np.finfo(np.float64).tiny
#: Spreads are computed from about 2,000 rows in all, and from at least 60 of each class; means use
#: all rows.
SPREAD_ROWS, SPREAD_ROWS_PER_CLASS = 2_000, 60
#: Largest number of rows per class that is computed at all; with more, the pass over all pairs of
#: training instances costs too much.
MAX_ROWS_PER_CLASS = 5_000


class ClassWeights(Protocol):
    """Weights of n' rows in the means of k classes; the weights of a class sum to one."""

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

    def row_weights(self, shares: Array) -> Array:
        """Return the weight of each row in sum_l shares_l mean_l, shape (n',)."""
        ...


@dataclass(frozen=True, eq=False)
class SortedClassWeights:
    """Rows sorted by class.

    Attributes
    ----------
    weights : array of shape (n',)
        Sum to one within each class.
    offsets : int64 array of shape (k + 1,)
        Class l owns rows ``offsets[l]`` to ``offsets[l + 1]``; every class has rows.
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
        z_of_owner = z[np.arange(len(z)), self.owners] * self._column(z)[:, 0]
        return self._sum(z * z_of_owner[:, None])

    def row_weights(self, shares: Array) -> Array:
        """Return the weight of each row in sum_l shares_l mean_l, shape (n',)."""
        return np.asarray(self.weights * shares[self.owners])

    def _column(self, like: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the weights as a column of the dtype of ``like``, so that products keep it."""
        return self.weights.astype(like.dtype)[:, None]

    def _sum(self, values: Array) -> Array:
        return np.add.reduceat(values, self.offsets[:-1]).T.astype(np.float64)


@dataclass(frozen=True, eq=False)
class MembershipWeights:
    """Rows that belong to every class in part.

    Attributes
    ----------
    membership : array of shape (n', k)
        Weight of each row in the mean of each class; columns sum to one.
    """

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

    def row_weights(self, shares: Array) -> Array:
        """Return the weight of each row in sum_l shares_l mean_l, shape (n',)."""
        return np.asarray(self.membership @ shares)


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Training rows sorted by class.

    Attributes
    ----------
    rows : float32 array of shape (n, k)
        Densities relative to the largest of each row, or features. They are float32 because every
        bag needs a pass over all of them.
    offsets : int64 array of shape (k + 1,)
        Class l owns ``rows[offsets[l]:offsets[l + 1]]``.
    weights : float32 array of shape (n,)
        Sum to one within each class.
    thin : int64 array of shape (n',)
        Positions of the rows from which spreads are computed.
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
        """The rows from which spreads are computed, shape (n', k)."""
        return self.rows[self.thin]

    @cached_property
    def thin_weights(self) -> SortedClassWeights:
        """The class weights of the thinned rows."""
        owners = np.searchsorted(self.offsets, self.thin, side="right") - 1
        counts = np.bincount(owners, minlength=len(self.offsets) - 1)
        offsets = offsets_of(counts)
        w = self.weights[self.thin].astype(np.float64)
        return SortedClassWeights(w / np.add.reduceat(w, offsets[:-1])[owners], offsets)

    @property
    def typical_size(self) -> float:
        """Harmonic mean of the sizes, which is small if one class is small."""
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
    moment_rows: Callable[[NDArray[np.floating]], Array],
    n_threads: int = 1,
) -> ClassRows:
    """Return the rows of the training instances, each as if the instance were new.

    Parameters
    ----------
    row_map : fitted row map
    training : TrainingPosteriors
    n_classes : int
    moment_rows : callable
        Turns rows of the map into densities on a common scale, or features.
    n_threads : int

    Returns
    -------
    ClassRows
    """
    w = np.ones(len(training.labels)) if training.weights is None else training.weights
    selected = _selected(training, n_classes)
    rows = moment_rows(row_map.new_rows(training, selected, n_threads))
    labels, w = training.labels[selected], w[selected]
    counts = np.bincount(labels, minlength=n_classes)
    offsets = offsets_of(counts)
    mass = np.bincount(labels, weights=w, minlength=n_classes)
    shares = (w / mass[labels]).astype(np.float32)
    thin = _spaced(offsets, max(SPREAD_ROWS // n_classes, SPREAD_ROWS_PER_CLASS))
    return ClassRows(rows.astype(np.float32), offsets, shares, thin)


def _selected(training: TrainingPosteriors, n_classes: int) -> Indices:
    """Return the positions of the instances to use, sorted by class and evenly spaced in it."""
    order = reference_order(training)
    counts = np.bincount(training.labels[order], minlength=n_classes)
    offsets = offsets_of(counts)
    return np.asarray(order[_spaced(offsets, MAX_ROWS_PER_CLASS)])


def _spaced(offsets: Indices, most: int) -> Indices:
    """Return at most ``most`` evenly spaced positions of each class."""
    parts = [
        np.unique(np.linspace(start, stop - 1, min(most, stop - start)).astype(np.int64))
        for start, stop in pairwise(offsets.tolist())
    ]
    return np.concatenate(parts)
