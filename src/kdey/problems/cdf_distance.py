r"""Distances between cumulative distributions of binary scores: the problems behind MM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kdey.problems.protocol import Array, Indices, check_array, with_fields

NORMS = ("l1", "max")


@dataclass(frozen=True, eq=False)
class CdfDistance:
    r"""Distance of a bag's cumulative distribution to the mixture of two class ones.

    .. math:: f(\alpha) = \| \alpha_0 F_0 + \alpha_1 F_1 - Q \|

    in the weighted L1 norm (PP-area of the mixture model, Forman 2008) or the maximum norm
    (Kolmogorov-Smirnov). Convex in alpha, piecewise linear.

    Attributes
    ----------
    templates : array of shape (t, 2)
        F_0 and F_1 at t points.
    targets : array of shape (n_bags, t)
        Q of each bag at the same points.
    weights : array of shape (t,)
        Weight of each point in the L1 norm (its spacing, say); ignored by the maximum norm.
    norm : {"l1", "max"}
    """

    templates: Array
    targets: Array
    weights: Array
    norm: str = "l1"
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        templates = check_array(self.templates, "templates", (None, 2))
        targets = check_array(self.targets, "targets", (None, len(templates)))
        weights = check_array(self.weights, "weights", (len(templates),))
        if weights.min() < 0:
            raise ValueError("weights must be non-negative")
        if self.norm not in NORMS:
            raise ValueError(f"norm must be one of {NORMS}, got {self.norm!r}")
        object.__setattr__(self, "templates", templates)
        object.__setattr__(self, "targets", targets)
        object.__setattr__(self, "weights", weights)

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.targets)

    @property
    def n_classes(self) -> int:
        """Two."""
        return 2

    def objective(self, prevalences: Array) -> Array:
        """Return f at one prevalence per bag, shape (n_bags,)."""
        residuals = np.abs(prevalences @ self.templates.T - self.targets)
        if self.norm == "max":
            return np.asarray(residuals.max(axis=1))
        return np.asarray(residuals @ self.weights)

    def gap(self, prevalences: Array) -> Array:
        """Return the Frank-Wolfe gap over the best subgradient, shape (n_bags,); NaN for max.

        Along the segment f is a convex function of alpha_1 alone, so the left and right slopes
        bound what moving either way can gain. A residual within rounding of zero is a kink.
        """
        if self.norm == "max":
            return np.full(len(prevalences), np.nan)
        residuals = prevalences @ self.templates.T - self.targets
        signs = np.where(np.abs(residuals) <= 1e-14, 0.0, np.sign(residuals))
        step = self.weights * (self.templates[:, 1] - self.templates[:, 0])
        slope, kinks = signs @ step, (signs == 0) @ np.abs(step)
        up = -(slope + kinks) * prevalences[:, 0]
        down = (slope - kinks) * prevalences[:, 1]
        return np.asarray(np.maximum(np.maximum(up, down), 0.0))

    def take(self, which: Indices) -> CdfDistance:
        """Return the problem of the bags at positions ``which``."""
        return with_fields(self, targets=self.targets[which])
