r"""Quadratic matchings: means (CC, PCC, ACC, PACC), squared errors and Cauchy-Schwarz of densities.

:class:`LeastSquares` matches mean rows with templates; :class:`QuadraticMatch` is the integrated
squared error between densities, given by their inner products (KDEy-L2, EDy);
:class:`CauchySchwarz` is the divergence of KDEy-CS. All three are quadratic programs, the last
after a change of scale. :class:`OneBagMean` answers one bag of posteriors in a single native call,
for services that score small bags.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey import native
from kdey.bags import Array, Bags, Indices
from kdey.matching import (
    DeviceForm,
    IntervalSource,
    Matching,
    OneBag,
    Problem,
    Solution,
    check_array,
    check_gram,
    check_non_negative,
    exact_solution,
    means_on_device,
    warn_uninformative,
)
from kdey.matching.sqp import (
    PASSES,
    TOLERANCE,
    Counts,
    normalised,
    solve_programs,
)
from kdey.rows import RowMap, Rows
from kdey.rows.kernel import OverlapMap
from kdey.rows.posterior import PosteriorMap
from kdey.simplex import CLEAR_TOLERANCE


@dataclass(frozen=True, eq=False)
class LeastSquares(Problem):
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
        vars(self).update(
            templates=templates, targets=targets, gram=np.ascontiguousarray(templates.T @ templates)
        )

    def with_targets(self, targets: Array) -> LeastSquares:
        """Return the problem of other bags, (n_bags, r); the templates are not checked again."""
        checked = check_array(targets, "targets", (None, len(self.templates)))
        return self._with(targets=checked)

    def objective(self, prevalences: Array) -> Array:
        """Return f at one prevalence per bag, shape (n_bags,)."""
        return np.asarray((self._residuals(prevalences) ** 2).sum(axis=1) / 2)

    def gradient(self, prevalences: Array) -> Array:
        """Return M' (M alpha - q), shape (n_bags, k)."""
        return np.asarray(self._residuals(prevalences) @ self.templates)

    def hessian(self, prevalences: Array) -> Array:
        """Return M'M for every bag, shape (n_bags, k, k)."""
        return np.broadcast_to(self.gram, (len(prevalences), *self.gram.shape))

    def _residuals(self, prevalences: Array) -> Array:
        return np.asarray(prevalences @ self.templates.T - self.targets)


@dataclass(frozen=True, eq=False)
class QuadraticMatch(Problem):
    r"""A quadratic with one Gram matrix for all bags.

    .. math:: f(\alpha) = \tfrac12 \alpha' B \alpha - t \cdot \alpha

    With B_ij the inner product of the densities of classes i and j, and t_i that of class i and the
    bag, f is half the integrated squared error, less half the bag's squared norm.

    Attributes
    ----------
    gram : array of shape (k, k)
        B, symmetric and positive semidefinite.
    targets : array of shape (n_bags, k)
    """

    gram: Array
    targets: Array
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        gram = check_gram(self.gram)
        vars(self).update(
            gram=gram, targets=check_array(self.targets, "targets", (None, len(gram)))
        )

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return len(self.gram)

    def objective(self, prevalences: Array) -> Array:
        """Return f at one prevalence per bag, shape (n_bags,)."""
        inner = prevalences @ self.gram / 2 - self.targets
        return np.asarray((prevalences * inner).sum(axis=1))

    def gradient(self, prevalences: Array) -> Array:
        """Return B alpha - t, shape (n_bags, k)."""
        return np.asarray(prevalences @ self.gram - self.targets)

    def hessian(self, prevalences: Array) -> Array:
        """Return B for every bag, shape (n_bags, k, k)."""
        return np.broadcast_to(self.gram, (len(prevalences), *self.gram.shape))


