r"""A convex problem with a quadratic penalty on the prevalence (ordered classes, RLLS).

.. math:: f(\alpha) + \tfrac12 \| L \alpha - c \|^2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kdey.problems.interface import (
    Array,
    Indices,
    Problem,
    check_array,
    frank_wolfe_gap,
    with_fields,
)


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
