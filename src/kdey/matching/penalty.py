r"""A convex problem with a quadratic penalty on the prevalence (ordered classes, RLLS).

.. math:: f(\alpha) + \tfrac12 \| L \alpha - c \|^2
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Bags
from kdey.classifiers import ClassifierOutput
from kdey.matching.base import (
    BagSummary,
    Composite,
    DeviceProblem,
    IntervalSource,
    Matching,
    Problem,
    Solution,
    check_array,
    frank_wolfe_gap,
    means_on_device,
    with_fields,
)
from kdey.matching.sqp import solve_sqp
from kdey.posteriors import TrainingPosteriors
from kdey.rows.base import Array, Indices, RowMap, Rows, RowSpec, TuningEffort, TuningRecord, fitted
from kdey.rows.kernel import ClassReferences

#: Confidence of RLLS's bound on the error of the templates, and the factor by which its authors
#: multiply three times that bound.
RLLS_DELTA, RLLS_FACTOR = 0.05, 0.01

#: Classes that weights make rarer than this are penalised as if they were as frequent.
_SMALLEST_PREVALENCE = 1e-12


@dataclass(frozen=True, eq=False)
class Penalty:
    r"""A quadratic penalty on prevalences, :math:`\tfrac12 \| L \alpha - c \|^2`.

    Attributes
    ----------
    matrix : array of shape (p, k)
        L.
    centre : array of shape (p,)
        c.
    """

    matrix: Array
    centre: Array


class PenaltySpec(Protocol):
    """Parameters of a penalty."""

    def fit(self, training: TrainingPosteriors, n_classes: int) -> Penalty:
        """Return the penalty for these training data."""


@dataclass(frozen=True)
class Smoothness:
    r"""The penalty :math:`\tfrac{\tau}{2} \sum_i (\alpha_{i-1} - 2 \alpha_i + \alpha_{i+1})^2`.

    ``strength`` is :math:`\tau`. Two classes have no second difference, and no penalty.
    """

    strength: float

    def __post_init__(self) -> None:
        _check_strength(self.strength)

    def fit(self, training: TrainingPosteriors, n_classes: int) -> Penalty:
        """Return the penalty; the classes are ordered as their codes are."""
        differences = second_differences(n_classes)
        return Penalty(math.sqrt(self.strength) * differences, np.zeros(len(differences)))


@dataclass(frozen=True)
class RatioShrinkage:
    r"""The penalty :math:`\tfrac{\tau}{2} \sum_i (\alpha_i / \pi_i - 1)^2`.

    ``strength`` is :math:`\tau`, with :math:`\pi` the training prevalence. None is RLLS's
    finite-sample rule for n training instances: the square of 0.01 times 3 times the bound

    .. math:: \frac{2 \log(2k / \delta)}{3 n} + \sqrt{\frac{2 \log(2k / \delta)}{n}},
              \qquad \delta = 0.05.
    """

    strength: float | None = None

    def __post_init__(self) -> None:
        if self.strength is not None:
            _check_strength(self.strength)

    def fit(self, training: TrainingPosteriors, n_classes: int) -> Penalty:
        """Return the penalty for the training prevalence."""
        mass = np.bincount(training.labels, weights=training.weights, minlength=n_classes)
        strength = self.strength
        if strength is None:
            strength = finite_sample_strength(n_classes, float(mass.sum()))
        root = math.sqrt(strength)
        prevalence = np.maximum(mass / mass.sum(), _SMALLEST_PREVALENCE)
        return Penalty(np.diag(root / prevalence), np.full(n_classes, root))


def second_differences(n_classes: int) -> Array:
    """Return the matrix that takes second differences, shape (k - 2, k), or (0, k) if k < 3."""
    matrix = np.zeros((max(n_classes - 2, 0), n_classes))
    for row in range(len(matrix)):
        matrix[row, row : row + 3] = (1.0, -2.0, 1.0)
    return matrix


def finite_sample_strength(n_classes: int, n_instances: float) -> float:
    """Return RLLS's strength for a number of training instances."""
    logs = math.log(2.0 * n_classes / RLLS_DELTA)
    bound = 2.0 * logs / (3.0 * n_instances) + math.sqrt(2.0 * logs / n_instances)
    return (RLLS_FACTOR * 3.0 * bound) ** 2


