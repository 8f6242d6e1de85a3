"""Training posteriors cut into parts: distinct rows with weights, each in one part.

Rows that are equal in every way are merged and their weights added, so that a weight and as many
repetitions lead to the same parts, the same bags and the same choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdey.posteriors import TrainingPosteriors

Array = NDArray[np.float64]
Floats = NDArray[np.floating]
Codes = NDArray[np.int64]
Indices = NDArray[np.intp]
#: Parts that the training posteriors are cut into.
N_PARTS = 5


@dataclass(frozen=True, eq=False)
class Parts:
    """Distinct rows: ``points`` (m, d), and ``labels``, ``weights``, ``part`` of shape (m,)."""

    points: Floats
    labels: Codes
    weights: Array
    part: Codes

    def take(self, rows: Indices) -> Parts:
        """Return some of the rows."""
        return Parts(self.points[rows], self.labels[rows], self.weights[rows], self.part[rows])


def make_parts(training: TrainingPosteriors, rng: np.random.Generator) -> Parts:
    """Return the training rows in parts.

    Folds of a cross-validation are the parts (in groups, where there are more of them): a held-out
    part then comes from another model than the templates, as every later bag does. Without folds
    each class is dealt into parts by chance.
    """
    points = training.required()
    n = len(points)
    weights = np.ones(n) if training.weights is None else training.weights
    folds = _folds(training)
    part = np.zeros(n, np.int64) if folds is None else folds
    keep = np.flatnonzero(weights > 0)
    merged = _merge(Parts(points, training.labels, weights, part).take(keep))
    return merged if folds is not None else _deal(merged, rng)


def _folds(training: TrainingPosteriors) -> Codes | None:
    """Return the part of each row by its fold; None where there is but one fold."""
    if training.folds is None:
        return None
    names, folds = np.unique(training.folds, return_inverse=True)
    if len(names) < 2:
        return None
    if training.instances is not None:
        # Rows of an instance that was tested several times must not be on both sides.
        _, first, back = np.unique(training.instances, return_index=True, return_inverse=True)
        folds = folds[first][back]
    return np.asarray(folds % N_PARTS, dtype=np.int64)


def _merge(rows: Parts) -> Parts:
    """Return the distinct rows in sorted order, weights added up."""
    order = np.lexsort((*rows.points.T[::-1], rows.labels, rows.part))
    rows = rows.take(order)
    same = (rows.points[1:] == rows.points[:-1]).all(axis=1)
    same &= (rows.labels[1:] == rows.labels[:-1]) & (rows.part[1:] == rows.part[:-1])
    starts = np.flatnonzero(np.concatenate([[True], ~same]))
    first = rows.take(starts)
    return Parts(first.points, first.labels, np.add.reduceat(rows.weights, starts), first.part)


def _deal(rows: Parts, rng: np.random.Generator) -> Parts:
    """Deal the rows of every class to the parts, each part getting the same weight.

    A row that stands for at least as many instances as there are parts (trees give many equal
    posteriors) is shared among all of them; dealt whole, it would leave its part's templates
    without the very place where the class is.
    """
    shared = np.flatnonzero(rows.weights >= N_PARTS)
    whole = np.flatnonzero(rows.weights < N_PARTS)
    part = np.empty(len(whole), dtype=np.int64)
    for label in np.unique(rows.labels[whole]):
        own = rng.permutation(np.flatnonzero(rows.labels[whole] == label))
        w = rows.weights[whole[own]]
        middle = (np.cumsum(w) - w / 2) / w.sum()
        part[own] = np.minimum((middle * N_PARTS).astype(np.int64), N_PARTS - 1)
    picked = np.concatenate([whole, np.repeat(shared, N_PARTS)])
    made = rows.take(picked)
    shares = np.where(made.weights >= N_PARTS, made.weights / N_PARTS, made.weights)
    every = np.tile(np.arange(N_PARTS), len(shared))
    return Parts(made.points, made.labels, shares, np.concatenate([part, every]))
