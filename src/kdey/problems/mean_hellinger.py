r"""Mean (unsquared) Hellinger distance between class-wise histograms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kdey.problems.protocol import Array, Indices, check_non_negative, with_fields


@dataclass(frozen=True, eq=False)
class MeanHellinger:
    r"""Mean over the class-wise histograms c of their Hellinger distance.

    .. math:: f(\alpha) = \frac1C \sum_c \sqrt{s_c}, \qquad
              s_c = \tfrac12 \sum_b (\sqrt{p_{cb}} - \sqrt{q_{cb}})^2, \qquad p_c = M_c \alpha

    What the scripts of the KDEy paper's authors minimise for DM-HD; the paper's text squares the
    distances, which is :class:`~kdey.problems.divergence.Divergence`. The square root of a convex
    function is not convex: there is no certificate, and ``gap`` is NaN.

    Attributes
    ----------
    templates : array of shape (C, b, k)
        M_c >= 0: histogram c of every class.
    targets : array of shape (n_bags, C, b)
        q_c >= 0: histogram c of every bag.
    """

    templates: Array
    targets: Array
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        templates = check_non_negative(self.templates, "templates", (None, None, None))
        targets = check_non_negative(self.targets, "targets", (None, *templates.shape[:2]))
        object.__setattr__(self, "templates", templates)
        object.__setattr__(self, "targets", targets)

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.targets)

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return int(self.templates.shape[2])

    def objective(self, prevalences: Array) -> Array:
        """Return f at one prevalence per bag, shape (n_bags,)."""
        return np.asarray(np.sqrt(self._squares(self._mixtures(prevalences))).mean(axis=1))

    def gradient(self, prevalences: Array) -> Array:
        """Return the gradient, shape (n_bags, k).

        A histogram matched exactly (s_c = 0, the tip of a cone) adds its subgradient zero.
        """
        p = self._mixtures(prevalences)
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.sqrt(self._squares(p))
            weight = np.where(root > 0, 0.25 / root, 0.0) / p.shape[1]
            slope = weight[:, :, None] * (1.0 - np.where(p == self.targets, 1.0, self._ratio(p)))
        return self._spread(slope)

    def hessian(self, prevalences: Array) -> Array:
        """Return the convex part of the Hessian (the roots linearised), shape (n_bags, k, k)."""
        p = self._mixtures(prevalences)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # A floor under the root bounds this model only; objective and gradient have none.
            weight = 0.125 / np.maximum(np.sqrt(self._squares(p)), 1e-6) / p.shape[1]
            curve = np.where(p > 0, self._ratio(p) / p, 0.0) * weight[:, :, None]
        curve[~np.isfinite(curve)] = 0.0
        flat = self._flat
        scaled = np.sqrt(curve.reshape(len(p), -1))[:, :, None] * flat
        return np.asarray(scaled.transpose(0, 2, 1) @ scaled)

    def gap(self, prevalences: Array) -> Array:
        """Return NaN: not convex, no certificate."""
        return np.full(len(prevalences), np.nan)

    def take(self, which: Indices) -> MeanHellinger:
        """Return the problem of the bags at positions ``which``."""
        return with_fields(self, targets=self.targets[which])

    @property
    def _flat(self) -> Array:
        return self.templates.reshape(-1, self.n_classes)

    def _mixtures(self, prevalences: Array) -> Array:
        shape = (len(prevalences), *self.templates.shape[:2])
        return np.asarray(prevalences @ self._flat.T).reshape(shape)

    def _squares(self, p: Array) -> Array:
        return np.asarray(((np.sqrt(p) - np.sqrt(self.targets)) ** 2).sum(axis=2) / 2)

    def _ratio(self, p: Array) -> Array:
        """Return sqrt(q / p), zero where q = 0."""
        return np.where(self.targets > 0, np.sqrt(self.targets / p), 0.0)

    def _spread(self, slope: Array) -> Array:
        """Return slope @ M, counting an infinite slope only for classes with mass there."""
        flat = slope.reshape(len(slope), -1)
        steep = ~np.isfinite(flat)
        if not steep.any():
            return np.asarray(flat @ self._flat)
        reached = steep.astype(np.float64) @ (self._flat > 0)
        finite = np.where(steep, 0.0, flat) @ self._flat
        return np.where(reached > 0, -np.inf, finite)
