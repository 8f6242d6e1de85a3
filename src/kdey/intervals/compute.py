"""Estimation with intervals: from a model and bags to :class:`Estimates`.

:func:`estimate_points` solves for the prevalences, then gets intervals from the moment equation,
from numerical derivatives of the matching, or from a bootstrap, in this order of preference. Models
that combine others, or are of another library, only answer: their bags are bootstrapped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.arrays import on_host
from kdey.bags import Array, Bags
from kdey.gpu.route import match_rows, rows_on
from kdey.intervals.analytic import (
    analytic_limits,
    linearise_features,
    linearise_likelihood,
    linearise_likelihood_on,
    linearise_matching,
)
from kdey.intervals.bootstrap import (
    EstimatedBag,
    bootstrap_draws,
    bootstrap_limits,
    draws_by,
    replicated_bags,
)
from kdey.intervals.estimate import Decisions, Estimates
from kdey.intervals.moment_rows import (
    has_calibrated_moments,
    interval_source,
    moment_densities,
    moment_map,
    moment_rows,
)
from kdey.intervals.moments import MomentEquations
from kdey.intervals.region import (
    AnalyticUncertainty,
    BootstrapUncertainty,
    Uncertainty,
    UnknownUncertainty,
)
from kdey.intervals.sampled_bags import SampledBag, SampledBags, sampled_bags
from kdey.intervals.score_interval import ensure_minimum_width, widen_unsupported
from kdey.matching.base import IntervalSource, Solution
from kdey.model import HOST, AnyModel, Model, Place
from kdey.options import Options
from kdey.rows.base import ArrayRows, Rows
from kdey.status import FEW_LABELS

#: The note of estimates whose bootstrap did not resample the training data.
BAG_ONLY = (
    "the bootstrap resampled the bag only: the limits leave out the uncertainty of the templates, "
    "and are too narrow where training instances are few"
)
#: Lower limits, upper limits (n_bags, k), and a function from a bag's number to its uncertainty.
Limits = tuple[Array, Array, Callable[[int], Uncertainty]]


def estimate_points(
    model: AnyModel,
    points: Any,
    bags: Bags,
    options: Options,
    clusters: ArrayLike | None = None,
    place: Place = HOST,
) -> Estimates:
    """Return the estimates of bags over a pool of points.

    Parameters
    ----------
    model : model
    points : array or tensor of shape (pool_size, d), or whatever the model makes of instances
        See ``model.points`` and ``model.given``.
    bags : Bags
    options : Options
    clusters : array-like of shape (pool_size,), optional
        Id of the cluster in which each instance was drawn.
    place : Place
        Its device computes prevalences and the moments of analytic intervals, if the method has a
        route there. Intervals themselves, and bootstraps, are computed on the host.

    Returns
    -------
    Estimates

    Raises
    ------
    ValueError
        If ``options`` asks for analytic intervals that this method does not have, or for the bag
        as target without posteriors, or if ``clusters`` does not fit the pool.
    """
    if not isinstance(model, Model):
        return _by_answers(model, points, bags, options, clusters, place)
    source = _interval_source(model, options)
    drawn = sampled_bags(bags, clusters)
    limits: Limits | None = None
    resampled, n_threads = True, place.n_threads
    device = model.device(points, place)
    tensor, points = points, on_host(points)
    if source == "moments" and device is not None and _has_device_moments(model):
        solution, limits = _analytic_on(model, tensor, drawn, options, device, n_threads)
    else:
        rows = model.row_map(points, n_threads)
        if source == "moments":
            solution, limits = _analytic(model, points, rows, drawn, options, n_threads)
        else:
            solution = model.matching.match(model.row_map, rows, bags, n_threads)
        if source == "derivatives":
            limits = _by_derivatives(model, rows, drawn, solution.prevalence, options, n_threads)
    if limits is None:
        limits = _bootstrap(model, points, drawn, solution.prevalence, options, n_threads)
        resampled = options.resample_templates and model.is_learnt
    decisions = _decisions(model, points, bags, n_threads)
    estimates = _assemble(model, model.rare, solution, drawn, limits, options, decisions)
    estimates = _with_training_notes(estimates, model)
    return estimates if resampled else _without_templates(estimates)


def _decisions(model: Model, points: NDArray[Any], bags: Bags, n_threads: int) -> Decisions | None:
    """Return the decisions for instances; those of several models are decisions of their pool."""
    if not model.takes_posteriors:
        return None
    if model.n_score_columns > model.n_classes:
        points = model.row_map.posteriors(points, n_threads)  # type: ignore[attr-defined]
    return Decisions(points, bags)


def _has_device_moments(model: Model) -> bool:
    """Return whether a device can solve the problem and compute its moments."""
    if model.matching.device_problem(model.row_map) is None:
        return False
    if model.likelihood is None:
        return True
    return has_calibrated_moments(model) and moment_map(model).has_tensor_rows


def _analytic_on(
    model: Model, points: Any, drawn: SampledBags, options: Options, device: Any, n_threads: int
) -> tuple[Solution, Limits]:
    """Return solution and limits by the moment equation, as :func:`_analytic`, on a device."""
    rows = rows_on(model.row_map, model.matching, points, device)
    solution = match_rows(model.matching, model.row_map, rows, drawn.bags, n_threads)
    if model.likelihood is None:
        means = rows.mean(drawn.bags)
        equations = linearise_features(model, means, rows, drawn, solution.prevalence, n_threads)
    elif drawn.codes is None:
        equations = linearise_likelihood_on(model, points, drawn, solution.prevalence, device)
    else:
        densities = moment_densities(model, on_host(points), n_threads)
        equations = linearise_likelihood(model, densities, drawn, solution.prevalence, n_threads)
    return solution, _limits_of(model, equations, options, n_threads)


def _with_training_notes(estimates: Estimates, model: Model) -> Estimates:
    """Return the estimates that say, in notes and status, which classes have few labels."""
    notes = model.training_notes
    if not notes:
        return estimates
    everywhere = np.ones(len(estimates), dtype=np.bool_)
    return estimates.with_notes(notes).marked(FEW_LABELS, everywhere)


def _by_answers(
    model: AnyModel,
    points: Any,
    bags: Bags,
    options: Options,
    clusters: ArrayLike | None,
    place: Place,
) -> Estimates:
    """Return the estimates of a model that only answers: it always bootstraps.

    Only the bags are resampled, so the limits do not include the uncertainty that comes from the
    training data.
    """
    if options.method == "analytic":
        raise ValueError(
            "method='analytic' is not available for this quantifier; use method='bootstrap'"
        )
    if options.target == "bag":
        raise ValueError(
            "target='bag' is not available for this quantifier; use target='population'"
        )
    solve = model.solver(points, place)
    drawn, solution = sampled_bags(bags, clusters), solve(bags)
    k = model.n_classes

    def draw(bag: SampledBag, estimate: Array) -> BootstrapUncertainty:
        def solve_replicates(counts: NDArray[np.int64], first: int) -> Array:
            replicates = replicated_bags(bag, counts, counts.shape[1])
            indices = bag.indices[replicates.indices]
            replicates = Bags(indices, replicates.offsets, bags.pool_size, replicates.weights)
            return solve(replicates).prevalence

        no_rows = np.empty((0, k))
        estimated = EstimatedBag(bag, no_rows, ArrayRows(no_rows), estimate)
        draws = draws_by(solve_replicates, estimated, options, None, k)
        n_units = _population_units(bag, options)
        return BootstrapUncertainty(None, options.random_state, estimate, draws, n_units)

    limits = _limits_from_draws(draw, drawn, solution.prevalence, options)
    rare = np.zeros(k, dtype=np.bool_)
    return _without_templates(_assemble(model, rare, solution, drawn, limits, options, None))


def _without_templates(estimates: Estimates) -> Estimates:
    """Return bootstrap estimates with a note that only the bags were resampled."""
    return replace(estimates, notes=[[*texts, BAG_ONLY] for texts in estimates.notes])


def _interval_source(model: Model, options: Options) -> IntervalSource:
    """Return the source of limits that the options select for this model."""
    source = interval_source(model)
    if options.method == "bootstrap":
        return "bootstrap"
    if options.method == "analytic" and source == "bootstrap":
        raise ValueError(
            "method='analytic' needs least squares on means or a mixture likelihood (ACC, PACC, "
            "EMQ, DIR, KDEy-ML) fitted on training data; use method='bootstrap'"
        )
    return source


def _analytic(
    model: Model,
    points: NDArray[Any],
    rows: Rows,
    drawn: SampledBags,
    options: Options,
    n_threads: int,
) -> tuple[Solution, Limits]:
    """Return solution and limits by the moment equation."""
    if model.likelihood is not None:
        solution = model.matching.match(model.row_map, rows, drawn.bags, n_threads)
        if has_calibrated_moments(model):
            densities = moment_densities(model, points, n_threads)
        else:
            densities = moment_rows(model, rows.each())
        equations = linearise_likelihood(model, densities, drawn, solution.prevalence, n_threads)
    else:
        problem = model.matching.problem(model.row_map, rows, drawn.bags, n_threads)
        solution = model.matching.solve(problem, n_threads)
        equations = linearise_features(
            model, problem.targets, rows, drawn, solution.prevalence, n_threads
        )
    return solution, _limits_of(model, equations, options, n_threads)


def _limits_of(
    model: Model, equations: MomentEquations, options: Options, n_threads: int
) -> Limits:
    """Return the limits that follow from the moment equation."""
    population = options.target == "population"
    limits = analytic_limits(equations, options.tail(model.n_classes), population, n_threads)
    return limits.low, limits.high, lambda number: AnalyticUncertainty(model, limits, number)


def _by_derivatives(
    model: Model,
    rows: Rows,
    bags: SampledBags,
    estimates: Array,
    options: Options,
    n_threads: int,
) -> Limits | None:
    """Return limits by numerical derivatives of the matching; None if these do not exist."""
    means = rows.mean(bags.bags)
    line = linearise_matching(model, means, bags, estimates, rows, n_threads)
    if line is not None:
        return _limits_of(model, line, options, n_threads)
    if options.method == "analytic":
        raise ValueError(
            "method='analytic' needs a matching that recovers the prevalence of a mixture of the "
            "training classes and is differentiable there, and this one is not; use "
            "method='bootstrap'"
        )
    return None


def _bootstrap(
    model: Model,
    points: NDArray[Any],
    bags: SampledBags,
    estimates: Array,
    options: Options,
    n_threads: int,
) -> Limits:
    """Return limits by resampling each bag and, if the options say so, the training data."""
    shared = model if options.resample_templates else None

    def draw(bag: SampledBag, estimate: Array) -> BootstrapUncertainty:
        bag_points = points[bag.indices]
        rows = model.row_map(bag_points, n_threads)
        estimated = EstimatedBag(bag, bag_points, rows, estimate)
        draws = bootstrap_draws(model, estimated, options, n_threads)
        n_units = _population_units(bag, options)
        return BootstrapUncertainty(shared, options.random_state, estimate, draws, n_units)

    return _limits_from_draws(draw, bags, estimates, options)


def _population_units(bag: SampledBag, options: Options) -> float:
    """Return how many independent units tell of the population; infinite for the bag itself."""
    return np.inf if options.target == "bag" else min(bag.effective_size, float(bag.n_units))


def _limits_from_draws(
    draw: Callable[[SampledBag, Array], BootstrapUncertainty],
    bags: SampledBags,
    estimates: Array,
    options: Options,
) -> Limits:
    """Return limits by ``draw``, which resamples one bag; a bag of one unit gets 0 and 1."""
    low, high = np.zeros(estimates.shape), np.ones(estimates.shape)
    uncertainties: list[Uncertainty] = []
    tail = options.tail(estimates.shape[1])
    for number, bag in enumerate(bags):
        if bag.n_units < 2:
            uncertainties.append(UnknownUncertainty(estimates.shape[1]))
            continue
        resampled = draw(bag, estimates[number])
        limits = bootstrap_limits(estimates[number], resampled.draws, tail, options.interval)
        low[number], high[number] = limits
        uncertainties.append(resampled)
    return low, high, uncertainties.__getitem__


def _assemble(
    model: AnyModel,
    rare: NDArray[np.bool_],
    solution: Solution,
    bags: SampledBags,
    limits: Limits,
    options: Options,
    decisions: Decisions | None,
) -> Estimates:
    """Return the estimates, after the corrections that all limits get however computed."""
    low, high = ensure_minimum_width(solution.prevalence, limits[0], limits[1], bags, options)
    notes, single = widen_unsupported(low, high, bags, rare), bags.n_units < 2

    def uncertainty_of(number: int) -> Uncertainty:
        return UnknownUncertainty(model.n_classes) if single[number] else limits[2](number)

    return Estimates(
        classes=model.classes,
        estimate=solution.prevalence,
        low=low,
        high=high,
        options=options,
        training_prevalence=model.prevalence,
        size=bags.sizes,
        effective_size=bags.effective_sizes,
        gap=solution.gap,
        converged=solution.converged,
        notes=notes,
        uncertainty_of=uncertainty_of,
        decisions=decisions,
        positions=np.arange(len(bags)),
    )
