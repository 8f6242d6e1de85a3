"""Matchings of mean rows: CC, PCC, ACC, PACC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags
from kdey.matching.interface import Matching, exact_solution
from kdey.problems import LeastSquares
from kdey.solvers import Solution, solve_least_squares


@dataclass(frozen=True)
class Mean(Matching):
    """The mean row is the prevalence: CC and PCC."""

    def match(self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1) -> Solution:
        """Return the mean rows, scaled to a sum of one (rows may miss it by a tolerance)."""
        means = rows.mean(bags)
        return exact_solution(means / means.sum(axis=1, keepdims=True))

    def full_objective(
        self, row_map: Any, rows: Any, bags: Bags, prevalence: NDArray[Any], n_threads: int = 1
    ) -> Array:
        """Return half the squared distance from the mean row."""
        return np.asarray(0.5 * ((rows.mean(bags) - prevalence) ** 2).sum(axis=1))


@dataclass(frozen=True)
class MatchMeans(Matching):
    """Least squares between mean rows and templates: ACC, PACC."""

    def problem(
        self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> LeastSquares:
        """Return the least squares problem."""
        return LeastSquares(row_map.templates, rows.mean(bags))

    def solve(self, problem: LeastSquares, n_threads: int = 1) -> Solution:
        """Return the solution on the simplex."""
        return solve_least_squares(problem, n_threads=n_threads)
