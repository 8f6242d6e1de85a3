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
from kdey.matching import MaximiseLikelihood
from kdey.posteriors import TrainingPosteriors
from kdey.problems import MixtureLikelihood
from kdey.rows.interface import DensityReplicator, Rows, TemplateReplicator
from kdey.solvers import solve_mixture

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

    def many(self, numbers: range) -> Array:
        """Return the weights of several replicates, shape (len(numbers), n)."""
        return np.stack([self(number) for number in numbers])

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
    rows: Rows
    estimate: Array

    def bags(self, counts: Indices) -> Bags:
        """Return replicates over the bag's own rows."""
        return counted_bags(self.bag, counts, counts.shape[1])


def resolver(model: FittedModel, bag: BagReplicates, templates: bool, seed: int) -> Resolver:
    """Return how replicates of a bag are solved; ``templates``: with training replicates."""
    if model.row_map.is_composite:
        return _combined(model, bag, templates, seed)
    likelihood = model.likelihood
    exact = None if likelihood is None or not likelihood.is_exact else likelihood
    if not templates or model.training is None or not model.is_learnt:
        return _fixed(model, bag) if exact is None else _fixed_likelihood(model, exact, bag)
    replicates = TrainingReplicates(model.training, seed)
    if exact is not None:
        densities = model.row_map.replicate_densities(
            bag.points, bag.rows, model.training, model.n_threads
        )
        if densities is not None:
            return _replicated_densities(model, exact, bag, densities, replicates)
    elif model.matching.takes_templates:
        drawn = model.row_map.replicate_templates(model.training)
        if drawn is not None:
            return _replicated_templates(model, bag, drawn, replicates)
    return _refitted(model, bag, replicates)


def _combined(model: FittedModel, bag: BagReplicates, templates: bool, seed: int) -> Resolver:
    members = [
        resolver(member, replace(bag, rows=rows), templates, seed)
        for member, rows in zip(model.members, bag.rows.members, strict=True)
    ]

    def solve(counts: Indices, first: int) -> Array:
        estimates = np.array([member(counts, first) for member in members])
        return model.matching.combine_estimates(estimates, model.row_map.shares)

    return solve


def _fixed(model: FittedModel, bag: BagReplicates) -> Resolver:
    def solve(counts: Indices, first: int) -> Array:
        bags = bag.bags(counts)
        return model.matching.match(model.row_map, bag.rows, bags, model.n_threads).prevalence

    return solve


def _fixed_likelihood(
    model: FittedModel, likelihood: MaximiseLikelihood, bag: BagReplicates
) -> Resolver:
    rows = model.hold(bag.rows.each())

    def solve(counts: Indices, first: int) -> Array:
        problem = MixtureLikelihood(rows, bag.bags(counts))
        return _maximise(likelihood, problem, bag.estimate, model.n_threads)

    return solve


def _maximise(
    likelihood: MaximiseLikelihood, problem: MixtureLikelihood, estimate: Array, n_threads: int
) -> Array:
    start = np.tile(estimate, (problem.n_bags, 1))
    return solve_mixture(problem, tol=likelihood.tol, start=start, n_threads=n_threads).prevalence


def _replicated_densities(
    model: FittedModel,
    likelihood: MaximiseLikelihood,
    bag: BagReplicates,
    densities: DensityReplicator,
    replicates: TrainingReplicates,
) -> Resolver:
    def solve(counts: Indices, first: int) -> Array:
        n, m = counts.shape
        rows = densities(replicates.many(range(first, first + n)))
        bags = counted_bags(bag.bag, counts, n * m)
        problem = MixtureLikelihood(rows.reshape(n * m, model.n_classes), bags)
        return _maximise(likelihood, problem, bag.estimate, model.n_threads)

    return solve


def _replicated_templates(
    model: FittedModel,
    bag: BagReplicates,
    templates: TemplateReplicator,
    replicates: TrainingReplicates,
) -> Resolver:
    def solve(counts: Indices, first: int) -> Array:
        targets = bag.rows.mean(bag.bags(counts))
        drawn = templates(replicates.many(range(first, first + len(counts))))
        return model.matching.match_templates(drawn, targets, model.n_threads)

    return solve


def _refitted(model: FittedModel, bag: BagReplicates, replicates: TrainingReplicates) -> Resolver:
    spec, training = model.row_spec, model.training
    assert spec is not None, "templates that were given cannot be fitted again"
    assert training is not None, "templates that were given cannot be fitted again"

    def solve(counts: Indices, first: int) -> Array:
        out = np.empty((len(counts), model.n_classes))
        numbers = (first + np.arange(len(counts))) % REFITS
        for number in np.unique(numbers):
            weighted = replace(training, weights=replicates(int(number)))
            row_map = spec.fit(weighted, model.n_classes, model.n_threads)
            rows = row_map(bag.points, model.n_threads)
            which = numbers == number
            bags = bag.bags(counts[which])
            out[which] = model.matching.match(row_map, rows, bags, model.n_threads).prevalence
        return out

    return solve
