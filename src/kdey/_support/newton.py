"""Newton's method for small smooth convex problems with lower bounds.

Bertsekas, "Projected Newton methods for optimization problems with simple constraints" (1982):
parameters at their bound that the gradient pushes against take a scaled gradient step, the
others a Newton step, and the move is projected onto the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Objective, gradient (d,) and Hessian (d, d) at a point (d,).
Evaluate: TypeAlias = Callable[[Array], tuple[float, Array, Array]]

#: Distance from a bound, in parameter units, that counts as being at it.
_AT_BOUND = 1e-6
#: Share of the largest curvature added to all: solves singular problems by (nearly) shortest
#: steps, which leaves directions that the objective does not see where they started.
_RIDGE = 1e-12


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where a minimisation ended.

    Attributes
    ----------
    point : float64 array of shape (d,)
    objective : float
    n_iter : int
    converged : bool
        Whether the last step promised to lower the objective by less than the tolerance, or
        the objective was low enough.
    """

    point: Array
    objective: float
    n_iter: int
    converged: bool


def projected_newton(
    evaluate: Evaluate,
    start: Array,
    lower: Array,
    *,
    tol: float,
    max_iter: int,
    enough: float = -math.inf,
) -> Minimum:
    """Minimise a convex function over ``point >= lower``.

    Parameters
    ----------
    evaluate : callable
        Gives objective, gradient and Hessian.
    start : float64 array of shape (d,)
        At or above ``lower``.
    lower : float64 array of shape (d,)
        -inf where a parameter is free.
    tol : float
        Stop when a step promises to lower the objective by less than this.
    max_iter : int
    enough : float
        Also stop once the objective is this low: for an infimum that is known but not attained.
    """
    # Far out, or where curvature is all but gone, values overflow: no such step is taken.
    with np.errstate(over="ignore", invalid="ignore"):
        return _iterate(evaluate, np.maximum(start, lower), lower, tol, max_iter, enough)


def _iterate(
    evaluate: Evaluate, point: Array, lower: Array, tol: float, max_iter: int, enough: float
) -> Minimum:
    state = evaluate(point)
    for n_iter in range(1, max_iter + 1):
        direction = _direction(point, state[1], state[2], lower)
        gain = _promise(point, state[1], state[2], direction, lower)
        moved = _line_search(evaluate, point, state, direction, lower)
        if moved is None:
            return Minimum(point, state[0], n_iter, gain <= tol)
        point, state = moved
        if gain <= tol or state[0] <= enough:
            return Minimum(point, state[0], n_iter, True)
    return Minimum(point, state[0], max_iter, False)


def _direction(point: Array, gradient: Array, hessian: Array, lower: Array) -> Array:
    curvature = np.diag(hessian)
    ridge = max(_RIDGE * float(curvature.max()), np.finfo(np.float64).tiny)
    free = (point > lower + _AT_BOUND) | (gradient <= 0)
    direction = -gradient / (curvature + ridge)
    inner = hessian[np.ix_(free, free)] + ridge * np.eye(int(free.sum()))
    direction[free] = -np.linalg.solve(inner, gradient[free])
    return direction


def _promise(
    point: Array, gradient: Array, hessian: Array, direction: Array, lower: Array
) -> float:
    """Return how much the better of a Newton and a scaled gradient step promises to gain.

    The gradient step is there because a Newton step cut off at the bounds may promise nothing
    far from the optimum; its own promise is zero only where the optimality conditions hold.
    """
    slope = -gradient / np.maximum(np.diag(hessian), np.finfo(np.float64).tiny)
    steps = (np.maximum(point + step, lower) - point for step in (direction, slope))
    return max(-0.5 * float(gradient @ step) for step in steps)


def _line_search(
    evaluate: Evaluate,
    point: Array,
    state: tuple[float, Array, Array],
    direction: Array,
    lower: Array,
) -> tuple[Array, tuple[float, Array, Array]] | None:
    """Halve the step until the objective falls; None where no step is good enough."""
    value, gradient, _ = state
    # A fall within rounding is taken on trust: the gradient is accurate far below it.
    rounding = 8.0 * np.finfo(np.float64).eps * (1.0 + abs(value))
    size = 1.0
    for _ in range(60):
        moved = np.maximum(point + size * direction, lower)
        reached = evaluate(moved)
        if reached[0] <= value + 1e-4 * float(gradient @ (moved - point)) + rounding:
            return moved, reached
        size *= 0.5
    return None
