r"""Analytic limits of groups from sums: the moment equation needs one mean per group.

Where no training rows are known, the classes are parts of the group itself, every instance
belonging to each class by its posterior. What :func:`kdey.intervals.moments.bag_moments` does with
the rows of a bag takes two passes here. With phi the posteriors adapted to the estimate, the first
gives the sums of :math:`\phi_i \phi_l`, hence T; the second those of :math:`\phi_l z_i^p` for
p = 1..4 and of :math:`\phi_l z_i z_l`, with :math:`z = T^{-1} \phi`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kdey.bags import Array, Bags, Indices, offsets_of
from kdey.groups.sums.group_sums import GroupedRows, GroupSums, Source
from kdey.groups.sums.solve import Trial
from kdey.intervals import FittedModel, IntervalOptions
from kdey.intervals.analytic import Linearised, analytic_limits, linearise_features, linearised
from kdey.intervals.class_rows import TINY
from kdey.intervals.derivatives import linearise_matching
from kdey.intervals.moments import Moments, invert, moments_of, smoothed, training_moments
from kdey.intervals.sampled_bags import SampledBags

#: Rows whose powers are made at a time.
_BLOCK = 1 << 14
#: Groups whose moments are held at a time.
_RUN = 512


@dataclass(frozen=True, eq=False)
class SummedClasses:
    """Classes known by their sums alone: means of the values that were summed, and of no others.

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

    def row_weights(self, shares: Array) -> Array:
        """Return no weights: no row is known."""
        return np.empty(0)


@dataclass(frozen=True, eq=False)
class PowerSums:
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
            begin, end = int(part.offsets[number]), int(part.offsets[number + 1])
            for start in range(begin, end, _BLOCK):
                rows = part.rows[0][start : min(start + _BLOCK, end)].astype(np.float64)
                phi = rows * self.tilt[where]
                phi /= phi.sum(axis=1, keepdims=True)
                z = phi @ self.inverse[where].T
                products[number] += z.T @ (phi * z)
                power = np.ones_like(z)
                for p in range(4):
                    power *= z
                    powers[number, p] += power.T @ phi
        return GroupSums(part.groups, {"powers": powers, "products": products})


def group_moments(
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
    inverse = np.array([invert(matrix)[0] for matrix in matrices])
    sums = source.total(PowerSums(groups, tilt, inverse)).sums
    scale = sizes[:, None] * mass
    k = tilt.shape[1]
    moments = []
    for g in range(len(groups)):
        counts = 1.0 / np.maximum(np.diag(squares[g]) / (sizes[g] * mass[g] ** 2), TINY)
        first, second, third, fourth = sums["powers"][g] / scale[g]
        parts = SummedClasses(
            counts, (first, second, third, fourth), sums["products"][g] / scale[g]
        )
        seen = np.maximum(mass[g] * sizes[g], 0.5)
        known = np.full(k, np.inf)
        moments.append(moments_of(matrices[g], np.empty((0, k)), tilt[g], parts, known, seen))
    return moments


def bags_of_sizes(sizes: Array) -> SampledBags:
    """Return bags of which only the sizes are known: no instance of theirs can be asked for."""
    offsets = offsets_of(sizes)
    return SampledBags(Bags(np.empty(0, dtype=np.int64), offsets, int(offsets[-1])), None)


def feature_limits(
    model: FittedModel, means: Array, sizes: Array, options: IntervalOptions
) -> tuple[Array, Array]:
    """Return the limits of groups from their mean rows (n_groups, k): ACC, PACC."""
    line = linearise_features(model, means, np.empty((0, means.shape[1])), bags_of_sizes(sizes))
    return _limits(line, model, options)


def derivative_limits(
    model: FittedModel, means: Array, sizes: Array, estimates: Array, options: IntervalOptions
) -> tuple[Array, Array] | None:
    """Return the limits of groups by numerical derivatives of the matching; None: there are none.

    ``means`` are the mean rows of the groups (n_groups, r), ``estimates`` has shape (n_groups, k).
    """
    line = linearise_matching(model, means, bags_of_sizes(sizes), estimates)
    return None if line is None else _limits(line, model, options)


def likelihood_limits(
    source: Source,
    model: FittedModel,
    groups: Indices,
    sizes: Array,
    estimates: Array,
    options: IntervalOptions,
) -> tuple[Array, Array]:
    """Return the limits of groups under a likelihood, by one more pass over the data.

    Two passes where no training rows are known, and classes are parts of each group.

    Parameters
    ----------
    source : Source
    model : FittedModel
    groups : int64 array of shape (g,)
        Ascending numbers of the groups, all with instances.
    sizes : array of shape (g,)
    estimates : array of shape (g, k)
    options : IntervalOptions
    """
    training = model.class_rows
    least = np.inf if training is None else training.typical_size
    tilt = smoothed(estimates, np.minimum(sizes, least))
    # Problems of the first member alone: its limits serve for a composite.
    trial = Trial(groups, tilt, int(groups[-1]) + 1, curved=training is None)
    sums = source.total(trial).sums
    mean = tilt * sums["slope"] / sizes[:, None]
    if training is None:
        of_groups = group_moments(source, groups, tilt, mean, sums["curve"], sizes)
        return _limits(_line(of_groups, mean, sizes), model, options)
    low, high = np.empty(tilt.shape), np.empty(tilt.shape)
    for start in range(0, len(groups), _RUN):
        run = slice(start, start + _RUN)
        moments = [training_moments(training, prevalence) for prevalence in tilt[run]]
        low[run], high[run] = _limits(_line(moments, mean[run], sizes[run]), model, options)
    return low, high


def _line(moments: Sequence[Moments], mean: Array, sizes: Array) -> Linearised:
    centre = np.array([group.inverse @ q for group, q in zip(moments, mean, strict=True)])
    return linearised(centre, np.ones(centre.shape), bags_of_sizes(sizes), moments)


def _limits(line: Linearised, model: FittedModel, options: IntervalOptions) -> tuple[Array, Array]:
    return analytic_limits(line, options.tail(model.n_classes), options.target == "population")
