"""Analytic limits of groups from sums: the moment equation needs one mean per group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kdey.bags import Array, Bags, Indices, offsets_of
from kdey.inference import FittedModel, IntervalOptions
from kdey.inference.analytic import (
    Linearised,
    analytic_limits,
    linearise_features,
    linearised,
)
from kdey.inference.bag import SampledBags
from kdey.inference.moments import Moments, smoothed, training_moments
from kdey.sums.likelihood import Trial
from kdey.sums.soft import soft_moments
from kdey.sums.source import Source

#: Groups whose moments are held at a time.
_RUN = 512


def bags_of_sizes(sizes: Array) -> SampledBags:
    """Return bags of which only the sizes are known: no instance of theirs can be asked for."""
    offsets = offsets_of(sizes)
    return SampledBags(Bags(np.empty(0, dtype=np.int64), offsets, int(offsets[-1])), None)


def feature_limits(
    model: FittedModel, means: Array, sizes: Array, options: IntervalOptions
) -> tuple[Array, Array]:
    """Return the limits of groups given by their mean rows (n_groups, k): ACC, PACC."""
    line = linearise_features(model, means, np.empty((0, means.shape[1])), bags_of_sizes(sizes))
    return _limits(line, model, options)


def likelihood_limits(
    source: Source,
    model: FittedModel,
    groups: Indices,
    sizes: Array,
    estimates: Array,
    options: IntervalOptions,
) -> tuple[Array, Array]:
    """Return the limits of groups under a likelihood, by one more pass over the data.

    Two where no training rows are known, and classes are soft parts of each group.

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
    # Problems of the first member alone: it answers for a committee.
    trial = Trial(groups, tilt, int(groups[-1]) + 1, curved=training is None)
    sums = source.total(trial).sums
    mean = tilt * sums["slope"] / sizes[:, None]
    if training is None:
        given = soft_moments(source, groups, tilt, mean, sums["curve"], sizes)
        return _limits(_line(given, mean, sizes), model, options)
    low, high = np.empty(tilt.shape), np.empty(tilt.shape)
    for start in range(0, len(groups), _RUN):
        run = slice(start, start + _RUN)
        moments = [training_moments(training, one) for one in tilt[run]]
        low[run], high[run] = _limits(_line(moments, mean[run], sizes[run]), model, options)
    return low, high


def _line(moments: Sequence[Moments], mean: Array, sizes: Array) -> Linearised:
    centre = np.array([one.inverse @ own for one, own in zip(moments, mean, strict=True)])
    return linearised(centre, np.ones(centre.shape), bags_of_sizes(sizes), moments)


def _limits(line: Linearised, model: FittedModel, options: IntervalOptions) -> tuple[Array, Array]:
    return analytic_limits(line, options.tail(model.n_classes), options.target == "population")
