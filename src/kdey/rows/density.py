"""Density rows: the class densities at each instance, as KDEy-ML and DIR need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.kernels.geometry import check_shrinkage
from kdey.posteriors import TrainingPosteriors
from kdey.rows.dirichlet_fit import dirichlet_log_density, fit_dirichlet, shrink_zeros
from kdey.rows.interface import Array, ArrayRows
from kdey.rows.references import ClassReferences, KernelSpec


@dataclass(frozen=True, eq=False)
class DensityMap:
    """Row of an instance: the log of the k class kernel densities, up to a common constant."""

    references: ClassReferences

    @property
    def templates(self) -> Array:
        """No template: empty, shape (k, 0)."""
        return np.empty((len(self.references.offsets) - 1, 0))

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> ArrayRows:
        """Return the log densities at posteriors of shape (m, k)."""
        return self.rows_together([self], points, n_threads)[0]

    @staticmethod
    def rows_together(
        maps: Sequence[DensityMap], points: NDArray[Any], n_threads: int = 1
    ) -> list[ArrayRows]:
        """Return the rows of ``points`` under maps of one family, in one pass over distances."""
        refs = maps[0].references
        widths = [one.references.bandwidth for one in maps]
        return [
            ArrayRows(a) for a in refs.log_means_at(refs.coordinates(points), widths, n_threads)
        ]


@dataclass(frozen=True)
class DensityRows:
    """Spec of :class:`DensityMap`."""

    kernel: KernelSpec

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> DensityMap:
        """Return the map around the training posteriors."""
        return DensityMap(self.kernel.fit(training, n_classes))

    @property
    def family(self) -> tuple[Any, ...]:
        """Specs with the same family are fitted, and their rows made, together."""
        return ("density", *self.kernel.family)

    @staticmethod
    def fit_together(
        specs: Sequence[DensityRows],
        training: TrainingPosteriors,
        n_classes: int,
        n_threads: int = 1,
    ) -> list[DensityMap]:
        """Return the maps of specs of one family."""
        refs = specs[0].kernel.fit_quietly(training, n_classes)
        return [DensityMap(refs.at(spec.kernel)) for spec in specs]


@dataclass(frozen=True, eq=False)
class DirichletMap:
    """Row of an instance: the log of the k class Dirichlet densities.

    ``parameters`` has shape (k, k): row i is the Dirichlet fitted to training class i.
    """

    parameters: Array
    shrinkage: float

    @property
    def templates(self) -> Array:
        """No template: empty, shape (k, 0)."""
        return np.empty((len(self.parameters), 0))

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> ArrayRows:
        """Return the log densities at posteriors of shape (m, k)."""
        return ArrayRows(
            dirichlet_log_density(shrink_zeros(points, self.shrinkage), self.parameters)
        )


@dataclass(frozen=True)
class DirichletRows:
    """Spec of :class:`DirichletMap`; ``shrinkage`` keeps exact zeros finite."""

    shrinkage: float

    def __post_init__(self) -> None:
        check_shrinkage(self.shrinkage)

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> DirichletMap:
        """Return the map with one maximum likelihood Dirichlet per class."""
        points = shrink_zeros(training.required(), self.shrinkage)
        weights = training.weights
        parameters = [
            fit_dirichlet(points[own], None if weights is None else weights[own]).alpha
            for own in (training.labels == i for i in range(n_classes))
        ]
        return DirichletMap(np.array(parameters), self.shrinkage)
