"""Bags as they would be if nothing but the prevalence had changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kdey.diagnostics.densities import Array, Indices, TrainingDensities


def null_positions(
    training: TrainingDensities,
    prevalence: Array,
    size: int,
    n_bags: int,
    rng: np.random.Generator,
) -> Indices:
    """Return bags drawn from the training points at ``prevalence``, positions (n_bags, size).

    The training points are themselves a draw from the classes, and the check compares a bag
    with them: each bag comes from training classes that were redrawn (bootstrapped) for it, so
    that the null spreads by the bag's size and by the training set's.
    """
    k = training.n_classes
    counts = rng.multinomial(size, prevalence / prevalence.sum(), size=n_bags)
    classes = np.repeat(np.tile(np.arange(k), n_bags), counts.ravel()).reshape(n_bags, size)
    positions = np.empty((n_bags, size), dtype=np.int64)
    for i in np.flatnonzero(counts.any(axis=0)):
        own = classes == i
        redrawn = _redraw(training, int(i), n_bags, rng)
        slots = rng.integers(redrawn.shape[1], size=np.count_nonzero(own))
        positions[own] = redrawn[np.nonzero(own)[0], slots]
    return positions


def _redraw(
    training: TrainingDensities, i: int, n_bags: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Return the references of class i redrawn for every bag, shape (n_bags, n_i)."""
    first, last = (int(end) for end in training.references.offsets[i : i + 2])
    shape = (n_bags, last - first)
    if training.references.weights is None:
        return rng.integers(first, last, size=shape, dtype=np.int32)
    edges = np.cumsum(training.class_weights[first:last])
    drawn = np.searchsorted(edges / edges[-1], rng.random(shape), side="right")
    return np.asarray(first + np.minimum(drawn, shape[1] - 1), dtype=np.int32)
