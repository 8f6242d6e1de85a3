r"""Quadratic programs on the simplex or over x >= 0, sequential quadratic programming, penalties.

.. math:: \min_x \tfrac12 x'Qx - c \cdot x \quad \text{over } x \ge 0
          \text{ or over the simplex}

:func:`solve_programs` is a primal active-set method (Lawson and Hanson, 1974) for many small
programs at once. It minimises over the classes in play, moves until one of them reaches zero and
leaves, and lets the class with the most negative reduced gradient enter, until there is none. Q may
be singular (duplicated classes): each pass adds a proximal term delta/2 sum_i Q_ii (x_i - y_i)^2
around the last iterate y. It makes the program strictly convex and vanishes at the solution, so
that a few passes are accurate up to rounding.

:func:`solve_sqp` is the generic solver, for any problem and all bags together. Each iteration
minimises the quadratic model g.(x - alpha) + (x - alpha)'H(x - alpha)/2 over the simplex and
backtracks along the step; with exact Hessians this is mix-SQP (Kim, Carbonetto, Stephens and
Anitescu, 2020). Likelihoods and divergences also have a native one (``src/native/separable.cpp``).

:class:`PenalisedProblem` is what only this solver can solve, any convex problem with a quadratic
penalty on the prevalence (ordered classes, RLLS):

.. math:: f(\alpha) + \tfrac12 \| L \alpha - c \|^2
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from kdey import native
from kdey.bags import Array, Bags, Indices
from kdey.matching import (
    DeviceForm,
    IntervalSource,
    Matching,
    Problem,
    Solution,
    check_array,
    frank_wolfe_gap,
    interior_start,
)
from kdey.rows import RowMap, Rows
from kdey.rows.posterior import PosteriorMap

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


def normalised(x: Array) -> Array:
    """Return rows scaled to a sum of one."""
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


P = TypeVar("P", bound=Problem)

#: Share of the promised decrease that a step must achieve (Armijo).
SUFFICIENT = 1e-4

#: Objectives closer than this (relative) are equal up to rounding.
VALUE_ROUNDING = 1e-14

#: Without a certificate, iterations stop once the model promises a decrease below this.
REST = 1e-12

#: Largest number of times that a step is halved.
HALVINGS = 40

#: Curvature below this share of the spread of the slopes is raised to it.
FLAT = 1e-9


def solve_sqp(
    problem: P,
    *,
    tol: float = 1e-8,
    max_iter: int = 200,
    start: Array | None = None,
    polish: Callable[[P, Array], Array] | None = None,
    n_threads: int = 1,
) -> Solution:
    """Minimise any problem that has a gradient and a Hessian model, for every bag.

    Parameters
    ----------
    problem : Problem
    tol : float
        Stop a bag once its gap is at most this; where the gap is NaN, once the model promises
        a decrease below 1e-12.
    max_iter : int
    start : array of shape (B, k), optional
        Warm starts; by default the uniform prevalence.
    polish : callable, optional
        ``polish(problem, prevalences)`` returns prevalences that are at least as good; applied to
        the bags whose step had to be shortened.
    n_threads : int
        For the quadratic programs.

    Returns
    -------
    solution : Solution
    """
    state = _SqpState.initial(problem, start)
    part = problem
    for iteration in range(1, int(max_iter) + 1):
        keep = state.retire(part.gap(state.x[state.active]), tol)
        if len(keep) == 0:
            break
        if len(keep) < len(state.active):
            part, state.active = part.take(keep), state.active[keep]
        state.n_iter[state.active] = iteration
        _advance(part, state, polish, n_threads)
    gap = problem.gap(state.x)
    state.retire(gap[state.active], tol)
    # The gap that is returned decides; the last digits differ if fewer bags are evaluated.
    rested = state.converged & (not problem.convex)
    converged = np.where(np.isnan(gap), rested, gap <= tol)
    return Solution(state.x, problem.objective(state.x), gap, state.n_iter, converged)


@dataclass(eq=False)
class _SqpState:
    """Current points of all bags; ``active`` has the positions of those still iterating."""

    active: Indices
    x: Array
    value: Array
    gradient: Array
    resting: NDArray[np.bool_]
    n_iter: NDArray[np.int64]
    converged: NDArray[np.bool_]

    @classmethod
    def initial(cls, problem: Problem, start: Array | None) -> _SqpState:
        n = problem.n_bags
        x = interior_start(problem, start)
        flags = np.zeros(n, dtype=np.bool_)
        count = np.zeros(n, dtype=np.int64)
        value, gradient = problem.objective(x), problem.gradient(x)
        return cls(np.arange(n), x, value, gradient, flags, count, flags.copy())

    def retire(self, gap: Array, tol: float) -> Indices:
        """Mark active bags that are done; return the positions of the others among the active."""
        resting = self.resting[self.active]
        with np.errstate(invalid="ignore"):
            reached = (gap <= tol) | (np.isnan(gap) & resting)
        self.converged[self.active] = reached
        return np.flatnonzero(~(reached | resting))


def _advance(
    problem: P, state: _SqpState, polish: Callable[[P, Array], Array] | None, n_threads: int
) -> None:
    """Make one step of every active bag."""
    active = state.active
    x, g = state.x[active], state.gradient[active]
    h = problem.hessian(x)
    if polish is None:  # likelihoods, which have one, are always curved
        h = _with_curvature(h, x, g)
    linear = np.einsum("bij,bj->bi", h, x) - g
    z, _ = solve_programs(h, linear, simplex=True, start=x, passes=1, n_threads=n_threads)
    promise = _slope(g, z - x)
    t = _backtrack(problem, state, z, promise)
    shortened = np.flatnonzero(t < 1)
    if polish is not None and len(shortened):
        part = problem.take(shortened)
        _set_points(part, state, active[shortened], polish(part, state.x[active[shortened]]))
    stuck = (t == 0) & (polish is None)
    state.resting[active] = stuck | (np.isnan(problem.gap(x)) & (-promise <= REST))


def _with_curvature(hessian: Array, x: Array, gradient: Array) -> Array:
    """Return the Hessian models, with curvature added if it is negligible beside the slopes.

    A bag far from every class has such a model. The step then still leads to the right vertex and
    stays finite.
    """
    with np.errstate(invalid="ignore"):
        spread = np.ptp(gradient, axis=1)
    floor = FLAT * np.where(np.isfinite(spread), spread, 0.0)
    flat = np.einsum("bi,bij,bj->b", x, hessian, x) < floor
    if not flat.any():
        return hessian
    return np.asarray(hessian + (flat * floor)[:, None, None] * np.eye(x.shape[1]))


def _backtrack(problem: Problem, state: _SqpState, z: Array, promise: Array) -> Array:
    """Move the active bags towards ``z`` as far as the objective falls; return the fractions.

    A point with an infinite slope is rejected too, because it has no quadratic model.
    """
    active = state.active
    x, value = state.x[active], state.value[active]
    slack = VALUE_ROUNDING * (1.0 + np.abs(value))
    t = np.ones(len(x))
    pending = np.arange(len(x))
    for _ in range(HALVINGS):
        part = problem if len(pending) == len(x) else problem.take(pending)
        share = t[pending]
        step = share[:, None] * (z - x)[pending]
        trial = _clipped(x[pending] + step)
        new, gradient = part.objective(trial), part.gradient(trial)
        if problem.convex:
            good = _is_decrease(part, x[pending], step, gradient)
        else:
            good = new <= value[pending] + SUFFICIENT * share * promise[pending] + slack[pending]
        good &= np.isfinite(gradient).all(axis=1)
        done = active[pending[good]]
        state.x[done], state.value[done], state.gradient[done] = (
            trial[good],
            new[good],
            gradient[good],
        )
        pending = pending[~good]
        if len(pending) == 0:
            return t
        t[pending] /= 2
    t[pending] = 0.0
    return t


def _is_decrease(problem: Problem, x: Array, step: Array, gradient: Array) -> NDArray[np.bool_]:
    """Return whether a convex objective certainly falls along ``step``, judged by slopes.

    The slope rises along the step, so half the sum of the slopes at its middle and its end bounds
    the change. Unlike objective values, this bound is not lost in rounding, nor in the tiny weight
    of a row whose mixture the step nearly removes.
    """
    end = _slope(gradient, step)
    middle = _slope(problem.gradient(_clipped(x + step / 2)), step)
    return np.asarray((end <= 0) | (end + middle <= 0))


def _slope(gradient: Array, step: Array) -> Array:
    """Return gradient . step, accurate also if all entries of the gradient are nearly equal.

    Steps sum to zero only up to rounding, so the gradient is taken relative to its least entry.
    """
    with np.errstate(invalid="ignore"):
        spread = gradient - gradient.min(axis=1, keepdims=True)
        return np.asarray(np.where(step == 0, 0.0, spread * step).sum(axis=1))


def _set_points(problem: Problem, state: _SqpState, bags: Indices, x: Array) -> None:
    state.x[bags] = x
    state.value[bags], state.gradient[bags] = problem.objective(x), problem.gradient(x)


def _clipped(x: Array) -> Array:
    clipped = np.maximum(x, 0.0)
    return np.asarray(clipped / clipped.sum(axis=1, keepdims=True))


#: Confidence of RLLS's bound on the error of the templates, and the factor by which its authors
#: multiply three times that bound.
RLLS_DELTA, RLLS_FACTOR = 0.05, 0.01

#: Classes that weights make rarer than this are penalised as if they were as frequent.
_SMALLEST_PREVALENCE = 1e-12


def second_differences(n_classes: int) -> Array:
    """Return the matrix that takes second differences, shape (k - 2, k), or (0, k) if k < 3."""
    matrix = np.zeros((max(n_classes - 2, 0), n_classes))
    for row in range(len(matrix)):
        matrix[row, row : row + 3] = (1.0, -2.0, 1.0)
    return matrix


def finite_sample_strength(n_classes: int, n_instances: float) -> float:
    """Return RLLS's strength for a number of training instances."""
    logs = math.log(2.0 * n_classes / RLLS_DELTA)
    bound = 2.0 * logs / (3.0 * n_instances) + math.sqrt(2.0 * logs / n_instances)
    return (RLLS_FACTOR * 3.0 * bound) ** 2


