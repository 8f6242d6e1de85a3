r"""Rows of kernels around class references: KDEy-ML, KDEy-CS and KDEy-L2.

Class references are the training posteriors of each class, in the geometry of the kernel. All KDEy
methods are based on them: the density of class i is the mean of Gaussians at the references of the
class (the equation for p_theta in the paper), weighted if training was.

*Densities* (KDEy-ML) are the logarithms of the k class densities at each instance, without the
normaliser, which all classes share.

*Overlaps* (KDEy-CS, KDEy-L2) are mean kernels between an instance and each class. The product of
two Gaussians of bandwidth h integrates to one Gaussian of bandwidth :math:`\sqrt 2 h` of their
distance (the paper writes 2h; the covariance is 2 h^2 I). So

.. math:: \int p_i q = a_i, \qquad \int p_i p_j = B_{ij}, \qquad \int q^2 = c

are mean kernels at :math:`\sqrt 2 h` between class i and the bag, between classes, and within
the bag, all up to a common normaliser on which neither problem depends.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from kdey._display import warn
from kdey.bags import Array, Bags, Indices, offsets_of
from kdey.kernels import (
    PackedReferences,
    Precision,
    check_bandwidth,
    check_geometry,
    check_precision,
    class_log_sums,
    kernel_means,
    resolve_bandwidth,
    transform,
)
from kdey.posteriors import TrainingPosteriors
from kdey.rows import (
    ArrayRows,
    Derived,
    Replicator,
    RowMap,
    Rows,
    RowSpec,
    TuningEffort,
    fitted,
    no_templates,
)

Floats = NDArray[np.floating]

#: Numbers in memory at a time for the rows of one family.
_MOST_NUMBERS = 1 << 25

#: Number of training points that are examined to detect a bandwidth that is far too small.
_N_PROBES = 64


class BandwidthWarning(UserWarning):
    """The bandwidth is so small or so large that the densities carry little information."""


@dataclass(frozen=True)
class KernelMap(RowMap):
    """Base of the row maps around class references; ``kdey.tuning`` can choose the ``kernel``."""

    kernel: KernelSpec

    if TYPE_CHECKING:
        # For the type checker only: a field of the subclasses, after their parameters.
        @property
        def references(self) -> ClassReferences:
            """The references of the classes."""

    def prepare(self, n_threads: int = 1) -> None:
        """Pack the references."""
        self.references.packed(n_threads)


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
        check_precision(self.precision)

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
        )
        return
    nearest = median_nearest(points)
    if 10.0 * bandwidth < nearest:
        warn(
            f"bandwidth={bandwidth:g} is less than a tenth of the typical distance between "
            f"neighbouring training posteriors ({nearest:.3g}): the densities shrink to nearest "
            "neighbours. A larger bandwidth would help, or more training instances.",
            BandwidthWarning,
        )


def _normalised_weights(weights: Array, offsets: NDArray[np.int64]) -> Array:
    """Return the weights divided by their class mean; only ratios within a class matter.

    The kernel sums are accurate relative to the largest class. Without this, a class with a
    billionth of the weight of another would be skipped even where it alone explains a point.
    """
    mean = np.add.reduceat(weights, offsets[:-1]) / np.diff(offsets)
    return np.asarray(weights / np.repeat(mean, np.diff(offsets)))


def class_references(row_map: RowMap) -> ClassReferences | None:
    """Return the references of the classes, of the first member; None without a kernel."""
    first = row_map.members[0]
    return first.references if isinstance(first, KernelMap) else None


@dataclass(frozen=True)
class PairwiseMap(KernelMap):
    """Base of rows made of kernels between instances and all references, for each class.

    Maps that differ in their bandwidths alone are a *family*: they share one pass over the
    distances.
    """

    references: ClassReferences = fitted()

    @property
    def family(self) -> Hashable:
        """A key shared by the maps that are computed in one pass."""
        return (type(self), *self.kernel.family)

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> Self:
        """Return the map around the training posteriors."""
        around = replace(self, references=self.kernel.fit(training, n_classes))
        return self._completed([around], n_threads)[0]

    def fit_together(
        self,
        specs: Sequence[Self],
        training: TrainingPosteriors,
        n_classes: int,
        n_threads: int = 1,
    ) -> list[Self]:
        """Return the fitted maps of one family; this spec is the first."""
        references = self.kernel.fit_quietly(training, n_classes)
        maps = [replace(spec, references=references.at(spec.kernel)) for spec in specs]
        return self._completed(maps, n_threads)

    def _completed(self, maps: list[Self], n_threads: int) -> list[Self]:
        """Return maps of one family, which have their references, with all else that is learnt."""
        return maps

    def kernel_width(self) -> float:
        """Return the bandwidth of the kernels."""
        return self.references.bandwidth

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> Rows:
        """Return the rows of posteriors of shape (m, k)."""
        return self.rows_together([self], points, n_threads)[0]

    def rows_together(
        self, maps: Sequence[Self], points: NDArray[Any], n_threads: int = 1
    ) -> list[Rows]:
        """Return the rows of ``points`` under maps of one family; this map is the first."""
        x = self.references.coordinates(points)
        widths = [row_map.kernel_width() for row_map in maps]
        logs = self.references.log_means_at(x, widths, n_threads)
        return [self._rows(values, x, w) for values, w in zip(logs, widths, strict=True)]

    def _rows(self, logs: Array, coordinates: Floats, width: float) -> Rows:
        """Return rows, given the logs of the mean kernels to each class, shape (m, k)."""
        return ArrayRows(logs)


def families(specs: Sequence[RowSpec], pool_size: int, n_classes: int) -> list[list[int]]:
    """Return groups of positions of specs that are computed together, in order of appearance.

    A family is split if the rows of all its members would need too much memory.
    """
    grouped: dict[Hashable, list[int]] = {}
    for number, spec in enumerate(specs):
        key = spec.family if isinstance(spec, PairwiseMap) else number
        grouped.setdefault(key, []).append(number)
    limit = max(1, _MOST_NUMBERS // max(1, pool_size * n_classes))
    return [
        members[start : start + limit]
        for members in grouped.values()
        for start in range(0, len(members), limit)
    ]


def fit_family(
    specs: Sequence[RowSpec], training: TrainingPosteriors, n_classes: int, n_threads: int = 1
) -> list[RowMap]:
    """Return the fitted row map of each spec of one family, or of a single spec.

    Parameters
    ----------
    specs : sequence of RowSpec
        A group that :func:`families` returns.
    training : TrainingPosteriors
    n_classes : int
    n_threads : int
    """
    if isinstance(specs[0], PairwiseMap):
        family = cast(Sequence[PairwiseMap], specs)
        return list(family[0].fit_together(family, training, n_classes, n_threads))
    return [spec.fit(training, n_classes, n_threads) for spec in specs]


def family_rows(maps: Sequence[RowMap], points: NDArray[Any], n_threads: int = 1) -> list[Rows]:
    """Return the rows of ``points`` under each of the fitted maps of one family."""
    if isinstance(maps[0], PairwiseMap):
        family = cast(Sequence[PairwiseMap], maps)
        return family[0].rows_together(family, points, n_threads)
    return [row_map(points, n_threads) for row_map in maps]


class KernelDensityMap(PairwiseMap):
    """Row of an instance: the log of the k class kernel densities, up to a common constant."""

    @property
    def templates(self) -> Array:
        """Empty, shape (k, 0): the method has no templates."""
        return no_templates(self.references.n_classes)

    def new_rows(self, training: TrainingPosteriors, picks: Indices, n_threads: int = 1) -> Array:
        """Return the log densities at training instances, each without its own kernel."""
        references, labels = self.references, training.labels[picks]
        order = reference_order(training)
        position = np.full(len(training.labels), -1, dtype=np.int64)
        position[order] = np.arange(len(order))
        positions = position[picks]
        # Without them their class would be empty.
        is_single = np.diff(references.offsets)[labels] < 2
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
    ) -> Replicator:
        """Return a function from training weights to densities: mean kernels to the references.

        The densities at ``points`` are relative to the largest entry of each of their ``rows``.
        """
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


#: References evaluated at a time when the classes are compared with each other.
_CHUNK = 1 << 16


@dataclass(frozen=True)
class OverlapMap(PairwiseMap):
    """Overlap rows; ``templates`` is the Gram matrix B of the class densities, shape (k, k)."""

    templates: Array = fitted()
    # Few references, because the cost of the Gram matrix is their number squared.
    tuning_effort: ClassVar[TuningEffort] = TuningEffort(rows=3_000)

    def _completed(self, maps: list[Self], n_threads: int) -> list[Self]:
        widths = [row_map.kernel_width() for row_map in maps]
        grams = _grams(maps[0].references, widths, n_threads)
        return [replace(row_map, templates=gram) for row_map, gram in zip(maps, grams, strict=True)]

    def kernel_width(self) -> float:
        """Return the kernel's width between two densities, sqrt(2) times the bandwidth."""
        return math.sqrt(2.0) * self.references.bandwidth

    def _rows(self, logs: Array, coordinates: Floats, width: float) -> OverlapRows:
        return OverlapRows(logs, coordinates, width, self.references.spec.precision)


