"""Solvers of the separable problems: mixture likelihood and divergences.

The native core runs SQP with exact active-set steps for all bags (``src/native/separable.cpp``);
the NumPy path is the generic solver of ``sqp.py``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from kdey import native
from kdey._support.warnings import warn
from kdey.problems.divergence import Divergence
from kdey.problems.interface import Array, with_fields
from kdey.problems.mixture import MixtureLikelihood
from kdey.solvers.quadratic import warn_uninformative
from kdey.solvers.solution import Solution, check_start, join
from kdey.solvers.sqp import solve_sqp


def solve_mixture(
    problem: MixtureLikelihood,
    *,
    tol: float = 1e-8,
    max_iter: int = 200,
    start: Array | None = None,
    n_threads: int = 1,
) -> Solution:
    """Maximise the mixture likelihood of every bag over the simplex, to a certified gap.

    A bag without an informative row gets the uniform prevalence, ``converged`` False, NaN
    objective and gap, and a ConvergenceWarning. A bag whose gap is above ``tol`` after ``max_iter``
    iterations also gets the warning, and keeps its values.

    Parameters
    ----------
    problem : MixtureLikelihood
    tol : float
        Gap to reach, in mean log-likelihood.
    max_iter : int
    start : array of shape (n_bags, k), optional
        Warm starts.
    n_threads : int
        Native threads over bags; results do not depend on it.
    """
    shape = (problem.n_bags, problem.n_classes)
    first = None if start is None else check_start(start, *shape)
    problem = problem.with_pseudo_rows()
    informative = problem.is_informative
    if informative.all():
        solution = _solve_mixture(problem, tol, max_iter, first, n_threads)
        return warn_stalled(solution, informative, tol)
    warn_uninformative(int((~informative).sum()), "every row is zero")
    solution, positions = blank_solution(*shape), np.flatnonzero(informative)
    if len(positions):
        part = problem.take(positions)
        solved = _solve_mixture(part, tol, max_iter, _start_of(first, positions), n_threads)
        solution = join(solution, positions, solved)
    return warn_stalled(solution, informative, tol)


def solve_divergence(
    problem: Divergence,
    *,
    tol: float = 1e-8,
    max_iter: int = 200,
    start: Array | None = None,
    n_threads: int = 1,
) -> Solution:
    """Minimise a divergence for every bag over the simplex, to a certified gap.

    A bag for which every prevalence gives an infinite divergence (possible for ``kl`` and
    ``reverse-kl`` only) gets the uniform prevalence, ``converged`` False, NaN objective and gap,
    and a ConvergenceWarning. A bag whose gap is above ``tol`` after ``max_iter`` iterations also
    gets the warning, and keeps its values.

    Parameters
    ----------
    problem : Divergence
    tol : float
        Gap to reach, in units of the objective.
    max_iter, start, n_threads
        As for :func:`solve_mixture`.
    """
    shape = (problem.n_bags, problem.n_classes)
    first = None if start is None else check_start(start, *shape)
    finite = problem.is_finite
    if not finite.all():
        warn_uninformative(int((~finite).sum()), "the divergence is infinite everywhere")
    solution = blank_solution(*shape)
    free = problem.allowed.all(axis=1)
    whole, partial = np.flatnonzero(finite & free), np.flatnonzero(finite & ~free)
    if len(whole):
        part = problem if len(whole) == problem.n_bags else problem.take(whole)
        solved = _solve_divergence(part, tol, max_iter, _start_of(first, whole), n_threads)
        solution = join(solution, whole, solved)
    for bag in partial:
        solved = _solve_restricted(problem.take(np.array([bag])), tol, max_iter, n_threads)
        solution = join(solution, np.array([bag]), solved)
    return warn_stalled(solution, finite, tol)


def _solve_mixture(
    problem: MixtureLikelihood, tol: float, max_iter: int, start: Array | None, n_threads: int
) -> Solution:
    if not native.available():
        return solve_sqp(
            problem,
            tol=tol,
            max_iter=max_iter,
            start=start,
            polish=MixtureLikelihood.em_step,
            n_threads=n_threads,
        )
    bags, solution = problem.bags, blank_solution(problem.n_bags, problem.n_classes)
    native.call(
        "kdey_solve_mixture",
        *(problem.rows, problem.log_scales, problem.bags.pool_size, problem.n_classes),
        *(bags.indices, bags.offsets, bags.weights, len(bags), start),
        # The C side takes a double and integers, and a tol of 1 would be passed as an integer.
        *(float(tol), int(max_iter), int(n_threads)),
        *(solution.prevalence, solution.objective, solution.gap, solution.n_iter),
    )
    np.less_equal(solution.gap, tol, out=solution.converged)
    return solution


def _solve_divergence(
    problem: Divergence, tol: float, max_iter: int, start: Array | None, n_threads: int
) -> Solution:
    if not native.available():
        return solve_sqp(problem, tol=tol, max_iter=max_iter, start=start, n_threads=n_threads)
    solution = blank_solution(problem.n_bags, problem.n_classes)
    native.call(
        "kdey_solve_divergence",
        *(problem.generator.code, problem.templates, problem.targets, problem.reference),
        *(problem.n_bags, len(problem.templates), problem.n_classes, start),
        # The C side takes a double and integers, and a tol of 1 would be passed as an integer.
        *(float(tol), int(max_iter), int(n_threads)),
        *(solution.prevalence, solution.objective, solution.gap, solution.n_iter),
    )
    np.less_equal(solution.gap, tol, out=solution.converged)
    return solution


def _solve_restricted(problem: Divergence, tol: float, max_iter: int, n_threads: int) -> Solution:
    """Solve one bag over the classes that it allows; the others stay at zero."""
    allowed = np.flatnonzero(problem.allowed[0])
    templates = np.ascontiguousarray(problem.templates[:, allowed])
    part = with_fields(problem, templates=templates)
    solved = _solve_divergence(part, tol, max_iter, None, n_threads)
    prevalence = np.zeros((1, problem.n_classes))
    prevalence[:, allowed] = solved.prevalence
    return Solution(prevalence, solved.objective, solved.gap, solved.n_iter, solved.converged)


def _start_of(start: Array | None, positions: NDArray[np.int64]) -> Array | None:
    return None if start is None else start[positions]


def blank_solution(n: int, k: int) -> Solution:
    """Return the uniform prevalence for n bags, with unknown objective and gap."""
    return Solution(
        np.full((n, k), 1.0 / k),
        np.full(n, np.nan),
        np.full(n, np.nan),
        np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.bool_),
    )


def warn_stalled(solution: Solution, solvable: NDArray[np.bool_], tol: float) -> Solution:
    """Return ``solution``, after a warning if a solvable bag is far from its optimum."""
    # A gap slightly above a tight tolerance is due to rounding and not worth a warning.
    stalled = solvable & ~(solution.gap <= 10.0 * tol)
    if stalled.any():
        warn(
            f"{int(stalled.sum())} bag(s) did not reach a gap of {tol:g} (largest "
            f"{np.max(solution.gap[stalled]):.3g}); raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=3,
        )
    return solution
