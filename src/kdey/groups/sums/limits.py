r"""Analytic limits of groups from sums: the moment equation needs one mean per group.

Where no training rows are known, the classes are parts of the group itself, every instance
belonging to each class by its posterior. With phi the posteriors adapted to the estimate, the sums
of :math:`\phi_i \phi_j \phi_l` then give the means and covariances of all classes, as
:func:`kdey.intervals.moments.bag_moments` does with the rows of a bag.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kdey.bags import Array, Bags, Indices, offsets_of
from kdey.groups.sums.group_sums import GroupedRows, GroupSums, Source
from kdey.groups.sums.solve import Trial
from kdey.intervals import FittedModel
from kdey.intervals.analytic import analytic_limits, linearise_features, linearised
from kdey.intervals.class_rows import TINY, MembershipWeights
from kdey.intervals.derivatives import linearise_matching
from kdey.intervals.moments import (
    MomentEquations,
    Moments,
    adapted,
    adapting_prevalence,
    partial_moments,
    training_moments,
)
from kdey.intervals.sampled_bags import SampledBags
from kdey.options import Options
from kdey.rows.interface import ArrayRows

#: Rows whose products are made at a time.
_BLOCK = 1 << 14
#: Numbers of the moments of groups that are held at a time.
_HELD = 1 << 24


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Sums of products of three adapted posteriors.

    Attributes
    ----------
    groups : int64 array of shape (g,)
        Ascending.
    tilt : array of shape (g, k)
        What posteriors are adapted to.
    """

    groups: Indices
    tilt: Array

    def __call__(self, part: GroupedRows) -> GroupSums:
        """Return ``products`` (g, k, k, k), class l first, of a part of the data."""
        k = self.tilt.shape[1]
        selected = np.flatnonzero(np.isin(part.groups, self.groups))
        products = np.zeros((len(selected), k, k, k))
        for total, number in zip(products, selected.tolist(), strict=True):
            tilt = self.tilt[np.searchsorted(self.groups, part.groups[number])]
            begin, end = int(part.offsets[number]), int(part.offsets[number + 1])
            for start in range(begin, end, _BLOCK):
                rows = part.rows[0][start : min(start + _BLOCK, end)].astype(np.float64)
                phi = adapted(rows, tilt)
                for label in range(k):
                    total[label] += (phi * phi[:, [label]]).T @ phi
        return GroupSums(part.groups[selected], {"products": products})


def group_moments(source: Source, groups: Indices, tilt: Array) -> list[Moments]:
    """Return the moments of every group by its own adapted posteriors, in one pass.

    Parameters
    ----------
    source : Source
    groups : int64 array of shape (g,)
    tilt : array of shape (g, k)
    """
    products = source.total(ClassSums(groups, tilt)).sums["products"]
    k = tilt.shape[1]
    no_rows, nobody = np.empty((0, k)), MembershipWeights(np.empty((0, k)))
    moments = []
    for number in range(len(groups)):
        # Posteriors sum to one, so sums over a class leave products of fewer posteriors.
        observed = np.maximum(products[number].sum(axis=(1, 2)), TINY)
        matrix = products[number].sum(axis=1).T / observed
        second = products[number] / observed[:, None, None]
        covariances = second - matrix.T[:, :, None] * matrix.T[:, None, :]
        moments.append(
            partial_moments(matrix, covariances, no_rows, tilt[number], nobody, observed)
        )
    return moments


def bags_of_sizes(sizes: Array) -> SampledBags:
    """Return bags of which only the sizes are known: no instance of theirs can be asked for."""
    offsets = offsets_of(sizes)
    return SampledBags(Bags(np.empty(0, dtype=np.int64), offsets, int(offsets[-1])), None)


def feature_limits(
    model: FittedModel, means: Array, sizes: Array, estimates: Array, options: Options
) -> tuple[Array, Array]:
    """Return the limits of groups from their mean rows (n_groups, k): ACC, PACC."""
    no_rows = ArrayRows(np.empty((0, means.shape[1])))
    equations = linearise_features(model, means, no_rows, bags_of_sizes(sizes), estimates)
    return _limits(equations, model, options)


def derivative_limits(
    model: FittedModel, means: Array, sizes: Array, estimates: Array, options: Options
) -> tuple[Array, Array] | None:
    """Return the limits of groups by numerical derivatives of the matching; None: there are none.

    ``means`` are the mean rows of the groups (n_groups, r), ``estimates`` has shape (n_groups, k).
    """
    equations = linearise_matching(model, means, bags_of_sizes(sizes), estimates)
    return None if equations is None else _limits(equations, model, options)


def likelihood_limits(
    source: Source,
    model: FittedModel,
    groups: Indices,
    sizes: Array,
    estimates: Array,
    options: Options,
) -> tuple[Array, Array]:
    """Return the limits of groups under a likelihood, by one more pass over the data.

    Where no training rows are known, classes are parts of each group, which takes another pass for
    every run of groups.

    Parameters
    ----------
    source : Source
    model : FittedModel
    groups : int64 array of shape (g,)
        Ascending numbers of the groups, all with instances.
    sizes : array of shape (g,)
    estimates : array of shape (g, k)
    options : Options
    """
    training = model.moment_class_rows
    tilt = adapting_prevalence(estimates, sizes, training)
    # The rows of the moment equation are kept after those of the members.
    n_groups = int(groups[-1]) + 1
    first = n_groups * len(model.row_map.members) if model.has_calibrated_moments else 0
    sums = source.total(Trial(groups + first, tilt, n_groups, curved=False)).sums
    means = tilt * sums["slope"] / sizes[:, None]
    low, high = np.empty(tilt.shape), np.empty(tilt.shape)
    step = max(1, _HELD // model.n_classes**3)
    for start in range(0, len(groups), step):
        run = slice(start, start + step)
        if training is None:
            moments = group_moments(source, groups[run], tilt[run])
        else:
            moments = [training_moments(training, prevalence) for prevalence in tilt[run]]
        effects, bags = np.ones(tilt[run].shape), bags_of_sizes(sizes[run])
        equations = linearised(means[run], estimates[run], effects, bags, moments)
        low[run], high[run] = _limits(equations, model, options)
    return low, high


def _limits(
    equations: MomentEquations, model: FittedModel, options: Options
) -> tuple[Array, Array]:
    tail, population = options.tail(model.n_classes), options.target == "population"
    limits = analytic_limits(equations, tail, population, model.n_threads)
    return limits.low, limits.high
