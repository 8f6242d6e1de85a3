"""Estimation with intervals: from a model and bags to :class:`Estimates`.

:func:`estimate_points` solves for the prevalences, then gets intervals from the moment equation,
from numerical derivatives of the matching, or from a bootstrap, in this order of preference. Models
that combine others, or are of another library, only answer: their bags are bootstrapped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey._display import warn
from kdey.bags import Array, Bags, SampledBag, SampledBags, sampled_bags
from kdey.intervals.analytic import (
    AnalyticUncertainty,
    has_calibrated_moments,
    linearise_features,
    linearise_likelihood,
    linearise_likelihood_on,
    linearise_matching,
    moment_densities,
    moment_map,
    moment_rows,
)
from kdey.intervals.bootstrap import (
    BootstrapUncertainty,
    EstimatedBag,
    TrainingReplicates,
    bootstrap_draws,
    bootstrap_interval,
    design_sizes,
    draws_by,
    replicated_bags,
)
from kdey.intervals.estimate import Decisions, Estimates
from kdey.intervals.many_classes import directed_intervals
from kdey.intervals.moments import MOST_CLASSES, MomentEquations
from kdey.intervals.profile import profile_intervals, student_tail, wilson
from kdey.intervals.region import Uncertainty, UnknownUncertainty
from kdey.matching import IntervalSource, Solution
from kdey.model import HOST, AnyModel, Model, Place
from kdey.options import IntervalWarning, Options
from kdey.rows import ArrayRows, Rows
from kdey.status import FEW_LABELS
from kdey.validation import on_host

#: The note of estimates whose bootstrap did not resample the training data.
BAG_ONLY = (
    "the bootstrap resampled the sample only: the intervals leave out the uncertainty of the "
    "templates, and are too narrow where training instances are few"
)
#: The note of analytic intervals of many classes.
MANY_CLASSES_NOTE = (
    "{classes:,} classes are too many to look for the nearest prevalence at every end of an "
    "interval: ends are looked for along one direction for each class, and are up to a tenth "
    "closer or wider on average"
)
_NOT_DIFFERENTIABLE = (
    "method='analytic' needs a matching that recovers the prevalence of a mixture of the training "
    "classes and is differentiable there, and this one is not; use method='bootstrap'"
)
#: Lower ends, upper ends, numbers of independent draws with the same variance, (n_bags, k) each,
#: and a function from a bag's number to its uncertainty.
Intervals = tuple[Array, Array, Array, Callable[[int], Uncertainty]]


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
        See ``model.points`` and ``model.points_from_posteriors``.
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
    drawn = sampled_bags(bags, clusters, options)
    if not isinstance(model, Model):
        return _by_answers(model, points, drawn, options, place)
    source, n_threads = _interval_source(model, options), place.n_threads
    device = None
    if source == "moments" and _has_tensor_moments(model):
        device = model.device(points, place)
    rows = model.rows(points, device, n_threads)
    solution = model.match(rows, bags, n_threads)
    equations = _moment_equations(
        model, source, points, rows, drawn, solution.prevalence, device, n_threads
    )
    if equations is None and source == "derivatives" and options.method == "analytic":
        raise ValueError(_NOT_DIFFERENTIABLE)
    points = on_host(points)
    if equations is None:
        intervals = _resampled(model, points, drawn, solution.prevalence, options, n_threads)
    else:
        intervals = _analytic_intervals(model, equations, drawn, options, n_threads)
    decisions = None
    if model.takes_posteriors:  # those of several models are decisions of their pool
        decisions = Decisions(model.pooled(points, n_threads), bags)
    estimates = _assemble(model, model.rare, solution, drawn, intervals, options, decisions)
    if equations is not None and model.n_classes > MOST_CLASSES:
        estimates = estimates.with_notes([MANY_CLASSES_NOTE.format(classes=model.n_classes)])
    if model.training_notes:
        everywhere = np.ones(len(estimates), dtype=np.bool_)
        estimates = estimates.with_notes(model.training_notes).marked(FEW_LABELS, everywhere)
    has_templates = equations is not None or (options.resample_templates and model.is_learnt)
    return estimates if has_templates else estimates.with_notes([BAG_ONLY])


def _moment_equations(
    model: Model,
    source: IntervalSource,
    points: Any,
    rows: Rows,
    drawn: SampledBags,
    estimates: Array,
    device: Any,
    n_threads: int,
) -> MomentEquations | None:
    """Return the equations of the features, likelihood or matching; None: bags are resampled.

    There are none for a matching without a derivative, either.
    """
    if source == "bootstrap":
        return None
    if source == "derivatives":
        return linearise_matching(model, rows, drawn, estimates, n_threads)
    if model.likelihood is None:
        return linearise_features(model, rows, drawn, estimates, n_threads)
    if device is not None and drawn.is_simple and model.n_classes <= MOST_CLASSES:
        return linearise_likelihood_on(model, points, drawn, estimates, device)
    if has_calibrated_moments(model):
        densities = moment_densities(model, on_host(points), n_threads)
    else:
        densities = moment_rows(model, rows.each())
    return linearise_likelihood(model, densities, drawn, estimates, n_threads)


def _has_tensor_moments(model: Model) -> bool:
    """Return whether a device that can solve the problem can compute its moments, too."""
    if model.likelihood is None:
        return True
    return has_calibrated_moments(model) and moment_map(model).tensor_rows is not None


def _by_answers(
    model: AnyModel, points: Any, drawn: SampledBags, options: Options, place: Place
) -> Estimates:
    """Return the estimates of a model that only answers: it always bootstraps.

    Only the bags are resampled, so the intervals do not include the uncertainty that comes from the
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
    if options.fpc is not None:
        raise ValueError("fpc is not available for this quantifier: it has no posteriors")
    bags, solve, k = drawn.bags, model.solver(points, place), model.n_classes
    solution = solve(bags)

    def draw(bag: SampledBag, estimate: Array) -> BootstrapUncertainty:
        def solve_replicates(counts: NDArray[np.int64], first: int) -> Array:
            replicates = replicated_bags(bag, counts, counts.shape[1])
            indices = bag.indices[replicates.indices]
            replicates = Bags(indices, replicates.offsets, bags.pool_size, replicates.weights)
            return solve(replicates).prevalence

        no_rows = np.empty((0, k))
        estimated = EstimatedBag(bag, no_rows, ArrayRows(no_rows), estimate)
        draws = draws_by(solve_replicates, estimated, options, None, k)
        n_units, degrees = min(bag.effective_size, float(bag.n_units)), bag.freedom
        return BootstrapUncertainty(None, options.random_state, estimate, draws, n_units, degrees)

    intervals = _bootstrap_intervals(draw, drawn, solution.prevalence, options)
    rare = np.zeros(k, dtype=np.bool_)
    estimates = _assemble(model, rare, solution, drawn, intervals, options, None)
    return estimates.with_notes([BAG_ONLY])