def _check_strength(strength: Any) -> None:
    number = isinstance(strength, int | float | np.number) and not isinstance(strength, bool)
    if not number or not 0.0 <= float(strength) < math.inf:
        raise ValueError(f"strength must be a number of at least 0, got {strength!r}")


@dataclass(frozen=True, eq=False)
class PenalisedProblem(Problem):
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

    def take(self, which: Indices) -> Self:
        """Return the problem of the bags at positions ``which``."""
        return self._with(inner=self.inner.take(which))

    def _add_slope(self, inner: Array, prevalences: Array) -> Array:
        """Return the gradient of the inner problem plus that of the penalty."""
        residuals = prevalences @ self.matrix.T - self.centre
        return np.asarray(np.where(np.isnan(inner), 0.0, inner) + residuals @ self.matrix)


@dataclass(frozen=True)
class Penalised(Matching[PenalisedProblem]):
    """Base: the convex problem of ``inner`` plus a quadratic penalty, to a certified optimum.

    Intervals are bootstrapped: they show how the penalised estimate varies, and not the bias that a
    penalty accepts in exchange.

    Attributes
    ----------
    inner : Matching
        Any matching whose problem is convex: means, densities, divergences, a likelihood.
    strength : float or None
        tau; what None means is up to the subclass.
    tol : float
        Gap of the penalised objective to reach.
    """

    inner: Matching[Any]
    strength: float | None = None
    tol: float = 1e-9
    interval_source: ClassVar[IntervalSource] = "bootstrap"

    def __post_init__(self) -> None:
        if self.strength is not None:
            _check_strength(self.strength)

    def terms(self, row_map: RowMap, n_classes: int) -> tuple[Array, Array]:
        """Return L, shape (p, k), and c, shape (p,); p may be zero."""
        raise NotImplementedError

    def device_form(self, row_map: RowMap) -> DeviceForm | None:
        """Return "means" if the inner matching needs nothing else."""
        return "means" if self.inner.device_form(row_map) == "means" else None

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1
    ) -> PenalisedProblem:
        """Return the inner problem with the penalty added."""
        inner = self.inner.problem(row_map, rows, bags, n_threads)
        return PenalisedProblem(inner, *self.terms(row_map, inner.n_classes))

    def solve(self, problem: PenalisedProblem, n_threads: int = 1) -> Solution:
        """Return the optimum on the simplex."""
        return solve_sqp(problem, tol=self.tol, n_threads=n_threads)


