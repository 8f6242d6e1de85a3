"""Bootstrap counts: how often each instance of a bag, or of the training data, is drawn.

Estimates of bootstrap replicates, from rows that are reweighted rather than made again.

Each resolver answers: with these counts of the bag's instances, and the training replicate of
this number, what is the estimate? Kernel densities need one product per class of the kernels
between bag and references with the replicates' weights; mean templates one product of the training
rows; all other methods are fitted again on a few training replicates.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags, offsets_of
from kdey.intervals.model import FittedModel
from kdey.intervals.sampled_bags import Sampled
from kdey.kernels.means import kernel_means
from kdey.matching import AverageOf, ExpectationMaximisation, MatchMeans, MaximiseLikelihood
from kdey.posteriors import TrainingPosteriors
from kdey.problems import MixtureLikelihood
from kdey.rows.density import DensityMap
from kdey.rows.posterior import PosteriorMap
from kdey.rows.references import reference_order
from kdey.solvers import solve_mixture
from kdey.solvers.quadratic import solve_programs

Indices = NDArray[np.int64]


def bag_generator(seed: int, estimate: Array) -> np.random.Generator:
    """Return a generator of a bag's own: two bags must not be resampled in step.

    It is made of digits of the estimate on which processors and the NumPy path agree, so that a
    seed gives the same replicates on all of them.
    """
    digits = np.rint(estimate * 1e4).astype(np.int64)
    return np.random.default_rng([seed, 1, zlib.crc32(digits.tobytes())])


def bag_counts(bag: Sampled, n: int, rng: np.random.Generator) -> Indices:
    """Return n replicates of a bag as counts of its instances, shape (n, m).

    Units (instances, or clusters with all of theirs) are drawn with replacement.
    """
    units = bag.n_units
    drawn = rng.integers(units, size=(n, units)) + units * np.arange(n)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=n * units).reshape(n, units)
    return counts if bag.clusters is None else counts[:, bag.clusters]


class TrainingReplicates:
    """Replicates of the training data as weights.

    Instances are drawn within their class, so that no class is lost. Replicates depend on the
    seed and their number alone: every bag meets the same ones.
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
        shift = (rng.random(len(self._order)) * self._counts).astype(np.int64)
        drawn = self._order[self._starts + shift]
        times = np.bincount(drawn, minlength=len(drawn)).astype(np.float64)
        return times if self._training.weights is None else self._weighted(times)

    def _weighted(self, times: Array) -> Array:
        """Return counts times weights; a class that lost all its weight keeps its own."""
        labels, given = self._training.labels, np.asarray(self._training.weights)
        w = times * given
        lost = np.bincount(labels, weights=w) <= 0
        return np.where(lost[labels], given, w)


def counted_bags(bag: Sampled, counts: Indices, n_rows: int) -> Bags:
    """Return replicates of a bag, counts (n, m), as bags over rows 0..m-1, or over n x m rows.

    With ``n_rows`` = m all replicates share the rows; with n m each has rows of its own.
    """
    m = counts.shape[1]
    replicate, position = np.nonzero(counts)
    offsets = offsets_of(np.count_nonzero(counts, axis=1))
    weights = counts[replicate, position] * bag.weights[position] * m
    indices = position if n_rows == m else replicate * m + position
    return Bags(indices.astype(np.int64), offsets, n_rows, weights)


def drawn_shares(
    bag: Sampled, counts: Indices, membership: Array, rng: np.random.Generator
) -> Array:
    """Return the realised class shares of replicates whose labels are drawn, shape (n, k).

    Each drawn instance gets a label from its row of ``membership`` (m, k), whose rows are
    posteriors adapted to the estimate.
    """
    replicate, position = np.nonzero(counts)
    times = counts[replicate, position]
    replicate, position = np.repeat(replicate, times), np.repeat(position, times)
    k = membership.shape[1]
    limits = np.cumsum(membership, axis=1)[:, :-1]
    u = rng.random(len(position))
    labels = np.zeros(len(position), dtype=np.int64)
    for i in range(k - 1):
        labels += u > limits[position, i]
    w = bag.weights[position]
    shares = np.bincount(replicate * k + labels, weights=w, minlength=len(counts) * k)
    made: Any = shares.reshape(len(counts), k)
    return np.asarray(made / made.sum(axis=1, keepdims=True))


#: From counts (n, m) and the number of the first replicate to estimates (n, k).
Resolver: TypeAlias = Callable[[Indices, int], Array]

#: Training replicates of methods that have to be fitted again for each.
REFITS = 25


@dataclass(frozen=True, eq=False)
class BagReplicates:
    """One bag with the points and the rows of its instances, and its estimate.

    Attributes
    ----------
    bag : Sampled
    points : array of shape (m, d)
        Posteriors or features of the bag's instances.
    rows : rows of these points
    estimate : array of shape (k,)
    """

    bag: Sampled
    points: NDArray[Any]
    rows: Any
    estimate: Array

    def bags(self, counts: Indices) -> Bags:
        """Return replicates over the bag's own rows."""
        return counted_bags(self.bag, counts, counts.shape[1])


def resolver(model: FittedModel, given: BagReplicates, templates: bool, seed: int) -> Resolver:
    """Return how replicates of a bag are solved; ``templates``: with training replicates."""
    if isinstance(model.matching, AverageOf):
        return _averaged(model, given, templates, seed)
    likelihood = isinstance(model.matching, MaximiseLikelihood)
    exact = likelihood and not isinstance(model.matching, ExpectationMaximisation)
    learnt = model.training is not None and model.training.posteriors is not None
    if not (templates and learnt):
        return _fixed_likelihood(model, given) if exact else _fixed(model, given)
    if exact and isinstance(model.row_map, DensityMap):
        return _kernel_templates(model, given, seed)
    if isinstance(model.matching, MatchMeans) and isinstance(model.row_map, PosteriorMap):
        return _mean_templates(model, given, seed)
    return _refitted(model, given, seed)


