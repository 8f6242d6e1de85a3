r"""Bootstrap intervals: draws of an estimate for either target, and intervals from draws.

*Population.* Replicate b resamples the bag and, within classes, the training data; its estimate
:math:`\alpha^*_b` is one draw.

*Bag.* The target is the share :math:`\bar y` of each class in this very bag, so the noise of
drawing a bag must not count. Every instance in replicate b gets a label, drawn from its posterior
adapted to the estimate, and the draw is

.. math:: \hat\alpha + (\alpha^*_b - \bar y^*_b)

with :math:`\bar y^*_b` the shares of these labels. If classes are perfectly separable the
difference is zero however few instances the bag has. (We use the mean of :math:`\bar y^*` in place
of :math:`\hat\alpha`, because adapted posteriors need not average to the estimate.)

Bootstrap replicates of bags and training data, and the estimates of these replicates.

A replicate is a vector of counts: how often each instance is drawn. Rows are reweighted by the
counts rather than computed anew.

A :data:`ReplicateSolver` returns the estimates of replicates of one bag, from the counts of the
bag's instances and the number of the training replicate. Kernel densities need one product, per
class, of the kernels between bag and references with the replicates' weights; mean templates need
one product with the training rows; all other methods are refitted on a few training replicates.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from kdey.bags import Array, Bags, Indices, SampledBag, offsets_of
from kdey.intervals.analytic import moment_rows
from kdey.intervals.moments import adapted, smoothed
from kdey.intervals.region import Region, Uncertainty, region_from_draws
from kdey.matching import Composite
from kdey.matching.likelihood import MaximiseLikelihood, MixtureLikelihood, solve_mixture
from kdey.matching.squares import MatchMeans, match_templates
from kdey.model import Model
from kdey.options import Options
from kdey.posteriors import TrainingPosteriors
from kdey.rows import Replicator, Rows
from kdey.rows.kernel import KernelDensityMap
from kdey.rows.posterior import PosteriorMap

#: Takes counts (n, m) and the number of the first replicate, returns estimates (n, k).
ReplicateSolver: TypeAlias = Callable[[Indices, int], Array]

#: Number of training replicates for methods that must be refitted on each.
REFITS = 25


def bag_generator(seed: int, estimate: Array) -> np.random.Generator:
    """Return a random generator specific to a bag, so that bags are resampled independently.

    Its seed includes four digits of the estimate, on which all processors and the NumPy path
    agree, so that the same seed gives the same replicates everywhere.
    """
    digits = np.rint(estimate * 1e4).astype(np.int64)
    return np.random.default_rng([seed, 1, zlib.crc32(digits.tobytes())])


def bag_counts(bag: SampledBag, n: int, rng: np.random.Generator) -> Indices:
    """Return n replicates of a bag as counts of its instances, shape (n, m).

    Units are drawn with replacement. A unit is an instance, or a cluster with all its instances.
    Of C clusters we draw C - 1 (Rao and Wu, 1988): the variance of replicates is then the
    linearised one, which C draws would make too small by the factor (C - 1) / C.
    """
    if bag.strata is not None:
        return _stratified_counts(bag, n, rng)
    units = bag.n_units
    n_drawn = units if bag.clusters is None else units - 1
    drawn = rng.integers(units, size=(n, n_drawn)) + units * np.arange(n)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=n * units).reshape(n, units)
    return counts if bag.clusters is None else counts[:, bag.clusters]


def _stratified_counts(bag: SampledBag, n: int, rng: np.random.Generator) -> Indices:
    """Return replicates of a bag drawn within strata, n_h - 1 of n_h units, shape (n, m).

    The only unit of a stratum comes twice or not at all, which has the variance of its distance
    from the mean of all (``SampledBag.linearised_variance``).
    """
    counts = np.zeros((n, bag.n_units), dtype=np.int64)
    for stratum, size in enumerate(bag.stratum_sizes.tolist()):
        units = np.flatnonzero(bag.unit_strata == stratum)
        if size == 1:
            counts[:, units[0]] = 2 * rng.integers(2, size=n)
            continue
        drawn = rng.integers(size, size=(n, size - 1)) + size * np.arange(n)[:, None]
        counts[:, units] = np.bincount(drawn.ravel(), minlength=n * size).reshape(n, size)
    return counts if bag.clusters is None else counts[:, bag.clusters]


class TrainingReplicates:
    """Replicates of the training data as weights.

    Instances are drawn within their class, so that no class vanishes. Clusters are drawn whole, one
    less than there are (Rao and Wu, 1988): among those of a class if no cluster has several, and
    else among all; every class keeps its sum of weights. A replicate depends only on the seed and
    on its number, so that all bags share the replicates.

    Parameters
    ----------
    training : TrainingPosteriors
    seed : int
    """

    def __init__(self, training: TrainingPosteriors, seed: int) -> None:
        self._training, self._seed = training, seed
        self._order = np.argsort(training.labels, kind="stable")
        counts = np.bincount(training.labels)
        self._counts = np.repeat(counts, counts)
        self._starts = np.repeat(np.cumsum(counts) - counts, counts)

    def __call__(self, number: int) -> Array:
        """Return the weights of the training instances in one replicate, shape (n,)."""
        rng = np.random.default_rng([self._seed, 2, number])
        if self._training.clusters is not None:
            return self._whole_clusters(rng)
        shift = (rng.random(len(self._order)) * self._counts).astype(np.int64)
        drawn = self._order[self._starts + shift]
        times = np.bincount(drawn, minlength=len(drawn)).astype(np.float64)
        return times if self._training.weights is None else self._weighted(times)

    def many(self, numbers: range) -> Array:
        """Return the weights of several replicates, shape (len(numbers), n)."""
        return np.stack([self(number) for number in numbers])

    @cached_property
    def _strata(self) -> list[Indices]:
        """The clusters among which are drawn: of each class, or of all."""
        training = self._training
        assert training.clusters is not None
        pairs = np.unique(np.stack([training.labels, training.clusters]), axis=1)
        names, counts = np.unique(pairs[1], return_counts=True)
        if (counts > 1).any():
            return [names]
        return [pairs[1][pairs[0] == label] for label in np.unique(pairs[0])]

    @property
    def freedom(self) -> float:
        """Degrees of freedom that clusters of training instances leave; infinite without them."""
        if self._training.clusters is None:
            return np.inf
        return float(max(sum(len(stratum) - 1 for stratum in self._strata), 1))

    def _whole_clusters(self, rng: np.random.Generator) -> Array:
        """Return the weights of the instances of drawn clusters, shape (n,)."""
        training = self._training
        assert training.clusters is not None
        times = np.zeros(int(training.clusters.max()) + 1)
        for stratum in self._strata:
            drawn = rng.choice(stratum, max(len(stratum) - 1, 1))
            times += np.bincount(drawn, minlength=len(times))
        given = np.ones(len(training.labels)) if training.weights is None else training.weights
        weights = given * times[training.clusters]
        totals, sums = (np.bincount(training.labels, weights=w) for w in (given, weights))
        # A class whose clusters were not drawn keeps its instances.
        scale = np.divide(totals, sums, out=np.zeros_like(sums), where=sums > 0)[training.labels]
        return np.where(scale > 0, weights * scale, given)

    def _weighted(self, times: Array) -> Array:
        """Return counts times weights; a class left without weight keeps its original weights."""
        labels, weights = self._training.labels, np.asarray(self._training.weights)
        w = times * weights
        vanished = np.bincount(labels, weights=w) <= 0
        return np.where(vanished[labels], weights, w)


def replicated_bags(bag: SampledBag, counts: Indices, n_rows: int) -> Bags:
    """Return replicates of a bag as bags over a pool of rows.

    Parameters
    ----------
    bag : SampledBag
    counts : int64 array of shape (n, m)
    n_rows : int
        m if all replicates share the rows of the bag; n * m if each replicate has its own rows.

    Returns
    -------
    Bags
        n bags.
    """
    m = counts.shape[1]
    replicate, position = np.nonzero(counts)
    offsets = offsets_of(np.count_nonzero(counts, axis=1))
    weights = counts[replicate, position] * bag.replicate_weights[position] * m
    indices = position if n_rows == m else replicate * m + position
    return Bags(indices.astype(np.int64), offsets, n_rows, weights)


def drawn_shares(
    bag: SampledBag, counts: Indices, membership: Array, rng: np.random.Generator
) -> Array:
    """Return the class shares of replicates whose labels are drawn at random, shape (n, k).

    Each instance in a replicate gets a label drawn from its row of ``membership`` (m, k), the
    posteriors adapted to the estimate.
    """
    replicate, position = np.nonzero(counts)
    times = counts[replicate, position]
    replicate, position = np.repeat(replicate, times), np.repeat(position, times)
    k = membership.shape[1]
    edges = np.cumsum(membership, axis=1)[:, :-1]
    u = rng.random(len(position))
    labels = np.zeros(len(position), dtype=np.int64)
    for i in range(k - 1):
        labels += u > edges[position, i]
    w = bag.replicate_weights[position]
    sums = np.bincount(replicate * k + labels, weights=w, minlength=len(counts) * k)
    shares: Any = sums.reshape(len(counts), k)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class EstimatedBag:
    """One bag with the points and the rows of its instances, and its estimate.

    Attributes
    ----------
    sampled : SampledBag
    points : array of shape (m, d)
        Posteriors or features of the bag's instances.
    rows : Rows
        The rows of these points.
    estimate : array of shape (k,)
    """

    sampled: SampledBag
    points: NDArray[Any]
    rows: Rows
    estimate: Array

    def bags(self, counts: Indices) -> Bags:
        """Return replicates that share the rows of the bag."""
        return replicated_bags(self.sampled, counts, counts.shape[1])


def replicate_solver(
    model: Model, bag: EstimatedBag, templates: bool, seed: int, n_threads: int = 1
) -> ReplicateSolver:
    """Return the solver of replicates of a bag that suits the method.

    Parameters
    ----------
    model : Model
    bag : EstimatedBag
    templates : bool
        Whether the training data are resampled too.
    seed : int
        Seed of the training replicates.
    n_threads : int

    Returns
    -------
    ReplicateSolver
    """
    if model.row_map.is_composite and isinstance(model.matching, Composite):
        return _combined(model, model.matching, bag, templates, seed, n_threads)
    likelihood = model.likelihood
    exact = None if likelihood is None or not likelihood.is_exact else likelihood
    if not templates or model.training is None or not model.is_learnt:
        if exact is None:
            return _fixed(model, bag, n_threads)
        return _fixed_likelihood(model, exact, bag, n_threads)
    replicates = TrainingReplicates(model.training, seed)
    if exact is not None:
        if isinstance(model.row_map, KernelDensityMap):
            densities = model.row_map.replicate_densities(
                bag.points, bag.rows, model.training, n_threads
            )
            return _replicated_densities(model, exact, bag, densities, replicates, n_threads)
    elif isinstance(model.matching, MatchMeans) and isinstance(model.row_map, PosteriorMap):
        drawn = model.row_map.replicate_templates(model.training)
        return _replicated_templates(model, bag, drawn, replicates, n_threads)
    return _refitted(model, bag, replicates, n_threads)


def _combined(
    model: Model,
    matching: Composite,
    bag: EstimatedBag,
    templates: bool,
    seed: int,
    n_threads: int,
) -> ReplicateSolver:
    """Solve replicates by every member of a composite and combine the estimates."""
    members = [
        replicate_solver(member, replace(bag, rows=rows), templates, seed, n_threads)
        for member, rows in zip(model.members, bag.rows.members, strict=True)
    ]

    def solve(counts: Indices, first: int) -> Array:
        estimates = np.array([member(counts, first) for member in members])
        return matching.combine_estimates(estimates, model.row_map)

    return solve


def _fixed(model: Model, bag: EstimatedBag, n_threads: int) -> ReplicateSolver:
    """Solve replicates of the bag alone, with the templates as they are."""

    def solve(counts: Indices, first: int) -> Array:
        bags = bag.bags(counts)
        return model.matching.match(model.row_map, bag.rows, bags, n_threads).prevalence

    return solve


def _fixed_likelihood(
    model: Model, likelihood: MaximiseLikelihood, bag: EstimatedBag, n_threads: int
) -> ReplicateSolver:
    """Maximise the likelihood of replicates of the bag alone."""
    rows = moment_rows(model, bag.rows.each())

    def solve(counts: Indices, first: int) -> Array:
        share = model.row_map.pseudo_share
        problem = MixtureLikelihood(rows, bag.bags(counts), pseudo_share=share)
        return _maximise(likelihood, problem, bag.estimate, n_threads)

    return solve


def _maximise(
    likelihood: MaximiseLikelihood, problem: MixtureLikelihood, estimate: Array, n_threads: int
) -> Array:
    """Return the maximum likelihood prevalences, starting from the estimate of the bag."""
    start = np.tile(estimate, (problem.n_bags, 1))
    return solve_mixture(problem, tol=likelihood.tol, start=start, n_threads=n_threads).prevalence


def _replicated_densities(
    model: Model,
    likelihood: MaximiseLikelihood,
    bag: EstimatedBag,
    densities: Replicator,
    replicates: TrainingReplicates,
    n_threads: int,
) -> ReplicateSolver:
    """Maximise likelihoods whose densities are reweighted by training replicates."""

    def solve(counts: Indices, first: int) -> Array:
        n, m = counts.shape
        rows = densities(replicates.many(range(first, first + n)))
        bags = replicated_bags(bag.sampled, counts, n * m)
        problem = MixtureLikelihood(
            rows.reshape(n * m, model.n_classes), bags, pseudo_share=model.row_map.pseudo_share
        )
        return _maximise(likelihood, problem, bag.estimate, n_threads)

    return solve


def _replicated_templates(
    model: Model,
    bag: EstimatedBag,
    templates: Replicator,
    replicates: TrainingReplicates,
    n_threads: int,
) -> ReplicateSolver:
    """Match mean rows to templates that are recomputed for training replicates."""

    def solve(counts: Indices, first: int) -> Array:
        targets = bag.rows.mean(bag.bags(counts))
        drawn = templates(replicates.many(range(first, first + len(counts))))
        return match_templates(drawn, targets, n_threads)

    return solve


def _refitted(
    model: Model, bag: EstimatedBag, replicates: TrainingReplicates, n_threads: int
) -> ReplicateSolver:
    """Refit the row map on a few training replicates, each of which serves many of the bag."""
    spec, training = model.row_spec, model.training
    assert training is not None, "templates supplied by the user cannot be refitted"

    def solve(counts: Indices, first: int) -> Array:
        out = np.empty((len(counts), model.n_classes))
        numbers = (first + np.arange(len(counts))) % REFITS
        for number in np.unique(numbers):
            weighted = replace(training, weights=replicates(int(number)))
            row_map = spec.fit(weighted, model.n_classes, n_threads)
            rows = row_map(bag.points, n_threads)
            selected = numbers == number
            bags = bag.bags(counts[selected])
            out[selected] = model.matching.match(row_map, rows, bags, n_threads).prevalence
        return out

    return solve


@dataclass(frozen=True, eq=False)
class BootstrapUncertainty(Uncertainty):
    """Bootstrap draws around an estimate.

    Attributes
    ----------
    model : Model or None
        None if the training data were not resampled.
    seed : int
        Seed of the bootstrap.
    estimate : array of shape (k,)
    draws : array of shape (n_replicates, k)
    n_units : float
        Number of units that were drawn independently, if the draws are of their population;
        infinite if they are of the bag itself.
    degrees : float
        Degrees of freedom that clusters leave; infinite without them.
    """

    model: Model | None
    seed: int
    estimate: Array
    draws: Array
    n_units: float = np.inf
    degrees: float = np.inf
    method: ClassVar[str] = "bootstrap"

    @property
    def shared_model(self) -> Model | None:
        """The fitted model if its training data were resampled too, or None."""
        return self.model

    def bootstrap_draws(self) -> Array:
        """Return the draws."""
        return self.draws

    @property
    def n_labels(self) -> float:
        """The number of units: nobody can know more than their labels."""
        return self.n_units

    def covariance(self) -> Array:
        """Return the mean square of the draws about the estimate, shape (k, k)."""
        d = self.draws - self.estimate
        return np.asarray(d.T @ d / len(d))

    def region(self, confidence: float) -> Region:
        """Return the joint region of all classes."""
        inside = np.clip(self.draws, 0.0, None)
        inside /= inside.sum(axis=1, keepdims=True)
        return region_from_draws(self.estimate, inside, confidence, self.n_labels, self.degrees)

    def freedom(self) -> float:
        """Return the degrees of freedom that clusters leave."""
        return self.degrees


#: Numbers in memory at a time: instances x classes x replicates.
CHUNK = 1 << 24


def bootstrap_draws(model: Model, bag: EstimatedBag, options: Options, n_threads: int = 1) -> Array:
    """Return draws of the target around the estimate, shape (n_replicates, k).

    Parameters
    ----------
    model : Model
    bag : EstimatedBag
    options : Options

    Returns
    -------
    array of shape (n_replicates, k)

    Raises
    ------
    ValueError
        If the target is the bag and the method has no posteriors.
    """
    solve = replicate_solver(
        model, bag, options.resample_templates, options.random_state, n_threads
    )
    membership = None if bag.sampled.unseen == 1.0 else memberships(model, _inside(bag))
    return draws_by(solve, bag, options, membership, model.n_classes)


def draws_by(
    solve: ReplicateSolver,
    bag: EstimatedBag,
    options: Options,
    membership: Array | None,
    n_classes: int,
) -> Array:
    """Return draws of the target from any solver of replicates, shape (n_replicates, k).

    Parameters
    ----------
    solve : ReplicateSolver
    bag : EstimatedBag
    options : Options
    membership : array of shape (m, k) or None
        Class probabilities of the instances if the target is the bag or a finite population; None
        if it is a population without bounds.
    n_classes : int

    Returns
    -------
    array of shape (n_replicates, k)
    """
    rng = bag_generator(options.random_state, bag.estimate)
    # The error of the target has the variance of drawn labels times the unseen share.
    seen = 1.0 - np.sqrt(bag.sampled.unseen)
    step = max(1, CHUNK // (len(bag.sampled.indices) * n_classes))
    step = max(REFITS, step // REFITS * REFITS)  # so that a refit serves many replicates
    parts = []
    for first in range(0, options.n_replicates, step):
        n = min(step, options.n_replicates - first)
        counts = bag_counts(bag.sampled, n, rng)
        draws = solve(counts, first)
        if membership is not None:
            shares = drawn_shares(bag.sampled, counts, membership, rng)
            # Memberships need not average to the estimate, so we subtract their mean.
            draws = draws - seen * (shares - bag.sampled.weights @ membership)
        parts.append(draws)
    return np.concatenate(parts)


def design_sizes(model: Model, bag: EstimatedBag) -> Array:
    """Return the number of independent draws with the variance of each class's share, (k,)."""
    sampled, k = bag.sampled, model.n_classes
    if sampled.is_simple:
        return np.full(k, sampled.effective_size)
    has_rows = model.likelihood is not None and not model.row_map.is_composite
    if not (has_rows or (model.takes_posteriors and bag.points.shape[1] == k)):
        return np.full(k, min(sampled.effective_size, float(sampled.n_units)))
    effects = sampled.design_effect(memberships(model, _inside(bag)))
    return np.asarray(sampled.effective_size / effects)


