"""Stacked row maps: several row maps of the same instances side by side (HDy's binnings)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from kdey.posteriors import TrainingPosteriors


@dataclass(frozen=True, eq=False)
class StackedRows:
    """The rows of each part."""

    parts: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class StackedMap:
    """The fitted row map of each part."""

    parts: tuple[Any, ...]

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> StackedRows:
        """Return the rows of ``points`` under each part."""
        return StackedRows(tuple(part(points, n_threads) for part in self.parts))


@dataclass(frozen=True)
class StackedSpec:
    """Spec of :class:`StackedMap`: one row spec per part."""

    parts: tuple[Any, ...]

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> StackedMap:
        """Return the map with every part fitted."""
        return StackedMap(tuple(part.fit(training, n_classes, n_threads) for part in self.parts))
