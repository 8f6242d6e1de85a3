"""What row specs, row maps and rows promise to the rest of the library."""

from __future__ import annotations

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
