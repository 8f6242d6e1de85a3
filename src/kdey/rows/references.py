"""Class references: the training posteriors of each class, in the kernel's geometry.

Every KDEy method stands on these: the density of class i is a Gaussian at each of its references
(the paper's equation for p_theta), with weights where training had them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kdey._support.warnings import warn
from kdey.bags import offsets_of
from kdey.kernels import class_log_sums, resolve_bandwidth, transform
from kdey.kernels.bandwidth import check_bandwidth
from kdey.kernels.geometry import check_geometry
from kdey.kernels.sums import Precision
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import RowSpec

Array = NDArray[np.float64]
Floats = NDArray[np.floating]
#: Training points looked at when judging whether a bandwidth is absurdly small.
_PROBE = 64


class BandwidthWarning(UserWarning):
    """The bandwidth is so small or so large that the densities say little."""


@dataclass(frozen=True)
class KernelSpec:
    """The kernel's parameters, shared by all KDEy methods and validated here.

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
        """What kernels must share for one pass over the distances to serve their bandwidths."""
        return (self.kernel, self.shrinkage, self.precision)

    def fit(self, training: TrainingPosteriors, n_classes: int) -> ClassReferences:
        """Return the references sorted by class, with the bandwidth as a number."""
        references = self.fit_quietly(training, n_classes)
        _warn_absurd(references.bandwidth, references.points, references.offsets)
        return references

    def fit_quietly(self, training: TrainingPosteriors, n_classes: int) -> ClassReferences:
        """As :meth:`fit`, without a word on a bandwidth that may just be tried out."""
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
            weights = _levelled(weights, offsets)
        h = resolve_bandwidth(self.bandwidth, points, offsets, weights)
        return ClassReferences(points, offsets, weights, h, self)


@dataclass(frozen=True)
class KernelRowSpec(RowSpec):
    """Base of row specs with a kernel, whose parameters can be chosen (``kdey.tuning``)."""

    kernel: KernelSpec

    def with_kernel(self, kernel: KernelSpec) -> Self:
        """Return the spec with another kernel."""
        return replace(self, kernel=kernel)


@dataclass(frozen=True, eq=False)
class ClassReferences:
    """References sorted by class: ``points`` (n, k), class i at ``offsets[i]:offsets[i + 1]``."""

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
        w = np.ones(len(self.points)) if self.weights is None else self.weights
        return np.asarray(np.log(np.add.reduceat(w, self.offsets[:-1])), dtype=np.float64)

    def coordinates(self, posteriors: NDArray[Any]) -> Floats:
        """Return posteriors of shape (m, k) in the kernel's geometry."""
        return transform(posteriors, self.spec.kernel, self.spec.shrinkage)

    def at(self, spec: KernelSpec) -> ClassReferences:
        """Return the same references with the bandwidth of another spec of the family."""
        h = resolve_bandwidth(spec.bandwidth, self.points, self.offsets, self.weights)
        return replace(self, bandwidth=h, spec=spec)

    def log_means(self, coordinates: Floats, bandwidth: float, n_threads: int) -> Array:
        """Return the log of the mean kernel to each class, shape (m, k), without normaliser."""
        one: Array = self.log_means_at(coordinates, [bandwidth], n_threads)[0]
        return one

    def log_means_at(
        self, coordinates: Floats, bandwidths: Sequence[float], n_threads: int
    ) -> Array:
        """As :meth:`log_means` for several bandwidths in one pass, shape (n_bandwidths, m, k)."""
        sums = class_log_sums(
            coordinates,
            self.points,
            self.offsets,
            bandwidths,
            weights=self.weights,
            precision=self.spec.precision,
            n_threads=n_threads,
        )
        sums -= self.log_mass
        return sums


def reference_order(training: TrainingPosteriors) -> NDArray[np.int64]:
    """Return the training rows behind the references, one each: by class, those with a weight."""
    order = np.argsort(training.labels, kind="stable")
    return order if training.weights is None else order[training.weights[order] > 0]


def _warn_absurd(bandwidth: float, points: Floats, offsets: NDArray[np.int64]) -> None:
    """Warn where the densities cannot tell classes apart, or shrink to nearest neighbours."""
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


def median_nearest(points: Floats) -> float:
    """Return the median distance of evenly picked references to their nearest other one."""
    picks = np.unique(np.linspace(0, len(points) - 1, _PROBE).astype(np.int64))
    if len(points) < 2:
        return 0.0
    # Log-sums at a tiny bandwidth are dominated by the nearest reference: -d^2 / (2 h^2).
    h = 1e-3
    sums = class_log_sums(
        points[picks], points, [0, len(points)], [h], exclude=picks, precision="double"
    )[0, :, 0]
    return float(np.median(np.sqrt(np.maximum(-2.0 * h * h * sums, 0.0))))


def _levelled(weights: Array, offsets: NDArray[np.int64]) -> Array:
    """Return the weights over their class's mean: only ratios within a class matter.

    The kernel sums are exact to what counts beside the largest class, so a class that weighs a
    billionth of another would be left out where it is the only one that explains a point.
    """
    mean = np.add.reduceat(weights, offsets[:-1]) / np.diff(offsets)
    return np.asarray(weights / np.repeat(mean, np.diff(offsets)))
