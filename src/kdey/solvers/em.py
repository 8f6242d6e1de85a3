"""Expectation maximisation for the mixture likelihood, as the literature runs it."""

from __future__ import annotations

import numpy as np

from kdey.problems.interface import Array
from kdey.problems.mixture import MixtureLikelihood
from kdey.solvers.quadratic import warn_uninformative
from kdey.solvers.solution import Solution, check_start

#: Smallest mixture whose inverse is finite; a row with a smaller one counts as not explained.
SMALLEST_MIXTURE = 1e-290


def solve_mixture_em(
    problem: MixtureLikelihood,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    start: Array | None = None,
) -> Solution:
    """Run alpha_i <- alpha_i g_i until the mean absolute change falls below ``tol``.

    The algorithm of Saerens, Latinne and Decaestecker (2002), with the stopping rule of common
    implementations. It can stop far from the optimum: ``gap`` bounds the distance, and
    ``converged`` only means that the rule was met. :func:`kdey.solvers.solve_mixture` solves the
    same problem exactly.

    Parameters
    ----------
    problem : MixtureLikelihood
    tol : float
        Mean absolute change of the prevalences at which to stop.
    max_iter : int
    start : array of shape (n_bags, k), optional
        Starting prevalences (the literature starts from the training ones); uniform if None.
        A class that starts at zero stays at zero. A start at which every row of a bag has density
        zero is returned unchanged, not converged and with an infinite gap.

    Returns
    -------
    solution : Solution
    """
    x = check_start(start, problem.n_bags, problem.n_classes)
    informative = problem.is_informative
    n_iter = np.zeros(len(x), dtype=np.int64)
    converged = np.zeros(len(x), dtype=np.bool_)
    for bag in map(int, np.flatnonzero(informative)):
        loss = problem.loss(bag)
        x[bag], n_iter[bag], converged[bag] = _iterate(
            loss.rows, loss.weights, x[bag], tol, max_iter
        )
    if not informative.all():
        x[~informative] = 1.0 / problem.n_classes
        warn_uninformative(int((~informative).sum()), "every row is zero")
    return Solution(x, problem.objective(x), problem.gap(x), n_iter, converged)


def _iterate(
    rows: Array, weights: Array, x: Array, tol: float, max_iter: int
) -> tuple[Array, int, bool]:
    for iteration in range(1, max_iter + 1):
        mixture = rows @ x
        # A row that no class of positive prevalence explains has no effect on those classes.
        ratio = np.divide(
            weights, mixture, out=np.zeros_like(mixture), where=mixture > SMALLEST_MIXTURE
        )
        moved = x * (ratio @ rows)
        if not moved.any():  # the start explains no row, and EM cannot leave it
            return x, iteration, False
        moved /= moved.sum()
        change = float(np.abs(moved - x).mean())
        x = moved
        if change < tol:
            return x, iteration, True
    return x, max_iter, False
