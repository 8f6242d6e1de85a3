r"""Mean Cauchy-Schwarz divergence between class-wise histograms: the problem behind DM-CS."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from kdey.problems.protocol import Array, Indices, check_non_negative, with_fields


@dataclass(frozen=True, eq=False)
class HistogramCauchySchwarz:
    r"""Mean over the class-wise histograms c of their Cauchy-Schwarz divergence.

    .. math:: f(\alpha) = \frac1C \sum_c -\log \frac{q_c \cdot p_c}{|q_c| |p_c|},
              \qquad p_c = M_c \alpha

    Not convex: there is no certificate, and ``gap`` is NaN.

    Attributes
    ----------
    templates : array of shape (C, b, k)
        M_c >= 0: histogram c of every class (usually C = k), no histogram all zero.
    targets : array of shape (n_bags, C, b)
        q_c >= 0: histogram c of every bag, no histogram all zero.
    """

    templates: Array
    targets: Array
    _grams: Array = field(init=False, repr=False)
    _pulls: Array = field(init=False, repr=False)
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        templates = check_non_negative(self.templates, "templates", (None, None, None))
        targets = check_non_negative(self.targets, "targets", (None, *templates.shape[:2]))
        if not (templates.sum(axis=1) > 0).all():
            raise ValueError("templates holds a histogram without mass")
        if not (targets.sum(axis=2) > 0).all():
            raise ValueError("targets holds a histogram without mass")
        object.__setattr__(self, "templates", templates)
        object.__setattr__(self, "targets", targets)
        object.__setattr__(self, "_grams", np.einsum("cbi,cbj->cij", templates, templates))
        # a_c / |q_c|: all that f needs of a bag. Relative to its largest bin a histogram of any
        # size has a square.
        relative = targets / targets.max(axis=2, keepdims=True)
        norms = np.sqrt((relative**2).sum(axis=2))[:, :, None]
        pulls = np.matmul((relative / norms).transpose(1, 0, 2), templates).transpose(1, 0, 2)
        object.__setattr__(self, "_pulls", np.ascontiguousarray(pulls))

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.targets)

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return int(self.templates.shape[2])

    def objective(self, prevalences: Array) -> Array:
        """Return f at one prevalence per bag, shape (n_bags,); inf where histograms part."""
        match, norm, _ = self._products(prevalences)
        with np.errstate(divide="ignore"):
            return np.asarray((np.log(norm) / 2 - np.log(match)).mean(axis=1))

    def gradient(self, prevalences: Array) -> Array:
        """Return the gradient, shape (n_bags, k)."""
        match, norm, smooth = self._products(prevalences)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = smooth / norm[:, :, None] - self._pulls / match[:, :, None]
        return np.asarray(terms.mean(axis=1))

    def hessian(self, prevalences: Array) -> Array:
        """Return the Gauss-Newton model, mean_c B_c / n_c - v_c v_c', shape (n_bags, k, k).

        Positive semidefinite, and the exact Hessian where every histogram is matched.
        """
        _, norm, smooth = self._products(prevalences)
        n, c, k = smooth.shape
        v = smooth / norm[:, :, None]
        grams = ((1.0 / norm) @ self._grams.reshape(c, k * k)).reshape(n, k, k)
        return np.asarray((grams - v.transpose(0, 2, 1) @ v) / c)

    def gap(self, prevalences: Array) -> Array:
        """Return NaN: not convex, no certificate."""
        return np.full(len(prevalences), np.nan)

    def take(self, which: Indices) -> HistogramCauchySchwarz:
        """Return the problem of the bags at positions ``which``."""
        return with_fields(self, targets=self.targets[which], _pulls=self._pulls[which])

    def _products(self, prevalences: Array) -> tuple[Array, Array, Array]:
        """Return q.p/|q| (n, C), p.p (n, C) and B_c alpha (n, C, k)."""
        c, _, k = self.templates.shape
        smooth = (prevalences @ self._grams.reshape(c * k, k).T).reshape(-1, c, k)
        norm = np.einsum("nck,nk->nc", smooth, prevalences)
        match = np.einsum("nck,nk->nc", self._pulls, prevalences)
        return match, norm, smooth
