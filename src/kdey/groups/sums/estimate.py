"""Estimates of groups from sums over any source of data."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from kdey._support.warnings import muted
from kdey.bags import Array, Indices
from kdey.fitted import FittedQuantifier
from kdey.groups.sums.bootstrap import likelihood_draws, limits_of_draws, moment_draws
from kdey.groups.sums.group_sums import GroupSums, Plan, Source, plan_of_model, summable_stages
from kdey.groups.sums.limits import (
    bags_of_sizes,
    derivative_limits,
    feature_limits,
    likelihood_limits,
)
from kdey.groups.sums.solve import (
    Mixtures,
    iterate_mixtures,
    mean_rows,
    solve_means,
    solve_mixtures,
)
from kdey.intervals import FittedModel
from kdey.intervals.score_interval import ensure_minimum_width, widen_unsupported
from kdey.options import IntervalWarning, Options
from kdey.solvers.solution import Solution

#: How the limits of groups are made from sums.
LimitsMethod: TypeAlias = Literal["analytic", "derivatives", "bootstrap", "none"]
#: Numbers of a row beyond which no replicate of it is summed (Monte Carlo rows).
_WIDEST = 4_096


@dataclass(frozen=True, eq=False)
class SummedEstimates:
    """Estimates of the groups that have instances.

    Attributes
    ----------
    groups : int64 array of shape (g,)
        Their numbers, ascending.
    sizes : array of shape (g,)
    solution : Solution
    low, high : arrays of shape (g, k)
        NaN where the method has no analytic limits and rows have no keys.
    decisions : array of shape (g, k)
        Shares of the classifier's decisions; NaN where there are none.
    """

    groups: Indices
    sizes: Array
    solution: Solution
    low: Array
    high: Array
    decisions: Array


def estimate_sums(
    quantifier: FittedQuantifier, source: Source, options: Options, *, keyed: bool = False
) -> SummedEstimates:
    """Return the estimates of all groups of a source, with limits.

    Parameters
    ----------
    quantifier : fitted quantifier
        Given by rows and a matching; on posteriors or on features.
    source : Source
    options : Options
        ``method="auto"`` is analytic where the method has it, else a bootstrap if ``keyed``.
    keyed : bool
        Whether the source knows the key of every row, which a bootstrap needs.
    """
    model = summable_stages(quantifier)
    task = _Task(source, model, plan_of_model(model), options, keyed)
    plan, how = task.plan, task.limits_method()
    # Derivatives may turn out not to exist: a bootstrap then visits the rows again.
    again = how == "bootstrap" or (how == "derivatives" and keyed)
    first = source.first(plan, hold=plan.kind == "rows" or again)
    if len(first) == 0:
        raise ValueError("there is no row with scores or features to estimate from")
    estimate = _estimate_likelihood if plan.kind == "rows" else _estimate_moments
    solution, low, high = estimate(task, first, how)
    sizes = first.sums["n"]
    if not np.isnan(low).all():
        low, high = task.settled(solution.prevalence, low, high, sizes)
    unknown = np.full(solution.prevalence.shape, np.nan)
    decisions = first.sums["decisions"] / sizes[:, None] if plan.on_posteriors else unknown
    return SummedEstimates(first.groups, sizes, solution, low, high, decisions)


@dataclass(frozen=True, eq=False)
class _Task:
    """What is estimated: the stages of a quantifier, a source, and the limits asked for.

    ``has_keys`` says whether the source knows the key of every row.
    """

    source: Source
    model: FittedModel
    plan: Plan
    options: Options
    has_keys: bool

    def limits_method(self) -> LimitsMethod:
        """Return how limits are to be made; "derivatives" may turn out not to exist."""
        asked = self.options.method
        if asked != "bootstrap" and self.model.is_analytic:
            return "analytic"
        if asked != "bootstrap" and self.model.limits_source == "derivatives":
            return "derivatives"
        if asked == "analytic":
            raise ValueError("method='analytic' is for ACC, PACC, EMQ, DIR and KDEy-ML")
        return self.bootstrap_or_none()

    def bootstrap_or_none(self) -> LimitsMethod:
        """Return "bootstrap" where rows can be resampled; otherwise "none", with a warning."""
        if self.options.target == "bag":
            raise ValueError("target='bag' has only analytic limits here: use target='population'")
        wide = max(len(row_map.templates) for row_map in self.plan.row_maps) > _WIDEST
        if self.has_keys and not wide:
            return "bootstrap"
        reason = "rows of this method are too wide to resample" if wide else "rows have no key"
        if self.options.method == "bootstrap":
            raise ValueError(
                f"method='bootstrap' is not possible: {reason}; name the column of keys, key="
            )
        warnings.warn(
            f"no limits: this method has no analytic ones, and {reason}",
            IntervalWarning,
            stacklevel=4,
        )
        return "none"

    def settled(
        self, estimates: Array, low: Array, high: Array, sizes: Array
    ) -> tuple[Array, Array]:
        """Return limits that hold the estimates, and none where training cannot support any."""
        bags = bags_of_sizes(sizes)
        low, high = ensure_minimum_width(estimates, low, high, bags, self.options)
        with muted(IntervalWarning):  # the limits themselves say it
            widen_unsupported(low, high, bags, self.model.rare)
        return low, high


def _estimate_likelihood(
    task: _Task, first: GroupSums, how: LimitsMethod
) -> tuple[Solution, Array, Array]:
    model, groups, sizes = task.model, first.groups, first.sums["n"]
    n_groups, n_members = int(groups[-1]) + 1, len(task.plan.row_maps)
    solved = _solve(task, Mixtures.of(first, n_groups, n_members), n_groups)
    parts = [_take(solved, groups + member * n_groups) for member in range(n_members)]
    solution = model.matching.combine(parts, model.row_map.shares)
    if how == "analytic":
        limits = likelihood_limits(
            task.source, model, groups, sizes, solution.prevalence, task.options
        )
        return solution, *limits
    members = np.array([part.prevalence for part in parts])
    draws = likelihood_draws(task.source, model, groups, sizes, members, task.options)
    return solution, *limits_of_draws(solution.prevalence, draws, task.options)


def _solve(task: _Task, mixtures: Mixtures, n_groups: int) -> Solution:
    likelihood = task.model.matching.member.likelihood
    assert likelihood is not None, "only a likelihood needs the rows of a bag"
    rounds = {} if likelihood.max_iter is None else {"max_iter": likelihood.max_iter}
    if likelihood.is_exact:
        share = task.model.row_map.pseudo_share
        return solve_mixtures(
            task.source, mixtures, n_groups, tol=likelihood.tol, pseudo_share=share, **rounds
        )
    start = task.model.row_map.starting_prevalence()
    if start is None:
        start = np.full(task.model.n_classes, 1.0 / task.model.n_classes)
    rounds = {"max_iter": 1_000} | rounds
    return iterate_mixtures(task.source, mixtures, n_groups, start, tol=likelihood.tol, **rounds)


def _take(solution: Solution, which: Indices) -> Solution:
    return Solution(*(values[which] for values in vars(solution).values()))


def _estimate_moments(
    task: _Task, first: GroupSums, how: LimitsMethod
) -> tuple[Solution, Array, Array]:
    model, options, sizes = task.model, task.options, first.sums["n"]
    means = mean_rows(task.plan, first)
    solution = solve_means(model, means)
    estimates = solution.prevalence
    if how == "analytic":
        return solution, *feature_limits(model, means[0].array, sizes, estimates, options)
    if how == "derivatives":
        limits = derivative_limits(model, means[0].array, sizes, estimates, options)
        if limits is not None:
            return solution, *limits
        how = task.bootstrap_or_none()
    if how == "bootstrap":
        draws = moment_draws(task.source, model, task.plan, estimates, options)
        return solution, *limits_of_draws(estimates, draws, options)
    unknown = np.full(estimates.shape, np.nan)
    return solution, unknown, unknown.copy()
