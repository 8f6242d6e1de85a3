"""Binary problems: one number in [0, 1] per bag."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kdey.problems.cdf_distance import CdfDistance
from kdey.problems.protocol import Array
from kdey.solvers.solution import Solution


def ternary_search(
    objective: Callable[[Array], Array], n_bags: int, *, tol: float = 1e-8
) -> Solution:
    """Minimise a unimodal function of the second class's prevalence, for every bag at once.

    The search of DyS (Maletzke et al., 2019): the interval loses a third per step.

    Parameters
    ----------
    objective : callable
        Takes prevalences of shape (n_bags, 2), gives values of shape (n_bags,).
    n_bags : int
    tol : float
        Length of the last interval. Rounding of the objective limits what a tolerance below
        about 1e-8 can mean for smooth functions.
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

    L1: exact, a weighted median, certified. Maximum norm: ternary search to ``tol``, gap NaN.
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
        return np.full(problem.n_bags, 0.5)  # the classes look alike: every share is optimal
    with np.errstate(over="ignore"):  # beyond what a number holds is beyond the ends, all the same
        ratio = (problem.targets - problem.templates[:, 0])[:, useful] / d[useful]
    order = np.argsort(ratio, axis=1)
    mass = np.cumsum(weights[useful][order], axis=1)
    middle = _first_at_least(mass, mass[:, -1:] / 2)
    chosen = np.take_along_axis(order, middle[:, None], axis=1)
    return np.asarray(np.take_along_axis(ratio, chosen, axis=1)[:, 0])


def _first_at_least(rising: Array, level: Array) -> NDArray[np.int64]:
    return np.asarray(np.argmax(rising >= level, axis=1), dtype=np.int64)


def _best_of(
    objective: Callable[[Array], Array], candidates: tuple[Array, ...]
) -> tuple[Array, Array]:
    values = np.stack([objective(_pair(c)) for c in candidates])
    best = values.argmin(axis=0)
    bags = np.arange(values.shape[1])
    return np.stack(candidates)[best, bags], values[best, bags]


def _pair(share: Array) -> Array:
    return np.stack([1.0 - share, share], axis=1)
