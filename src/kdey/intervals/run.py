"""From a fitted quantifier and bags to estimates with limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.bags import Array, Bags
from kdey.intervals.analytic import analytic_limits, linearise_features, linearise_likelihood
from kdey.intervals.bootstrap import bootstrap_draws, bootstrap_limits, draws_by
from kdey.intervals.estimate import Decisions, Estimates
from kdey.intervals.model import FittedModel
from kdey.intervals.options import IntervalOptions
from kdey.intervals.region import Analytic, Draws, Nothing, Uncertainty
from kdey.intervals.replicates import BagReplicates, counted_bags
from kdey.intervals.sampled_bags import Sampled, SampledBags, sampled_bags
from kdey.intervals.score_interval import give_up, settle
from kdey.matching import MaximiseLikelihood
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
    analytic = _is_analytic(model, options)
    drawn = sampled_bags(bags, clusters)
    rows = model.row_map(points, model.n_threads)
    if analytic:
        solution, made = _analytic(model, rows, bags, drawn, options)
    else:
        solution = model.matching.match(model.row_map, rows, bags, model.n_threads)
        made = _bootstrap(model, points, drawn, solution.prevalence, options)
    counted = Decisions(points, bags) if model.on_posteriors else None
    return _assemble(
        model.classes, model.prevalence, model.rare, solution, drawn, made, options, counted
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

    def draw(bag: Sampled, estimate: Array) -> Uncertainty:
        def again(counts: NDArray[np.int64], first: int) -> Array:
            made = counted_bags(bag, counts, counts.shape[1])
            indices = bag.indices[made.indices]
            return solve(Bags(indices, made.offsets, bags.pool_size, made.weights)).prevalence

        given = BagReplicates(bag, np.empty((0, k)), None, estimate)
        draws = draws_by(again, given, options, None, k)
        return Draws(None, options.random_state, estimate, draws)

    made = _from_draws(draw, drawn, solution.prevalence, options)
    rare = np.zeros(k, dtype=np.bool_)
    return _assemble(classes, prevalence, rare, solution, drawn, made, options, None)


def _is_analytic(model: FittedModel, options: IntervalOptions) -> bool:
    if options.method == "analytic" and not model.is_analytic:
        raise ValueError(
            "method='analytic' needs least squares on means or a mixture likelihood (ACC, PACC, "
            "EMQ, DIR, KDEy-ML) fitted on training data; use method='bootstrap'"
        )
    return model.is_analytic and options.method != "bootstrap"


def _analytic(
    model: FittedModel, rows: Any, bags: Bags, drawn: SampledBags, options: IntervalOptions
) -> tuple[Solution, Limits]:
    population = options.target == "population"
    if model.is_likelihood:
        solution, held = _likelihood(model, rows, bags)
        line = linearise_likelihood(model, held, drawn, solution.prevalence)
    else:
        problem = model.matching.problem(model.row_map, rows, bags, model.n_threads)
        solution = model.matching.solve(problem, model.n_threads)
        line = linearise_features(model, problem.targets, rows.array, drawn)
    low, high = analytic_limits(line, options.tail(model.n_classes), population)
    return solution, (low, high, lambda number: Analytic(model, line, number, population))


def _likelihood(model: FittedModel, rows: Any, bags: Bags) -> tuple[Solution, Array]:
    """Return the solution and the densities (pool_size, k), made once where one problem is."""
    if type(model.matching) is not MaximiseLikelihood:
        solution = model.matching.match(model.row_map, rows, bags, model.n_threads)
        return solution, model.hold(rows.array)
    problem = model.matching.problem(model.row_map, rows, bags, model.n_threads)
    held, empty = problem.rows, problem.rows.max(axis=1) == 0
    if empty.any():
        held = np.where(empty[:, None], 1.0, held)
    return model.matching.solve(problem, model.n_threads), held


def _bootstrap(
    model: FittedModel,
    points: NDArray[Any],
    bags: SampledBags,
    estimates: Array,
    options: IntervalOptions,
) -> Limits:
    shared = model if options.resample_templates else None

    def draw(bag: Sampled, estimate: Array) -> Uncertainty:
        own = points[bag.indices]
        given = BagReplicates(bag, own, model.row_map(own, model.n_threads), estimate)
        draws = bootstrap_draws(model, given, options)
        return Draws(shared, options.random_state, estimate, draws)

    return _from_draws(draw, bags, estimates, options)


def _from_draws(
    draw: Callable[[Sampled, Array], Uncertainty],
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
        assert made.draws is not None
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
