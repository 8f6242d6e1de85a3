r"""Moments of groups whose classes are soft parts of the group itself, from sums.

What :func:`kdey.inference.moments.bag_moments` does with the rows of a bag. With phi the posteriors
adapted to the estimate, the first pass gives the sums of :math:`\phi_i \phi_l`, hence T; the second
those of :math:`\phi_l z_i^p` for p = 1..4 and of :math:`\phi_l z_i z_l`, with
:math:`z = T^{-1} \phi`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kdey.bags import Array, Indices
from kdey.inference.moments import Moments, invert, moments_of
from kdey.inference.parts import TINY
from kdey.sums.batch import GroupedRows
from kdey.sums.group_sums import GroupSums
from kdey.sums.source import Source

#: Rows whose powers are made at a time.
_BLOCK = 1 << 14


@dataclass(frozen=True, eq=False)
class SummedParts:
    """Classes known by their sums alone; values that are asked about are those summed.

    Attributes
    ----------
    counts : array of shape (k,)
    summed : arrays of shape (k, k)
        Means of the first four powers of z.
    crossed : array of shape (k, k)
        Mean of z_i z_l in class l as entry (i, l).
    """

    counts: Array
    summed: tuple[Array, Array, Array, Array]
    crossed: Array

    def means(self, values: Array) -> Array:
        """Return the means of z, shape (k, k)."""
        return self.summed[0]

    def powers(self, values: Array) -> tuple[Array, Array, Array, Array]:
        """Return the means of the first four powers of z, each (k, k)."""
        return self.summed

    def products(self, z: Array) -> Array:
        """Return the mean of z_i z_l in class l as entry (i, l)."""
        return self.crossed

    def spread_out(self, shares: Array) -> Array:
        """Return the weights of no row: none is known."""
        return np.empty(0)


@dataclass(frozen=True, eq=False)
class PowersOf:
    """Sums of powers of z in each class.

    Attributes
    ----------
    groups : int64 array of shape (g,)
        Ascending.
    tilt : array of shape (g, k)
        What posteriors are adapted to.
    inverse : array of shape (g, k, k)
    """

    groups: Indices
    tilt: Array
    inverse: Array

    def __call__(self, part: GroupedRows) -> GroupSums:
        """Return ``powers`` (g, 4, k, k) and ``products`` (g, k, k) of a part of the data."""
        k = self.tilt.shape[1]
        powers, products = np.zeros((len(part.groups), 4, k, k)), np.zeros((len(part.groups), k, k))
        place = np.searchsorted(self.groups, part.groups)
        for number, where in enumerate(place):
            own = slice(int(part.offsets[number]), int(part.offsets[number + 1]))
            for start in range(own.start, own.stop, _BLOCK):
                rows = part.rows[0][start : min(start + _BLOCK, own.stop)].astype(np.float64)
                phi = rows * self.tilt[where]
                phi /= phi.sum(axis=1, keepdims=True)
                z = phi @ self.inverse[where].T
                products[number] += z.T @ (phi * z)
                power = np.ones_like(z)
                for p in range(4):
                    power *= z
                    powers[number, p] += power.T @ phi
        return GroupSums(part.groups, {"powers": powers, "products": products})


def soft_moments(
    source: Source, groups: Indices, tilt: Array, mean: Array, curve: Array, sizes: Array
) -> list[Moments]:
    """Return the moments of every group, by one more pass.

    Parameters
    ----------
    source : Source
    groups : int64 array of shape (g,)
    tilt : array of shape (g, k)
    mean : array of shape (g, k)
        Means of phi.
    curve : array of shape (g, k, k)
        Sums of phi_i phi_l over tilt_i tilt_l.
    sizes : array of shape (g,)
    """
    squares = curve * tilt[:, :, None] * tilt[:, None, :] / sizes[:, None, None]
    mass = np.maximum(mean, TINY)
    matrices = squares / mass[:, None, :]
    inverse = np.array([invert(one)[0] for one in matrices])
    sums = source.total(PowersOf(groups, tilt, inverse)).sums
    scale = sizes[:, None] * mass
    k = tilt.shape[1]
    made = []
    for g in range(len(groups)):
        counts = 1.0 / np.maximum(np.diag(squares[g]) / (sizes[g] * mass[g] ** 2), TINY)
        first, second, third, fourth = sums["powers"][g] / scale[g]
        parts = SummedParts(counts, (first, second, third, fourth), sums["products"][g] / scale[g])
        seen = np.maximum(mass[g] * sizes[g], 0.5)
        known = np.full(k, np.inf)
        made.append(moments_of(matrices[g], np.empty((0, k)), tilt[g], parts, known, seen))
    return made
