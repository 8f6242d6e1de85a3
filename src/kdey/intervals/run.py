"""Estimation with limits: from a fitted quantifier and bags to :class:`Estimates`.

:func:`estimate_points` serves the quantifiers of this library, whose stages are known. It solves
for the prevalences, then gets limits from the moment equation, from numerical derivatives of the
matching, or from a bootstrap, in this order of preference. :func:`estimate_solver` serves
quantifiers that only return answers: it always bootstraps.
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
)
from kdey.intervals.bootstrap import bootstrap_draws, bootstrap_limits, draws_by
from kdey.intervals.derivatives import linearise_matching
from kdey.intervals.estimate import Decisions, Estimates
from kdey.intervals.model import FittedModel
from kdey.intervals.moments import MomentEquations
from kdey.intervals.region import (
    AnalyticUncertainty,
    BootstrapUncertainty,
    Uncertainty,
    UnknownUncertainty,
)
from kdey.intervals.replicates import EstimatedBag, replicated_bags
from kdey.intervals.sampled_bags import SampledBag, SampledBags, sampled_bags
from kdey.intervals.score_interval import ensure_minimum_width, widen_unsupported
from kdey.matching.base import IntervalSource, Solution
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
    model: FittedModel,
    points: Any,
    bags: Bags,
    options: Options,
    clusters: ArrayLike | None = None,
    device: Any = None,
) -> Estimates:
    """Return the estimates of bags over a pool of points.

    Parameters
    ----------
    model : FittedModel
    points : array or tensor of shape (pool_size, d)
        Posteriors or features, as ``model.on_posteriors`` says.
    bags : Bags
    options : Options
    clusters : array-like of shape (pool_size,), optional
        Id of the cluster in which each instance was drawn.
    device : torch.device, optional
        Where prevalences and the moments of analytic limits are computed, if the method has a
        route there. Limits themselves, and bootstraps, are computed on the host.

    Returns
    -------
    Estimates

    Raises
    ------
    ValueError
        If ``options`` asks for analytic limits that this method does not have, or for the bag as
        target without posteriors, or if ``clusters`` does not fit the pool.
    """
    source = _limits_source(model, options)
    drawn = sampled_bags(bags, clusters)
    limits: Limits | None = None
    resampled = True
    tensor, points = points, on_host(points)
    if source == "moments" and device is not None and _has_device_moments(model):
        solution, limits = _analytic_on(model, tensor, drawn, options, device)
        return _with_training_notes(
            _assembled(model, points, drawn, solution, limits, options), model
        )
    rows = model.row_map(points, model.n_threads)
    if source == "moments":
        solution, limits = _analytic(model, points, rows, drawn, options)
    else:
        solution = model.matching.match(model.row_map, rows, bags, model.n_threads)
    if source == "derivatives":
        limits = _by_derivatives(model, rows, drawn, solution.prevalence, options)
    if limits is None:
        limits = _bootstrap(model, points, drawn, solution.prevalence, options)
        resampled = options.resample_templates and model.is_learnt
    estimates = _assembled(model, points, drawn, solution, limits, options)
    estimates = _with_training_notes(estimates, model)
    return estimates if resampled else _without_templates(estimates)


def _assembled(
    model: FittedModel,
    points: NDArray[Any],
    drawn: SampledBags,
    solution: Solution,
    limits: Limits,
    options: Options,
) -> Estimates:
    """Return the estimates of a model's bags."""
    decisions = Decisions(points, drawn.bags) if model.on_posteriors else None
    return _assemble(
        model.classes, model.prevalence, model.rare, solution, drawn, limits, options, decisions
    )


def _has_device_moments(model: FittedModel) -> bool:
    """Return whether a device can solve the problem and compute its moments."""
    if model.matching.device_problem(model.row_map) is None:
        return False
    if model.likelihood is None:
        return True
    return model.has_calibrated_moments and model.moment_map.has_tensor_rows


def _analytic_on(
    model: FittedModel, points: Any, drawn: SampledBags, options: Options, device: Any
) -> tuple[Solution, Limits]:
    """Return solution and limits by the moment equation, as :func:`_analytic`, on a device."""
    rows = rows_on(model.row_map, model.matching, points, device)
    solution = match_rows(model.matching, model.row_map, rows, drawn.bags, model.n_threads)
    if model.likelihood is None:
        means = rows.mean(drawn.bags)
        equations = linearise_features(model, means, rows, drawn, solution.prevalence)
    elif drawn.codes is None:
        equations = linearise_likelihood_on(model, points, drawn, solution.prevalence, device)
    else:
        densities = model.moment_densities(on_host(points))
        equations = linearise_likelihood(model, densities, drawn, solution.prevalence)
    return solution, _limits_of(model, equations, options)


