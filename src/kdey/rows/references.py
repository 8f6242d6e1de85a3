"""Class references: the training posteriors of each class, in the geometry of the kernel.

All KDEy methods are based on them: the density of class i is the mean of Gaussians at the
references of the class (the equation for p_theta in the paper), weighted if training was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kdey._support.derived import Derived
from kdey._support.warnings import warn
from kdey.bags import offsets_of
from kdey.kernels import class_log_sums, resolve_bandwidth, transform
from kdey.kernels.bandwidth import check_bandwidth
from kdey.kernels.geometry import check_geometry
from kdey.kernels.packed import PackedReferences
from kdey.kernels.sums import Precision
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import RowMap, RowSpec

Array = NDArray[np.float64]
Floats = NDArray[np.floating]
#: Number of training points that are examined to detect a bandwidth that is far too small.
_N_PROBES = 64


class BandwidthWarning(UserWarning):
    """The bandwidth is so small or so large that the densities carry little information."""


@dataclass(frozen=True)
class KernelRowSpec(RowSpec):
    """Base of row specs with a kernel, whose parameters ``kdey.tuning`` can choose."""

    kernel: KernelSpec

    def with_kernel(self, kernel: KernelSpec) -> Self:
        """Return the spec with another kernel."""
        return replace(self, kernel=kernel)

    @property
    def uses_kernels(self) -> bool:
        """True: rows are averages over kernels."""
        return True


class KernelMap(RowMap):
    """Base of the row maps around class references. Subclasses have a field ``references``."""

    references: ClassReferences

    def class_references(self) -> ClassReferences:
        """Return the references."""
        return self.references

    def prepare(self, n_threads: int = 1) -> None:
        """Pack the references."""
        self.references.packed(n_threads)

    def n_pairs(self, n_points: int) -> float:
        """Return how many kernel values the rows of ``n_points`` instances take."""
        return float(n_points) * len(self.references.points)


@dataclass(frozen=True)
class KernelSpec:
    """The parameters of the kernel, which all KDEy methods share, validated on construction.

    Attributes
    ----------
    bandwidth : float or {"scott", "silverman"}
    kernel : {"gaussian", "aitchison", "ilr"}
    shrinkage : float
        Only for log-ratios; see :func:`kdey.kernels.transform`.
    precision : {"mixed", "double"}
    """

    bandwidth: float | str
    kernel: str
    shrinkage: float
    precision: Precision = "mixed"

    def __post_init__(self) -> None:
        check_bandwidth(self.bandwidth)
        check_geometry(self.kernel, self.shrinkage)
        if not isinstance(self.precision, str) or self.precision not in ("mixed", "double"):
            raise ValueError(f"precision must be 'mixed' or 'double', got {self.precision!r}")

    @property
    def family(self) -> tuple[Any, ...]:
        """What kernels must have in common to be evaluated in one pass over the distances."""
        return (self.kernel, self.shrinkage, self.precision)

    def fit(self, training: TrainingPosteriors, n_classes: int) -> ClassReferences:
        """Return the references sorted by class, with the bandwidth as a number."""
        references = self.fit_quietly(training, n_classes)
        _warn_extreme_bandwidth(references.bandwidth, references.points, references.offsets)
        return references

    def fit_quietly(self, training: TrainingPosteriors, n_classes: int) -> ClassReferences:
        """As :meth:`fit`, without warnings about the bandwidth: tuning tries extreme ones."""
        points = np.asarray(transform(training.required(), self.kernel, self.shrinkage))
        order = reference_order(training)
        counts = np.bincount(training.labels[order], minlength=n_classes)
        if (counts == 0).any():
            absent = int(np.argmin(counts))
            raise ValueError(f"class number {absent} has no training posterior to build on")
        weights = None if training.weights is None else training.weights[order]
        offsets = offsets_of(counts)
        points = np.ascontiguousarray(points[order])
        if weights is not None:
            weights = _normalised_weights(weights, offsets)
        h = resolve_bandwidth(self.bandwidth, points, offsets, weights)
        return ClassReferences(points, offsets, weights, h, self)


@dataclass(frozen=True, eq=False)
class ClassReferences(Derived):
    """References sorted by class: ``points`` (n, k), class i at ``offsets[i]:offsets[i + 1]``.

    They are packed for the native core on first use, and stay packed (:meth:`packed`).
    """

    points: Floats
    offsets: NDArray[np.int64]
    weights: Array | None
    bandwidth: float
    spec: KernelSpec

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return len(self.offsets) - 1

    @property
    def log_mass(self) -> Array:
        """Log of the number (or total weight) of references of each class, shape (k,)."""
        return self.derived("log_mass", self._log_mass)

    def _log_mass(self) -> Array:
        w = np.ones(len(self.points)) if self.weights is None else self.weights
        mass = np.asarray(np.log(np.add.reduceat(w, self.offsets[:-1])), dtype=np.float64)
        mass.flags.writeable = False  # all callers share it
        return mass

    def packed(self, n_threads: int = 1) -> PackedReferences:
        """Return the references packed for the kernel sums, packed once."""
        return self.derived(
            "packed",
            lambda: PackedReferences(
                self.points,
                self.offsets,
                self.weights,
                precision=self.spec.precision,
                n_threads=n_threads,
            ),
        )

    def coordinates(self, posteriors: NDArray[Any]) -> Floats:
        """Return posteriors of shape (m, k) in the geometry of the kernel."""
        return transform(posteriors, self.spec.kernel, self.spec.shrinkage)

    def at(self, spec: KernelSpec) -> ClassReferences:
        """Return the same references with the bandwidth of another spec of the family."""
        h = resolve_bandwidth(spec.bandwidth, self.points, self.offsets, self.weights)
        other = replace(self, bandwidth=h, spec=spec)
        if spec.precision == self.spec.precision:
            # Shared, because the packed form does not depend on the bandwidth.
            other.__dict__["_derived"] = self.__dict__.setdefault("_derived", {})
        return other

    def log_means(self, coordinates: Floats, bandwidth: float, n_threads: int) -> Array:
        """Return the log of the mean kernel to each class, shape (m, k), without normaliser."""
        logs: Array = self.log_means_at(coordinates, [bandwidth], n_threads)[0]
        return logs

    def log_means_at(
        self, coordinates: Floats, bandwidths: Sequence[float], n_threads: int
    ) -> Array:
        """Return :meth:`log_means` at several bandwidths in one pass, (n_bandwidths, m, k)."""
        sums = self.packed(n_threads).log_sums(coordinates, bandwidths, n_threads=n_threads)
        sums -= self.log_mass
        return sums


def reference_order(training: TrainingPosteriors) -> NDArray[np.int64]:
    """Return the training row of each reference: rows of positive weight, sorted by class."""
    order = np.argsort(training.labels, kind="stable")
    return order if training.weights is None else order[training.weights[order] > 0]


def median_nearest(points: Floats) -> float:
    """Return the median distance between references and their nearest neighbours.

    An evenly spaced selection of the references is used.
    """
    picks = np.unique(np.linspace(0, len(points) - 1, _N_PROBES).astype(np.int64))
    if len(points) < 2:
        return 0.0
    # Log-sums at a tiny bandwidth are dominated by the nearest reference: -d^2 / (2 h^2).
    h = 1e-3
    sums = class_log_sums(
        points[picks], points, [0, len(points)], [h], exclude=picks, precision="double"
    )[0, :, 0]
    return float(np.median(np.sqrt(np.maximum(-2.0 * h * h * sums, 0.0))))


def _warn_extreme_bandwidth(bandwidth: float, points: Floats, offsets: NDArray[np.int64]) -> None:
    """Warn if all class densities are nearly equal, or shrink to nearest neighbours."""
    spread = float(np.sqrt(points.var(axis=0, dtype=np.float64).sum()))
    if bandwidth > 2.0 * spread:
        warn(
            f"bandwidth={bandwidth:g} is more than twice the spread of the training posteriors "
            f"({spread:.3g}): all class densities look alike and the estimate says little. "
            "A smaller bandwidth would help, or a classifier whose posteriors vary more.",
            BandwidthWarning,
            stacklevel=2,
        )
        return
    nearest = median_nearest(points)
    if 10.0 * bandwidth < nearest:
        warn(
            f"bandwidth={bandwidth:g} is less than a tenth of the typical distance between "
            f"neighbouring training posteriors ({nearest:.3g}): the densities shrink to nearest "
            "neighbours. A larger bandwidth would help, or more training instances.",
            BandwidthWarning,
            stacklevel=2,
        )


def _normalised_weights(weights: Array, offsets: NDArray[np.int64]) -> Array:
    """Return the weights divided by their class mean; only ratios within a class matter.

    The kernel sums are accurate relative to the largest class. Without this, a class with a
    billionth of the weight of another would be skipped even where it alone explains a point.
    """
    mean = np.add.reduceat(weights, offsets[:-1]) / np.diff(offsets)
    return np.asarray(weights / np.repeat(mean, np.diff(offsets)))
