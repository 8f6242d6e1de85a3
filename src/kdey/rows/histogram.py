"""Histograms of posteriors or features, and scores of the positive class.

*Histograms* (DM, HDy, DyS, MM; HDx for features): the row of an instance has one indicator per
channel (the posterior of a class, or a feature) and bin; the mean row of a bag is the concatenation
of its histograms. Indicators are stored as bin codes of shape (m, n_channels) and never expanded.

*Scores* (SORD, threshold methods): the posterior of the positive class itself. :class:`ScoreMap`
keeps all training scores; :class:`ThresholdMap` asks whether a score reaches some thresholds, and
its templates are the false and true positive rates of the training classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags, Indices
from kdey.posteriors import TrainingPosteriors
from kdey.rows import RowMap, Rows, fitted, no_templates
from kdey.validation import check_choice, check_count

Codes = NDArray[np.int64]

#: Instances of bags that are counted at a time; bounds memory, not the result.
_CHUNK = 1 << 17


@dataclass(frozen=True)
class HistogramMap(RowMap):
    """Histogram rows: equal-width bins between ``low`` and ``high`` of each channel.

    Attributes
    ----------
    n_bins : int
    cumulative : bool
        Whether histograms are cumulative.
    channels : {"posteriors", "positive", "features"}
        One histogram per class posterior in [0, 1]; one for the posterior of the last class (binary
        methods); or one per feature between its training minimum and maximum.
    templates : array of shape (n_channels * n_bins, k)
    columns : int64 array of shape (n_channels,)
        The channels among the columns of the points.
    low, high : arrays of shape (n_channels,)
        Values outside the range belong to the outermost bins.
    """

    n_bins: int
    cumulative: bool = False
    channels: str = "posteriors"
    templates: Array = fitted()
    columns: Codes = fitted()
    low: Array = fitted()
    high: Array = fitted()

    def __post_init__(self) -> None:
        check_count(self.n_bins, "n_bins", least=2)

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> HistogramMap:
        """Return the map, with the histograms of the training classes as templates."""
        points = np.asarray(training.required(), dtype=np.float64)
        d = points.shape[1]
        columns = np.arange(d - 1, d) if self.channels == "positive" else np.arange(d)
        low, high = np.zeros(len(columns)), np.ones(len(columns))
        if self.channels == "features":
            weighted = points if training.weights is None else points[training.weights > 0]
            low, high = weighted.min(axis=0), weighted.max(axis=0)
        untrained = replace(self, n_bins=int(self.n_bins), columns=columns, low=low, high=high)
        return replace(
            untrained, templates=_class_histograms(untrained(points), training, n_classes)
        )

    @property
    def n_terms(self) -> int:
        """Number of histograms over which a divergence is averaged."""
        return len(self.columns)

    def __call__(self, points: NDArray[np.floating], n_threads: int = 1) -> HistogramRows:
        """Return the bin codes of points of shape (m, d)."""
        values = np.asarray(points)[:, self.columns].astype(np.float64, copy=False)
        span = np.where(self.high > self.low, self.high - self.low, 1.0)
        scaled = (values - self.low) / span * self.n_bins
        codes = np.clip(np.floor(scaled), 0, self.n_bins - 1).astype(np.int64)
        return HistogramRows(codes, self.n_bins, self.cumulative)


@dataclass(frozen=True, eq=False)
class HistogramRows(Rows):
    """Bin codes of the instances of a pool, shape (m, n_channels), as compact indicator rows."""

    codes: Codes
    n_bins: int
    cumulative: bool

    def __len__(self) -> int:
        """Return the number of instances m."""
        return len(self.codes)

    def mean(self, bags: Bags) -> Array:
        """Return each bag's histograms, shape (n_bags, n_channels * n_bins)."""
        n_channels = self.codes.shape[1]
        width = n_channels * self.n_bins
        columns = self.codes + self.n_bins * np.arange(n_channels)
        out = np.empty((len(bags), width))
        for run in bags.runs(_CHUNK):
            part = bags[run]
            weights = np.ones(len(part.indices)) if part.weights is None else part.weights
            bag_numbers = np.repeat(np.arange(len(part)), part.sizes)
            flat = columns[part.indices] + width * bag_numbers[:, None]
            counts = np.bincount(
                flat.ravel(), np.repeat(weights, n_channels), minlength=width * len(part)
            ).reshape(len(part), width)
            out[run] = counts / np.add.reduceat(weights, part.offsets[:-1])[:, None]
        if self.cumulative:
            shape = out.shape
            out = np.cumsum(out.reshape(len(bags), n_channels, self.n_bins), axis=2).reshape(shape)
        return out