def _inside(bag: EstimatedBag) -> EstimatedBag:
    """Return the bag with an estimate without zeros.

    Two or three instances that are decided alike give an estimate of one, and posteriors adapted to
    it would be sure of every label.
    """
    return replace(bag, estimate=smoothed(bag.estimate, bag.sampled.effective_size))


def memberships(model: Model, bag: EstimatedBag) -> Array:
    """Return the posteriors of a bag's instances adapted to its estimate, shape (m, k)."""
    if model.likelihood is not None:
        return _adapted(moment_rows(model, bag.rows.each()), bag.estimate)
    if not model.takes_posteriors:
        raise ValueError(
            "target='bag' needs posteriors, which say how likely each instance is of each class, "
            "and this method has none; use target='population'"
        )
    # The prevalence is NaN if the user supplied the templates; we then assume a uniform prior.
    prior = np.where(model.prevalence > 0, model.prevalence, 1.0)
    return _adapted(np.asarray(bag.points, dtype=np.float64) / prior, bag.estimate)


def _adapted(rows: Array, prevalence: Array) -> Array:
    """Return adapted posteriors (m, k), uniform densities standing for rows without mass."""
    joint = rows @ prevalence
    return adapted(np.where((joint > 0)[:, None], rows, 1.0), prevalence)