def _interval_source(model: Model, options: Options) -> IntervalSource:
    """Return the source of intervals that the options select for this model."""
    if options.method == "bootstrap":
        return "bootstrap"
    if model.likelihood is not None:
        return "moments"
    source = model.matching.interval_source
    has_training = model.training is not None if source == "moments" else model.is_learnt
    source = source if has_training else "bootstrap"
    if options.method == "analytic" and source == "bootstrap":
        raise ValueError(
            "method='analytic' needs least squares on means or a mixture likelihood (ACC, PACC, "
            "EMQ, DIR, KDEy-ML) fitted on training data; use method='bootstrap'"
        )
    return source


def _analytic_intervals(
    model: Model,
    equations: MomentEquations,
    bags: SampledBags,
    options: Options,
    n_threads: int,
) -> Intervals:
    """Return the intervals that follow from the moment equation."""
    tail = options.tail(model.n_classes)
    intervals = profile_intervals if model.n_classes <= MOST_CLASSES else directed_intervals
    low, high, corrected = intervals(equations, tail, bags.unseen, n_threads)

    def uncertainty_of(number: int) -> Uncertainty:
        unseen = float(bags.unseen[number])
        return AnalyticUncertainty(model, equations, number, corrected[number], unseen)

    return low, high, equations.bag_sizes, uncertainty_of


def _resampled(
    model: Model,
    points: NDArray[Any],
    bags: SampledBags,
    estimates: Array,
    options: Options,
    n_threads: int,
) -> Intervals:
    """Return intervals by resampling each bag and, if the options say so, the training data."""
    shared = model if options.resample_templates else None

    def draw(bag: SampledBag, estimate: Array) -> BootstrapUncertainty:
        bag_points = points[bag.indices]
        rows = model.row_map(bag_points, n_threads)
        estimated = EstimatedBag(bag, bag_points, rows, estimate)
        draws = bootstrap_draws(model, estimated, options, n_threads)
        n_units, degrees = np.inf, bag.freedom
        if bag.unseen > 0.0:
            n_units = float(design_sizes(model, estimated).min()) / bag.unseen
        seed = options.random_state
        return BootstrapUncertainty(shared, seed, estimate, draws, n_units, degrees)

    freedom = np.inf
    if options.resample_templates and model.training is not None:
        freedom = TrainingReplicates(model.training, options.random_state).freedom
    return _bootstrap_intervals(draw, bags, estimates, options, freedom)


def _bootstrap_intervals(
    draw: Callable[[SampledBag, Array], BootstrapUncertainty],
    bags: SampledBags,
    estimates: Array,
    options: Options,
    freedom: float = np.inf,
) -> Intervals:
    """Return intervals by ``draw``, which resamples one bag; a bag of one unit gets 0 and 1.

    ``freedom`` are the degrees of freedom that clusters of training instances leave.
    """
    low, high = np.zeros(estimates.shape), np.ones(estimates.shape)
    sizes = np.ones(estimates.shape)
    uncertainties: list[Uncertainty] = []
    tails = student_tail(options.tail(estimates.shape[1]), np.minimum(bags.freedom, freedom))
    for number, bag in enumerate(bags):
        if bag.is_lonely:
            uncertainties.append(UnknownUncertainty(estimates.shape[1]))
            continue
        resampled = draw(bag, estimates[number])
        low[number], high[number] = bootstrap_interval(
            estimates[number], resampled.draws, float(tails[number]), options.interval
        )
        sizes[number] = resampled.n_units * bag.unseen if bag.unseen > 0.0 else 1.0
        uncertainties.append(resampled)
    return low, high, sizes, uncertainties.__getitem__