def _class_histograms(rows: HistogramRows, training: TrainingPosteriors, n_classes: int) -> Array:
    """Return the mean rows of the classes as columns, shape (r, k)."""
    members = [np.flatnonzero(training.labels == i) for i in range(n_classes)]
    weights = None if training.weights is None else [training.weights[m] for m in members]
    bags = Bags.from_indices(members, len(rows), weights)
    return np.ascontiguousarray(rows.mean(bags).T)


#: Numbers in memory at a time for the cumulative distributions of bags.
_CHUNK_OF_SCORES = 1 << 23

#: Thresholds lie below the training score that they stand for by this share of it, so that the same
#: score in single precision, which may be rounded down, still reaches it.
_ROUNDING = 2.0**-22

#: MS2 uses thresholds at which the true and the false positive rate differ by more than this.
MS2_DIFFERENCE = 0.25


@dataclass(frozen=True)
class ScoreMap(RowMap):
    """Row of an instance: its score.

    Attributes
    ----------
    scores : array of shape (n,)
        Scores of all training instances, ascending.
    cumulative : array of shape (n, k)
        Share of each class whose score is at most that of the row.
    """

    scores: Array = fitted()
    cumulative: Array = fitted()

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> ScoreMap:
        """Return the map, with the sorted scores of the training classes."""
        n = len(training.labels)
        weights = np.ones(n) if training.weights is None else training.weights
        scores = np.asarray(training.required(), dtype=np.float64)[:, -1]
        used = np.flatnonzero(weights)
        order = used[np.argsort(scores[used], kind="stable")]
        mass = np.eye(n_classes)[training.labels[order]] * weights[order][:, None]
        return replace(
            self, scores=scores[order], cumulative=np.cumsum(mass, axis=0) / mass.sum(axis=0)
        )

    @property
    def templates(self) -> Array:
        """Empty, shape (k, 0): classes are known by their cumulative distributions."""
        return no_templates(self.cumulative.shape[1])

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> SortedScores:
        """Return the scores of posteriors of shape (m, k)."""
        return SortedScores(self, np.asarray(points, dtype=np.float64)[:, -1])

    def cumulative_at(self, knots: Array, side: Literal["left", "right"] = "right") -> Array:
        """Return the share of each class with a score up to each knot, shape (t, k).

        The score itself counts unless ``side`` is "left".
        """
        last = np.searchsorted(self.scores, knots, side=side)
        padded = np.vstack([np.zeros(self.cumulative.shape[1]), self.cumulative])
        return np.asarray(padded[last])


