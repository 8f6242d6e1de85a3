"""Solvers without convexity: SQP from several starts, and searches over one number in [0, 1].

:func:`solve_nonconvex` handles histograms of any number of classes. :func:`ternary_search` and
:func:`solve_cdf_distance` handle binary problems, whose unknown is the prevalence of the second
class.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kdey.problems.histograms import CdfDistance, HistogramCauchySchwarz, MeanHellinger
from kdey.problems.interface import Array
from kdey.problems.least_squares import LeastSquares
from kdey.solvers.quadratic import solve_least_squares
from kdey.solvers.solution import Solution, check_start
from kdey.solvers.sqp import solve_sqp

#: Number of bags solved together; bounds the memory of their Hessians (k^2 per bag and start).
CHUNK = 256


def solve_nonconvex(
    problem: HistogramCauchySchwarz | MeanHellinger,
    *,
    max_iter: int = 100,
    start: Array | None = None,
    n_threads: int = 1,
) -> Solution:
    """Minimise by SQP from several starts and keep the lowest objective of each bag.

    The starts are the uniform prevalence, the least-squares match of the histograms, the midpoint
    between that match and its largest class, and ``start`` if given. Local minima cannot be ruled
    out: ``gap`` is NaN, and ``converged`` means that the iterations stopped changing.

    Parameters
    ----------
    problem : HistogramCauchySchwarz or MeanHellinger
    max_iter : int
        Per start.
    start : array of shape (n_bags, k), optional
    n_threads : int
        For the quadratic programs.
    """
    if start is not None:
        start = check_start(start, problem.n_bags, problem.n_classes)
    parts = []
    for first in range(0, problem.n_bags, CHUNK):
        bags = np.arange(first, min(first + CHUNK, problem.n_bags))
        part_start = None if start is None else start[bags]
        parts.append(_solve_chunk(problem.take(bags), part_start, max_iter, n_threads))
    fields = (
        np.concatenate(column) for column in zip(*(vars(p).values() for p in parts), strict=True)
    )
    return Solution(*fields)


def _solve_chunk(
    problem: HistogramCauchySchwarz | MeanHellinger,
    start: Array | None,
    max_iter: int,
    n_threads: int,
) -> Solution:
    starts = _starts(problem, start, n_threads)
    n, s = problem.n_bags, len(starts)
    repeated = problem.take(np.tile(np.arange(n), s))
    solved = solve_sqp(
        repeated, max_iter=max_iter, start=np.concatenate(starts), n_threads=n_threads
    )
    best = solved.objective.reshape(s, n).argmin(axis=0) * n + np.arange(n)
    fields = [values[best] for values in vars(solved).values()]
    fields[3] = solved.n_iter.reshape(s, n).sum(axis=0)
    return Solution(*fields)


def _starts(
    problem: HistogramCauchySchwarz | MeanHellinger, start: Array | None, n_threads: int
) -> list[Array]:
    n, k = problem.n_bags, problem.n_classes
    match = LeastSquares(problem.templates.reshape(-1, k), problem.targets.reshape(n, -1))
    near = solve_least_squares(match, n_threads=n_threads).prevalence
    # A small share of every class keeps the slopes at the start finite.
    inner = 0.99 * near + 0.01 / k
    corner = 0.5 * inner + 0.5 * np.eye(k)[near.argmax(axis=1)]
    return [np.full((n, k), 1.0 / k), inner, corner] + ([] if start is None else [start])


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
