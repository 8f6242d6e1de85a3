"""Solvers of the quadratic problems, exact by the active-set method of ``active_set.py``."""

from __future__ import annotations

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kdey.problems.cauchy_schwarz import CauchySchwarz
from kdey.problems.least_squares import LeastSquares
from kdey.problems.protocol import Array
from kdey.problems.quadratic_match import QuadraticMatch
from kdey.solvers.active_set import Counts, solve_programs
from kdey.solvers.solution import Solution
from kdey.telling import warn

#: Largest accepted gap, relative to the size of the terms that the objective is made of.
TOLERANCE = 1e-10


def solve_least_squares(
    problem: LeastSquares, *, start: Array | None = None, n_threads: int = 1
) -> Solution:
    r"""Minimise the squared distance from the bag's mean over the simplex, for every bag, exactly.

    .. math:: \tfrac12 \lVert M\alpha - q \rVert^2

    ``converged`` tells whether the gap is below :math:`10^{-10} m (m + \lVert q \rVert)` with m the
    length of the longest template: rounding level.
    """
    gram = problem.templates.T @ problem.templates
    linear = problem.targets @ problem.templates
    x, steps = solve_programs(gram, linear, simplex=True, start=start, n_threads=n_threads)
    lengths = np.sqrt((problem.targets**2).sum(axis=1))
    size = np.sqrt(np.diag(gram).max()) * (lengths + np.sqrt(np.diag(gram).max()))
    return _certify(problem, _normalised(x), steps, TOLERANCE * size)


def solve_quadratic(
    problem: QuadraticMatch, *, start: Array | None = None, n_threads: int = 1
) -> Solution:
    r"""Minimise a quadratic function over the simplex, for every bag, exactly.

    .. math:: \tfrac12 \alpha^\top B \alpha - t \cdot \alpha

    ``converged`` tells whether the gap is below 1e-10 times the sum of the largest entries of B and
    t, without their signs: rounding level.
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
    # Inner products over 300 decades can leave no digit of the solution: the best class alone.
    lost = ~(np.isfinite(x).all(axis=1) & (x.sum(axis=1) > 0))
    best = (linear[lost] / np.sqrt(np.diag(problem.gram))).argmax(axis=1)
    x[lost] = np.eye(problem.n_classes)[best]
    if not informative.all():
        warn_uninformative(int((~informative).sum()), "every class inner product is zero")
    return _certify(problem, _normalised(x), steps, np.full(len(x), TOLERANCE))


def warn_uninformative(count: int, why: str) -> None:
    """Warn that ``count`` bags got the uniform prevalence, and why."""
    warn(
        f"{count} bag(s) carry no information ({why}): the uniform prevalence is returned for "
        "them, with converged=False and gap=NaN",
        ConvergenceWarning,
        stacklevel=3,
    )


def _normalised(x: Array) -> Array:
    return np.asarray(x / x.sum(axis=1, keepdims=True))


def _certify(
    problem: LeastSquares | QuadraticMatch | CauchySchwarz, x: Array, steps: Counts, tol: Array
) -> Solution:
    gap = problem.gap(x)
    with np.errstate(invalid="ignore"):
        converged = gap <= tol
    return Solution(x, problem.objective(x), gap, steps, converged)
