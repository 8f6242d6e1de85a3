"""Committees: several row maps of the same instances whose estimates are averaged by weight.

A committee answers for its heaviest member wherever one map is asked for (its ``templates``, its
``references``, the ``array`` of its rows), so that whatever needs a single likelihood finds one.

Stacked row maps: several row maps of the same instances side by side (HDy's binnings).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Bags
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import Array


@dataclass(frozen=True, eq=False)
class CommitteeRows:
    """The rows of each member, heaviest first."""

    parts: tuple[Any, ...]

    @property
    def array(self) -> Array:
        """The rows of the heaviest member."""
        rows: Array = self.parts[0].array
        return rows

    def mean(self, bags: Bags) -> Array:
        """Return each bag's mean row under the heaviest member."""
        means: Array = self.parts[0].mean(bags)
        return means


@dataclass(frozen=True, eq=False)
class CommitteeMap:
    """The fitted row map of each member, heaviest first, with ``weights`` that sum to one."""

    parts: tuple[Any, ...]
    weights: Array

    @property
    def templates(self) -> Array:
        """The templates of the heaviest member."""
        templates: Array = self.parts[0].templates
        return templates

    @property
    def references(self) -> Any:
        """The class references of the heaviest member."""
        return self.parts[0].references

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the members."""
        return iter(self.parts)

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> CommitteeRows:
        """Return the rows of ``points`` under each member."""
        return CommitteeRows(tuple(part(points, n_threads) for part in self.parts))


@dataclass(frozen=True)
class CommitteeSpec:
    """Spec of :class:`CommitteeMap`: the members' row specs, heaviest first, and their weights."""

    parts: tuple[Any, ...]
    weights: tuple[float, ...]

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> CommitteeMap:
        """Return the map with every member fitted."""
        maps = tuple(part.fit(training, n_classes, n_threads) for part in self.parts)
        shares = np.asarray(self.weights, dtype=np.float64)
        return CommitteeMap(maps, shares / shares.sum())


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