@dataclass(frozen=True, eq=False)
class CauchySchwarz(Problem):
    r"""Cauchy-Schwarz divergence of each bag's density to the mixture of the class densities.

    .. math:: D(\alpha) = -\log(a \cdot \alpha) + \tfrac12 \log(\alpha' B \alpha)

    B_ij is the inner product of the densities of classes i and j, a_i that of class i and the
    bag; the term of the bag with itself is left out. D does not change when alpha is scaled, so its
    global optimum is a non-negative least squares problem: r* = argmin_{r >= 0} r'Br/2 - a.r,
    alpha = r* / sum(r*).

    Attributes
    ----------
    gram : array of shape (k, k)
        B >= 0, positive semidefinite.
    log_targets : array of shape (n_bags, k)
        log a; -inf for zero. Logarithms avoid 0/0 for a bag far from every class at a small
        bandwidth. If all are -inf, the bag has no information: objective and gap are NaN.
    """

    gram: Array
    log_targets: Array
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
        vars(self).update(gram=gram, log_targets=logs)

    @classmethod
    def from_targets(cls, gram: Array, targets: ArrayLike) -> CauchySchwarz:
        """Return the problem of inner products ``targets`` >= 0, shape (n_bags, k)."""
        a = check_non_negative(targets, "targets", (None, None), largest=np.inf)
        with np.errstate(divide="ignore"):
            return cls(gram, np.log(a))

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
            value = -np.log(match) - self._largest + np.log(norm) / 2
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

    def take(self, which: Indices) -> Self:
        """Return the problem of the bags at positions ``which``."""
        return self._with(log_targets=self.log_targets[which])

    @property
    def _largest(self) -> Array:
        largest = self.log_targets.max(axis=1)
        return np.where(np.isfinite(largest), largest, 0.0)

    def _products(self, prevalences: Array) -> tuple[Array, Array]:
        match = (self.scaled_targets * prevalences).sum(axis=1)
        norm = ((prevalences @ self.gram) * prevalences).sum(axis=1)
        return match, norm


def solve_least_squares(problem: LeastSquares, *, n_threads: int = 1) -> Solution:
    r"""Minimise the squared distance from the bag's mean over the simplex, for every bag, exactly.

    .. math:: \tfrac12 \lVert M\alpha - q \rVert^2

    ``converged`` says whether the gap is below :math:`10^{-10} m (m + \lVert q \rVert)`, with m the
    length of the longest template.
    """
    tol = _least_squares_tolerance(problem)
    if native.available():
        return _solve_least_squares_native(problem, tol, n_threads)
    linear = problem.targets @ problem.templates
    x, steps = solve_programs(problem.gram, linear, simplex=True, n_threads=n_threads)
    return certify(problem, normalised(x), steps, tol)


def solve_quadratic(problem: QuadraticMatch, *, n_threads: int = 1) -> Solution:
    r"""Minimise a quadratic function over the simplex, for every bag, exactly.

    .. math:: \tfrac12 \alpha^\top B \alpha - t \cdot \alpha

    ``converged`` says whether the gap is below 1e-10 times the sum of the largest absolute entries
    of B and t.
    """
    x, steps = solve_programs(problem.gram, problem.targets, simplex=True, n_threads=n_threads)
    size = np.abs(problem.gram).max() + np.abs(problem.targets).max(axis=1)
    return certify(problem, normalised(x), steps, TOLERANCE * size)


def solve_cauchy_schwarz(problem: CauchySchwarz, *, n_threads: int = 1) -> Solution:
    """Minimise the Cauchy-Schwarz divergence over the simplex for every bag, exactly.

    Solves the equivalent non-negative least squares problem r'Br/2 - a.r and scales r to the
    simplex. A bag without information (every a_i zero) gets the uniform prevalence, a NaN gap
    and a ConvergenceWarning.
    """
    informative = problem.is_informative
    linear = np.where(informative[:, None], problem.scaled_targets, 0.0)
    x, steps = solve_programs(problem.gram, linear, simplex=False, n_threads=n_threads)
    x[~informative] = 1.0
    # With inner products over 300 decades the solution may be lost in rounding: the best class.
    is_lost = ~(np.isfinite(x).all(axis=1) & (x.sum(axis=1) > 0))
    best = (linear[is_lost] / np.sqrt(np.diag(problem.gram))).argmax(axis=1)
    x[is_lost] = np.eye(problem.n_classes)[best]
    if not informative.all():
        warn_uninformative(int((~informative).sum()), "every class inner product is zero")
    return certify(problem, normalised(x), steps, np.full(len(x), TOLERANCE))


