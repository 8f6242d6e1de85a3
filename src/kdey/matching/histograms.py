r"""Histograms and scores without a separable form: DM-CS, HDx, DyS, MM, SORD and thresholds.

* :class:`HistogramCauchySchwarz` (DM-CS) and :class:`MeanHellinger` (DM-HD as the scripts of the
  KDEy paper minimise it, HDx) average a divergence over class-wise histograms; not convex, so that
  :func:`solve_nonconvex` runs SQP from several starts.
* :class:`Dissimilarity` (DyS, Maletzke et al., 2019) is any function of two histograms, binary.
* :class:`CdfDistance` (MM, SORD) is a distance between cumulative distributions of scores, binary.

The unknown of a binary problem is the prevalence of the second class, a number in [0, 1]. The
f-divergences of histograms are convex and belong to ``divergence.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from kdey.bags import Array, Bags, Indices
from kdey.matching import (
    IntervalSource,
    Matching,
    Problem,
    Solution,
    check_array,
    check_non_negative,
    concatenate,
)
from kdey.matching.divergence import GENERATORS
from kdey.matching.sqp import solve_sqp
from kdey.matching.squares import LeastSquares, solve_least_squares
from kdey.rows import RowMap, Rows
from kdey.rows.histogram import SortedScores


@dataclass(frozen=True, eq=False)
class HistogramCauchySchwarz(Problem):
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

    def __post_init__(self) -> None:
        templates = check_non_negative(self.templates, "templates", (None, None, None))
        targets = check_non_negative(self.targets, "targets", (None, *templates.shape[:2]))
        if not (templates.sum(axis=1) > 0).all():
            raise ValueError("templates holds a histogram without mass")
        if not (targets.sum(axis=2) > 0).all():
            raise ValueError("targets holds a histogram without mass")
        vars(self).update(
            templates=templates,
            targets=targets,
            _grams=np.einsum("cbi,cbj->cij", templates, templates),
        )
        # a_c / |q_c| is all that f needs of a bag. Dividing by the largest bin first keeps squares
        # from overflowing or underflowing.
        relative = targets / targets.max(axis=2, keepdims=True)
        norms = np.sqrt((relative**2).sum(axis=2))[:, :, None]
        pulls = np.matmul((relative / norms).transpose(1, 0, 2), templates).transpose(1, 0, 2)
        vars(self).update(_pulls=np.ascontiguousarray(pulls))

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

    def take(self, which: Indices) -> Self:
        """Return the problem of the bags at positions ``which``."""
        return self._with(targets=self.targets[which], _pulls=self._pulls[which])

    def _products(self, prevalences: Array) -> tuple[Array, Array, Array]:
        """Return q.p/|q| (n, C), p.p (n, C) and B_c alpha (n, C, k)."""
        c, _, k = self.templates.shape
        smooth = (prevalences @ self._grams.reshape(c * k, k).T).reshape(-1, c, k)
        norm = np.einsum("nck,nk->nc", smooth, prevalences)
        match = np.einsum("nck,nk->nc", self._pulls, prevalences)
        return match, norm, smooth


@dataclass(frozen=True, eq=False)
class MeanHellinger(Problem):
    r"""Mean over the class-wise histograms c of their Hellinger distance.

    .. math:: f(\alpha) = \frac1C \sum_c \sqrt{s_c}, \qquad
              s_c = \tfrac12 \sum_b (\sqrt{p_{cb}} - \sqrt{q_{cb}})^2, \qquad p_c = M_c \alpha

    The scripts of the authors of the KDEy paper minimise this for DM-HD; the text of the paper
    squares the distances, which is :class:`~kdey.matching.divergence.Divergence`. The square root
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

    def __post_init__(self) -> None:
        templates = check_non_negative(self.templates, "templates", (None, None, None))
        targets = check_non_negative(self.targets, "targets", (None, *templates.shape[:2]))
        vars(self).update(templates=templates, targets=targets)

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
class Dissimilarity(Problem):
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
        vars(self).update(templates=templates, targets=targets)

    def objective(self, prevalences: Array) -> Array:
        """Return f at one prevalence per bag, shape (n_bags,)."""
        function = resolve_dissimilarity(self.dissimilarity)
        with np.errstate(divide="ignore", invalid="ignore"):
            return function(prevalences @ self.templates.T, self.targets)


