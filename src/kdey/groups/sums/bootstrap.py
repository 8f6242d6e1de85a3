r"""Bootstrap limits from sums: replicates are weighted sums of rows, all of them in one pass.

The weight of a row in replicate b is a Poisson(1) number read off a hash of the row's key, the seed
and b. So every engine, order and partitioning gives a row the same weights, nothing is stored, and
rows that share a key (those of one patient) are drawn together.

*Moment methods.* The row itself is summed, and a replicate's mean row is solved as any mean row;
ACC and PACC take a training replicate with it (templates are means of resampled training rows).

*Likelihoods.* What is summed is :math:`D_{ji} / p_j` at the estimate, minus the gradient of an
instance. A replicate is one Newton step away from the estimate,

.. math:: \alpha^*_b = \arg\min_{x \in \Delta} -g_b \cdot (x - \hat\alpha)
          + \tfrac12 (x - \hat\alpha)' H (x - \hat\alpha)

with :math:`g_b` the replicate's mean of :math:`D_j / (D_j \cdot \hat\alpha)` and H the Hessian of
all rows; a full solution would cost several passes and differ in the second order. What training
data add is drawn from the moment equation: :math:`-T^{-1} (T_b - T) \hat\alpha`, with :math:`T_b`
from resampled training rows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import pdtr

from kdey.bags import Array, Indices
from kdey.groups.sums.group_sums import GroupedRows, GroupSums, Hashes, Plan, Source
from kdey.groups.sums.solve import MeanRows, Trial, solve_means
from kdey.intervals import FittedModel
from kdey.intervals.bootstrap import bootstrap_limits
from kdey.intervals.class_rows import ClassRows
from kdey.intervals.moments import adapted, smoothed, training_moments
from kdey.intervals.replicates import TrainingReplicates
from kdey.options import Options
from kdey.simplex import project
from kdey.solvers.quadratic import solve_programs

#: Replicates that one hash of 64 bits serves, 16 bits each.
PER_HASH = 4
#: Weights held at a time: rows x replicates.
_WEIGHTS_HELD = 1 << 21
#: Bytes of replicate sums that one pass may return.
_BYTES_HELD = 1 << 26


def key_hashes(keys: NDArray[Any]) -> Hashes:
    """Return a hash of every row key, shape (m,): whole numbers, dates, texts.

    Keys that are equal as numbers, or as text, have equal hashes whatever their type.
    """
    values = np.asarray(keys)
    if values.dtype.kind in "mM":
        values = values.astype("datetime64[ns]" if values.dtype.kind == "M" else "timedelta64[ns]")
        return _mix(values.view(np.int64).view(np.uint64))
    if values.dtype.kind in "iub":
        return _mix(values.astype(np.int64).view(np.uint64))
    if values.dtype.kind == "f":
        raise ValueError("row keys must be whole numbers, dates or texts, not floating numbers")
    distinct, where = np.unique(values.astype(str), return_inverse=True)
    digests = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in distinct.tolist()]
    return np.frombuffer(b"".join(digests), dtype=np.uint64)[where]


def poisson_weights(hashes: Hashes, seed: int, first: int, count: int) -> NDArray[np.uint8]:
    """Return the weights of rows in replicates ``first`` to ``first + count``, shape (count, m).

    ``first`` and ``count`` must be multiples of ``PER_HASH``.
    """
    quantiles = _poisson_table()
    out = np.empty((count, len(hashes)), dtype=np.uint8)
    for start in range(0, count, PER_HASH):
        stream = np.array([(seed % (1 << 32)) * (1 << 32) + (first + start)], dtype=np.uint64)
        words = _mix(hashes ^ _mix(stream)).astype("<u8", copy=False)
        bits = words.view("<u2").reshape(len(hashes), PER_HASH)
        out[start : start + PER_HASH] = quantiles[bits].T
    return out


def _mix(values: Hashes) -> Hashes:
    """Return the finaliser of SplitMix64 (Steele, Lea and Flood, 2014) of each value."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


@cache
def _poisson_table() -> NDArray[np.uint8]:
    """Return the Poisson(1) quantile of each number of 16 bits, shape (65536,)."""
    levels = (np.arange(1 << 16) + 0.5) / (1 << 16)
    return np.searchsorted(pdtr(np.arange(12), 1.0), levels).astype(np.uint8)


