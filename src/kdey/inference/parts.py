"""Which rows make up each class: runs of a sorted array, or soft shares of a bag."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array

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
