"""From a fitted quantifier and bags to estimates with limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.bags import Array, Bags
from kdey.intervals.analytic import (
    Linearised,
    analytic_limits,
    linearise_features,
    linearise_likelihood,
)
from kdey.intervals.bootstrap import bootstrap_draws, bootstrap_limits, draws_by
from kdey.intervals.derivatives import linearise_matching
from kdey.intervals.estimate import Decisions, Estimates
from kdey.intervals.model import FittedModel
from kdey.intervals.options import IntervalOptions
from kdey.intervals.region import Analytic, Draws, Nothing, Uncertainty
from kdey.intervals.replicates import BagReplicates, counted_bags
from kdey.intervals.sampled_bags import Sampled, SampledBags, sampled_bags
from kdey.intervals.score_interval import give_up, settle
from kdey.matching import MaximiseLikelihood
from kdey.matching.interface import LimitsSource
from kdey.rows.interface import ArrayRows, Rows
from kdey.solvers.solution import Solution

#: Lower and upper limits, and what those of one bag rest on.
Limits = tuple[Array, Array, Callable[[int], Uncertainty]]


def estimate_points(
    model: FittedModel,
    points: NDArray[Any],
    bags: Bags,
    options: IntervalOptions,
    clusters: ArrayLike | None = None,
) -> Estimates:
    """Return the estimates of bags over a pool of points (posteriors, or features).

    Parameters
    ----------
    model : FittedModel
    points : array of shape (pool_size, d)
    bags : Bags
    options : IntervalOptions
    clusters : array-like of shape (pool_size,), optional
        Ids of the clusters that instances were drawn in.
    """
    source = _limits_source(model, options)
    drawn = sampled_bags(bags, clusters)
    rows = model.row_map(points, model.n_threads)
    limits: Limits | None = None
    if source == "moments":
        solution, limits = _analytic(model, rows, bags, drawn, options)
    else:
        solution = model.matching.match(model.row_map, rows, bags, model.n_threads)
    if source == "derivatives":
        limits = _by_derivatives(model, rows, drawn, solution.prevalence, options)
    if limits is None:
        limits = _bootstrap(model, points, drawn, solution.prevalence, options)
    decisions = Decisions(points, bags) if model.on_posteriors else None
    return _assemble(
        model.classes, model.prevalence, model.rare, solution, drawn, limits, options, decisions
    )


def estimate_solver(
    solve: Callable[[Bags], Solution],
    classes: NDArray[Any],
    prevalence: Array,
    bags: Bags,
    options: IntervalOptions,
    clusters: ArrayLike | None = None,
) -> Estimates:
    """Return the estimates of bags by a quantifier of which only the answers are known.

    Only the bags are resampled: the limits leave out what the training data add.
    """
    if options.method == "analytic":
        raise ValueError("method='analytic' is not available here; use method='bootstrap'")
    if options.target == "bag":
        raise ValueError("target='bag' is not available here; use target='population'")
    drawn, solution = sampled_bags(bags, clusters), solve(bags)
    k = len(classes)

    def draw(bag: Sampled, estimate: Array) -> Draws:
        def again(counts: NDArray[np.int64], first: int) -> Array:
            made = counted_bags(bag, counts, counts.shape[1])
            indices = bag.indices[made.indices]
            return solve(Bags(indices, made.offsets, bags.pool_size, made.weights)).prevalence

        given = BagReplicates(bag, np.empty((0, k)), ArrayRows(np.empty((0, k))), estimate)
        draws = draws_by(again, given, options, None, k)
        return Draws(None, options.random_state, estimate, draws)

    made = _from_draws(draw, drawn, solution.prevalence, options)
    rare = np.zeros(k, dtype=np.bool_)
    return _assemble(classes, prevalence, rare, solution, drawn, made, options, None)


def _limits_source(model: FittedModel, options: IntervalOptions) -> LimitsSource:
    source = model.limits_source
    if options.method == "bootstrap":
        return "bootstrap"
    if options.method == "analytic" and source == "bootstrap":
        raise ValueError(
            "method='analytic' needs least squares on means or a mixture likelihood (ACC, PACC, "
            "EMQ, DIR, KDEy-ML) fitted on training data; use method='bootstrap'"
        )
    return source


def _analytic(
    model: FittedModel, rows: Rows, bags: Bags, drawn: SampledBags, options: IntervalOptions
) -> tuple[Solution, Limits]:
    if model.likelihood is not None:
        solution, densities = _likelihood(model, model.likelihood, rows, bags)
        line = linearise_likelihood(model, densities, drawn, solution.prevalence)
    else:
        problem = model.matching.problem(model.row_map, rows, bags, model.n_threads)
        solution = model.matching.solve(problem, model.n_threads)
        line = linearise_features(model, problem.targets, rows.each(), drawn)
    return solution, _limits_of(model, line, options)


def _limits_of(model: FittedModel, line: Linearised, options: IntervalOptions) -> Limits:
    population = options.target == "population"
    low, high = analytic_limits(line, options.tail(model.n_classes), population)
    return low, high, lambda number: Analytic(model, line, number, population)


def _by_derivatives(
    model: FittedModel, rows: Rows, bags: SampledBags, estimates: Array, options: IntervalOptions
) -> Limits | None:
    """Return limits by numerical derivatives of the matching; None where they do not exist."""
    line = linearise_matching(model, rows.mean(bags.bags), bags, estimates, rows)
    if line is not None:
        return _limits_of(model, line, options)
    if options.method == "analytic":
        raise ValueError(
            "method='analytic' needs a matching that gives back the prevalence of a mixture and "
            "has derivatives there, which this one has not; use method='bootstrap'"
        )
    return None


def _likelihood(
    model: FittedModel, likelihood: MaximiseLikelihood, rows: Rows, bags: Bags
) -> tuple[Solution, Array]:
    """Return the solution and the densities (pool_size, k), made once where one problem is."""
    if model.row_map.is_composite or not likelihood.is_exact:
        solution = model.matching.match(model.row_map, rows, bags, model.n_threads)
        return solution, model.hold(rows.each())
    problem = likelihood.problem(model.row_map, rows, bags, model.n_threads)
    densities, empty = problem.rows, problem.rows.max(axis=1) == 0
    if empty.any():
        densities = np.where(empty[:, None], 1.0, densities)
    return likelihood.solve(problem, model.n_threads), densities


def _bootstrap(
    model: FittedModel,
    points: NDArray[Any],
    bags: SampledBags,
    estimates: Array,
    options: IntervalOptions,
) -> Limits:
    shared = model if options.resample_templates else None

    def draw(bag: Sampled, estimate: Array) -> Draws:
        own = points[bag.indices]
        given = BagReplicates(bag, own, model.row_map(own, model.n_threads), estimate)
        draws = bootstrap_draws(model, given, options)
        return Draws(shared, options.random_state, estimate, draws)

    return _from_draws(draw, bags, estimates, options)


def _from_draws(
    draw: Callable[[Sampled, Array], Draws],
    bags: SampledBags,
    estimates: Array,
    options: IntervalOptions,
) -> Limits:
    low, high = np.zeros(estimates.shape), np.ones(estimates.shape)
    kept: list[Uncertainty] = []
    tail = options.tail(estimates.shape[1])
    for number, bag in enumerate(bags):
        if bag.n_units < 2:
            kept.append(Nothing(estimates.shape[1]))
            continue
        made = draw(bag, estimates[number])
        limits = bootstrap_limits(estimates[number], made.draws, tail, options.interval)
        low[number], high[number] = limits
        kept.append(made)
    return low, high, kept.__getitem__


def _assemble(
    classes: NDArray[Any],
    prevalence: Array,
    rare: NDArray[np.bool_],
    solution: Solution,
    bags: SampledBags,
    made: Limits,
    options: IntervalOptions,
    counted: Decisions | None,
) -> Estimates:
    """Return the estimates with limits that hold what every interval must."""
    low, high = settle(solution.prevalence, made[0], made[1], bags, options)
    notes, alone = give_up(low, high, bags, rare), bags.n_units < 2

    def uncertainty_of(number: int) -> Uncertainty:
        return Nothing(len(classes)) if alone[number] else made[2](number)

    return Estimates(
        classes=classes,
        estimate=solution.prevalence,
        low=low,
        high=high,
        options=options,
        training_prevalence=prevalence,
        size=bags.sizes,
        effective_size=bags.effective_sizes,
        gap=solution.gap,
        converged=solution.converged,
        notes=notes,
        uncertainty_of=uncertainty_of,
        decisions=counted,
        positions=np.arange(len(bags)),
    )
