r"""The Cauchy-Schwarz divergence between kernel densities: the problem behind KDEy-CS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.problems.interface import (
    Array,
    Indices,
    check_array,
    check_gram,
    check_non_negative,
    with_fields,
)


@dataclass(frozen=True, eq=False)
class CauchySchwarz:
    r"""Cauchy-Schwarz divergence of each bag's density to the mixture of the class densities.

    .. math:: D(\alpha) = -\log(a \cdot \alpha) + \tfrac12 \log(\alpha' B \alpha)
              + \tfrac12 \log c

    B_ij is the inner product of the densities of classes i and j, a_i that of class i and the
    bag, c that of the bag with itself. D does not change when alpha is scaled, so its global
    optimum is a non-negative least squares problem: r* = argmin_{r >= 0} r'Br/2 - a.r,
    alpha = r* / sum(r*).

    Attributes
    ----------
    gram : array of shape (k, k)
        B >= 0, positive semidefinite.
    log_targets : array of shape (n_bags, k)
        log a; -inf for zero. Logarithms avoid 0/0 for a bag far from every class at a small
        bandwidth. If all are -inf, the bag has no information: objective and gap are NaN.
    log_self : array of shape (n_bags,)
        log c; by default zero (c = 1), since the minimiser does not depend on it.
    """

    gram: Array
    log_targets: Array
    log_self: Array = None  # type: ignore[assignment]
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        gram = check_gram(self.gram)
        check_non_negative(gram, "gram", gram.shape)
        if not (np.diag(gram) > 0).all():
            raise ValueError("gram must have a positive diagonal")
        logs = np.ascontiguousarray(self.log_targets, dtype=np.float64)
        check_array(np.exp(np.minimum(logs, 0.0)), "log_targets", (None, len(gram)))
        if np.isposinf(logs).any():
            raise ValueError("log_targets contains +inf")
        log_self = np.zeros(len(logs)) if self.log_self is None else self.log_self
        object.__setattr__(self, "gram", gram)
        object.__setattr__(self, "log_targets", logs)
        object.__setattr__(self, "log_self", check_array(log_self, "log_self", (len(logs),)))

    @classmethod
    def from_targets(
        cls, gram: Array, targets: ArrayLike, log_self: Array | None = None
    ) -> CauchySchwarz:
        """Return the problem of inner products ``targets`` >= 0, shape (n_bags, k)."""
        a = check_non_negative(targets, "targets", (None, None), largest=np.inf)
        with np.errstate(divide="ignore"):
            return cls(gram, np.log(a), log_self)  # type: ignore[arg-type]

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.log_targets)

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return len(self.gram)

    @property
    def is_informative(self) -> NDArray[np.bool_]:
        """Whether any class has a positive inner product with the bag, shape (n_bags,)."""
        return np.asarray(np.isfinite(self.log_targets).any(axis=1))

    @property
    def scaled_targets(self) -> Array:
        """The targets a / max_i a_i per bag, shape (n_bags, k)."""
        return np.exp(self.log_targets - self._largest[:, None])

    def objective(self, prevalences: Array) -> Array:
        """Return D at one prevalence per bag, shape (n_bags,); inf if a . alpha = 0."""
        match, norm = self._products(prevalences)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = -np.log(match) - self._largest + np.log(norm) / 2 + self.log_self / 2
        value = np.where((match > 0) & (norm > 0), value, np.inf)  # also if both underflow
        return np.where(self.is_informative, value, np.nan)

    def gradient(self, prevalences: Array) -> Array:
        """Return B alpha / (alpha'B alpha) - a / (a . alpha), shape (n_bags, k)."""
        match, norm = self._products(prevalences)
        pull = self.scaled_targets / match[:, None]
        return np.asarray(prevalences @ self.gram / norm[:, None] - pull)

    def hessian(self, prevalences: Array) -> Array:
        """Return the Gauss-Newton model B/n - vv', v = B alpha / n, n = alpha'B alpha."""
        norm = self._products(prevalences)[1][:, None]
        v = prevalences @ self.gram / norm
        return np.asarray(self.gram / norm[:, :, None] - v[:, :, None] * v[:, None, :])

    def gap(self, prevalences: Array) -> Array:
        r"""Return a bound on D(alpha) - min D, shape (n_bags,).

        .. math:: \log \max_i \frac{a_i / (B\alpha)_i}{a \cdot \alpha / \alpha' B \alpha}

        For any beta >= 0, with rho the largest a_i / (B alpha)_i and the norm of B,

        .. math:: a \cdot \beta \le \rho \, (B\alpha) \cdot \beta
                  \le \rho \, \lVert\alpha\rVert_B \lVert\beta\rVert_B,

        so minus the logarithm of rho times the norm of alpha bounds D from below (up to c). It is
        the KKT residual of the non-negative least squares form, measured by the factor that
        makes r dual feasible. A class with a_i = (B alpha)_i = 0 cannot help and is ignored.
        """
        match, norm = self._products(prevalences)
        a, smooth = self.scaled_targets, prevalences @ self.gram
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            rho = np.where(a > 0, a / smooth, 0.0).max(axis=1)
            bound = np.log(rho) + np.log(norm) - np.log(match)
        bound = np.where((match > 0) & (norm > 0), bound, np.inf)
        return np.where(self.is_informative, np.maximum(bound, 0.0), np.nan)

    def take(self, which: Indices) -> CauchySchwarz:
        """Return the problem of the bags at positions ``which``."""
        return with_fields(self, log_targets=self.log_targets[which], log_self=self.log_self[which])

    @property
    def _largest(self) -> Array:
        largest = self.log_targets.max(axis=1)
        return np.where(np.isfinite(largest), largest, 0.0)

    def _products(self, prevalences: Array) -> tuple[Array, Array]:
        match = (self.scaled_targets * prevalences).sum(axis=1)
        norm = ((prevalences @ self.gram) * prevalences).sum(axis=1)
        return match, norm