@dataclass(frozen=True, eq=False)
class Resampled:
    """Weighted sums of the rows of each group in some replicates.

    Attributes
    ----------
    seed, first, count : int
        Replicates ``first`` to ``first + count`` of this seed.
    trial : Trial or None
        Where the gradients of a likelihood are taken; None for moment methods.
    """

    seed: int
    first: int
    count: int
    trial: Trial | None = None

    def __call__(self, part: GroupedRows) -> GroupSums:
        """Return ``mass`` (g, count) and ``rows`` of every member (g, count, r) of a part."""
        if len(part.groups) == 0:
            return GroupSums(part.groups, {})
        if part.hashes is None:
            raise ValueError("a bootstrap needs the key of every row")
        n = len(part.groups)
        mass = np.empty((n, self.count))
        sums = [np.empty((n, self.count, rows.shape[1])) for rows in part.rows]
        for group in range(n):
            where = slice(int(part.offsets[group]), int(part.offsets[group + 1]))
            rows = [self._rows(part, member, group, where) for member in range(len(part.rows))]
            mass[group], of_group = self._sum_group(part.hashes[where], rows)
            for member, values in enumerate(of_group):
                sums[member][group] = values
        named = {f"rows{member}": values for member, values in enumerate(sums)}
        return GroupSums(part.groups, {"mass": mass} | named)

    def _rows(
        self, part: GroupedRows, member: int, group: int, where: slice
    ) -> NDArray[np.floating]:
        rows = part.rows[member][where]
        if self.trial is None:
            return rows
        problem = np.array([member * self.trial.n_groups + part.groups[group]])
        on_trial, places = self.trial.find(problem)
        if len(on_trial) == 0:
            return np.ones_like(rows)
        mixture = rows.astype(np.float64) @ self.trial.prevalence[places[0]]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(mixture[:, None] > 0, rows / mixture[:, None], 0.0))

    def _sum_group(
        self, hashes: Hashes, rows: list[NDArray[np.floating]]
    ) -> tuple[Array, list[Array]]:
        """Return the total weights (count,) and weighted sums (count, r) of one group."""
        mass = np.zeros(self.count)
        totals = [np.zeros((self.count, array.shape[1])) for array in rows]
        step = max(1, _WEIGHTS_HELD // self.count)
        for start in range(0, len(hashes), step):
            part = slice(start, start + step)
            weights = poisson_weights(hashes[part], self.seed, self.first, self.count)
            mass += weights.sum(axis=1)
            dense = weights.astype(np.float32)
            for total, array in zip(totals, rows, strict=True):
                total += dense @ array[part].astype(np.float32)
        return mass, totals


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
        means = rows / np.maximum(self.mass, 1.0)[:, :, None]
        return np.where((self.mass > 0)[:, :, None], means, overall[:, None, :])


def draw_replicates(
    source: Source, n_groups: int, width: int, options: Options, trial: Trial | None = None
) -> Replicates:
    """Return the sums of all replicates, in as many passes as their memory requires.

    Parameters
    ----------
    source : Source
        With the key of every row.
    n_groups : int
        Groups with instances.
    width : int
        Numbers per row, over all members.
    options : Options
    trial : Trial, optional
        For likelihoods.
    """
    needed = -(-options.n_replicates // PER_HASH) * PER_HASH
    fitting = _BYTES_HELD // (8 * n_groups * (width + 1)) // PER_HASH * PER_HASH
    step = max(PER_HASH, min(needed, fitting))
    parts = []
    for first in range(0, needed, step):
        count = min(step, needed - first)
        parts.append(source.total(Resampled(options.random_state, first, count, trial)).sums)
    n, members = options.n_replicates, sorted(set(parts[0]) - {"mass"})
    joined = {name: np.concatenate([p[name] for p in parts], axis=1)[:, :n] for name in parts[0]}
    return Replicates(joined["mass"], [joined[f"rows{i}"] for i in range(len(members))])


def limits_of_draws(estimates: Array, draws: Array, options: Options) -> tuple[Array, Array]:
    """Return the limits of groups from draws of shape (g, B, k)."""
    tail = options.tail(estimates.shape[1])
    limits = [
        bootstrap_limits(estimate, drawn, tail, options.interval)
        for estimate, drawn in zip(estimates, draws, strict=True)
    ]
    return np.array([low for low, _ in limits]), np.array([high for _, high in limits])


def moment_draws(
    source: Source, model: FittedModel, plan: Plan, estimates: Array, options: Options
) -> Array:
    """Return draws of the prevalences under a moment method, shape (g, B, k)."""
    g, k = estimates.shape
    width = sum(len(row_map.templates) for row_map in plan.row_maps)
    replicates = draw_replicates(source, g, max(width, k), options)
    means = [replicates.means(member) for member in range(len(replicates.rows))]
    templates = _replicated_templates(model, options, means[0].shape[1])
    if templates is not None:
        draws = np.array(
            [model.matching.match_templates(templates, rows, model.n_threads) for rows in means[0]]
        )
    else:
        flat = [MeanRows(rows.reshape(-1, rows.shape[2]), False) for rows in means]
        draws = solve_means(model, flat).prevalence.reshape(g, -1, k)
    return np.where((replicates.mass > 0)[:, :, None], draws, estimates[:, None, :])


def _replicated_templates(model: FittedModel, options: Options, n_replicates: int) -> Array | None:
    """Return the templates of training replicates, (n_replicates, r, k); None: as they are."""
    if not (options.resample_templates and model.matching.takes_templates):
        return None
    if model.training is None or not model.is_learnt:
        return None
    replicate = model.row_map.replicate_templates(model.training)
    if replicate is None:
        return None
    drawn = TrainingReplicates(model.training, options.random_state)
    return replicate(drawn.many(range(n_replicates)))


def likelihood_draws(
    source: Source,
    model: FittedModel,
    groups: Indices,
    sizes: Array,
    members: Array,
    options: Options,
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
    options : Options
    """
    n_members, g, k = members.shape
    n_groups = int(groups[-1]) + 1
    problems = (np.arange(n_members)[:, None] * n_groups + groups).ravel()
    trial = Trial(problems, members.reshape(-1, k), n_groups)
    curve = source.total(trial).sums["curve"].reshape(n_members, g, k, k)
    replicates = draw_replicates(source, g, n_members * k, options, trial)
    shares = model.row_map.shares
    draws = np.zeros((g, options.n_replicates, k))
    for member, share in enumerate(shares):
        slopes, hessians = replicates.means(member), curve[member] / sizes[:, None, None]
        for group in range(g):
            x = members[member, group]
            linear = hessians[group] @ x + slopes[group]
            starts = np.tile(x, (len(linear), 1))
            step, _ = solve_programs(hessians[group], linear, simplex=True, start=starts)
            draws[group] += share * step
    estimates = np.tensordot(shares, members, axes=1)
    draws = np.where((replicates.mass > 0)[:, :, None], draws, estimates[:, None, :])
    if options.resample_templates and model.class_rows is not None:
        shifts = _TemplateShifts(model.class_rows, options)
        for group in range(g):
            draws[group] += shifts(estimates[group], sizes[group])
    return project(draws.reshape(-1, k)).reshape(draws.shape)


class _TemplateShifts:
    """What training replicates add to estimates, to first order; the same ones for all groups."""

    def __init__(self, training: ClassRows, options: Options) -> None:
        rng = np.random.default_rng([options.random_state, 3])
        self._training = training
        self._densities = training.rows.astype(np.float64)
        self._shares = []
        for rows in self._classes():
            drawn = rng.poisson(1.0, size=(options.n_replicates, rows.stop - rows.start))
            weights = drawn * training.weights[rows].astype(np.float64)
            mass = weights.sum(axis=1, keepdims=True)
            # A replicate that drew nothing of a small class keeps the class as it is.
            self._shares.append(np.where(mass > 0, weights, training.weights[rows]))
            self._shares[-1] /= self._shares[-1].sum(axis=1, keepdims=True)

    def _classes(self) -> list[slice]:
        return [slice(a, b) for a, b in pairwise(self._training.offsets.tolist())]

    def __call__(self, estimate: Array, size: float) -> Array:
        """Return -T^-1 (T_b - T) alpha of every replicate, shape (B, k)."""
        tilt = smoothed(estimate, min(size, float(self._training.sizes.min())))
        inverse = training_moments(self._training, tilt).inverse
        phi = adapted(self._densities, tilt)
        shifts = np.zeros((len(self._shares[0]), len(tilt)))
        for label, (rows, shares) in enumerate(zip(self._classes(), self._shares, strict=True)):
            if estimate[label] > 0:
                centred = phi[rows] - self._training.weights[rows] @ phi[rows]
                shifts += estimate[label] * (shares @ centred)
        return np.asarray(-shifts @ inverse.T)
