"""Matchings of densities in closed form: KDEy-CS, KDEy-L2.

Matching by an f-divergence: KDEy-HD, DM-T, DM-HD.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kdey.bags import Bags
from kdey.matching.interface import Matching
from kdey.problems import CauchySchwarz, Divergence, QuadraticMatch
from kdey.problems.separable import resolve_generator
from kdey.solvers import Solution, solve_cauchy_schwarz, solve_divergence, solve_quadratic
from kdey.solvers.quadratic import warn_uninformative


@dataclass(frozen=True)
class MatchCauchySchwarz(Matching):
    """Cauchy-Schwarz divergence between densities: KDEy-CS."""

    def problem(
        self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> CauchySchwarz:
        """Return the problem; ``full`` adds the test-test term."""
        log_self = rows.log_self(bags, n_threads) if full else np.zeros(len(bags))
        return CauchySchwarz(row_map.templates, rows.log_mean(bags), log_self)

    def solve(self, problem: CauchySchwarz, n_threads: int = 1) -> Solution:
        """Return the global optimum."""
        return solve_cauchy_schwarz(problem, n_threads=n_threads)


@dataclass(frozen=True)
class MatchSquares(Matching):
    """Integrated squared error between densities: KDEy-L2."""

    def problem(
        self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> QuadraticMatch:
        """Return the problem; ``full`` adds the test-test term."""
        constants = np.zeros(len(bags))
        if full:
            constants = 0.5 * np.exp(rows.log_self(bags, n_threads))
        return QuadraticMatch(row_map.templates, rows.mean(bags), constants)

    def solve(self, problem: QuadraticMatch, n_threads: int = 1) -> Solution:
        """Return the optimum on the simplex."""
        return solve_quadratic(problem, n_threads=n_threads)


#: Smallest share of a bag at a point or bin, relative to the classes', that counts.
NEGLIGIBLE = 1e-24


@dataclass(frozen=True)
class MatchDivergence(Matching):
    """An f-divergence averaged over the row map's terms: KDEy-HD, DM-T, DM-HD.

    A term is a reference point (Monte Carlo) or a histogram (DM): ``row_map.n_terms`` of them.
    """

    divergence: str

    def __post_init__(self) -> None:
        resolve_generator(self.divergence)

    @property
    def takes_quick_rows(self) -> bool:
        """Only where the bag's profile enters without a logarithm or a quotient."""
        return self.divergence == "hellinger"

    def problem(
        self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> Divergence:
        """Return the divergence problem."""
        templates = row_map.templates
        reference = np.full(len(templates), float(row_map.n_terms))
        targets = rows.mean(bags)
        # Densities this far below the classes' own cannot move a divergence by the solver's
        # tolerance, and where a bag has no others its curvature would underflow.
        targets[targets < NEGLIGIBLE] = 0.0
        return Divergence(templates, targets, resolve_generator(self.divergence), reference)

    def solve(self, problem: Divergence, n_threads: int = 1) -> Solution:
        """Return the optimum on the simplex; uniform, with a warning, for bags without mass."""
        solution = solve_divergence(problem, n_threads=n_threads)
        lost = ~problem.targets.any(axis=1)
        if lost.any():
            warn_uninformative(int(lost.sum()), "the bag lies far from every reference point")
            solution.prevalence[lost] = 1.0 / problem.n_classes
            solution.objective[lost] = solution.gap[lost] = np.nan
            solution.converged[lost] = False
        return solution
