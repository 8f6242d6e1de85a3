"""A network as the last stages of a quantifier: histogram rows, and a matching that asks it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags
from kdey.matching import exact_solution
from kdey.matching.interface import LimitsSource, Matching
from kdey.neural.network import Network
from kdey.neural.training import MeanRows, TrainingPlan, train
from kdey.posteriors import TrainingPosteriors
from kdey.problems import LeastSquares
from kdey.protocols import APP, BagProtocol, LabelledBags
from kdey.rows.interface import ArrayRows, Indices, RowMap, Rows, RowSpec, no_templates
from kdey.solvers import Solution

#: Share of the instances of each class, or of the bags, that validation gets.
_VALIDATION = 0.2
#: A class with fewer instances than this lends all of them to validation, too.
_FEW = 5
#: Instances are repeated up to this many times on average, to bound the memory.
_MOST_REPEATED = 20


@dataclass(frozen=True)
class NetworkSpec(RowSpec):
    """Spec of :class:`NetworkMap`.

    Attributes
    ----------
    n_bins : int
        Knots of the histogram of each posterior.
    plan : TrainingPlan
    protocol : BagProtocol
        Draws the training bags from the training instances.
    """

    n_bins: int
    plan: TrainingPlan
    protocol: BagProtocol = field(default_factory=APP)

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> NetworkMap:
        """Return the map whose network was trained on bags of the training posteriors."""
        rng = np.random.default_rng(self.plan.seed)
        points = np.asarray(training.required(), dtype=np.float64)
        positions = _repeated(training, n_classes, rng)
        knots = quantile_knots(points[positions], self.n_bins)
        parts = _split(training.labels[positions], n_classes, rng)
        rows = soft_histograms(points, knots)

        def draw(part: Indices) -> MeanRows:
            chosen = positions[part]
            return mean_rows(
                rows[chosen], self.protocol.bags(training.labels[chosen], np.arange(n_classes))
            )

        return NetworkMap(knots, train(draw(parts[0]), draw(parts[1]), self.plan))

    def fit_bags(self, points: Array, bags: LabelledBags) -> NetworkMap:
        """Return the map whose network was trained on given bags over points (m, k)."""
        knots = quantile_knots(points, self.n_bins)
        all_bags = mean_rows(soft_histograms(points, knots), bags)
        order = np.random.default_rng(self.plan.seed).permutation(len(all_bags.means))
        cut = max(1, int(_VALIDATION * len(order)))
        parts = [
            MeanRows(all_bags.means[p], all_bags.prevalences[p], all_bags.sizes[p])
            for p in (order[cut:], order[:cut])
        ]
        return NetworkMap(knots, train(parts[0], parts[1], self.plan))


@dataclass(frozen=True, eq=False)
class NetworkMap(RowMap):
    """Row of an instance: its place between the knots of each channel; and the network for bags.

    Attributes
    ----------
    knots : array of shape (k, n_bins)
        Ascending in each row.
    network : Network
    """

    knots: Array
    network: Network

    @property
    def templates(self) -> Array:
        """Empty, shape (k, 0): the method has no templates."""
        return no_templates(len(self.network.biases[-1]))

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> ArrayRows:
        """Return the rows of posteriors of shape (m, k)."""
        return ArrayRows(soft_histograms(np.asarray(points, dtype=np.float64), self.knots))


@dataclass(frozen=True)
class AskNetwork(Matching[LeastSquares]):
    """The answer of the network to the mean row of a bag."""

    limits_source: ClassVar[LimitsSource] = "bootstrap"

    def match(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> Solution:
        """Return the prevalences that the network of the row map answers."""
        return exact_solution(cast(NetworkMap, row_map).network(rows.mean(bags)))

    def full_objective(
        self,
        row_map: RowMap,
        rows: Rows,
        bags: Bags,
        prevalence: NDArray[np.floating],
        n_threads: int = 1,
    ) -> Array:
        """Return half the squared distance from the answer: a network minimises nothing."""
        answers = self.match(row_map, rows, bags, n_threads).prevalence
        return np.asarray(0.5 * ((answers - prevalence) ** 2).sum(axis=1))


def soft_histograms(points: Array, knots: Array) -> Array:
    """Return the place of each number between the knots of its column.

    A number at a knot has one in the bin of this knot. A number between two knots shares it between
    their bins, in proportion to its distances, so that no edge of a bin separates close numbers.

    Parameters
    ----------
    points : array of shape (m, k)
    knots : array of shape (k, n_bins)

    Returns
    -------
    array of shape (m, k * n_bins)
        Each run of ``n_bins`` numbers sums to one.
    """
    k, n_bins = knots.shape
    out = np.zeros((len(points), k, n_bins))
    everyone = np.arange(len(points))
    for column in range(k):
        x = np.clip(points[:, column], knots[column, 0], knots[column, -1])
        upper = np.clip(np.searchsorted(knots[column], x), 1, n_bins - 1)
        low, high = knots[column, upper - 1], knots[column, upper]
        share = np.where(high > low, (x - low) / np.where(high > low, high - low, 1.0), 1.0)
        out[everyone, column, upper] = share
        out[everyone, column, upper - 1] = 1.0 - share
    return out.reshape(len(points), k * n_bins)


def quantile_knots(points: Array, n_bins: int) -> Array:
    """Return evenly spaced quantiles of each column of points (m, k), shape (k, n_bins)."""
    return np.ascontiguousarray(np.quantile(points, np.linspace(0.0, 1.0, n_bins), axis=0).T)


def mean_rows(rows: Array, bags: LabelledBags) -> MeanRows:
    """Return the mean rows of bags over instances with these rows (m, d)."""
    return MeanRows(bags.bags.mean(rows), bags.prevalences, bags.bags.sizes.astype(np.float64))


def _repeated(
    training: TrainingPosteriors, n_classes: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return positions of instances, repeated in proportion to their weights.

    Whole weights are numbers of repetitions. With others, each class keeps its size.
    """
    everyone, weights = np.arange(len(training.labels), dtype=np.int64), training.weights
    if weights is None:
        return everyone
    if (weights == np.floor(weights)).all() and weights.sum() <= _MOST_REPEATED * len(weights):
        return np.repeat(everyone, weights.astype(np.int64))
    chosen = []
    for label in range(n_classes):
        members = np.flatnonzero((training.labels == label) & (weights > 0))
        shares = np.cumsum(weights[members])
        marks = (np.arange(len(members)) + rng.random()) * shares[-1] / len(members)
        chosen.append(members[np.searchsorted(shares, marks)])
    return np.concatenate(chosen)


def _split(
    labels: NDArray[np.int64], n_classes: int, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Return positions for training and for validation, both with every class."""
    training, validation = [], []
    for label in range(n_classes):
        members = rng.permutation(np.flatnonzero(labels == label))
        cut = int(np.ceil(_VALIDATION * len(members)))
        is_small = len(members) < _FEW
        training.append(members if is_small else members[cut:])
        validation.append(members if is_small else members[:cut])
    return np.concatenate(training), np.concatenate(validation)
