"""Estimates of groups from sums over any source of data."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kdey._support.warnings import muted
from kdey.bags import Array, Indices
from kdey.fitted import FittedQuantifier
from kdey.groups.sums.bootstrap import likelihood_draws, limits_of_draws, moment_draws
from kdey.groups.sums.limits import (
    bags_of_sizes,
    derivative_limits,
    feature_limits,
    likelihood_limits,
)
from kdey.groups.sums.means import mean_rows, solve_means
from kdey.groups.sums.mixtures import Mixtures, iterate_mixtures, solve_mixtures
from kdey.groups.sums.source import GroupSums, Plan, Source, plan_of_model, summable_stages
from kdey.intervals import FittedModel, IntervalOptions, IntervalWarning
from kdey.intervals.score_interval import ensure_minimum_width, widen_unsupported
from kdey.solvers.solution import Solution

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
    quantifier: FittedQuantifier, source: Source, options: IntervalOptions, *, keyed: bool = False
) -> SummedEstimates:
    """Return the estimates of all groups of a source, with limits.

    Parameters
    ----------
    quantifier : fitted quantifier
        Given by rows and a matching; on posteriors or on features.
    source : Source
    options : IntervalOptions
        ``method="auto"`` is analytic where the method has it, else a bootstrap if ``keyed``.
    keyed : bool
        Whether the source knows the key of every row, which a bootstrap needs.
    """
    model = summable_stages(quantifier)
    plan = plan_of_model(model)
    how = _how(model, plan, options, keyed)
    # Derivatives may turn out not to exist: a bootstrap then visits the rows again.
    again = how == "bootstrap" or (how == "derivatives" and keyed)
    first = source.first(plan, hold=plan.kind == "rows" or again)
    if len(first) == 0:
        raise ValueError("there is no row with scores or features to estimate from")
    if plan.kind == "rows":
        solution, low, high = _likelihood(source, model, plan, first, options, how)
    else:
        solution, low, high = _moments(source, model, plan, first, options, how, keyed)
    sizes = first.sums["n"]
    if not np.isnan(low).all():
        low, high = _settled(solution.prevalence, low, high, sizes, model, options)
    unknown = np.full(solution.prevalence.shape, np.nan)
    counted = first.sums["decisions"] / sizes[:, None] if plan.on_posteriors else unknown
    return SummedEstimates(first.groups, sizes, solution, low, high, counted)


#: How the limits of groups are made from sums.
Limits = Literal["analytic", "derivatives", "bootstrap", "none"]


def _how(model: FittedModel, plan: Plan, options: IntervalOptions, keyed: bool) -> Limits:
    """Return how limits are to be made; "derivatives" may turn out not to exist."""
    if options.method != "bootstrap" and model.is_analytic:
        return "analytic"
    if options.method != "bootstrap" and model.limits_source == "derivatives":
        return "derivatives"
    if options.method == "analytic":
        raise ValueError("method='analytic' is for ACC, PACC, EMQ, DIR and KDEy-ML")
    return _resampled(plan, options, keyed)


def _resampled(plan: Plan, options: IntervalOptions, keyed: bool) -> Limits:
    """Return "bootstrap" where rows can be resampled; otherwise "none", with a warning."""
    if options.target == "bag":
        raise ValueError("target='bag' has only analytic limits here: use target='population'")
    wide = max(len(row_map.templates) for row_map in plan.row_maps) > _WIDEST
    if keyed and not wide:
        return "bootstrap"
    reason = "rows of this method are too wide to resample" if wide else "rows have no key"
    if options.method == "bootstrap":
        raise ValueError(f"method='bootstrap' cannot be: {reason}; name the column of keys, key=")
    warnings.warn(
        f"no limits: this method has no analytic ones, and {reason}", IntervalWarning, stacklevel=4
    )
    return "none"


def _likelihood(
    source: Source,
    model: FittedModel,
    plan: Plan,
    first: GroupSums,
    options: IntervalOptions,
    how: Limits,
) -> tuple[Solution, Array, Array]:
    groups, sizes = first.groups, first.sums["n"]
    n_groups, n_members = int(groups[-1]) + 1, len(plan.row_maps)
    given = Mixtures.of(first, n_groups, n_members)
    solved = _solve(source, model, given, n_groups)
    parts = [_take(solved, groups + member * n_groups) for member in range(n_members)]
    solution = model.matching.combine(parts, model.row_map.shares)
    if how == "analytic":
        made = likelihood_limits(source, model, groups, sizes, solution.prevalence, options)
        return solution, *made
    members = np.array([part.prevalence for part in parts])
    draws = likelihood_draws(source, model, groups, sizes, members, options)
    return solution, *limits_of_draws(solution.prevalence, draws, options)


def _solve(source: Source, model: FittedModel, given: Mixtures, n_groups: int) -> Solution:
    likelihood = model.matching.member.likelihood
    assert likelihood is not None, "only a likelihood needs the rows of a bag"
    rounds = {} if likelihood.max_iter is None else {"max_iter": likelihood.max_iter}
    if likelihood.is_exact:
        return solve_mixtures(source, given, n_groups, tol=likelihood.tol, **rounds)
    start = model.row_map.starting_prevalence()
    if start is None:
        start = np.full(model.n_classes, 1.0 / model.n_classes)
    rounds = {"max_iter": 1_000} | rounds
    return iterate_mixtures(source, given, n_groups, start, tol=likelihood.tol, **rounds)


def _take(solution: Solution, which: Indices) -> Solution:
    return Solution(*(values[which] for values in vars(solution).values()))


def _moments(
    source: Source,
    model: FittedModel,
    plan: Plan,
    first: GroupSums,
    options: IntervalOptions,
    how: Limits,
    keyed: bool,
) -> tuple[Solution, Array, Array]:
    means = mean_rows(plan, first)
    solution = solve_means(model, means)
    estimates, sizes = solution.prevalence, first.sums["n"]
    if how == "analytic":
        return solution, *feature_limits(model, means[0].array, sizes, options)
    if how == "derivatives":
        limits = derivative_limits(model, means[0].array, sizes, estimates, options)
        if limits is not None:
            return solution, *limits
        how = _resampled(plan, options, keyed)
    if how == "bootstrap":
        draws = moment_draws(source, model, plan, estimates, options)
        return solution, *limits_of_draws(estimates, draws, options)
    unknown = np.full(estimates.shape, np.nan)
    return solution, unknown, unknown.copy()


def _settled(
    estimates: Array,
    low: Array,
    high: Array,
    sizes: Array,
    model: FittedModel,
    options: IntervalOptions,
) -> tuple[Array, Array]:
    bags = bags_of_sizes(sizes)
    low, high = ensure_minimum_width(estimates, low, high, bags, options)
    with muted(IntervalWarning):  # the limits themselves say it
        widen_unsupported(low, high, bags, model.rare)
    return low, high