@dataclass(frozen=True)
class PenalisedMap(RowMap):
    """The rows ``inner``, with a penalty on prevalences; all else is that of the rows.

    Before the fit, ``inner`` may be any row spec; after it, ``penalty`` is the penalty ``added``
    for the training data.
    """

    inner: RowSpec
    added: PenaltySpec
    penalty: Penalty = fitted()

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> PenalisedMap:
        """Return the fitted rows with the fitted penalty."""
        inner = self.inner.fit(training, n_classes, n_threads)
        return replace(self, inner=inner, penalty=self.added.fit(training, n_classes))

    def on_device(self, device: str) -> RowSpec:
        """Return the spec whose inner rows are chosen on a device."""
        return replace(self, inner=self.inner.on_device(device))

    def settle(
        self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1
    ) -> tuple[TuningRecord | None, RowSpec]:
        """Return the record of the inner rows' automatic choice, and the spec with it made."""
        record, inner = self.inner.settle(training, n_classes, n_threads)
        return record, replace(self, inner=inner)

    def for_tuning(self, seed: int) -> RowSpec:
        """Return a cheaper version for tuning."""
        return replace(self, inner=self.inner.for_tuning(seed))

    @property
    def needs(self) -> ClassifierOutput:
        """What the inner rows need of a classifier."""
        return self.inner.needs

    @property
    def tuning_effort(self) -> TuningEffort:
        """The effort of the inner rows, with fewer bags: penalised problems cost more."""
        effort = self.inner.tuning_effort
        return TuningEffort(min(effort.bags, 60), effort.rows)

    @property
    def rows(self) -> RowMap:
        """The rows, once they are fitted."""
        return cast(RowMap, self.inner)

    @property
    def templates(self) -> Array:
        """The templates of the rows, shape (r, k)."""
        return self.rows.templates

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> Rows:
        """Return the rows of ``points``, shape (m, d)."""
        return self.rows(points, n_threads)

    def prepare(self, n_threads: int = 1) -> None:
        """Prepare the rows."""
        self.rows.prepare(n_threads)

    def quick_rows(self, points: NDArray[Any], n_threads: int = 1) -> Rows:
        """Return rows accurate to six digits."""
        return self.rows.quick_rows(points, n_threads)

    def new_rows(
        self, training: TrainingPosteriors, picks: Indices, n_threads: int = 1
    ) -> NDArray[np.floating]:
        """Return rows of the training instances at ``picks`` as if they were new, shape (n', r)."""
        return self.rows.new_rows(training, picks, n_threads)

    @property
    def has_tensor_rows(self) -> bool:
        """Whether the rows have it."""
        return self.rows.has_tensor_rows

    def tensor_rows(self, points: Any) -> Any:
        """Return the rows of a tensor of posteriors, shape (m, r)."""
        return self.rows.tensor_rows(points)

    def influence_features(self, points: NDArray[Any]) -> Array | None:
        """Return the numbers whose class means the rows invert, or None."""
        return self.rows.influence_features(points)

    def class_references(self) -> ClassReferences | None:
        """Return the references of each class of the kernel, or None."""
        return self.rows.class_references()

    def starting_prevalence(self) -> Array | None:
        """Return the prevalence at which EM starts, or None."""
        return self.rows.starting_prevalence()

    @property
    def pseudo_share(self) -> float:
        """Weight of one pseudo-instance per class that a likelihood adds to a bag."""
        return self.rows.pseudo_share

    def n_pairs(self, n_points: int) -> float:
        """Return the approximate cost of the rows of ``n_points`` instances, in kernel values."""
        return self.rows.n_pairs(n_points)

    @property
    def n_terms(self) -> int:
        """Number of histograms or points over which a divergence is averaged."""
        return self.rows.n_terms

    @property
    def members(self) -> tuple[PenalisedMap, ...]:
        """The members of a composite, each with the penalty; otherwise the map itself."""
        if self.inner.members[0] is self.inner:
            return (self,)
        return tuple(replace(self, inner=member) for member in self.rows.members)

    @property
    def shares(self) -> Array:
        """Weights of the members, summing to one, shape (n_members,)."""
        return self.rows.shares


def _check_strength(strength: Any) -> None:
    number = isinstance(strength, int | float | np.number) and not isinstance(strength, bool)
    if not number or not 0.0 <= float(strength) < math.inf:
        raise ValueError(f"strength must be a number of at least 0, got {strength!r}")


