"""Matchings of densities in closed form: KDEy-CS, KDEy-L2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kdey.bags import Bags
from kdey.matching.interface import Matching
from kdey.problems import CauchySchwarz, QuadraticMatch
from kdey.solvers import Solution, solve_cauchy_schwarz, solve_quadratic


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
