"""What one generated problem is, and what a solution of it must honour."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from fuzz.campaigns.arrays import Array, prevalences
from kdey.matching import Solution
from kdey.matching.histograms import MeanHellinger

#: Bags of a case whose objective is compared with other points; all have their values checked.
COMPARED = 8


@dataclass(frozen=True, eq=False)
class Case:
    """A problem of B bags with the solver to try on it.

    Attributes
    ----------
    problem : Problem
    solve : callable
        Without arguments; gives the solution.
    resolution : array of shape (B,)
        Differences of the objective below this are rounding.
    tol : array of shape (B,) or None
        The gap at which the solver calls a bag converged; None: it has no certificate.
    silent : bool array of shape (B,)
        Bags without an optimum, documented to get a NaN gap.
    start : array of shape (B, k)
        Where the solver begins: it must not end above. None: it does not begin at a point.
    warns : bool
        Whether the solver is to warn of a gap ten times above ``tol``.
    twin : callable, optional
        The same solution on the other path (NumPy for native).
    """

    problem: Any
    solve: Callable[[], Solution]
    resolution: Array
    tol: Array | None
    silent: NDArray[np.bool_]
    start: Array | None = None
    warns: bool = False
    twin: Callable[[], Solution] | None = None


def faults(case: Case, solution: Solution, warned: bool, rng: np.random.Generator) -> Iterator[str]:
    """Yield what is wrong with ``solution``, in words."""
    x, n = solution.prevalence, case.problem.n_bags
    if x.shape != (n, case.problem.n_classes):
        yield f"shape {x.shape}"
        return
    if not np.isfinite(x).all():
        yield f"prevalence not finite in bag {_first(~np.isfinite(x).all(axis=1))}"
        return
    off = (x < 0).any(axis=1) | (np.abs(x.sum(axis=1) - 1) > 1e-9)
    if off.any():
        yield f"prevalence off the simplex in bag {_first(off)}"
    lost = np.isnan(solution.objective) & ~case.silent
    if lost.any():
        yield f"objective NaN in bag {_first(lost)}"
    yield from _certificate(case, solution, warned)
    few = rng.permutation(n)[:COMPARED]
    part = Solution(*(values[few] for values in vars(solution).values()))
    for text in _comparisons(_take(case, few), part, rng):
        yield f"{text} of {few.tolist()}"


def _take(case: Case, which: NDArray[np.int64]) -> Case:
    return replace(
        case,
        problem=case.problem.take(which),
        resolution=case.resolution[which],
        tol=None if case.tol is None else case.tol[which],
        silent=case.silent[which],
        start=None if case.start is None else case.start[which],
    )


def _values(case: Case, solution: Solution) -> Iterator[str]:
    again = case.problem.objective(solution.prevalence)
    with np.errstate(invalid="ignore"):
        apart = np.abs(again - solution.objective) > 10 * case.resolution
    if (apart & ~case.silent).any():
        b = _first(apart & ~case.silent)
        yield f"objective {solution.objective[b]!r}, the problem says {again[b]!r} in bag {b}"


def _certificate(case: Case, solution: Solution, warned: bool) -> Iterator[str]:
    gap, converged = solution.gap, solution.converged
    if (gap < 0).any():
        yield f"negative gap in bag {_first(gap < 0)}"
    if case.tol is None:
        return
    if (np.isnan(gap) & ~case.silent).any():
        yield f"gap NaN in bag {_first(np.isnan(gap) & ~case.silent)}"
    with np.errstate(invalid="ignore"):
        false = converged & ~(gap <= case.tol)
        stalled = ~case.silent & ~(gap <= 10 * case.tol)
    if false.any():
        yield f"called converged at a gap of {gap[_first(false)]:.3g} in bag {_first(false)}"
    if (converged & case.silent).any():
        yield f"no optimum, but called converged in bag {_first(converged & case.silent)}"
    if case.warns and stalled.any() and not warned:
        yield f"a gap of {gap[_first(stalled)]:.3g} without a warning in bag {_first(stalled)}"


def _comparisons(case: Case, solution: Solution, rng: np.random.Generator) -> Iterator[str]:
    yield from _values(case, solution)
    n, k = case.problem.n_bags, case.problem.n_classes
    points = {
        "a vertex": np.eye(k)[rng.integers(0, k, n)],
        "a random prevalence": prevalences(rng, n, k),
        "the uniform prevalence": np.full((n, k), 1.0 / k),
    }
    for name, point in points.items():
        yield from _not_beaten(case, solution, case.problem.objective(point), name)
    if case.start is not None:
        with np.errstate(invalid="ignore"):
            risen = solution.objective > case.problem.objective(case.start) + 10 * case.resolution
        if (risen & ~case.silent).any():
            yield f"ends above its start in bag {_first(risen & ~case.silent)}"


def _not_beaten(case: Case, solution: Solution, other: Array, name: str) -> Iterator[str]:
    """Yield where a certified lower bound, or a search at rest, lies above another value."""
    with np.errstate(invalid="ignore"):
        reached = np.where(np.isnan(solution.gap), 0.0, solution.gap)
        excess = solution.objective - reached - other
        # Denormal numbers have no relative precision.
        beaten = (excess > 10 * case.resolution + np.finfo(float).tiny) & ~case.silent
    if case.tol is None:
        return  # a local search promises no more than a descent
    if beaten.any():
        b = _first(beaten)
        yield f"{name} is {excess[b]:.3g} below the certified bound in bag {b}"


def twin_faults(case: Case, solution: Solution) -> Iterator[str]:
    """Yield where the two paths differ by more than their gaps allow."""
    assert case.twin is not None
    other = case.twin()
    if not np.isfinite(other.prevalence).all():
        yield "twin: prevalence not finite"
        return
    yield from _not_beaten(case, solution, other.objective, "the twin")
    swapped = Case(case.problem, case.solve, case.resolution, case.tol, case.silent)
    yield from (f"twin: {text}" for text in _not_beaten(swapped, other, solution.objective, "this"))


def oracle_faults(case: Case, solution: Solution, rng: np.random.Generator) -> Iterator[str]:
    """Yield where a slow general method (SLSQP) goes below the certified bound of one bag."""
    b = int(rng.integers(0, case.problem.n_bags))
    if case.tol is None or case.silent[b] or isinstance(case.problem, MeanHellinger):
        return
    one, k = case.problem.take(np.array([b])), case.problem.n_classes
    size = max(abs(float(solution.objective[b])), float(case.resolution[b]) * 1e8)
    found = minimize(
        lambda x: one.objective(np.abs(x)[None] / np.abs(x).sum())[0] / size,
        np.full(k, 1 / k),
        bounds=[(1e-9, 1)] * k,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        method="SLSQP",
        options={"maxiter": 40},
    )
    x = np.maximum(found.x, 0)
    if np.isfinite(x).all() and x.sum() > 0:
        values = np.array(solution.objective)
        values[b] = one.objective((x / x.sum())[None])[0]
        yield from _not_beaten(case, solution, values, "SLSQP")


def _first(where: NDArray[np.bool_]) -> int:
    return int(np.argmax(where))