def bootstrap_interval(
    estimate: Array, draws: Array, tail: float, interval: str
) -> tuple[Array, Array]:
    """Return the interval of each class, two arrays of shape (k,), within [0, 1].

    Parameters
    ----------
    estimate : array of shape (k,)
    draws : array of shape (n, k)
    tail : float
        Probability outside each end.
    interval : {"percentile", "bias-corrected", "basic"}
        Quantiles of the draws; quantiles moved by twice the median bias z0 (Efron, 1981);
        quantiles mirrored at the estimate.

    Returns
    -------
    low, high : arrays of shape (k,)
    """
    low, high = np.full(len(estimate), tail), np.full(len(estimate), 1.0 - tail)
    if interval == "bias-corrected":
        shift = 2.0 * _median_bias(estimate, draws)
        low, high = ndtr(shift + ndtri(low)), ndtr(shift + ndtri(high))
    first, last = _quantiles(draws, low), _quantiles(draws, high)
    if interval == "basic":
        first, last = 2.0 * estimate - last, 2.0 * estimate - first
    return np.clip(first, 0.0, 1.0), np.clip(last, 0.0, 1.0)


def _median_bias(estimate: Array, draws: Array) -> Array:
    """Return z0: the normal quantile of the share of draws below the estimate.

    Draws equal to the estimate count half.
    """
    n = len(draws)
    below = (draws < estimate).sum(axis=0) + 0.5 * (draws == estimate).sum(axis=0)
    return np.asarray(ndtri(np.clip(below / n, 1.0 / (n + 1), n / (n + 1))))


def _quantiles(draws: Array, levels: NDArray[np.floating]) -> Array:
    return np.array([np.quantile(draws[:, i], level) for i, level in enumerate(levels)])
