"""Histogram rows: class-wise histograms of posteriors (DM, HDy, DyS, MM) or of features (HDx).

The row of an instance has one indicator per channel (the posterior of a class, or a feature) and
bin; the mean row of a bag is the concatenation of its histograms. Indicators are stored as bin
codes of shape (m, n_channels) and never expanded.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Bags
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import Array, RowMap, Rows, RowSpec

Codes = NDArray[np.int64]
#: Instances of bags that are counted at a time; bounds memory, not the result.
_CHUNK = 1 << 17


@dataclass(frozen=True)
class HistogramSpec(RowSpec):
    """Spec of ``HistogramMap``.

    Attributes
    ----------
    n_bins : int
    cumulative : bool
        Whether histograms are cumulative.
    channels : {"posteriors", "positive", "features"}
        One histogram per class posterior in [0, 1]; one for the posterior of the last class (binary
        methods); or one per feature between its training minimum and maximum.
    """

    n_bins: int
    cumulative: bool = False
    channels: str = "posteriors"

    def __post_init__(self) -> None:
        check_n_bins(self.n_bins)

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> HistogramMap:
        """Return the map, with the histograms of the training classes as templates."""
        points = np.asarray(training.required(), dtype=np.float64)
        d = points.shape[1]
        columns = np.arange(d - 1, d) if self.channels == "positive" else np.arange(d)
        low, high = np.zeros(len(columns)), np.ones(len(columns))
        if self.channels == "features":
            weighted = points if training.weights is None else points[training.weights > 0]
            low, high = weighted.min(axis=0), weighted.max(axis=0)
        untrained = HistogramMap(
            np.empty((0, n_classes)), columns, low, high, int(self.n_bins), self.cumulative
        )
        members = [np.flatnonzero(training.labels == i) for i in range(n_classes)]
        weights = None if training.weights is None else [training.weights[m] for m in members]
        bags = Bags.from_indices(members, len(points), weights)
        templates = np.ascontiguousarray(untrained(points).mean(bags).T)
        return HistogramMap(templates, columns, low, high, untrained.n_bins, self.cumulative)


@dataclass(frozen=True, eq=False)
class HistogramMap(RowMap):
    """Fitted histogram rows: equal-width bins between ``low`` and ``high`` of each channel.

    ``columns`` selects the channels among the columns of the points; values outside the range
    belong to the outermost bins. ``templates`` has shape (n_channels * n_bins, k).
    """

    templates: Array
    columns: Codes
    low: Array
    high: Array
    n_bins: int
    cumulative: bool

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
        for start, stop in _runs_of_bags(bags):
            part = bags[start:stop]
            weights = np.ones(len(part.indices)) if part.weights is None else part.weights
            bag_numbers = np.repeat(np.arange(stop - start), part.sizes)
            flat = columns[part.indices] + width * bag_numbers[:, None]
            counts = np.bincount(
                flat.ravel(), np.repeat(weights, n_channels), minlength=width * (stop - start)
            ).reshape(stop - start, width)
            out[start:stop] = counts / np.add.reduceat(weights, part.offsets[:-1])[:, None]
        if self.cumulative:
            shape = out.shape
            out = np.cumsum(out.reshape(len(bags), n_channels, self.n_bins), axis=2).reshape(shape)
        return out


def check_n_bins(n_bins: Any) -> int:
    """Return ``n_bins`` as an int; raises ValueError unless it is at least 2."""
    is_whole = isinstance(n_bins, int | np.integer) and not isinstance(n_bins, bool)
    if not is_whole or n_bins < 2:
        raise ValueError(f"n_bins must be an integer of at least 2, got {n_bins!r}")
    return int(n_bins)


def _runs_of_bags(bags: Bags) -> list[tuple[int, int]]:
    """Return (start, stop) of runs of bags with about ``_CHUNK`` instances each."""
    cuts = [0]
    while cuts[-1] < len(bags):
        target = bags.offsets[cuts[-1]] + _CHUNK
        stop = int(np.searchsorted(bags.offsets, target, side="right")) - 1
        cuts.append(min(max(stop, cuts[-1] + 1), len(bags)))
    return list(itertools.pairwise(cuts))
