r"""Quadratic problems on the simplex.

:class:`LeastSquares` matches mean rows with templates (ACC, PACC); :class:`QuadraticMatch` is the
integrated squared error between densities, given by their inner products (KDEy-L2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from kdey.problems.interface import (
    Array,
    Indices,
    check_array,
    check_gram,
    frank_wolfe_gap,
    with_fields,
)


@dataclass(frozen=True, eq=False)
class LeastSquares:
    r"""Distance of a bag's mean row to the mixture of the class templates.

    .. math:: f(\alpha) = \tfrac12 \| M \alpha - q \|^2

    Attributes
    ----------
    templates : array of shape (r, k)
        M: column i is the mean training row of class i.
    targets : array of shape (n_bags, r)
        q: the mean row of each bag.
    gram : array of shape (k, k)
        M'M, computed once.
    """

    templates: Array
    targets: Array
    gram: Array = field(init=False, repr=False)
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        templates = check_array(self.templates, "templates", (None, None))
        targets = check_array(self.targets, "targets", (None, len(templates)))
        object.__setattr__(self, "templates", templates)
        object.__setattr__(self, "targets", targets)
        object.__setattr__(self, "gram", np.ascontiguousarray(templates.T @ templates))

    def with_targets(self, targets: Array) -> LeastSquares:
        """Return the problem of other bags, (n_bags, r); the templates are not checked again."""
        checked = check_array(targets, "targets", (None, len(self.templates)))
        return with_fields(self, targets=checked)

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.targets)

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return int(self.templates.shape[1])

    def objective(self, prevalences: Array) -> Array:
        """Return f at one prevalence per bag, shape (n_bags,)."""
        return np.asarray((self._residuals(prevalences) ** 2).sum(axis=1) / 2)

    def gradient(self, prevalences: Array) -> Array:
        """Return M' (M alpha - q), shape (n_bags, k)."""
        return np.asarray(self._residuals(prevalences) @ self.templates)

    def hessian(self, prevalences: Array) -> Array:
        """Return M'M for every bag, shape (n_bags, k, k)."""
        return np.broadcast_to(self.gram, (len(prevalences), *self.gram.shape))

    def gap(self, prevalences: Array) -> Array:
        """Return the Frank-Wolfe gap, a bound on f - min f, shape (n_bags,)."""
        return frank_wolfe_gap(prevalences, self.gradient(prevalences))

    def take(self, which: Indices) -> LeastSquares:
        """Return the problem of the bags at positions ``which``."""
        return with_fields(self, targets=self.targets[which])

    def _residuals(self, prevalences: Array) -> Array:
        return np.asarray(prevalences @ self.templates.T - self.targets)


@dataclass(frozen=True, eq=False)
class QuadraticMatch:
    r"""A quadratic with one Gram matrix for all bags.

    .. math:: f(\alpha) = \tfrac12 \alpha' B \alpha - t \cdot \alpha + c

    With B_ij the inner product of the densities of classes i and j, t_i that of class i and the
    bag, and c half the bag's squared norm, f is half the integrated squared error.

    Attributes
    ----------
    gram : array of shape (k, k)
        B, symmetric and positive semidefinite.
    targets : array of shape (n_bags, k)
    constants : array of shape (n_bags,)
        Zero by default, since the minimiser does not depend on it.
    """

    gram: Array
    targets: Array
    constants: Array = None  # type: ignore[assignment]
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        gram = check_gram(self.gram)
        targets = check_array(self.targets, "targets", (None, len(gram)))
        constants = np.zeros(len(targets)) if self.constants is None else self.constants
        object.__setattr__(self, "gram", gram)
        object.__setattr__(self, "targets", targets)
        object.__setattr__(self, "constants", check_array(constants, "constants", (len(targets),)))

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.targets)

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return len(self.gram)

    def objective(self, prevalences: Array) -> Array:
        """Return f at one prevalence per bag, shape (n_bags,)."""
        inner = prevalences @ self.gram / 2 - self.targets
        return np.asarray((prevalences * inner).sum(axis=1) + self.constants)

    def gradient(self, prevalences: Array) -> Array:
        """Return B alpha - t, shape (n_bags, k)."""
        return np.asarray(prevalences @ self.gram - self.targets)

    def hessian(self, prevalences: Array) -> Array:
        """Return B for every bag, shape (n_bags, k, k)."""
        return np.broadcast_to(self.gram, (len(prevalences), *self.gram.shape))

    def gap(self, prevalences: Array) -> Array:
        """Return the Frank-Wolfe gap, a bound on f - min f, shape (n_bags,)."""
        return frank_wolfe_gap(prevalences, self.gradient(prevalences))

    def take(self, which: Indices) -> QuadraticMatch:
        """Return the problem of the bags at positions ``which``."""
        return with_fields(self, targets=self.targets[which], constants=self.constants[which])