@dataclass(frozen=True, eq=False)
class OverlapRows(Rows):
    """Logs of the mean kernels between instances and classes, shape (m, k)."""

    log_kernels: Array
    coordinates: Floats
    width: float
    precision: Precision = "mixed"

    def __len__(self) -> int:
        """Return the number of instances m."""
        return len(self.log_kernels)

    def mean(self, bags: Bags) -> Array:
        """Return the mean kernel between each bag and each class, shape (n_bags, k)."""
        return bags.mean(np.exp(self.log_kernels))

    def log_mean(self, bags: Bags) -> Array:
        """Return the log of :meth:`mean`, without underflow at any bandwidth."""
        with np.errstate(divide="ignore"):
            out = np.log(self.mean(bags))
        # Bags whose means all underflow are computed again in the log domain.
        for b in np.flatnonzero(out.max(axis=1) < -600.0):
            part = bags[b : b + 1]
            w = part.bag_weights(0)[:, None]
            rows = self.log_kernels[part.indices]
            out[b] = np.asarray(logsumexp(rows, axis=0, b=w)) - math.log(w.sum())
        return out


def _grams(refs: ClassReferences, widths: Sequence[float], n_threads: int) -> Array:
    """Return B at each width: mean kernels between classes, (n_widths, k, k), symmetric."""
    k = len(refs.offsets) - 1
    labels = np.repeat(np.arange(k), np.diff(refs.offsets))
    w = np.ones(len(labels)) if refs.weights is None else refs.weights
    total = np.zeros((len(widths), k, k))
    step = max(1, _CHUNK // len(widths))
    for start in range(0, len(labels), step):
        part = slice(start, start + step)
        kernels = np.exp(refs.log_means_at(refs.points[part], widths, n_threads))
        onehot = np.zeros((k, kernels.shape[1]))
        onehot[labels[part], np.arange(kernels.shape[1])] = w[part]
        total += onehot @ kernels
    grams = total / np.exp(refs.log_mass)[:, None]
    return np.asarray((grams + grams.transpose(0, 2, 1)) / 2.0)
