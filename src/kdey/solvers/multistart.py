"""Problems that are not convex: SQP from several starts, the best one kept."""

from __future__ import annotations

import numpy as np

from kdey.problems.histogram_cauchy_schwarz import HistogramCauchySchwarz
from kdey.problems.least_squares import LeastSquares
from kdey.problems.mean_hellinger import MeanHellinger
from kdey.problems.protocol import Array
from kdey.solvers.quadratic import solve_least_squares
from kdey.solvers.solution import Solution
from kdey.solvers.sqp import solve_sqp
from kdey.solvers.start import check_start

#: Bags solved in lockstep at a time: bounds the memory of their Hessians (k^2 each per start).
CHUNK = 256


def solve_nonconvex(
    problem: HistogramCauchySchwarz | MeanHellinger,
    *,
    max_iter: int = 100,
    start: Array | None = None,
    n_threads: int = 1,
) -> Solution:
    """Minimise by SQP from several starts and keep the lowest objective of each bag.

    The starts are the uniform prevalence, the least-squares match of the histograms, that match
    drawn half way towards its largest class, and ``start`` where given. Local minima cannot be
    ruled out: ``gap`` is NaN, and ``converged`` tells that the iterations came to rest.

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
        which = np.arange(first, min(first + CHUNK, problem.n_bags))
        given = None if start is None else start[which]
        parts.append(_solve_chunk(problem.take(which), given, max_iter, n_threads))
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
    # A little of every class keeps the start where slopes are finite.
    inner = 0.99 * near + 0.01 / k
    corner = 0.5 * inner + 0.5 * np.eye(k)[near.argmax(axis=1)]
    return [np.full((n, k), 1.0 / k), inner, corner] + ([] if start is None else [start])