class SmoothShares(Penalised):
    r"""The penalty :math:`\tfrac{\tau}{2} \sum_i (\alpha_{i-1} - 2 \alpha_i + \alpha_{i+1})^2`.

    Two classes have no second difference, and no penalty.
    """

    def __post_init__(self) -> None:
        _check_strength(self.strength)

    def terms(self, row_map: RowMap, n_classes: int) -> tuple[Array, Array]:
        """Return L and c; the classes are ordered as their codes are."""
        differences = second_differences(n_classes)
        return math.sqrt(cast(float, self.strength)) * differences, np.zeros(len(differences))


class ShrunkRatios(Penalised):
    r"""The penalty :math:`\tfrac{\tau}{2} \sum_i (\alpha_i / \pi_i - 1)^2`.

    :math:`\pi` is the training prevalence. A strength of None is RLLS's finite-sample rule for n
    training instances: the square of 0.01 times 3 times the bound

    .. math:: \frac{2 \log(2k / \delta)}{3 n} + \sqrt{\frac{2 \log(2k / \delta)}{n}},
              \qquad \delta = 0.05.
    """

    def terms(self, row_map: RowMap, n_classes: int) -> tuple[Array, Array]:
        """Return L and c for the training weight of the classes, which the row map has learnt."""
        mass = row_map.mass if isinstance(row_map, PosteriorMap) else None
        if mass is None:
            raise ValueError(
                f"{type(row_map).__name__} does not know the training prevalence: ratios to it "
                "can be shrunk with PosteriorMap(crisp, adjusted=True) alone"
            )
        strength = self.strength
        if strength is None:
            strength = finite_sample_strength(n_classes, float(mass.sum()))
        root = math.sqrt(strength)
        prevalence = np.maximum(mass / mass.sum(), _SMALLEST_PREVALENCE)
        return np.diag(root / prevalence), np.full(n_classes, root)
