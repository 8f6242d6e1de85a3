r"""Problems on histograms without a separable form: DM-CS, DM-HD without the square, DyS and MM.

* :class:`HistogramCauchySchwarz` (DM-CS) and :class:`MeanHellinger` (DM-HD as the scripts of the
  KDEy paper minimise it, HDx) average a divergence over class-wise histograms; not convex.
* :class:`Dissimilarity` (DyS, Maletzke et al., 2019) is any function of two histograms, binary.
* :class:`CdfDistance` (MM) is a distance between cumulative distributions of scores, binary.

The f-divergences of histograms are convex and belong to :mod:`kdey.problems.divergence`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import numpy as np

from kdey.problems.interface import Array, Indices, check_array, check_non_negative, with_fields
from kdey.problems.separable import GENERATORS


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
        # a_c / |q_c| is all that f needs of a bag. Dividing by the largest bin first keeps squares
        # from overflowing or underflowing.
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
        """Return f at one prevalence per bag, shape (n_bags,); inf if histograms do not overlap."""
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
        """Return NaN, shape (n_bags,): the problem is not convex and has no certificate."""
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


@dataclass(frozen=True, eq=False)
class MeanHellinger:
    r"""Mean over the class-wise histograms c of their Hellinger distance.

    .. math:: f(\alpha) = \frac1C \sum_c \sqrt{s_c}, \qquad
              s_c = \tfrac12 \sum_b (\sqrt{p_{cb}} - \sqrt{q_{cb}})^2, \qquad p_c = M_c \alpha

    The scripts of the authors of the KDEy paper minimise this for DM-HD; the text of the paper
    squares the distances, which is :class:`~kdey.problems.divergence.Divergence`. The square root
    of a convex function need not be convex: there is no certificate, and ``gap`` is NaN.

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
            slope = weight[:, :, None] * (1.0 - self._ratio(p))
        return self._class_slopes(slope)

    def hessian(self, prevalences: Array) -> Array:
        """Return the convex part of the Hessian (the roots linearised), shape (n_bags, k, k)."""
        p = self._mixtures(prevalences)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # This floor under the root bounds the model; objective and gradient have no floor.
            weight = 0.125 / np.maximum(np.sqrt(self._squares(p)), 1e-6) / p.shape[1]
            curve = np.where(p > 0, self._ratio(p) / p, 0.0) * weight[:, :, None]
        curve[~np.isfinite(curve)] = 0.0
        flat = self._flat
        scaled = np.sqrt(curve.reshape(len(p), -1))[:, :, None] * flat
        return np.asarray(scaled.transpose(0, 2, 1) @ scaled)

    def gap(self, prevalences: Array) -> Array:
        """Return NaN, shape (n_bags,): the problem is not convex and has no certificate."""
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

    def _class_slopes(self, slope: Array) -> Array:
        """Return slope @ M; an infinite slope counts only for classes with mass in that bin."""
        flat = slope.reshape(len(slope), -1)
        steep = ~np.isfinite(flat)
        if not steep.any():
            return np.asarray(flat @ self._flat)
        is_affected = steep.astype(np.float64) @ (self._flat > 0)
        finite = np.where(steep, 0.0, flat) @ self._flat
        return np.where(is_affected > 0, -np.inf, finite)


#: From p and q of shape (n_bags, b) to values of shape (n_bags,).
DissimilarityFunction: TypeAlias = Callable[[Array, Array], Array]


@dataclass(frozen=True, eq=False)
class Dissimilarity:
    r"""Dissimilarity between the histogram of a bag and the mixture of two class histograms.

    .. math:: f(\alpha) = d(\alpha_0 h_0 + \alpha_1 h_1, q)

    Attributes
    ----------
    templates : array of shape (b, 2)
    targets : array of shape (n_bags, b)
    dissimilarity : str or callable
    """

    templates: Array
    targets: Array
    dissimilarity: str | DissimilarityFunction

    def __post_init__(self) -> None:
        templates = check_non_negative(self.templates, "templates", (None, 2))
        targets = check_non_negative(self.targets, "targets", (None, len(templates)))
        object.__setattr__(self, "templates", templates)
        object.__setattr__(self, "targets", targets)

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.targets)

    @property
    def n_classes(self) -> int:
        """Number of classes, always two."""
        return 2

    def objective(self, prevalences: Array) -> Array:
        """Return f at one prevalence per bag, shape (n_bags,)."""
        function = resolve_dissimilarity(self.dissimilarity)
        with np.errstate(divide="ignore", invalid="ignore"):
            return function(prevalences @ self.templates.T, self.targets)

    def gap(self, prevalences: Array) -> Array:
        """Return NaN, shape (n_bags,): nothing is known about the dissimilarity."""
        return np.full(len(prevalences), np.nan)

    def take(self, which: Indices) -> Dissimilarity:
        """Return the problem of the bags at positions ``which``."""
        return with_fields(self, targets=self.targets[which])


def _manhattan(p: Array, q: Array) -> Array:
    return np.asarray(np.abs(p - q).sum(axis=1))


def _euclidean(p: Array, q: Array) -> Array:
    return np.asarray(np.sqrt(((p - q) ** 2).sum(axis=1)))


def _prob_symm(p: Array, q: Array) -> Array:
    """Return the probabilistic symmetric chi-squared divergence; empty bins count as zero."""
    total = p + q
    return np.asarray(
        2.0 * np.divide((p - q) ** 2, total, out=np.zeros_like(total), where=total > 0).sum(axis=1)
    )


def _ordinal(p: Array, q: Array) -> Array:
    """Return the earth mover's distance between ordered bins."""
    return np.asarray(np.abs(np.cumsum(p - q, axis=1)).sum(axis=1))


#: Dissimilarities that are not f-divergences, by name.
DISSIMILARITIES: dict[str, DissimilarityFunction] = {
    "l1": _manhattan,
    "l2": _euclidean,
    "prob-symm": _prob_symm,
    "ordinal": _ordinal,
}


def resolve_dissimilarity(dissimilarity: str | DissimilarityFunction) -> DissimilarityFunction:
    """Return the dissimilarity of that name, or the callable itself.

    Names are those of ``DISSIMILARITIES`` and of the f-divergences
    (:data:`kdey.problems.separable.GENERATORS`). Raises ValueError for other names.
    """
    if callable(dissimilarity):
        return dissimilarity
    name: object = dissimilarity
    if isinstance(name, str) and name in DISSIMILARITIES:
        return DISSIMILARITIES[name]
    if isinstance(name, str) and name in GENERATORS:
        value = GENERATORS[name].value
        return lambda p, q: np.asarray(value(p, q).sum(axis=1))
    names = sorted([*DISSIMILARITIES, *GENERATORS])
    raise ValueError(f"dissimilarity must be one of {names} or a callable, got {dissimilarity!r}")


#: Norms of :class:`CdfDistance`.
NORMS = ("l1", "max")


@dataclass(frozen=True, eq=False)
class CdfDistance:
    r"""Distance between the cumulative distribution of a bag and a mixture of two classes.

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
        Weight of each point in the L1 norm (for example its spacing); not used by the maximum norm.
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
        """Number of classes, always two."""
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
        bound the gain of a move in either direction. A residual of zero up to rounding is a kink.
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
