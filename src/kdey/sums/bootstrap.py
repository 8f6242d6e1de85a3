r"""Bootstrap limits from sums: replicates are weighted sums of rows, all of them in one pass.

*Moment methods.* A replicate's mean row is solved as any mean row; ACC and PACC meet a training
replicate too (templates are means of resampled training rows).

*Likelihoods.* A replicate is one Newton step away from the estimate,

.. math:: \alpha^*_b = \arg\min_{x \in \Delta} -g_b \cdot (x - \hat\alpha)
          + \tfrac12 (x - \hat\alpha)' H (x - \hat\alpha)

with :math:`g_b` the replicate's mean of :math:`D_j / (D_j \cdot \hat\alpha)` and H the Hessian of
all rows; a full solution would cost several passes and differ in the second order. What training
data add is drawn from the moment equation: :math:`-T^{-1} (T_b - T) \hat\alpha`, with :math:`T_b`
from resampled training rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kdey.bags import Array, Indices
from kdey.inference import FittedModel, IntervalOptions
from kdey.inference.bootstrap import bootstrap_limits
from kdey.inference.class_rows import ClassRows
from kdey.inference.moments import adapted, smoothed, training_moments
from kdey.inference.resolving import TemplateReplicates
from kdey.matching import MatchMeans
from kdey.rows.posterior import PosteriorMap
from kdey.simplex import project
from kdey.solvers.active_set import solve_programs
from kdey.sums.finish import MeanRows, solve_means
from kdey.sums.keyed import PER_HASH
from kdey.sums.likelihood import Trial
from kdey.sums.plan import Plan
from kdey.sums.replicates import Resampled
from kdey.sums.source import Source

#: Bytes of replicate sums that one pass may bring.
_HELD = 1 << 26


@dataclass(frozen=True, eq=False)
class Replicates:
    """Sums of B replicates: ``mass`` (g, B) and the rows of every member (g, B, r)."""

    mass: Array
    rows: list[Array]

    def means(self, member: int) -> Array:
        """Return the mean rows of one member, shape (g, B, r).

        A replicate that drew nothing of a small group has the mean of the others.
        """
        rows = self.rows[member]
        overall = rows.sum(axis=1) / np.maximum(self.mass.sum(axis=1), 1.0)[:, None]
        made = rows / np.maximum(self.mass, 1.0)[:, :, None]
        return np.where((self.mass > 0)[:, :, None], made, overall[:, None, :])


def draw_replicates(
    source: Source, n_groups: int, width: int, options: IntervalOptions, trial: Trial | None = None
) -> Replicates:
    """Return the sums of all replicates, by as many passes as their memory asks for.

    Parameters
    ----------
    source : Source
        With the key of every row.
    n_groups : int
        Groups with instances.
    width : int
        Numbers per row, over all members.
    options : IntervalOptions
    trial : Trial, optional
        For likelihoods.
    """
    wanted = -(-options.n_replicates // PER_HASH) * PER_HASH
    fitting = _HELD // (8 * n_groups * (width + 1)) // PER_HASH * PER_HASH
    step = max(PER_HASH, min(wanted, fitting))
    parts = []
    for first in range(0, wanted, step):
        count = min(step, wanted - first)
        parts.append(source.total(Resampled(options.random_state, first, count, trial)).sums)
    n, members = options.n_replicates, sorted(set(parts[0]) - {"mass"})
    joined = {name: np.concatenate([p[name] for p in parts], axis=1)[:, :n] for name in parts[0]}
    return Replicates(joined["mass"], [joined[f"rows{i}"] for i in range(len(members))])


def limits_of_draws(
    estimates: Array, draws: Array, options: IntervalOptions
) -> tuple[Array, Array]:
    """Return the limits of groups from draws of shape (g, B, k)."""
    tail = options.tail(estimates.shape[1])
    made = [
        bootstrap_limits(own, drawn, tail, options.interval)
        for own, drawn in zip(estimates, draws, strict=True)
    ]
    return np.array([low for low, _ in made]), np.array([high for _, high in made])


def moment_draws(
    source: Source, model: FittedModel, plan: Plan, estimates: Array, options: IntervalOptions
) -> Array:
    """Return draws of the prevalences under a moment method, shape (g, B, k)."""
    g, k = estimates.shape
    width = sum(len(row_map.templates) for row_map in plan.row_maps)
    found = draw_replicates(source, g, max(width, k), options)
    means = [found.means(member) for member in range(len(found.rows))]
    learnt = model.training is not None and model.training.posteriors is not None
    exact = isinstance(model.matching, MatchMeans) and isinstance(model.row_map, PosteriorMap)
    if options.resample_templates and learnt and exact:
        again = TemplateReplicates(model, options.random_state)(range(means[0].shape[1]))
        draws = np.array([again.match(own) for own in means[0]])
    else:
        flat = [MeanRows(one.reshape(-1, one.shape[2]), False) for one in means]
        draws = solve_means(model, flat).prevalence.reshape(g, -1, k)
    return np.where((found.mass > 0)[:, :, None], draws, estimates[:, None, :])


def likelihood_draws(
    source: Source,
    model: FittedModel,
    groups: Indices,
    sizes: Array,
    members: Array,
    options: IntervalOptions,
) -> Array:
    """Return draws of the prevalences under a likelihood, shape (g, B, k).

    Parameters
    ----------
    source : Source
    model : FittedModel
    groups : int64 array of shape (g,)
        Ascending numbers of the groups, all with instances.
    sizes : array of shape (g,)
    members : array of shape (n_members, g, k)
        Estimates of every member.
    options : IntervalOptions
    """
    n_members, g, k = members.shape
    n_groups = int(groups[-1]) + 1
    problems = (np.arange(n_members)[:, None] * n_groups + groups).ravel()
    trial = Trial(problems, members.reshape(-1, k), n_groups)
    curve = source.total(trial).sums["curve"].reshape(n_members, g, k, k)
    found = draw_replicates(source, g, n_members * k, options, trial)
    shares = model.row_map.weights if n_members > 1 else np.ones(1)
    draws = np.zeros((g, options.n_replicates, k))
    for member, share in enumerate(shares):
        slopes, hessians = found.means(member), curve[member] / sizes[:, None, None]
        for group in range(g):
            x = members[member, group]
            linear = hessians[group] @ x + slopes[group]
            starts = np.tile(x, (len(linear), 1))
            step, _ = solve_programs(hessians[group], linear, simplex=True, start=starts)
            draws[group] += share * step
    estimates = np.tensordot(shares, members, axes=1)
    draws = np.where((found.mass > 0)[:, :, None], draws, estimates[:, None, :])
    if options.resample_templates and model.class_rows is not None:
        shifts = _TemplateShifts(model.class_rows, options)
        for group in range(g):
            draws[group] += shifts(estimates[group], sizes[group])
    return project(draws.reshape(-1, k)).reshape(draws.shape)


class _TemplateShifts:
    """What training replicates add to estimates, to first order; all groups meet the same ones."""

    def __init__(self, training: ClassRows, options: IntervalOptions) -> None:
        rng = np.random.default_rng([options.random_state, 3])
        self._training = training
        self._densities = training.rows.astype(np.float64)
        self._shares = []
        for own in self._classes():
            drawn = rng.poisson(1.0, size=(options.n_replicates, own.stop - own.start))
            weights = drawn * training.weights[own].astype(np.float64)
            mass = weights.sum(axis=1, keepdims=True)
            # A replicate that drew nothing of a small class keeps the class as it is.
            self._shares.append(np.where(mass > 0, weights, training.weights[own]))
            self._shares[-1] /= self._shares[-1].sum(axis=1, keepdims=True)

    def _classes(self) -> list[slice]:
        return [slice(a, b) for a, b in pairwise(self._training.offsets.tolist())]

    def __call__(self, estimate: Array, size: float) -> Array:
        """Return -T^-1 (T_b - T) alpha of every replicate, shape (B, k)."""
        tilt = smoothed(estimate, min(size, float(self._training.sizes.min())))
        inverse = training_moments(self._training, tilt).inverse
        phi = adapted(self._densities, tilt)
        shifts = np.zeros((len(self._shares[0]), len(tilt)))
        for label, (own, shares) in enumerate(zip(self._classes(), self._shares, strict=True)):
            if estimate[label] > 0:
                centred = phi[own] - self._training.weights[own] @ phi[own]
                shifts += estimate[label] * (shares @ centred)
        return np.asarray(-shifts @ inverse.T)