def _assemble(
    model: AnyModel,
    rare: NDArray[np.bool_],
    solution: Solution,
    bags: SampledBags,
    intervals: Intervals,
    options: Options,
    decisions: Decisions | None,
) -> Estimates:
    """Return the estimates, after the corrections that all intervals get however computed."""
    low, high, sizes, uncertainty = intervals
    low, high = ensure_minimum_width(solution.prevalence, low, high, bags, options, sizes)
    notes, single = widen_unsupported(low, high, bags, rare), bags.is_lonely

    def uncertainty_of(number: int) -> Uncertainty:
        return UnknownUncertainty(model.n_classes) if single[number] else uncertainty(number)

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
    ).of_clusters(np.where(single, np.inf, bags.freedom))


def ensure_minimum_width(
    estimates: Array, low: Array, high: Array, bags: SampledBags, options: Options, sizes: Array
) -> tuple[Array, Array]:
    """Widen intervals so that they are never narrower than error-free labels would give.

    The interval of the population must contain the one that error-free labels of the bag would
    give, Wilson's interval at the estimate. The ends of an interval of the bag are shares that it
    can have: multiples of one over its size, unless its instances have different weights.

    Parameters
    ----------
    estimates, low, high : arrays of shape (n_bags, k)
    bags : SampledBags
    options : Options
    sizes : array of shape (n_bags, k)
        Number of independent draws with the variance of each share.

    Returns
    -------
    low, high : arrays of shape (n_bags, k)
    """
    low, high = np.minimum(low, estimates), np.maximum(high, estimates)
    if options.target == "bag":
        low, high = attainable_shares(low, high, bags)
        # Exactly, not up to rounding.
        return np.minimum(low, estimates), np.maximum(high, estimates)
    sizes = sizes / np.maximum(bags.unseen, 1e-12)[:, None]
    # With C clusters a variance has C - 1 degrees of freedom, whichever way it was computed.
    tails = student_tail(options.tail(estimates.shape[1]), bags.freedom)[:, None]
    first, last = wilson(estimates, sizes, tails)
    return np.minimum(low, first), np.maximum(high, last)


def attainable_shares(low: Array, high: Array, bags: SampledBags) -> tuple[Array, Array]:
    """Return intervals extended to shares that the instances of a bag can have.

    Parameters
    ----------
    low, high : arrays of shape (n_bags, k)
    bags : SampledBags

    Returns
    -------
    low, high : arrays of shape (n_bags, k)
        Those of bags whose instances have different weights are unchanged: any share may be near
        one that they can have.
    """
    m = bags.sizes.astype(np.float64)[:, None]
    equal = bags.effective_sizes[:, None] >= m * (1.0 - 1e-9)
    slack = 1e-6  # of an instance: an end that is a share up to rounding stays there
    below, above = np.floor(low * m + slack) / m, np.ceil(high * m - slack) / m
    return np.where(equal, below, low), np.where(equal, above, high)


def widen_unsupported(
    low: Array, high: Array, bags: SampledBags, rare: NDArray[np.bool_]
) -> list[list[str]]:
    """Set intervals without enough data to 0 and 1, in place, and return notes for each bag.

    Parameters
    ----------
    low, high : arrays of shape (n_bags, k)
        Changed in place.
    bags : SampledBags
    rare : bool array of shape (k,)
        Classes with fewer than two training instances.

    Returns
    -------
    list of n_bags lists of str

    Warns
    -----
    IntervalWarning
        If any intervals were set.
    """
    notes: list[list[str]] = [[] for _ in range(len(bags))]
    single = np.flatnonzero(bags.is_lonely).tolist()
    for number in single:
        low[number], high[number] = 0.0, 1.0
        notes[number].append(
            "the sample has one item or cluster (or one in each stratum), which says almost "
            "nothing: intervals are 0 to 1"
        )
    if single:
        _warn(f"{len(single)} bag(s) have a single instance or cluster; intervals are 0 to 1")
    if rare.any():
        low[:, rare], high[:, rare] = 0.0, 1.0
        remark = "a class with one training instance, or cluster, has the interval 0 to 1"
        notes = [[*texts, remark] for texts in notes]
        _warn(
            f"{int(rare.sum())} class(es) have a single training instance or cluster: their spread "
            "is unknown, their intervals are 0 to 1, and those of the other classes are rough"
        )
    return notes


def _warn(message: str) -> None:
    warn(message, IntervalWarning)