def _with_training_notes(estimates: Estimates, model: FittedModel) -> Estimates:
    """Return the estimates that say, in notes and status, which classes have few labels."""
    notes = model.training_notes
    if not notes:
        return estimates
    everywhere = np.ones(len(estimates), dtype=np.bool_)
    return estimates.with_notes(notes).marked(FEW_LABELS, everywhere)


def estimate_solver(
    solve: Callable[[Bags], Solution],
    classes: NDArray[Any],
    prevalence: Array,
    bags: Bags,
    options: Options,
    clusters: ArrayLike | None = None,
) -> Estimates:
    """Return the estimates of bags by a quantifier whose stages are unknown.

    Only the bags are resampled, so the limits do not include the uncertainty that comes from the
    training data.

    Parameters
    ----------
    solve : callable
        Takes bags and returns their solution.
    classes : array of shape (k,)
    prevalence : array of shape (k,)
        Class prevalences of the training data.
    bags : Bags
    options : Options
    clusters : array-like of shape (pool_size,), optional
        Id of the cluster in which each instance was drawn.

    Returns
    -------
    Estimates

    Raises
    ------
    ValueError
        If ``options`` asks for analytic limits or for the bag as target.
    """
    if options.method == "analytic":
        raise ValueError(
            "method='analytic' is not available for this quantifier; use method='bootstrap'"
        )
    if options.target == "bag":
        raise ValueError(
            "target='bag' is not available for this quantifier; use target='population'"
        )
    drawn, solution = sampled_bags(bags, clusters), solve(bags)
    k = len(classes)

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
    return _without_templates(
        _assemble(classes, prevalence, rare, solution, drawn, limits, options, None)
    )


def _without_templates(estimates: Estimates) -> Estimates:
    """Return bootstrap estimates with a note that only the bags were resampled."""
    return replace(estimates, notes=[[*texts, BAG_ONLY] for texts in estimates.notes])


def _limits_source(model: FittedModel, options: Options) -> IntervalSource:
    """Return the source of limits that the options select for this model."""
    source = model.interval_source
    if options.method == "bootstrap":
        return "bootstrap"
    if options.method == "analytic" and source == "bootstrap":
        raise ValueError(
            "method='analytic' needs least squares on means or a mixture likelihood (ACC, PACC, "
            "EMQ, DIR, KDEy-ML) fitted on training data; use method='bootstrap'"
        )
    return source


def _analytic(
    model: FittedModel,
    points: NDArray[Any],
    rows: Rows,
    drawn: SampledBags,
    options: Options,
) -> tuple[Solution, Limits]:
    """Return solution and limits by the moment equation."""
    if model.likelihood is not None:
        solution = model.matching.match(model.row_map, rows, drawn.bags, model.n_threads)
        own_rows = not model.has_calibrated_moments
        densities = model.moment_rows(rows.each()) if own_rows else model.moment_densities(points)
        equations = linearise_likelihood(model, densities, drawn, solution.prevalence)
    else:
        problem = model.matching.problem(model.row_map, rows, drawn.bags, model.n_threads)
        solution = model.matching.solve(problem, model.n_threads)
        equations = linearise_features(model, problem.targets, rows, drawn, solution.prevalence)
    return solution, _limits_of(model, equations, options)


def _limits_of(model: FittedModel, equations: MomentEquations, options: Options) -> Limits:
    """Return the limits that follow from the moment equation."""
    population = options.target == "population"
    limits = analytic_limits(equations, options.tail(model.n_classes), population, model.n_threads)
    return limits.low, limits.high, lambda number: AnalyticUncertainty(model, limits, number)


def _by_derivatives(
    model: FittedModel, rows: Rows, bags: SampledBags, estimates: Array, options: Options
) -> Limits | None:
    """Return limits by numerical derivatives of the matching; None if these do not exist."""
    line = linearise_matching(model, rows.mean(bags.bags), bags, estimates, rows)
    if line is not None:
        return _limits_of(model, line, options)
    if options.method == "analytic":
        raise ValueError(
            "method='analytic' needs a matching that recovers the prevalence of a mixture of the "
            "training classes and is differentiable there, and this one is not; use "
            "method='bootstrap'"
        )
    return None


def _bootstrap(
    model: FittedModel,
    points: NDArray[Any],
    bags: SampledBags,
    estimates: Array,
    options: Options,
) -> Limits:
    """Return limits by resampling each bag and, if the options say so, the training data."""
    shared = model if options.resample_templates else None

    def draw(bag: SampledBag, estimate: Array) -> BootstrapUncertainty:
        bag_points = points[bag.indices]
        rows = model.row_map(bag_points, model.n_threads)
        draws = bootstrap_draws(model, EstimatedBag(bag, bag_points, rows, estimate), options)
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
    classes: NDArray[Any],
    prevalence: Array,
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
        return UnknownUncertainty(len(classes)) if single[number] else limits[2](number)

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
        decisions=decisions,
        positions=np.arange(len(bags)),
    )
