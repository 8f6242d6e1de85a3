"""What row specs, row maps and rows promise to the rest of the library.

Rows of several specs at once, where they can share the work.

A spec may declare a ``family`` and ``fit_together``, and its maps ``rows_together``: specs of one
family differ in what a single pass can serve (the bandwidth). Specs without one are on their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Bags
from kdey.posteriors import TrainingPosteriors

Array = NDArray[np.float64]


class Rows(Protocol):
    """Rows of a pool's instances, of which bags take means."""

    def mean(self, bags: Bags) -> Array:
        """Return each bag's mean row, shape (n_bags, r)."""


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """Rows held in an array of shape (m, r)."""

    array: Array

    def mean(self, bags: Bags) -> Array:
        """Return each bag's mean row, shape (n_bags, r)."""
        return bags.mean(self.array)


class RowMap(Protocol):
    """A fitted row map: templates of the classes, and rows of instances."""

    @property
    def templates(self) -> Array:
        """What the classes contribute, one column per class."""

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> Any:
        """Return the rows of ``points``, shape (m, d)."""


class RowSpec(Protocol):
    """Parameters of a row map, validated when made."""

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> Any:
        """Return the fitted row map."""


def class_means(
    rows: Array, labels: NDArray[np.int64], n_classes: int, weights: Array | None
) -> Array:
    """Return the (weighted) mean row of each class as columns, shape (r, k)."""
    w = np.ones(len(labels)) if weights is None else weights
    onehot = np.zeros((n_classes, len(labels)))
    onehot[labels, np.arange(len(labels))] = w
    mass = onehot.sum(axis=1, keepdims=True)
    if (mass == 0).any():
        absent = int(np.argmin(mass[:, 0]))
        raise ValueError(f"class number {absent} has no training instance with positive weight")
    means: Array = (onehot @ rows / mass).T
    return np.ascontiguousarray(means)


#: Numbers held at a time in the rows of one family.
_CHUNK = 1 << 25


def families(specs: Sequence[Any], pool_size: int, n_classes: int) -> list[list[int]]:
    """Return the positions of the specs that are made together, first come first.

    A family is cut where the rows of all its members would not fit the memory.
    """
    grouped: dict[Any, list[int]] = {}
    for number, spec in enumerate(specs):
        grouped.setdefault(getattr(spec, "family", ("alone", number)), []).append(number)
    limit = max(1, _CHUNK // max(1, pool_size * n_classes))
    return [
        members[start : start + limit]
        for members in grouped.values()
        for start in range(0, len(members), limit)
    ]


def rows_of_family(
    specs: Sequence[Any],
    training: TrainingPosteriors,
    points: NDArray[Any],
    n_classes: int,
    n_threads: int = 1,
    *,
    quick: bool = False,
) -> Iterator[tuple[Any, Any]]:
    """Yield the fitted row map and the rows of ``points`` of each spec of one family.

    ``quick`` takes a map's ``quick_rows``, where it has them.
    """
    if hasattr(specs[0], "fit_together"):
        maps = specs[0].fit_together(specs, training, n_classes, n_threads)
        yield from zip(maps, maps[0].rows_together(maps, points, n_threads), strict=True)
        return
    for spec in specs:
        row_map = spec.fit(training, n_classes, n_threads)
        make = getattr(row_map, "quick_rows", row_map) if quick else row_map
        yield row_map, make(points, n_threads)
