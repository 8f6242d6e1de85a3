"""Newton's method for small smooth convex problems with lower bounds; counts behind a rate.

The method is that of Bertsekas, "Projected Newton methods for optimization problems with simple
constraints" (1982). Parameters that the gradient pushes against their bound take a scaled gradient
step, all others take a Newton step, and the result is projected onto the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri

from kdey.validation import check_share

Array = NDArray[np.float64]
#: Objective, gradient (d,) and Hessian (d, d) at a point (d,).
Evaluate: TypeAlias = Callable[[Array], tuple[float, Array, Array]]

#: Distance from a bound, in parameter units, that counts as being at it.
_AT_BOUND = 1e-6
#: Share of the largest curvature that is added to every curvature. Steps of singular problems are
#: then (nearly) the shortest ones, and directions that the objective ignores keep their start.
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
        Whether the last step promised to lower the objective by less than the tolerance, or the
        objective reached ``enough``.
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
        Returns objective, gradient and Hessian at a point.
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
    # Values overflow far from the optimum or without curvature; such steps are not accepted.
    with np.errstate(over="ignore", invalid="ignore"):
        return _iterate(evaluate, np.maximum(start, lower), lower, tol, max_iter, enough)


def _iterate(
    evaluate: Evaluate, point: Array, lower: Array, tol: float, max_iter: int, enough: float
) -> Minimum:
    state = evaluate(point)
    for n_iter in range(1, max_iter + 1):
        direction = _direction(point, state[1], state[2], lower)
        decrease = _promised_decrease(point, state[1], state[2], direction, lower)
        moved = _line_search(evaluate, point, state, direction, lower)
        if moved is None:
            return Minimum(point, state[0], n_iter, decrease <= tol)
        point, state = moved
        if decrease <= tol or state[0] <= enough:
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


def _promised_decrease(
    point: Array, gradient: Array, hessian: Array, direction: Array, lower: Array
) -> float:
    """Return the decrease promised by the better of a Newton and a scaled gradient step.

    A Newton step that is cut off at the bounds may promise nothing far from the optimum. The
    gradient step promises nothing only if the optimality conditions hold.
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
    """Halve the step until the objective falls; return None if no step is good enough."""
    value, gradient, _ = state
    # A change within rounding is accepted, because the gradient is far more accurate.
    rounding = 8.0 * np.finfo(np.float64).eps * (1.0 + abs(value))
    size = 1.0
    for _ in range(60):
        moved = np.maximum(point + size * direction, lower)
        reached = evaluate(moved)
        if reached[0] <= value + 1e-4 * float(gradient @ (moved - point)) + rounding:
            return moved, reached
        size *= 0.5
    return None


#: A study of this size leaves no uncertainty that matters.
_LARGEST = 1e7


def counts_from_limits(
    rate: float, low: float, high: float, confidence: float = 0.95, name: str = "rate"
) -> tuple[float, float]:
    """Return successes and failures of a study whose Wilson limits are as wide as those given.

    Parameters
    ----------
    rate : float
        The share of successes.
    low, high : float
        Its published limits.
    confidence : float
        The confidence of these limits.
    name : str
        What to call the rate in messages.

    Returns
    -------
    successes, failures : float
        They need not be whole numbers.

    Raises
    ------
    ValueError
        If the rate is not strictly between 0 and 1 and within its limits.
    """
    check_share(confidence, "confidence")
    if not (0.0 < rate < 1.0 and 0.0 <= low <= rate <= high <= 1.0 and low < high):
        raise ValueError(
            f"{name} needs 0 <= low <= rate <= high <= 1 with low below high and a rate strictly "
            f"between 0 and 1, got rate {rate!r} with limits {low!r} and {high!r}"
        )
    z = float(ndtri(0.5 + 0.5 * confidence))

    def excess(log_size: float) -> float:
        n = float(np.exp(log_size))
        half = z * np.sqrt(rate * (1.0 - rate) / n + z**2 / (4.0 * n**2)) / (1.0 + z**2 / n)
        return float(2.0 * half - (high - low))

    first, last = np.log(1e-3), np.log(_LARGEST)
    if excess(last) > 0:
        size = _LARGEST
    elif excess(first) < 0:
        size = 1e-3
    else:
        size = float(np.exp(brentq(excess, first, last)))
    return size * rate, size * (1.0 - rate)
