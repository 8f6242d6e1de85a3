"""Bags as they would be if nothing but the prevalence had changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    counts = rng.multinomial(size, prevalence / prevalence.sum(), size=n_bags)
    positions = np.empty((n_bags, size), dtype=np.int64)
    ends = np.cumsum(counts, axis=1)
    starts = ends - counts
    for i in range(training.n_classes):
        pick = _Picker.of(training, i)
        for bag in np.flatnonzero(counts[:, i]):
            redrawn = pick(rng, training.counts[i])
            chosen = redrawn[rng.integers(len(redrawn), size=counts[bag, i])]
            positions[bag, starts[bag, i] : ends[bag, i]] = chosen
    return positions


@dataclass(frozen=True, eq=False)
class _Picker:
    """Draws references of one class, in proportion to their weights where they have some."""

    first: int
    n: int
    edges: Array | None

    @classmethod
    def of(cls, training: TrainingDensities, i: int) -> _Picker:
        first, last = (int(end) for end in training.references.offsets[i : i + 2])
        edges = np.cumsum(training.class_weights[first:last])
        weighted = training.references.weights is not None
        return cls(first, last - first, edges / edges[-1] if weighted else None)

    def __call__(self, rng: np.random.Generator, size: int) -> Indices:
        if self.edges is None:
            return self.first + rng.integers(self.n, size=size)
        drawn = np.searchsorted(self.edges, rng.random(size), side="right")
        return self.first + np.minimum(drawn, self.n - 1)