def _averaged(model: FittedModel, given: BagReplicates, templates: bool, seed: int) -> Resolver:
    members = [
        resolver(member, replace(given, rows=rows), templates, seed)
        for member, rows in zip(model.members, given.rows.parts, strict=True)
    ]

    def solve(counts: Indices, first: int) -> Array:
        made = np.array([member(counts, first) for member in members])
        return np.asarray(np.tensordot(model.row_map.weights, made, axes=1))

    return solve


def _fixed(model: FittedModel, given: BagReplicates) -> Resolver:
    def solve(counts: Indices, first: int) -> Array:
        bags = given.bags(counts)
        found = model.matching.match(model.row_map, given.rows, bags, model.n_threads)
        return np.asarray(found.prevalence)

    return solve


def _fixed_likelihood(model: FittedModel, given: BagReplicates) -> Resolver:
    rows = model.hold(given.rows.array)

    def solve(counts: Indices, first: int) -> Array:
        return _maximise(model, MixtureLikelihood(rows, given.bags(counts)), given.estimate)

    return solve


def _maximise(model: FittedModel, problem: MixtureLikelihood, estimate: Array) -> Array:
    start = np.tile(estimate, (problem.n_bags, 1))
    return solve_mixture(
        problem, tol=model.matching.tol, start=start, n_threads=model.n_threads
    ).prevalence


def _kernel_templates(model: FittedModel, given: BagReplicates, seed: int) -> Resolver:
    refs, training = model.row_map.references, model.training
    assert training is not None
    x = refs.coordinates(given.points)
    scale = given.rows.array.max(axis=1)
    order = reference_order(training)
    k, again = model.n_classes, TrainingReplicates(training, seed)

    def solve(counts: Indices, first: int) -> Array:
        n, m = counts.shape
        numbers = range(first, first + n)
        drawn = np.stack([again(b)[order] for b in numbers])
        densities = np.empty((n, m, k))
        for i in range(k):
            part = slice(int(refs.offsets[i]), int(refs.offsets[i + 1]))
            bags = _dense_bags(drawn[:, part])
            densities[:, :, i] = kernel_means(
                x, scale, refs.points[part], bags, refs.bandwidth, model.n_threads, quick=True
            )
        bags = counted_bags(given.bag, counts, n * m)
        problem = MixtureLikelihood(densities.reshape(n * m, k), bags)
        return _maximise(model, problem, given.estimate)

    return solve


def _dense_bags(weights: Array) -> Bags:
    """Return rows of weights (n, r), none of them all zero, as bags over r instances."""
    replicate, position = np.nonzero(weights)
    offsets = offsets_of(np.count_nonzero(weights, axis=1))
    values = weights[replicate, position]
    return Bags(position.astype(np.int64), offsets, weights.shape[1], values)


def _mean_templates(model: FittedModel, given: BagReplicates, seed: int) -> Resolver:
    templates = TemplateReplicates(model, seed)

    def solve(counts: Indices, first: int) -> Array:
        targets = given.rows.mean(given.bags(counts))
        return templates(range(first, first + len(counts))).match(targets)

    return solve


@dataclass(frozen=True, eq=False)
class Templates:
    """Mean templates of n replicates, shape (n, r, k), and the Gram matrix of each."""

    templates: Array
    gram: Array
    n_threads: int

    def match(self, targets: Array) -> Array:
        """Return the least squares prevalences of one mean row per replicate, (n, r) to (n, k)."""
        linear = (targets[:, None, :] @ self.templates)[:, 0, :]
        x, _ = solve_programs(self.gram, linear, simplex=True, n_threads=self.n_threads)
        return np.asarray(x / x.sum(axis=1, keepdims=True))


class TemplateReplicates:
    """The templates of ACC and PACC by the number of a training replicate."""

    def __init__(self, model: FittedModel, seed: int) -> None:
        training = model.training
        assert training is not None
        self._rows = model.row_map(training.required()).array
        self._owners = [np.flatnonzero(training.labels == i) for i in range(model.n_classes)]
        self._again, self._n_threads = TrainingReplicates(training, seed), model.n_threads

    def __call__(self, numbers: range) -> Templates:
        """Return the templates of these replicates."""
        drawn = np.stack([self._again(b) for b in numbers])
        means = [_means(drawn[:, own], self._rows[own]) for own in self._owners]
        templates = np.stack(means, axis=2)
        return Templates(templates, templates.transpose(0, 2, 1) @ templates, self._n_threads)


def _means(weights: Array, rows: Array) -> Array:
    return np.asarray(weights @ rows / weights.sum(axis=1, keepdims=True))


def _refitted(model: FittedModel, given: BagReplicates, seed: int) -> Resolver:
    training = model.training
    assert training is not None
    again = TrainingReplicates(training, seed)

    def solve(counts: Indices, first: int) -> Array:
        out = np.empty((len(counts), model.n_classes))
        numbers = (first + np.arange(len(counts))) % REFITS
        for number in np.unique(numbers):
            weights = again(int(number))
            row_map = model.row_spec.fit(
                replace(training, weights=weights), model.n_classes, model.n_threads
            )
            rows = row_map(given.points, model.n_threads)
            which = numbers == number
            bags = given.bags(counts[which])
            out[which] = model.matching.match(row_map, rows, bags, model.n_threads).prevalence
        return out

    return solve
