"""Composites: several row maps of the same instances, whose estimates are combined.

The matching combines them (``kdey.matching.composite``): the estimates of a committee are averaged
with weights, and those of a stack are reduced to their median.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Bags
from kdey.decisions import ClassifierOutput, strictest
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import Array, Indices, RowMap, Rows, RowSpec
from kdey.rows.references import ClassReferences


@dataclass(frozen=True, eq=False)
class CompositeRows(Rows):
    """The rows of each member; a request for a single set of rows gets those of the first."""

    parts: tuple[Rows, ...]

    def __len__(self) -> int:
        """Return the number of instances m."""
        return len(self.parts[0])

    def mean(self, bags: Bags) -> Array:
        """Return the mean row of each bag under the first member."""
        return self.parts[0].mean(bags)

    def each(self) -> Array:
        """Return the row of every instance under the first member."""
        return self.parts[0].each()

    @property
    def members(self) -> tuple[Rows, ...]:
        """The rows of each member."""
        return self.parts


class _CompositeMap(RowMap):
    """Base of row maps with several members; the first member represents the whole."""

    parts: tuple[RowMap, ...]

    @property
    def templates(self) -> Array:
        """The templates of the first member."""
        return self.parts[0].templates

    @property
    def members(self) -> tuple[RowMap, ...]:
        """The members, heaviest first."""
        return self.parts

    def __iter__(self) -> Iterator[RowMap]:
        """Iterate over the members."""
        return iter(self.parts)

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> CompositeRows:
        """Return the rows of ``points`` under each member."""
        return CompositeRows(tuple(part(points, n_threads) for part in self.parts))

    def prepare(self, n_threads: int = 1) -> None:
        """Prepare each member."""
        for part in self.parts:
            part.prepare(n_threads)

    def new_rows(
        self, training: TrainingPosteriors, picks: Indices, n_threads: int = 1
    ) -> NDArray[np.floating]:
        """Return rows of training instances under the first member, as if they were new."""
        return self.parts[0].new_rows(training, picks, n_threads)

    def class_references(self) -> ClassReferences | None:
        """Return the references of the first member."""
        return self.parts[0].class_references()

    def starting_prevalence(self) -> Array | None:
        """Return the starting prevalence of the first member."""
        return self.parts[0].starting_prevalence()

    def n_pairs(self, n_points: int) -> float:
        """Return the total cost of all members, in kernel values."""
        return sum(part.n_pairs(n_points) for part in self.parts)


@dataclass(frozen=True, eq=False)
class CommitteeMap(_CompositeMap):
    """The fitted row map of each member, heaviest first, with ``weights`` that sum to one."""

    parts: tuple[RowMap, ...]
    weights: Array

    @property
    def shares(self) -> Array:
        """The weights of the members, shape (n_members,)."""
        return self.weights

    def keep_members(self, positions: Sequence[int]) -> CommitteeMap:
        """Return the committee of the members at ``positions``, with weights in proportion."""
        weights = self.weights[list(positions)]
        return CommitteeMap(tuple(self.parts[i] for i in positions), weights / weights.sum())


@dataclass(frozen=True)
class CommitteeSpec(RowSpec):
    """Spec of ``CommitteeMap``: the members' row specs, heaviest first, and their weights."""

    parts: tuple[RowSpec, ...]
    weights: tuple[float, ...]

    @property
    def uses_kernels(self) -> bool:
        """Whether any member uses kernels."""
        return any(part.uses_kernels for part in self.parts)

    @property
    def members(self) -> tuple[RowSpec, ...]:
        """The members' specs."""
        return self.parts

    def keep_members(self, positions: Sequence[int]) -> CommitteeSpec:
        """Return the committee of the members at ``positions``, with weights in proportion."""
        weights = tuple(self.weights[i] for i in positions)
        return CommitteeSpec(tuple(self.parts[i] for i in positions), weights)

    @property
    def needs(self) -> ClassifierOutput:
        """What the most demanding member needs of a classifier."""
        return strictest(part.needs for part in self.parts)

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> CommitteeMap:
        """Return the map with every member fitted."""
        maps = tuple(part.fit(training, n_classes, n_threads) for part in self.parts)
        shares = np.asarray(self.weights, dtype=np.float64)
        return CommitteeMap(maps, shares / shares.sum())


@dataclass(frozen=True, eq=False)
class StackedMap(_CompositeMap):
    """The fitted row map of each part (HDy's numbers of bins)."""

    parts: tuple[RowMap, ...]


@dataclass(frozen=True)
class StackedSpec(RowSpec):
    """Spec of ``StackedMap``: one row spec per part."""

    parts: tuple[RowSpec, ...]

    @property
    def members(self) -> tuple[RowSpec, ...]:
        """The parts' specs."""
        return self.parts

    @property
    def needs(self) -> ClassifierOutput:
        """What the most demanding member needs of a classifier."""
        return strictest(part.needs for part in self.parts)

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> StackedMap:
        """Return the map with every part fitted."""
        return StackedMap(tuple(part.fit(training, n_classes, n_threads) for part in self.parts))