@dataclass(frozen=True, eq=False)
class SortedScores(Rows):
    """Scores of the instances of a pool, shape (m,), with the map that has those of the classes."""

    row_map: ScoreMap
    scores: Array

    def __len__(self) -> int:
        """Return the number of instances m."""
        return len(self.scores)

    def mean(self, bags: Bags) -> Array:
        """Return the mean score of each bag, shape (n_bags, 1)."""
        return bags.mean(self.each())

    def each(self) -> Array:
        """Return the scores as rows, shape (m, 1)."""
        return self.scores[:, None]

    def runs(self, bags: Bags) -> Iterator[Bags]:
        """Yield runs of bags whose cumulative distributions fit a bounded amount of memory."""
        start, width = 0, len(self.row_map.scores)
        for bag, size in enumerate(bags.sizes.tolist()):
            if bag > start and (bag - start + 1) * (width + size) > _CHUNK_OF_SCORES:
                yield bags[start:bag]
                start, width = bag, len(self.row_map.scores)
            width += size
        yield bags[start:]

    def distributions(self, bags: Bags) -> tuple[Array, Array, Array]:
        """Return cumulative distributions, which step at each of t scores of classes and bags.

        Returns
        -------
        classes : array of shape (t, k)
            Share of each training class at or below the score.
        bags : array of shape (n_bags, t)
            The same of each bag.
        steps : array of shape (t,)
            Distance to the next score.
        """
        knots = np.union1d(self.row_map.scores, self.scores[bags.indices])
        codes = np.searchsorted(knots, self.scores[bags.indices])
        owner = np.repeat(np.arange(len(bags)), bags.sizes)
        shape = (len(bags), len(knots))
        mass = np.bincount(
            owner * len(knots) + codes, weights=bags.weights, minlength=shape[0] * shape[1]
        )
        total = np.cumsum(mass.reshape(shape), axis=1)
        # A last step of length zero keeps the arrays from being empty if all scores are equal.
        steps = np.append(np.diff(knots), 0.0)
        return self.row_map.cumulative_at(knots), total / total[:, -1:], steps


@dataclass(frozen=True)
class ThresholdMap(RowMap):
    """Row of an instance: for every threshold, whether its score lies below it, and a one.

    Candidates are the distinct training scores; those at which the true positive rate tpr equals
    the false positive rate fpr say nothing and are left out.

    Attributes
    ----------
    policy : {"t50", "max", "x", "all", "apart"}
        "t50": the threshold whose tpr is closest to 0.5; "max": the largest tpr - fpr; "x": fpr
        closest to 1 - tpr; "all": all of them; "apart": those with tpr - fpr > 0.25. The smallest
        threshold wins a tie, and 0.5 is taken where there is no candidate.
    templates : array of shape (t + 1, 2)
        Column 0 has the shares of the negative class below the t thresholds, column 1 those of the
        positive one. With one threshold, row 1 has the shares that reach it.
    thresholds : array of shape (t,)
    """

    policy: str
    templates: Array = fitted()
    thresholds: Array = fitted()

    def __post_init__(self) -> None:
        check_choice(self.policy, "policy", ["t50", "max", "x", "all", "apart"])

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> ThresholdMap:
        """Return the map, with the chosen thresholds and their rates."""
        scores = ScoreMap().fit(training, n_classes)
        candidates = np.unique(scores.scores)
        rates = 1.0 - scores.cumulative_at(candidates, side="left")
        chosen = self._choose(rates, rates[:, 1] - rates[:, 0])
        thresholds = candidates[chosen] * (1.0 - _ROUNDING) if len(chosen) else np.array([0.5])
        untrained = replace(self, thresholds=thresholds)
        rows = untrained(training.required())
        return replace(untrained, templates=_class_histograms(rows, training, n_classes))

    def _choose(self, rates: Array, difference: Array) -> Indices:
        """Return the positions of the chosen candidates; ``rates`` has columns fpr and tpr."""
        useful = np.flatnonzero(difference != 0)
        if self.policy == "all" or len(useful) == 0:
            return useful
        if self.policy == "apart":
            return np.flatnonzero(difference > MS2_DIFFERENCE)
        cost = {
            "t50": np.abs(rates[:, 1] - 0.5),
            "max": -difference,
            "x": np.abs(1.0 - rates.sum(axis=1)),
        }[self.policy][useful]
        # Rates are quotients of counts: equal ones may differ in the last digit.
        best = useful[np.flatnonzero(cost <= cost.min() + 1e-12)]
        return best[:1]

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> HistogramRows:
        """Return the rows of posteriors of shape (m, 2), as histograms between the thresholds."""
        scores = np.asarray(points, dtype=np.float64)[:, -1:]
        ranks = np.searchsorted(self.thresholds, scores, side="right")
        n = len(self.thresholds)
        return HistogramRows(ranks.astype(np.int64), n + 1, cumulative=n > 1)