@dataclass(frozen=True, eq=False)
class PenalisedProblem:
    """The problem ``inner`` with a penalty that is the same for every bag.

    Bags without information, whose inner objective is NaN, have the penalty's gradient only.

    Attributes
    ----------
    inner : Problem
        Convex.
    matrix : array of shape (p, k)
        L; p may be zero.
    centre : array of shape (p,)
        c.
    """

    inner: Problem
    matrix: Array
    centre: Array
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.inner.convex:
            raise ValueError(f"{type(self.inner).__name__} is not convex and cannot be penalised")
        if self.matrix.size:
            shape = (None, self.inner.n_classes)
            object.__setattr__(self, "matrix", check_array(self.matrix, "matrix", shape))
            length = (len(self.matrix),)
            object.__setattr__(self, "centre", check_array(self.centre, "centre", length))

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return self.inner.n_bags

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return self.inner.n_classes

    def objective(self, prevalences: Array) -> Array:
        """Return the penalised value at one prevalence per bag, shape (n_bags,)."""
        residuals = prevalences @ self.matrix.T - self.centre
        return np.asarray(self.inner.objective(prevalences) + (residuals**2).sum(axis=1) / 2)

    def gradient(self, prevalences: Array) -> Array:
        """Return the gradient, shape (n_bags, k)."""
        return self._add_slope(self.inner.gradient(prevalences), prevalences)

    def hessian(self, prevalences: Array) -> Array:
        """Return the Hessian, or the inner problem's model of it, shape (n_bags, k, k)."""
        inner = self.inner.hessian(prevalences)
        return np.asarray(np.where(np.isnan(inner), 0.0, inner) + self.matrix.T @ self.matrix)

    def gap(self, prevalences: Array) -> Array:
        """Return the Frank-Wolfe gap, shape (n_bags,); NaN for bags without information."""
        inner = self.inner.gradient(prevalences)
        gap = frank_wolfe_gap(prevalences, self._add_slope(inner, prevalences))
        return np.where(np.isnan(inner).any(axis=1), np.nan, gap)

    def take(self, which: Indices) -> PenalisedProblem:
        """Return the problem of the bags at positions ``which``."""
        return with_fields(self, inner=self.inner.take(which))

    def _add_slope(self, inner: Array, prevalences: Array) -> Array:
        """Return the gradient of the inner problem plus that of the penalty."""
        residuals = prevalences @ self.matrix.T - self.centre
        return np.asarray(np.where(np.isnan(inner), 0.0, inner) + residuals @ self.matrix)


@dataclass(frozen=True)
class Penalised(Matching[PenalisedProblem]):
    """The convex problem of ``inner`` plus the row map's penalty, to a certified optimum.

    Limits are bootstrapped: they show how the penalised estimate varies, and not the bias that a
    penalty accepts in exchange.

    Attributes
    ----------
    inner : Matching
        Any matching whose problem is convex: means, densities, divergences, a likelihood.
    tol : float
        Gap of the penalised objective to reach.
    """

    inner: Matching[Any]
    tol: float = 1e-9
    interval_source: ClassVar[IntervalSource] = "bootstrap"

    @property
    def bag_summary(self) -> BagSummary:
        """What the inner matching needs to know about a bag."""
        return self.inner.bag_summary

    def device_problem(self, row_map: RowMap) -> DeviceProblem | None:
        """Return the problem of mean rows, if the inner matching needs nothing else."""
        return means_on_device(row_map) if self.bag_summary == "mean" else None

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> PenalisedProblem:
        """Return the inner problem with the penalty added."""
        if not isinstance(row_map, PenalisedMap):
            raise ValueError(f"{type(row_map).__name__} has no penalty: wrap it in PenalisedMap")
        inner = self.inner.problem(row_map.rows, rows, bags, n_threads, full)
        return PenalisedProblem(inner, row_map.penalty.matrix, row_map.penalty.centre)

    def solve(self, problem: PenalisedProblem, n_threads: int = 1) -> Solution:
        """Return the optimum on the simplex."""
        return solve_sqp(problem, tol=self.tol, n_threads=n_threads)


def penalise(matching: Matching[Any]) -> Matching[Any]:
    """Return the matching with a penalty; that of its members if it is a composite."""
    if isinstance(matching, Composite):
        return replace(matching, inner=Penalised(matching.inner))
    return Penalised(matching)
