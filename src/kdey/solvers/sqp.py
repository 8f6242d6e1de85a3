r"""Sequential quadratic programming on the simplex, for any problem, bags in lockstep.

Each iteration minimises the quadratic model g.(x - alpha) + (x - alpha)'H(x - alpha)/2 over the
simplex (``active_set.py``) and backtracks along the step; with exact Hessians this is mix-SQP
(Kim, Carbonetto, Stephens and Anitescu, 2020). It is the generic path: the separable problems
have a native twin, see ``separable.py``.
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

#: Share of the promised decrease that a step must deliver (Armijo).
SUFFICIENT = 1e-4
#: Objectives closer than this (relative) are equal up to rounding.
ROUNDING = 1e-14
#: Without a certificate: the iterations rest once the model promises less than this.
REST = 1e-12
HALVINGS = 40
#: Curvature below this share of the spread of the slopes is made up for.
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
        Warm starts; the uniform prevalence where not given.
    polish : callable, optional
        ``polish(problem, prevalences)`` gives prevalences at least as good; applied to the bags
        whose step had to be shortened.
    n_threads : int
        For the quadratic programs.
    """
    state = _State.begin(problem, start)
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
    # The gap that is told decides: that of fewer bags at once can differ in its last digits.
    held = state.converged & (not problem.convex)
    converged = np.where(np.isnan(gap), held, gap <= tol)
    return Solution(state.x, problem.objective(state.x), gap, state.n_iter, converged)


@dataclass(eq=False)
class _State:
    """Where every bag stands; ``active`` holds the positions of those still iterating."""

    active: Indices
    x: Array
    value: Array
    gradient: Array
    resting: NDArray[np.bool_]
    n_iter: NDArray[np.int64]
    converged: NDArray[np.bool_]

    @classmethod
    def begin(cls, problem: Problem, start: Array | None) -> _State:
        n = problem.n_bags
        x = interior_start(problem, start)
        flags = np.zeros(n, dtype=np.bool_)
        count = np.zeros(n, dtype=np.int64)
        value, gradient = problem.objective(x), problem.gradient(x)
        return cls(np.arange(n), x, value, gradient, flags, count, flags.copy())

    def retire(self, gap: Array, tol: float) -> Indices:
        """Note which active bags are done; return the positions among them of the others."""
        resting = self.resting[self.active]
        with np.errstate(invalid="ignore"):
            reached = (gap <= tol) | (np.isnan(gap) & resting)
        self.converged[self.active] = reached
        return np.flatnonzero(~(reached | resting))


def _advance(
    problem: P, state: _State, polish: Callable[[P, Array], Array] | None, n_threads: int
) -> None:
    """Make one step of every active bag."""
    where = state.active
    x, g = state.x[where], state.gradient[where]
    h = problem.hessian(x)
    if polish is None:  # a likelihood, which has one, is curved along every prevalence
        h = _curved(h, x, g)
    linear = np.einsum("bij,bj->bi", h, x) - g
    z, _ = solve_programs(h, linear, simplex=True, start=x, passes=1, n_threads=n_threads)
    promise = _slope(g, z - x)
    t = _backtrack(problem, state, z, promise)
    shortened = np.flatnonzero(t < 1)
    if polish is not None and len(shortened):
        part = problem.take(shortened)
        _put(part, state, where[shortened], polish(part, state.x[where[shortened]]))
    stuck = (t == 0) & (polish is None)
    state.resting[where] = stuck | (np.isnan(problem.gap(x)) & (-promise <= REST))


def _curved(hessian: Array, x: Array, gradient: Array) -> Array:
    """Return the models with some curvature where they have next to none beside the slopes.

    A bag far from every class has such a model; the step still goes to the right vertex, and
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

    A point with an infinite slope is refused too: no model can be made there.
    """
    where = state.active
    x, value = state.x[where], state.value[where]
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
            good = _falls(part, x[pending], step, gradient)
        else:
            good = new <= value[pending] + SUFFICIENT * share * promise[pending] + slack[pending]
        good &= np.isfinite(gradient).all(axis=1)
        done = where[pending[good]]
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


def _falls(problem: Problem, x: Array, step: Array, gradient: Array) -> NDArray[np.bool_]:
    """Whether a convex objective is sure to fall along ``step``, judged by slopes alone.

    The slope rises along the step, so half the sum of those at its middle and its end bounds the
    change: unlike objective values it does not drown in rounding, nor in the tiny weight of a
    row whose mixture the step all but removes.
    """
    end = _slope(gradient, step)
    middle = _slope(problem.gradient(_on_simplex(x + step / 2)), step)
    return np.asarray((end <= 0) | (end + middle <= 0))


def _slope(gradient: Array, step: Array) -> Array:
    """Return gradient . step, exact also where all entries of the gradient are nearly equal.

    Steps sum to zero only up to rounding, so the gradient is taken relative to its least entry.
    """
    with np.errstate(invalid="ignore"):
        spread = gradient - gradient.min(axis=1, keepdims=True)
        return np.asarray(np.where(step == 0, 0.0, spread * step).sum(axis=1))


def _put(problem: Problem, state: _State, where: Indices, x: Array) -> None:
    state.x[where] = x
    state.value[where], state.gradient[where] = problem.objective(x), problem.gradient(x)


def _on_simplex(x: Array) -> Array:
    clipped = np.maximum(x, 0.0)
    return np.asarray(clipped / clipped.sum(axis=1, keepdims=True))
