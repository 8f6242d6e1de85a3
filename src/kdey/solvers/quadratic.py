r"""Quadratic programs on the simplex or over x >= 0: the exact solver and the problems it solves.

.. math:: \min_x \tfrac12 x'Qx - c \cdot x \quad \text{over } x \ge 0
          \text{ or over the simplex}

:func:`solve_programs` is a primal active-set method (Lawson and Hanson, 1974) for many small
programs at once. It minimises over the classes in play, moves until one of them reaches zero and
leaves, and lets the class with the most negative reduced gradient enter, until there is none. Q may
be singular (duplicated classes): each pass adds a proximal term delta/2 sum_i Q_ii (x_i - y_i)^2
around the last iterate y. It makes the program strictly convex and vanishes at the solution, so
that a few passes are accurate up to rounding.

Least squares (ACC, PACC), the integrated squared error (KDEy-L2) and, after a change of scale, the
Cauchy-Schwarz divergence (KDEy-CS) are such programs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from sklearn.exceptions import ConvergenceWarning

from kdey import native
from kdey._support.warnings import warn
from kdey.problems.cauchy_schwarz import CauchySchwarz
from kdey.problems.interface import Array
from kdey.problems.least_squares import LeastSquares, QuadraticMatch
from kdey.solvers.solution import Solution

Counts = NDArray[np.int64]
#: Proximal weight relative to the diagonal: far above rounding (k times 2e-16), far below any
#: curvature that changes an objective by 1e-10. The native solver has the same number.
PROXIMAL = 1e-11
#: Reduced gradients smaller than this share of their terms are rounding.
ROUNDING = 1e-14
#: Number of passes after which the proximal term has vanished.
PASSES = 4
#: Largest accepted gap, relative to the terms of the objective.
TOLERANCE = 1e-10


def solve_least_squares(
    problem: LeastSquares, *, start: Array | None = None, n_threads: int = 1
) -> Solution:
    r"""Minimise the squared distance from the bag's mean over the simplex, for every bag, exactly.

    .. math:: \tfrac12 \lVert M\alpha - q \rVert^2

    ``converged`` says whether the gap is below :math:`10^{-10} m (m + \lVert q \rVert)`, with m the
    length of the longest template.
    """
    tol = _least_squares_tolerance(problem)
    if native.available():
        return _solve_least_squares_native(problem, start, tol, n_threads)
    linear = problem.targets @ problem.templates
    x, steps = solve_programs(problem.gram, linear, simplex=True, start=start, n_threads=n_threads)
    return _certify(problem, _normalised(x), steps, tol)


def solve_quadratic(
    problem: QuadraticMatch, *, start: Array | None = None, n_threads: int = 1
) -> Solution:
    r"""Minimise a quadratic function over the simplex, for every bag, exactly.

    .. math:: \tfrac12 \alpha^\top B \alpha - t \cdot \alpha

    ``converged`` says whether the gap is below 1e-10 times the sum of the largest absolute entries
    of B and t.
    """
    x, steps = solve_programs(
        problem.gram, problem.targets, simplex=True, start=start, n_threads=n_threads
    )
    size = np.abs(problem.gram).max() + np.abs(problem.targets).max(axis=1)
    return _certify(problem, _normalised(x), steps, TOLERANCE * size)


def solve_cauchy_schwarz(
    problem: CauchySchwarz, *, start: Array | None = None, n_threads: int = 1
) -> Solution:
    """Minimise the Cauchy-Schwarz divergence over the simplex for every bag, exactly.

    Solves the equivalent non-negative least squares problem r'Br/2 - a.r and scales r to the
    simplex. A bag without information (every a_i zero) gets the uniform prevalence, a NaN gap
    and a ConvergenceWarning.
    """
    informative = problem.is_informative
    linear = np.where(informative[:, None], problem.scaled_targets, 0.0)
    x, steps = solve_programs(problem.gram, linear, simplex=False, start=start, n_threads=n_threads)
    x[~informative] = 1.0
    # With inner products over 300 decades the solution may be lost in rounding: the best class.
    is_lost = ~(np.isfinite(x).all(axis=1) & (x.sum(axis=1) > 0))
    best = (linear[is_lost] / np.sqrt(np.diag(problem.gram))).argmax(axis=1)
    x[is_lost] = np.eye(problem.n_classes)[best]
    if not informative.all():
        warn_uninformative(int((~informative).sum()), "every class inner product is zero")
    return _certify(problem, _normalised(x), steps, np.full(len(x), TOLERANCE))


def solve_programs(
    gram: Array,
    linear: Array,
    *,
    simplex: bool,
    start: Array | None = None,
    passes: int = PASSES,
    n_threads: int = 1,
) -> tuple[Array, Counts]:
    """Solve B quadratic programs exactly by the active-set method.

    Parameters
    ----------
    gram : array of shape (k, k) or (B, k, k)
        Q, symmetric positive semidefinite: one for all programs, or one for each.
    linear : array of shape (B, k)
        c. Over x >= 0 the program must be bounded (c in the range of Q).
    simplex : bool
        Whether x must also sum to one.
    start : array of shape (B, k), optional
        Feasible starting points; also the first centre of the proximal term.
    passes : int
        Proximal passes; one is enough inside an outer iteration.
    n_threads : int
        Native threads over the programs; the result does not depend on it.

    Returns
    -------
    x : array of shape (B, k)
        The minimisers.
    steps : int64 array of shape (B,)
        Number of active-set steps.
    """
    linear = np.ascontiguousarray(linear, dtype=np.float64)
    n, k = linear.shape
    shared = gram.ndim == 2
    if gram.shape[-2:] != (k, k) or not (shared or len(gram) == n):
        raise ValueError(f"gram must have shape ({k}, {k}) or ({n}, {k}, {k}), got {gram.shape}")
    solve = _solve_native if native.available() else _solve_numpy
    x, steps = solve(gram, linear, simplex, start, passes, n_threads)
    return _on_simplex(x, gram, linear) if simplex else x, steps


def warn_uninformative(count: int, why: str) -> None:
    """Warn that ``count`` bags got the uniform prevalence, and why."""
    warn(
        f"{count} bag(s) carry no information ({why}): the uniform prevalence is returned for "
        "them, with converged=False and gap=NaN",
        ConvergenceWarning,
        stacklevel=3,
    )


def _certify(
    problem: LeastSquares | QuadraticMatch | CauchySchwarz, x: Array, steps: Counts, tol: Array
) -> Solution:
    gap = problem.gap(x)
    with np.errstate(invalid="ignore"):
        converged = gap <= tol
    return Solution(x, problem.objective(x), gap, steps, converged)


def _normalised(x: Array) -> Array:
    return np.asarray(x / x.sum(axis=1, keepdims=True))


def _on_simplex(x: Array, gram: Array, linear: Array) -> Array:
    """Return ``x``, with the best vertex for programs whose solution is lost in rounding.

    If the entries of c are 1e16 times those of Q, or Q nearly underflows, the condition that x sums
    to one is lost in rounding, and only the vertices can be compared.
    """
    with np.errstate(invalid="ignore"):
        is_lost = ~(np.abs(x.sum(axis=1) - 1.0) < 0.5)
    if is_lost.any():
        diagonal = np.diagonal(gram, axis1=-2, axis2=-1)
        values = (diagonal / 2 - linear)[is_lost]
        x[is_lost] = np.eye(x.shape[1])[values.argmin(axis=1)]
    return x


def _least_squares_tolerance(problem: LeastSquares) -> Array:
    """Return the gap below which each bag has converged, shape (n_bags,)."""
    longest = math.sqrt(problem.gram.diagonal().max())
    lengths = np.sqrt(np.einsum("br,br->b", problem.targets, problem.targets))
    return np.asarray(TOLERANCE * longest * (lengths + longest))


def _solve_least_squares_native(
    problem: LeastSquares, start: Array | None, tol: Array, n_threads: int
) -> Solution:
    n, (r, k) = problem.n_bags, problem.templates.shape
    x, (objective, gap), steps = np.empty((n, k)), np.empty((2, n)), np.empty(n, dtype=np.int64)
    first = None if start is None else np.ascontiguousarray(start, dtype=np.float64)
    native.call(
        "kdey_solve_least_squares",
        *(problem.templates, problem.gram, problem.targets, first, n, r, k, PASSES),
        *(int(n_threads), x, objective, gap, steps),
    )
    return Solution(x, objective, gap, steps, gap <= tol)


def _solve_native(
    gram: Array, linear: Array, simplex: bool, start: Array | None, passes: int, n_threads: int
) -> tuple[Array, Counts]:
    n, k = linear.shape
    x = np.empty((n, k))
    steps = np.empty(n, dtype=np.int64)
    grams = np.ascontiguousarray(gram, dtype=np.float64)
    first = None if start is None else np.ascontiguousarray(start, dtype=np.float64)
    stride = 0 if gram.ndim == 2 else k * k
    native.call(
        "kdey_solve_programs",
        *(grams, stride, linear, first, n, k, int(simplex), int(passes), int(n_threads), x, steps),
    )
    return x, steps


def _solve_numpy(
    gram: Array, linear: Array, simplex: bool, start: Array | None, passes: int, n_threads: int
) -> tuple[Array, Counts]:
    n, k = linear.shape
    shared = gram.ndim == 2
    x, uniform = np.empty((n, k)), np.full(k, 1 / k)
    steps = np.empty(n, dtype=np.int64)
    for b in range(n):
        first = None if start is None else start[b]
        centre = uniform if shared or first is None else first
        # Infinite values and NaN remain in the solution, where the callers check for them.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            program = _Program.of(gram if shared else gram[b], linear[b], simplex, centre)
            x[b], steps[b] = _solve_program(program, first, passes)
    return x, steps


@dataclass(frozen=True, eq=False)
class _Program:
    """One program with its proximal term included: Q + delta diag Q, and c unchanged."""

    gram: Array
    ridged: Array
    linear: Array
    diagonal: Array
    level: float

    @classmethod
    def of(cls, gram: Array, linear: Array, simplex: bool, centre: Array) -> _Program:
        largest = float(np.diag(gram).max())
        largest = largest if largest > 0 else 1.0
        # On the simplex Q + m 11' has the same minimisers for any m; this m has the scale of Q.
        natural = float(centre @ gram @ centre)
        level = (natural if natural > 0 else largest) if simplex else 0.0
        raised = gram + level
        diagonal = np.diag(raised).copy()
        diagonal[diagonal <= 0] = largest
        return cls(gram, raised + np.diag(PROXIMAL * diagonal), linear, diagonal, level)


def _solve_program(program: _Program, start: Array | None, passes: int) -> tuple[Array, int]:
    x = _first_point(program) if start is None else start.copy()
    steps = 0
    for _ in range(passes):
        linear = program.linear + PROXIMAL * program.diagonal * x
        moved, n_steps = _solve_strict(program, linear, x)
        steps += n_steps
        settled = np.abs(moved - x).max() <= 1e-15 * np.abs(moved).max()
        x = moved
        if settled:
            break
    return x, steps


def _first_point(program: _Program) -> Array:
    k = len(program.linear)
    x = np.full(k, 1 / k)
    if program.level == 0:
        curve, slope = float(x @ program.gram @ x), float(program.linear @ x)
        x *= slope / curve if slope > 0 and curve > 0 else 0.0
    return x


def _solve_strict(program: _Program, linear: Array, x: Array) -> tuple[Array, int]:
    """Minimise the strictly convex pass by the active-set method, from a feasible ``x``."""
    free = x > 0
    barred = np.zeros(len(x), dtype=np.bool_)
    limit = 10 * len(x) + 50
    entered = -1
    for steps in range(1, limit + 1):
        z, shift = _solve_free(program, linear, free)
        out = free & (z <= 0)
        if out.any():
            with np.errstate(divide="ignore", invalid="ignore"):
                reach = np.where(out, x / (x - z), np.inf)
            t = min(1.0, float(np.nanmin(reach)))
            x = np.where(free, x + t * (z - x), 0.0)
            leaving = out & ((reach <= t) | (x <= 0))
            if entered >= 0 and leaving[entered] and t == 0:
                barred[entered] = True
            x[leaving] = 0.0
            free &= ~leaving
            continue
        x = np.where(free, z, 0.0)
        entered = _most_negative(program, linear, x, shift, free | barred)
        if entered < 0:
            return x, steps
        free[entered] = True
    return x, limit


def _solve_free(program: _Program, linear: Array, free: NDArray[np.bool_]) -> tuple[Array, float]:
    """Return the minimiser over the free classes, and the multiplier of the simplex condition."""
    z = np.zeros(len(linear))
    if not free.any():
        return z, 0.0
    factor = _factor(program.ridged[np.ix_(free, free)])
    if factor is None:
        return np.where(free, np.nan, 0.0), 0.0
    z[free] = cho_solve(factor, linear[free], check_finite=False)
    if program.level == 0:
        return z, 0.0
    ones = np.zeros(len(linear))
    ones[free] = cho_solve(factor, np.ones(int(free.sum())), check_finite=False)
    shift = (1.0 - z.sum()) / ones.sum()
    return z + shift * ones, float(shift)


def _factor(gram: Array) -> tuple[Array, bool] | None:
    """Return the Cholesky factor of ``gram``, with its diagonal raised if rounding requires it.

    None if the matrix has infinite entries and no diagonal helps.
    """
    diagonal = np.diag(np.diag(gram))
    for share in (0.0, 1e-12, 1e-9, 1e-6):
        try:
            factor: tuple[Array, bool] = cho_factor(gram + share * diagonal, lower=True)
        except (LinAlgError, ValueError):
            continue
        return factor
    return None


def _most_negative(
    program: _Program, linear: Array, x: Array, shift: float, closed: NDArray[np.bool_]
) -> int:
    """Return the class outside ``closed`` that should enter, or -1."""
    push = linear + shift
    reduced = program.ridged @ x - push
    size = np.abs(program.ridged) @ x + np.abs(linear) + abs(shift)
    score = np.where(closed | (reduced >= -ROUNDING * size), 0.0, reduced)
    score /= np.sqrt(program.diagonal)
    return int(np.argmin(score)) if score.min() < 0 else -1
