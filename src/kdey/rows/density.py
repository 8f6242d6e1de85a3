"""Kernel density rows: the k class densities at each instance, for KDEy-ML.

The density of class i is the mean of Gaussian kernels at the training posteriors of the class
(``references.py``); rows are its logarithms without the normaliser, which all classes share.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Bags, offsets_of
from kdey.kernels.means import kernel_means
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import (
    Array,
    ArrayRows,
    DensityReplicator,
    Indices,
    Rows,
    no_templates,
)
from kdey.rows.references import ClassReferences, KernelMap, KernelRowSpec, reference_order


@dataclass(frozen=True)
class DensityRows(KernelRowSpec):
    """Spec of :class:`DensityMap`."""

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> DensityMap:
        """Return the map around the training posteriors."""
        return DensityMap(self.kernel.fit(training, n_classes))

    @property
    def family(self) -> Hashable:
        """Specs with the same key share one pass over the distances, and so do their rows."""
        return ("density", *self.kernel.family)

    def fit_together(
        self,
        specs: Sequence[Self],
        training: TrainingPosteriors,
        n_classes: int,
        n_threads: int = 1,
    ) -> list[DensityMap]:
        """Return the maps of specs of one family."""
        references = self.kernel.fit_quietly(training, n_classes)
        return [DensityMap(references.at(spec.kernel)) for spec in specs]


@dataclass(frozen=True, eq=False)
class DensityMap(KernelMap):
    """Row of an instance: the log of the k class kernel densities, up to a common constant."""

    references: ClassReferences

    @property
    def templates(self) -> Array:
        """Empty, shape (k, 0): the method has no templates."""
        return no_templates(self.references.n_classes)

    def kernel_width(self) -> float:
        """Return the bandwidth."""
        return self.references.bandwidth

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> ArrayRows:
        """Return the log densities at posteriors of shape (m, k)."""
        return self.rows_together([self], points, n_threads)[0]

    def rows_together(
        self, maps: Sequence[Self], points: NDArray[Any], n_threads: int = 1
    ) -> list[ArrayRows]:
        """Return the rows of ``points`` under maps of one family, in one pass over distances."""
        widths = [row_map.kernel_width() for row_map in maps]
        coordinates = self.references.coordinates(points)
        return [
            ArrayRows(logs) for logs in self.references.log_means_at(coordinates, widths, n_threads)
        ]

    def new_rows(self, training: TrainingPosteriors, picks: Indices, n_threads: int = 1) -> Array:
        """Return the log densities at training instances, each without its own kernel."""
        references, labels = self.references, training.labels[picks]
        order = reference_order(training)
        position = np.full(len(training.labels), -1, dtype=np.int64)
        position[order] = np.arange(len(order))
        positions = position[picks]
        is_single = (
            np.diff(references.offsets)[labels] < 2
        )  # their class would be empty without them
        sums = references.packed(n_threads).log_sums(
            references.points[positions],
            [references.bandwidth],
            exclude=np.where(is_single, -1, positions),
            n_threads=n_threads,
        )[0]
        mass = np.tile(np.exp(references.log_mass), (len(picks), 1))
        weights = (
            np.ones(len(picks)) if references.weights is None else references.weights[positions]
        )
        mass[np.arange(len(picks)), labels] -= np.where(is_single, 0.0, weights)
        return np.asarray(sums - np.log(mass))

    def replicate_densities(
        self, points: NDArray[Any], rows: Rows, training: TrainingPosteriors, n_threads: int = 1
    ) -> DensityReplicator:
        """Return a function that computes mean kernels to reweighted references."""
        references = self.references
        coordinates, scale = references.coordinates(points), rows.each().max(axis=1)
        order = reference_order(training)

        def replicate(weights: Array) -> Array:
            reweighted = weights[:, order]
            densities = np.empty((len(reweighted), len(coordinates), references.n_classes))
            for i in range(references.n_classes):
                part = slice(int(references.offsets[i]), int(references.offsets[i + 1]))
                densities[:, :, i] = kernel_means(
                    coordinates,
                    scale,
                    references.points[part],
                    _bags_of_weights(reweighted[:, part]),
                    references.bandwidth,
                    n_threads,
                    quick=True,
                )
            return densities

        return replicate


def _bags_of_weights(weights: Array) -> Bags:
    """Return weights of shape (n, r), with no row all zero, as n bags over r instances."""
    replicate, position = np.nonzero(weights)
    offsets = offsets_of(np.count_nonzero(weights, axis=1))
    values = weights[replicate, position]
    return Bags(position.astype(np.int64), offsets, weights.shape[1], values)
