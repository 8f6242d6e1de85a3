r"""Sequential quadratic programming on the simplex, for any problem and all bags together.

Each iteration minimises the quadratic model g.(x - alpha) + (x - alpha)'H(x - alpha)/2 over the
simplex (``quadratic.py``) and backtracks along the step; with exact Hessians this is mix-SQP
(Kim, Carbonetto, Stephens and Anitescu, 2020). This is the generic solver; the separable problems
also have a native one, see ``separable.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kdey.problems.interface import Array, Indices, Problem
from kdey.solvers.quadratic import solve_programs
from kdey.solvers.solution import Solution, interior_start

P = TypeVar("P", bound=Problem)

#: Share of the promised decrease that a step must achieve (Armijo).
SUFFICIENT = 1e-4
#: Objectives closer than this (relative) are equal up to rounding.
ROUNDING = 1e-14
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
    state = _State.initial(problem, start)
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
class _State:
    """Current points of all bags; ``active`` has the positions of those still iterating."""

    active: Indices
    x: Array
    value: Array
    gradient: Array
    resting: NDArray[np.bool_]
    n_iter: NDArray[np.int64]
    converged: NDArray[np.bool_]

    @classmethod
    def initial(cls, problem: Problem, start: Array | None) -> _State:
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
    problem: P, state: _State, polish: Callable[[P, Array], Array] | None, n_threads: int
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


def _backtrack(problem: Problem, state: _State, z: Array, promise: Array) -> Array:
    """Move the active bags towards ``z`` as far as the objective falls; return the fractions.

    A point with an infinite slope is rejected too, because it has no quadratic model.
    """
    active = state.active
    x, value = state.x[active], state.value[active]
    slack = ROUNDING * (1.0 + np.abs(value))
    t = np.ones(len(x))
    pending = np.arange(len(x))
    for _ in range(HALVINGS):
        part = problem if len(pending) == len(x) else problem.take(pending)
        share = t[pending]
        step = share[:, None] * (z - x)[pending]
        trial = _on_simplex(x[pending] + step)
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
    middle = _slope(problem.gradient(_on_simplex(x + step / 2)), step)
    return np.asarray((end <= 0) | (end + middle <= 0))


def _slope(gradient: Array, step: Array) -> Array:
    """Return gradient . step, accurate also if all entries of the gradient are nearly equal.

    Steps sum to zero only up to rounding, so the gradient is taken relative to its least entry.
    """
    with np.errstate(invalid="ignore"):
        spread = gradient - gradient.min(axis=1, keepdims=True)
        return np.asarray(np.where(step == 0, 0.0, spread * step).sum(axis=1))


def _set_points(problem: Problem, state: _State, bags: Indices, x: Array) -> None:
    state.x[bags] = x
    state.value[bags], state.gradient[bags] = problem.objective(x), problem.gradient(x)


def _on_simplex(x: Array) -> Array:
    clipped = np.maximum(x, 0.0)
    return np.asarray(clipped / clipped.sum(axis=1, keepdims=True))
