r"""The solutions of all groups from sums alone.

*Moment methods* need the mean row of each group, which the first pass gives: :func:`solve_means`.

*Likelihoods* are maximised by passes over the data. With D the densities of the instances j of a
group and :math:`p_j = D_j \cdot \alpha`, a pass sums

.. math:: v = -\sum_j \log p_j, \qquad s_i = \sum_j \frac{D_{ji}}{p_j}, \qquad
          C_{il} = \sum_j \frac{D_{ji} D_{jl}}{p_j^2}

which are the objective, minus its gradient, and its Hessian, times the number of instances
(:class:`Trial`). :func:`solve_mixtures` is sequential quadratic programming as in
``kdey.solvers.sqp``, all groups at once: a round evaluates every unfinished group at a trial
prevalence; the trial is taken or drawn back, and the next one is the minimiser of the quadratic
model. The certificate is that of :class:`~kdey.problems.mixture.MixtureLikelihood`,
:math:`\max_i s_i / n - 1`. :func:`iterate_mixtures` is expectation maximisation as in the
literature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags, Indices
from kdey.groups.sums.group_sums import GroupedRows, GroupSums, Plan, Source, merge
from kdey.intervals import FittedModel
from kdey.rows.composite import CompositeRows
from kdey.rows.interface import Rows
from kdey.solvers.quadratic import solve_programs
from kdey.solvers.solution import Solution

#: Rows from which a group is worth a separate matrix product.
_LARGE = 96
#: Numbers held at a time while small groups are summed together.
_HELD = 1 << 19
#: Share of the promised decrease that a step must deliver where slopes do not settle it.
_SUFFICIENT = 1e-4
#: Objectives closer than this (relative) are equal up to rounding.
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class MeanRows(Rows):
    """Mean rows of groups, each of them one instance of a pool of groups.

    ``array`` has shape (n_groups, r) and holds logarithms where ``in_logs``.
    """

    array: Array
    in_logs: bool

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.array)

    def mean(self, bags: Bags) -> Array:
        """Return the mean row of each bag of groups, shape (n_bags, r)."""
        return bags.mean(np.exp(self.array) if self.in_logs else self.array)

    def log_mean(self, bags: Bags) -> Array:
        """Return the logs of the mean rows of bags of one group each."""
        if self.in_logs:
            return np.asarray(self.array[bags.indices])
        with np.errstate(divide="ignore"):
            return np.log(self.mean(bags))


def mean_rows(plan: Plan, sums: GroupSums) -> list[MeanRows]:
    """Return the mean rows of every member, for the groups of ``sums``."""
    n = sums.sums["n"][:, None]
    names = [f"mean{member}" for member in range(len(plan.row_maps))]
    if plan.kind == "log mean":
        return [MeanRows(sums.logs[name] - np.log(n), True) for name in names]
    return [MeanRows(sums.sums[name] / n, False) for name in names]


def solve_means(model: FittedModel, means: Sequence[MeanRows]) -> Solution:
    """Return the solutions of groups from their mean rows, one array for every member."""
    n = len(means[0].array)
    singles = Bags(np.arange(n, dtype=np.int64), np.arange(n + 1, dtype=np.int64), n)
    rows: Rows = CompositeRows(tuple(means)) if model.row_map.is_composite else means[0]
    return model.matching.match(model.row_map, rows, singles, model.n_threads)


@dataclass(frozen=True, eq=False)
class Trial:
    """Prevalences at which groups are to be summed.

    Attributes
    ----------
    problems : int64 array of shape (a,)
        Ascending; problem ``member * n_groups + group``.
    prevalence : array of shape (a, k)
    n_groups : int
    curved : bool
        Whether to sum the Hessian too.
    """

    problems: Indices
    prevalence: Array
    n_groups: int
    curved: bool = True

    def __call__(self, part: GroupedRows) -> GroupSums:
        """Return ``value``, ``slope`` and ``curve`` of the problems that a part of the data has."""
        sums = [
            self._member(part, rows, member * self.n_groups)
            for member, rows in enumerate(part.rows)
        ]
        return merge(sums) if sums else GroupSums(np.empty(0, dtype=np.int64), {})

    def _member(self, part: GroupedRows, rows: NDArray[np.float32], first: int) -> GroupSums:
        where, places = self.find(part.groups + first)
        starts, counts = part.offsets[where], np.diff(part.offsets)[where]
        x = self.prevalence[places]
        k = x.shape[1]
        value, slope = np.zeros(len(where)), np.zeros((len(where), k))
        curve = np.zeros((len(where), k, k if self.curved else 0))
        large = counts >= _LARGE
        for number in np.flatnonzero(large):
            group = rows[starts[number] : starts[number] + counts[number]]
            value[number], slope[number], curve[number] = _sum_group(group, x[number], self.curved)
        for run in _runs(np.flatnonzero(~large), counts, k):
            taken = rows[_positions(starts[run], counts[run])]
            value[run], slope[run], curve[run] = _sum_groups(
                taken, x[run], counts[run], self.curved
            )
        return GroupSums(self.problems[places], {"value": value, "slope": slope, "curve": curve})

    def find(self, problems: Indices) -> tuple[Indices, Indices]:
        """Return which of ``problems`` are on trial, and where they are among those."""
        place = np.minimum(np.searchsorted(self.problems, problems), len(self.problems) - 1)
        where = np.flatnonzero(self.problems[place] == problems)
        return where, place[where]


def _sum_group(rows: NDArray[np.float32], x: Array, curved: bool) -> tuple[float, Array, Array]:
    """Return the sums of one group, in blocks that stay in the cache."""
    k = len(x)
    value, slope, curve = 0.0, np.zeros(k), np.zeros((k, k if curved else 0))
    step = max(_LARGE, _HELD // (4 * k))
    for start in range(0, len(rows), step):
        d = rows[start : start + step].astype(np.float64)
        mixture = d @ x
        with np.errstate(divide="ignore", invalid="ignore"):
            value -= float(np.log(mixture).sum())
            d /= mixture[:, None]
        slope += d.sum(axis=0)
        if curved:
            curve += d.T @ d
    return value, slope, curve


def _sum_groups(
    rows: NDArray[np.float32], x: Array, counts: Indices, curved: bool
) -> tuple[Array, Array, Array]:
    """Return the sums of consecutive small groups with ``counts`` rows each."""
    starts = np.cumsum(counts) - counts
    d = rows.astype(np.float64)
    mixture = np.einsum("ij,ij->i", d, np.repeat(x, counts, axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = -np.add.reduceat(np.log(mixture), starts)
        d /= mixture[:, None]
        products = d[:, :, None] * (d[:, None, :] if curved else d[:, None, :0])
    slope = np.add.reduceat(d, starts, axis=0)
    return value, slope, np.add.reduceat(products, starts, axis=0)


def _runs(groups: Indices, counts: Indices, k: int) -> list[Indices]:
    """Cut small groups into runs whose products fit a bounded amount of memory."""
    if len(groups) == 0:
        return []
    total = np.cumsum(counts[groups])
    run = (total - 1) * k * k // _HELD
    cuts = [0, *(np.flatnonzero(np.diff(run)) + 1).tolist(), len(groups)]
    return [groups[a:b] for a, b in pairwise(cuts)]


def _positions(starts: Indices, counts: Indices) -> Indices:
    """Return starts[0], starts[0] + 1, ... of every run of ``counts`` rows, one after another."""
    shift = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return np.asarray(shift + np.arange(len(shift)))


@dataclass(frozen=True, eq=False)
class Mixtures:
    """What is known of the likelihoods of P problems after the first pass.

    Attributes
    ----------
    sizes : array of shape (P,)
        Instances that carry information.
    ignored : array of shape (P,)
        Instances that carry none; they are held as rows of ones.
    scale : array of shape (P,)
        Sum of the logs that rows were divided by.
    start : array of shape (P, k)
        Prevalences to start from.
    """

    sizes: Array
    ignored: Array
    scale: Array
    start: Array

    @classmethod
    def of(cls, sums: GroupSums, n_groups: int, n_members: int) -> Mixtures:
        """Return the problems of all members and groups, members slowest."""

        def field(name: str) -> Array:
            parts = [sums.spread(f"{name}{member}", n_groups) for member in range(n_members)]
            return np.concatenate(parts)

        ignored, start = field("ignored"), field("start")
        sizes = np.tile(sums.spread("n", n_groups), n_members) - ignored
        start = start + (sizes == 0)[:, None]
        return cls(sizes, ignored, field("scale"), start / start.sum(axis=1, keepdims=True))


def solve_mixtures(
    source: Source,
    mixtures: Mixtures,
    n_groups: int,
    *,
    tol: float = 1e-8,
    max_iter: int = 200,
    pseudo_share: float = 0.0,
) -> Solution:
    """Maximise the likelihood of every problem over the simplex, to a certified gap.

    A problem without an informative row gets the uniform prevalence, ``converged`` False and NaN
    for objective and gap, as :func:`kdey.solvers.solve_mixture` gives.

    Parameters
    ----------
    source : Source
    mixtures : Mixtures
    n_groups : int
    tol : float
        Gap to reach, in mean log-likelihood.
    max_iter : int
        Rounds, each a pass over the data.
    pseudo_share : float
        Weight of one pseudo-instance per class; see :class:`kdey.problems.MixtureLikelihood`.
    """
    state = _State.begin(mixtures)
    for _ in range(max_iter):
        if len(state.active) == 0:
            break
        trial = Trial(state.active, state.trial[state.active], n_groups)
        state.receive(source.total(trial), mixtures, tol, pseudo_share)
    gap = np.where(mixtures.sizes > 0, state.gap, np.nan)
    total = mixtures.sizes * (1.0 + mixtures.start.shape[1] * pseudo_share)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(mixtures.sizes > 0, state.value - mixtures.scale / total, np.nan)
        converged = gap <= tol
    return Solution(state.x, value, gap, state.rounds, converged)


def _with_pseudo_instances(
    x: Array, value: Array, g: Array, h: Array, share: float
) -> tuple[Array, Array, Array]:
    """Return objective, minus its gradient and its Hessian with pseudo-instances of each class."""
    k = x.shape[1]
    total = 1.0 + k * share
    with np.errstate(divide="ignore"):
        value = value - share * np.log(x).sum(axis=1)
        g = g + share / x
        h = h + share * np.eye(k) / (x * x)[:, None, :]
    return value / total, g / total, h / total


@dataclass(eq=False)
class _State:
    """Where every problem stands: the last prevalence taken, the step from it, and the trial."""

    active: Indices
    x: Array
    value: Array
    slope: Array
    gap: Array
    target: Array
    share: Array
    trial: Array
    rounds: NDArray[np.int64]

    @classmethod
    def begin(cls, mixtures: Mixtures) -> _State:
        n, k = mixtures.start.shape
        infinite = np.full(n, np.inf)
        return cls(
            active=np.flatnonzero(mixtures.sizes > 0),
            x=np.full((n, k), 1.0 / k),
            value=infinite.copy(),
            slope=np.zeros((n, k)),
            gap=infinite.copy(),
            target=mixtures.start.copy(),
            share=np.ones(n),
            trial=mixtures.start.copy(),
            rounds=np.zeros(n, dtype=np.int64),
        )

    def receive(
        self, sums: GroupSums, mixtures: Mixtures, tol: float, pseudo_share: float = 0.0
    ) -> None:
        """Judge the trials by their sums and set the next ones."""
        if not np.array_equal(sums.groups, self.active):
            raise RuntimeError("a pass over the data met other groups than the pass before")
        where, n = self.active, mixtures.sizes[self.active]
        blank = mixtures.ignored[where]
        value = sums.sums["value"] / n
        g = (sums.sums["slope"] - blank[:, None]) / n[:, None]
        h = (sums.sums["curve"] - blank[:, None, None]) / n[:, None, None]
        if pseudo_share > 0:
            value, g, h = _with_pseudo_instances(self.trial[where], value, g, h, pseudo_share)
        self.rounds[where] += 1
        good = self._falls(value, g)
        self._draw_back(where[~good], g[~good])
        taken = where[good]
        full = self.share[taken] == 1.0
        gap = np.maximum(g[good].max(axis=1) - 1.0, 0.0)
        self.x[taken], self.value[taken] = self.trial[taken], value[good]
        self.slope[taken], self.gap[taken] = g[good], gap
        self._next(taken, h[good], full)
        self.active = np.union1d(where[~good], taken[gap > tol])

    def _falls(self, value: Array, g: Array) -> NDArray[np.bool_]:
        """Return whether the objective fell: by the slope at the trial, else by its value."""
        where = self.active
        with np.errstate(invalid="ignore"):
            step = self.trial[where] - self.x[where]
            finite = np.isfinite(value) & np.isfinite(g).all(axis=1)
            rising = -_dot(g, step)
            promise = -_dot(self.slope[where], step)
            before = self.value[where]
            slack = _ROUNDING * (1.0 + np.abs(before))
            enough = value <= before + _SUFFICIENT * np.minimum(promise, 0.0) + slack
        first = np.isinf(before)
        return np.asarray(finite & (first | (rising <= 0) | enough))

    def _draw_back(self, where: Indices, g: Array) -> None:
        """Shorten the step to where its slope should vanish, by the secant, or by half."""
        step = self.trial[where] - self.x[where]
        with np.errstate(divide="ignore", invalid="ignore"):
            begin, end = _dot(self.slope[where], step), -_dot(g, step)
            secant = begin / (begin + end)
        factor = np.where(np.isfinite(secant), np.clip(secant, 0.1, 0.7), 0.5)
        self.share[where] *= factor
        self._aim(where)

    def _next(self, where: Indices, h: Array, full: NDArray[np.bool_]) -> None:
        """Aim at the minimiser of the model; after a shortened step, at a step of EM."""
        x, g = self.x[where], self.slope[where]
        linear = np.einsum("bij,bj->bi", h, x) + g
        newton, _ = solve_programs(h, linear, simplex=True, start=x, passes=1)
        self.target[where] = np.where(full[:, None], newton, x * g)
        self.share[where] = 1.0
        self._aim(where)

    def _aim(self, where: Indices) -> None:
        share = self.share[where][:, None]
        trial = np.maximum(self.x[where] + share * (self.target[where] - self.x[where]), 0.0)
        self.trial[where] = trial / trial.sum(axis=1, keepdims=True)


def _dot(slope: Array, step: Array) -> Array:
    """Return slope . step; steps sum to zero only up to rounding, so slopes lose their least."""
    with np.errstate(invalid="ignore"):
        spread = slope - slope.min(axis=1, keepdims=True)
        return np.asarray(np.where(step == 0, 0.0, spread * step).sum(axis=1))


def iterate_mixtures(
    source: Source, mixtures: Mixtures, n_groups: int, start: Array, *, tol: float, max_iter: int
) -> Solution:
    """Return what :func:`kdey.solvers.solve_mixture_em` does, from sums.

    Parameters
    ----------
    source : Source
    mixtures : Mixtures
    n_groups : int
    start : array of shape (k,)
    tol : float
        Mean absolute change of the prevalences at which to stop.
    max_iter : int
    """
    informative = mixtures.sizes > 0
    x = np.tile(start, (len(mixtures.sizes), 1))
    x[~informative] = 1.0 / x.shape[1]
    rounds = np.zeros(len(x), dtype=np.int64)
    converged = np.zeros(len(x), dtype=np.bool_)
    active = np.flatnonzero(informative)
    while len(active) and rounds[active[0]] < max_iter:
        slope = _slope(source, mixtures, active, x[active], n_groups)[1]
        moved = x[active] * slope
        moved /= moved.sum(axis=1, keepdims=True)
        done = np.abs(moved - x[active]).mean(axis=1) < tol
        x[active] = moved
        rounds[active] += 1
        converged[active] = done
        active = active[~done]
    value, gap = np.full(len(x), np.nan), np.full(len(x), np.nan)
    every = np.flatnonzero(informative)
    value[every], slope = _slope(source, mixtures, every, x[every], n_groups)
    gap[every] = np.maximum(slope.max(axis=1) - 1.0, 0.0)
    return Solution(x, value, gap, rounds, converged)


def _slope(
    source: Source, mixtures: Mixtures, which: Indices, x: Array, n_groups: int
) -> tuple[Array, Array]:
    """Return objective (a,) and minus its gradient (a, k) of the problems ``which``."""
    sums = source.total(Trial(which, x, n_groups, curved=False)).sums
    n, blank = mixtures.sizes[which], mixtures.ignored[which]
    value = (sums["value"] - mixtures.scale[which]) / n
    return value, (sums["slope"] - blank[:, None]) / n[:, None]