def certify(
    problem: LeastSquares | QuadraticMatch | CauchySchwarz, x: Array, steps: Counts, tol: Array
) -> Solution:
    """Return the solution with the objective and the gap of the problem."""
    gap = problem.gap(x)
    with np.errstate(invalid="ignore"):
        converged = gap <= tol
    return Solution(x, problem.objective(x), gap, steps, converged)


def _least_squares_tolerance(problem: LeastSquares) -> Array:
    """Return the gap below which each bag has converged, shape (n_bags,)."""
    longest = math.sqrt(problem.gram.diagonal().max())
    lengths = np.sqrt(np.einsum("br,br->b", problem.targets, problem.targets))
    return np.asarray(TOLERANCE * longest * (lengths + longest))


def _solve_least_squares_native(problem: LeastSquares, tol: Array, n_threads: int) -> Solution:
    n, (r, k) = problem.n_bags, problem.templates.shape
    x, (objective, gap), steps = np.empty((n, k)), np.empty((2, n)), np.empty(n, dtype=np.int64)
    native.call(
        "kdey_solve_least_squares",
        *(problem.templates, problem.gram, problem.targets, None, n, r, k, PASSES),
        *(int(n_threads), x, objective, gap, steps),
    )
    return Solution(x, objective, gap, steps, gap <= tol)


_IS_DOUBLE = {np.dtype(np.float32): 0, np.dtype(np.float64): 1}


class OneBagMean:
    """The prevalence of a bag from its mean row, by counting or by least squares.

    Parameters
    ----------
    n_classes : int
    crisp : bool
        Whether decisions are counted instead of averaging posteriors.
    problem : LeastSquares, optional
        Its templates, shape (k, k), are matched; without it the mean row is the prevalence.
    """

    def __init__(self, n_classes: int, crisp: bool, problem: LeastSquares | None = None) -> None:
        self._n_classes = n_classes
        self._problem = problem  # keeps the arrays alive whose addresses are noted
        templates = None if problem is None else native.address(problem.templates)
        gram = None if problem is None else native.address(problem.gram)
        self._call = native.function("kdey_match_one_bag")
        self._before_out: tuple[float | None, ...] = (
            *(n_classes, int(crisp), templates, gram),
            *(PASSES, CLEAR_TOLERANCE, TOLERANCE),
        )

    def __call__(self, posteriors: Any) -> Array | None:
        """Return the prevalence of float posteriors (m, k) on the simplex, otherwise None."""
        if type(posteriors) is not np.ndarray:  # a masked array is another type
            return None
        is_double = _IS_DOUBLE.get(posteriors.dtype)
        shape = posteriors.shape
        if is_double is None or len(shape) != 2 or shape[1] != self._n_classes or not shape[0]:
            return None
        if not posteriors.flags.c_contiguous:
            return None
        prevalence = np.empty(self._n_classes)
        source, out = native.address(posteriors), native.address(prevalence)
        if self._call(source, is_double, shape[0], *self._before_out, out) != 0:
            return None
        return prevalence if self._problem is not None else prevalence / np.add.reduce(prevalence)


def one_bag_mean(
    row_map: RowMap, n_classes: int, problem: LeastSquares | None = None
) -> OneBag | None:
    """Return :class:`OneBagMean`; None if rows are not posteriors, or without the native core."""
    has_rows_of_classes = problem is None or problem.templates.shape == (n_classes, n_classes)
    if not isinstance(row_map, PosteriorMap) or not has_rows_of_classes or not native.available():
        return None
    return OneBagMean(n_classes, row_map.crisp, problem)


