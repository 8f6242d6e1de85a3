r"""A convex problem with a quadratic penalty on the prevalence (ordered classes, RLLS).

.. math:: f(\alpha) + \tfrac12 \| L \alpha - c \|^2
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np

from kdey.bags import Array, Bags, Indices
from kdey.matching import (
    DeviceForm,
    IntervalSource,
    Matching,
    Problem,
    Solution,
    check_array,
    frank_wolfe_gap,
)
from kdey.matching.sqp import solve_sqp
from kdey.rows import RowMap, Rows
from kdey.rows.posterior import PosteriorMap

#: Confidence of RLLS's bound on the error of the templates, and the factor by which its authors
#: multiply three times that bound.
RLLS_DELTA, RLLS_FACTOR = 0.05, 0.01

#: Classes that weights make rarer than this are penalised as if they were as frequent.
_SMALLEST_PREVALENCE = 1e-12


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


def _check_strength(strength: Any) -> None:
    number = isinstance(strength, int | float | np.number) and not isinstance(strength, bool)
    if not number or not 0.0 <= float(strength) < math.inf:
        raise ValueError(f"strength must be a number of at least 0, got {strength!r}")


@dataclass(frozen=True, eq=False)
class PenalisedProblem(Problem):
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

    def take(self, which: Indices) -> Self:
        """Return the problem of the bags at positions ``which``."""
        return self._with(inner=self.inner.take(which))

    def _add_slope(self, inner: Array, prevalences: Array) -> Array:
        """Return the gradient of the inner problem plus that of the penalty."""
        residuals = prevalences @ self.matrix.T - self.centre
        return np.asarray(np.where(np.isnan(inner), 0.0, inner) + residuals @ self.matrix)


@dataclass(frozen=True)
class Penalised(Matching[PenalisedProblem]):
    """Base: the convex problem of ``inner`` plus a quadratic penalty, to a certified optimum.

    Intervals are bootstrapped: they show how the penalised estimate varies, and not the bias that a
    penalty accepts in exchange.

    Attributes
    ----------
    inner : Matching
        Any matching whose problem is convex: means, densities, divergences, a likelihood.
    strength : float or None
        tau; what None means is up to the subclass.
    tol : float
        Gap of the penalised objective to reach.
    """

    inner: Matching[Any]
    strength: float | None = None
    tol: float = 1e-9
    interval_source: ClassVar[IntervalSource] = "bootstrap"

    def __post_init__(self) -> None:
        if self.strength is not None:
            _check_strength(self.strength)

    def terms(self, row_map: RowMap, n_classes: int) -> tuple[Array, Array]:
        """Return L, shape (p, k), and c, shape (p,); p may be zero."""
        raise NotImplementedError

    def device_form(self, row_map: RowMap) -> DeviceForm | None:
        """Return "means" if the inner matching needs nothing else."""
        return "means" if self.inner.device_form(row_map) == "means" else None

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1
    ) -> PenalisedProblem:
        """Return the inner problem with the penalty added."""
        inner = self.inner.problem(row_map, rows, bags, n_threads)
        return PenalisedProblem(inner, *self.terms(row_map, inner.n_classes))

    def solve(self, problem: PenalisedProblem, n_threads: int = 1) -> Solution:
        """Return the optimum on the simplex."""
        return solve_sqp(problem, tol=self.tol, n_threads=n_threads)


class SmoothShares(Penalised):
    r"""The penalty :math:`\tfrac{\tau}{2} \sum_i (\alpha_{i-1} - 2 \alpha_i + \alpha_{i+1})^2`.

    Two classes have no second difference, and no penalty.
    """

    def __post_init__(self) -> None:
        _check_strength(self.strength)

    def terms(self, row_map: RowMap, n_classes: int) -> tuple[Array, Array]:
        """Return L and c; the classes are ordered as their codes are."""
        differences = second_differences(n_classes)
        return math.sqrt(cast(float, self.strength)) * differences, np.zeros(len(differences))


class ShrunkRatios(Penalised):
    r"""The penalty :math:`\tfrac{\tau}{2} \sum_i (\alpha_i / \pi_i - 1)^2`.

    :math:`\pi` is the training prevalence. A strength of None is RLLS's finite-sample rule for n
    training instances: the square of 0.01 times 3 times the bound

    .. math:: \frac{2 \log(2k / \delta)}{3 n} + \sqrt{\frac{2 \log(2k / \delta)}{n}},
              \qquad \delta = 0.05.
    """

    def terms(self, row_map: RowMap, n_classes: int) -> tuple[Array, Array]:
        """Return L and c for the training weight of the classes, which the row map has learnt."""
        mass = row_map.mass if isinstance(row_map, PosteriorMap) else None
        if mass is None:
            raise ValueError(
                f"{type(row_map).__name__} does not know the training prevalence: ratios to it "
                "can be shrunk with PosteriorMap(crisp, adjusted=True) alone"
            )
        strength = self.strength
        if strength is None:
            strength = finite_sample_strength(n_classes, float(mass.sum()))
        root = math.sqrt(strength)
        prevalence = np.maximum(mass / mass.sum(), _SMALLEST_PREVALENCE)
        return np.diag(root / prevalence), np.full(n_classes, root)
