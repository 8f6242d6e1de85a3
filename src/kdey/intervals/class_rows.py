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
from kdey.rows.base import RowMap
from kdey.rows.kernel import reference_order

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

    def means(self, values: Array) -> Array:
        """Return the mean of ``values`` (n', c) in each class, shape (c, k)."""
        ...

    def covariances(self, values: Array) -> Array:
        """Return the covariance of ``values`` (n', c) within each class, shape (k, c, c)."""
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

    def means(self, values: Array) -> Array:
        """Return the mean of ``values`` (n', c) in each class, shape (c, k)."""
        return np.add.reduceat(values * self.weights[:, None], self.offsets[:-1]).T

    def covariances(self, values: Array) -> Array:
        """Return the covariance of ``values`` (n', c) within each class, shape (k, c, c)."""
        centred = values - self.means(values).T[self.owners]
        weighted = centred * self.weights[:, None]
        runs = [slice(a, b) for a, b in pairwise(self.offsets.tolist())]
        return np.array([weighted[run].T @ centred[run] for run in runs])

    def row_weights(self, shares: Array) -> Array:
        """Return the weight of each row in sum_l shares_l mean_l, shape (n',)."""
        return np.asarray(self.weights * shares[self.owners])


@dataclass(frozen=True, eq=False)
class MembershipWeights:
    """Rows that belong to every class in part.

    Attributes
    ----------
    membership : array of shape (n', k)
        Weight of each row in the mean of each class; columns sum to one.
    """

    membership: Array

    def means(self, values: Array) -> Array:
        """Return the mean of ``values`` (n', c) in each class, shape (c, k)."""
        return np.asarray(values.T @ self.membership)

    def covariances(self, values: Array) -> Array:
        """Return the covariance of ``values`` (n', c) within each class, shape (k, c, c)."""
        means = self.means(values)
        grams = [(values * column[:, None]).T @ values for column in self.membership.T]
        return np.array(grams) - means.T[:, :, None] * means.T[:, None, :]

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