def _prob_symm(p: Array, q: Array) -> Array:
    """Return the probabilistic symmetric chi-squared divergence; empty bins count as zero."""
    total = p + q
    return np.asarray(
        2.0 * np.divide((p - q) ** 2, total, out=np.zeros_like(total), where=total > 0).sum(axis=1)
    )


#: Dissimilarities that are not f-divergences, by name.
DISSIMILARITIES: dict[str, DissimilarityFunction] = {
    "l1": lambda p, q: np.asarray(np.abs(p - q).sum(axis=1)),
    "l2": lambda p, q: np.asarray(np.sqrt(((p - q) ** 2).sum(axis=1))),
    "prob-symm": _prob_symm,
    # The earth mover's distance between ordered bins.
    "ordinal": lambda p, q: np.asarray(np.abs(np.cumsum(p - q, axis=1)).sum(axis=1)),
}


def resolve_dissimilarity(dissimilarity: str | DissimilarityFunction) -> DissimilarityFunction:
    """Return the dissimilarity of that name, or the callable itself.

    Names are those of ``DISSIMILARITIES`` and of the f-divergences
    (:data:`kdey.matching.divergence.GENERATORS`). Raises ValueError for other names.
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
class CdfDistance(Problem):
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
        vars(self).update(templates=templates, targets=targets, weights=weights)

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


#: Number of bags solved together; bounds the memory of their Hessians (k^2 per bag and start).
CHUNK = 256


def solve_nonconvex(
    problem: HistogramCauchySchwarz | MeanHellinger,
    *,
    max_iter: int = 100,
    n_threads: int = 1,
) -> Solution:
    """Minimise by SQP from several starts and keep the lowest objective of each bag.

    The starts are the uniform prevalence, the least-squares match of the histograms, and the
    midpoint between that match and its largest class. Local minima cannot be ruled out: ``gap`` is
    NaN, and ``converged`` means that the iterations stopped changing.

    Parameters
    ----------
    problem : HistogramCauchySchwarz or MeanHellinger
    max_iter : int
        Per start.
    n_threads : int
        For the quadratic programs.
    """
    chunks = np.split(np.arange(problem.n_bags), range(CHUNK, problem.n_bags, CHUNK))
    return concatenate(_solve_chunk(problem.take(bags), max_iter, n_threads) for bags in chunks)


def _solve_chunk(
    problem: HistogramCauchySchwarz | MeanHellinger, max_iter: int, n_threads: int
) -> Solution:
    starts = _starts(problem, n_threads)
    n, s = problem.n_bags, len(starts)
    repeated = problem.take(np.tile(np.arange(n), s))
    solved = solve_sqp(
        repeated, max_iter=max_iter, start=np.concatenate(starts), n_threads=n_threads
    )
    best = solved.objective.reshape(s, n).argmin(axis=0) * n + np.arange(n)
    fields = [values[best] for values in vars(solved).values()]
    fields[3] = solved.n_iter.reshape(s, n).sum(axis=0)
    return Solution(*fields)


def _starts(problem: HistogramCauchySchwarz | MeanHellinger, n_threads: int) -> list[Array]:
    n, k = problem.n_bags, problem.n_classes
    match = LeastSquares(problem.templates.reshape(-1, k), problem.targets.reshape(n, -1))
    near = solve_least_squares(match, n_threads=n_threads).prevalence
    # A small share of every class keeps the slopes at the start finite.
    inner = 0.99 * near + 0.01 / k
    corner = 0.5 * inner + 0.5 * np.eye(k)[near.argmax(axis=1)]
    return [np.full((n, k), 1.0 / k), inner, corner]


def ternary_search(
    objective: Callable[[Array], Array], n_bags: int, *, tol: float = 1e-8
) -> Solution:
    """Minimise a unimodal function of the second class's prevalence, for every bag at once.

    The search of DyS (Maletzke et al., 2019): the interval loses a third per step.

    Parameters
    ----------
    objective : callable
        From prevalences of shape (n_bags, 2) to values of shape (n_bags,).
    n_bags : int
    tol : float
        Length of the last interval. For smooth functions a tolerance below about 1e-8 has no
        effect, because of the rounding of the objective.
    """
    if not 0 < tol < 1:
        raise ValueError(f"tol must lie between 0 and 1, got {tol}")
    low, high = np.zeros(n_bags), np.ones(n_bags)
    steps = int(np.ceil(np.log(tol) / np.log(2 / 3)))
    for _ in range(steps):
        third = (high - low) / 3
        left, right = low + third, high - third
        lower_left = objective(_pair(left)) <= objective(_pair(right))
        high = np.where(lower_left, right, high)
        low = np.where(lower_left, low, left)
    best, value = _best_of(objective, ((low + high) / 2, np.zeros(n_bags), np.ones(n_bags)))
    return Solution(
        _pair(best),
        value,
        np.full(n_bags, np.nan),
        np.full(n_bags, steps, dtype=np.int64),
        np.isfinite(value),
    )


def solve_cdf_distance(problem: CdfDistance, *, tol: float = 1e-8) -> Solution:
    """Minimise the distance between cumulative distributions for every bag.

    The L1 norm is solved exactly, by a weighted median, with a certificate. The maximum norm is
    solved by ternary search to ``tol``, and its gap is NaN.
    """
    if problem.norm == "max":
        return ternary_search(problem.objective, problem.n_bags, tol=tol)
    share = np.clip(_weighted_medians(problem), 0.0, 1.0)
    x = _pair(share)
    gap = problem.gap(x)
    ones = np.ones(len(x), dtype=np.int64)
    return Solution(x, problem.objective(x), gap, ones, gap <= 1e-10)


def _weighted_medians(problem: CdfDistance) -> Array:
    """Return argmin_a sum_t w_t |d_t a - e_t|: the median of e/d with weights w|d|, per bag."""
    d = problem.templates[:, 1] - problem.templates[:, 0]
    weights = problem.weights * np.abs(d)
    useful = weights > 0
    if not useful.any():
        return np.full(problem.n_bags, 0.5)  # the classes are identical: every share is optimal
    with np.errstate(over="ignore"):  # infinite ratios are clipped later
        ratio = (problem.targets - problem.templates[:, 0])[:, useful] / d[useful]
    order = np.argsort(ratio, axis=1)
    mass = np.cumsum(weights[useful][order], axis=1)
    middle = np.argmax(mass >= mass[:, -1:] / 2, axis=1)
    chosen = np.take_along_axis(order, middle[:, None], axis=1)
    return np.asarray(np.take_along_axis(ratio, chosen, axis=1)[:, 0])


def _best_of(
    objective: Callable[[Array], Array], candidates: tuple[Array, ...]
) -> tuple[Array, Array]:
    values = np.stack([objective(_pair(c)) for c in candidates])
    best = values.argmin(axis=0)
    bags = np.arange(values.shape[1])
    return np.stack(candidates)[best, bags], values[best, bags]


def _pair(share: Array) -> Array:
    return np.stack([1.0 - share, share], axis=1)


HistogramProblem: TypeAlias = HistogramCauchySchwarz | MeanHellinger

_PROBLEMS: dict[str, Callable[[Array, Array], HistogramProblem]] = {
    "cauchy-schwarz": HistogramCauchySchwarz,
    "mean-hellinger": MeanHellinger,
}


@dataclass(frozen=True)
class MatchHistograms(Matching[HistogramProblem]):
    """A dissimilarity of histograms that is not convex: DM-CS, and DM-HD without the square.

    With ``binary`` it is minimised by ternary search, as in the literature: HDx.
    """

    kind: str
    binary: bool = False
    interval_source: ClassVar[IntervalSource] = "bootstrap"

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1
    ) -> HistogramProblem:
        """Return the problem, with one block of bins per histogram."""
        shape = (row_map.n_terms, len(row_map.templates) // row_map.n_terms)
        templates = row_map.templates.reshape(*shape, -1)
        targets = rows.mean(bags).reshape(len(bags), *shape)
        return _PROBLEMS[self.kind](templates, targets)

    def solve(self, problem: HistogramProblem, n_threads: int = 1) -> Solution:
        """Return the best of several starts, or of a ternary search; no certificate exists."""
        if self.binary:
            return ternary_search(problem.objective, problem.n_bags)
        return solve_nonconvex(problem)


@dataclass(frozen=True)
class MatchBinary(Matching[Dissimilarity]):
    """Any dissimilarity of two histograms, by ternary search: DyS."""

    dissimilarity: Any
    interval_source: ClassVar[IntervalSource] = "bootstrap"

    def __post_init__(self) -> None:
        resolve_dissimilarity(self.dissimilarity)

    def problem(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> Dissimilarity:
        """Return the dissimilarity problem."""
        return Dissimilarity(row_map.templates, rows.mean(bags), self.dissimilarity)

    def solve(self, problem: Dissimilarity, n_threads: int = 1) -> Solution:
        """Return the minimum by ternary search."""
        return ternary_search(problem.objective, problem.n_bags)


@dataclass(frozen=True)
class MatchCdf(Matching[CdfDistance]):
    """A norm between cumulative histograms of the positive posterior: MM."""

    norm: str
    interval_source: ClassVar[IntervalSource] = "bootstrap"

    def problem(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> CdfDistance:
        """Return the distance problem, every bin with the same width."""
        spacing = np.full(len(row_map.templates), row_map.n_terms / len(row_map.templates))
        return CdfDistance(row_map.templates, rows.mean(bags), spacing, self.norm)

    def solve(self, problem: CdfDistance, n_threads: int = 1) -> Solution:
        """Return the optimum: exact for L1, by ternary search for the maximum norm."""
        return solve_cdf_distance(problem)


class MatchScores(Matching[CdfDistance]):
    """Area between the cumulative distributions of scores, at every score: SORD."""

    interval_source: ClassVar[IntervalSource] = "bootstrap"

    def problem(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> CdfDistance:
        """Return the distance problem, with a knot at each score of training data and bags."""
        assert isinstance(rows, SortedScores), "cumulative distributions are those of scores"
        return CdfDistance(*rows.distributions(bags), "l1")

    def solve(self, problem: CdfDistance, n_threads: int = 1) -> Solution:
        """Return the exact optimum."""
        return solve_cdf_distance(problem)


class MatchThresholds(Matching[LeastSquares]):
    """The median over thresholds of the adjusted counts: MS, MS2.

    At a threshold with rates fpr and tpr, a bag of which the share q reaches it is estimated to
    have (q - fpr) / (tpr - fpr) positives, restricted to [0, 1].
    """

    interval_source: ClassVar[IntervalSource] = "bootstrap"

    def problem(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> LeastSquares:
        """Return rates and shares of all thresholds, as a least squares problem."""
        return LeastSquares(row_map.templates, rows.mean(bags))

    def solve(self, problem: LeastSquares, n_threads: int = 1) -> Solution:
        """Return the medians; objective and gap are NaN, because a median solves no problem."""
        fpr, tpr = 1.0 - problem.templates[:-1].T
        difference = tpr - fpr
        useful = difference != 0
        n = problem.n_bags
        share = np.full(n, 0.5)  # without a useful threshold every share explains the bag
        if useful.any():
            ratio = (1.0 - problem.targets[:, :-1] - fpr)[:, useful] / difference[useful]
            share = np.median(np.clip(ratio, 0.0, 1.0), axis=1)
        unknown, known = np.full(n, np.nan), np.full(n, bool(useful.any()))
        return Solution(
            np.stack([1.0 - share, share], axis=1), unknown, unknown, np.ones(n, np.int64), known
        )