class Mean(Matching[LeastSquares]):
    """The mean row is the prevalence: CC and PCC."""

    # Nothing is inverted, so there is no moment equation.
    interval_source: ClassVar[IntervalSource] = "bootstrap"

    def problem(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> LeastSquares:
        """Return the squared distance from the mean row."""
        means = rows.mean(bags)
        return LeastSquares(np.eye(means.shape[1]), means)

    def solve(self, problem: LeastSquares, n_threads: int = 1) -> Solution:
        """Return the mean rows, scaled to a sum of one (posteriors may deviate slightly)."""
        means = problem.targets
        return exact_solution(means / means.sum(axis=1, keepdims=True))

    def one_bag(self, row_map: RowMap) -> OneBag | None:
        """Return a single native call for a bag."""
        return one_bag_mean(row_map, row_map.templates.shape[0])

    def device_form(self, row_map: RowMap) -> DeviceForm | None:
        """Return the form of mean rows."""
        return means_on_device(row_map)


class MatchMeans(Matching[LeastSquares]):
    """Least squares between mean rows and templates: ACC, PACC."""

    # Templates are class means of the rows.
    interval_source: ClassVar[IntervalSource] = "moments"

    def device_form(self, row_map: RowMap) -> DeviceForm | None:
        """Return the form of mean rows."""
        return means_on_device(row_map)

    def problem(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> LeastSquares:
        """Return the least squares problem."""
        return _first_problem(row_map).with_targets(rows.mean(bags))

    def solve(self, problem: LeastSquares, n_threads: int = 1) -> Solution:
        """Return the solution on the simplex."""
        return solve_least_squares(problem, n_threads=n_threads)

    def one_bag(self, row_map: RowMap) -> OneBag | None:
        """Return a single native call for a bag."""
        problem = _first_problem(row_map)
        return one_bag_mean(row_map, problem.templates.shape[1], problem)


def match_templates(templates: Array, targets: Array, n_threads: int = 1) -> Array:
    """Return the least squares prevalences of n bags with their own templates, shape (n, k).

    ``templates`` has shape (n, r, k); ``targets``, the mean rows, has shape (n, r).
    """
    gram = templates.transpose(0, 2, 1) @ templates
    linear = (targets[:, None, :] @ templates)[:, 0, :]
    x, _ = solve_programs(gram, linear, simplex=True, n_threads=n_threads)
    return normalised(x)


def _first_problem(row_map: RowMap) -> LeastSquares:
    """Return a problem whose target is zero: templates are checked and multiplied once per fit."""
    templates = row_map.templates
    return row_map.derived(
        "least squares", lambda: LeastSquares(templates, np.zeros((1, len(templates))))
    )


class MatchCauchySchwarz(Matching[CauchySchwarz]):
    """Cauchy-Schwarz divergence between densities: KDEy-CS."""

    interval_source: ClassVar[IntervalSource] = "bootstrap"

    def device_form(self, row_map: RowMap) -> DeviceForm | None:
        """Return "cauchy-schwarz" if rows are mean kernels."""
        return "cauchy-schwarz" if isinstance(row_map, OverlapMap) else None

    def problem(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> CauchySchwarz:
        """Return the problem."""
        return CauchySchwarz(row_map.templates, rows.log_mean(bags))

    def solve(self, problem: CauchySchwarz, n_threads: int = 1) -> Solution:
        """Return the global optimum."""
        return solve_cauchy_schwarz(problem, n_threads=n_threads)


class MatchSquares(Matching[QuadraticMatch]):
    """Integrated squared error between densities: KDEy-L2."""

    interval_source: ClassVar[IntervalSource] = "bootstrap"

    def device_form(self, row_map: RowMap) -> DeviceForm | None:
        """Return "quadratic" if rows are mean kernels."""
        return "quadratic" if isinstance(row_map, OverlapMap) else None

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1
    ) -> QuadraticMatch:
        """Return the problem."""
        return QuadraticMatch(row_map.templates, rows.mean(bags))

    def solve(self, problem: QuadraticMatch, n_threads: int = 1) -> Solution:
        """Return the optimum on the simplex."""
        return solve_quadratic(problem, n_threads=n_threads)


class MatchEmbeddings(MatchSquares):
    """Squared distance between mean embeddings: EDy, EDx, KMM."""

    # Templates are class means of the rows.
    interval_source: ClassVar[IntervalSource] = "moments"
