"""Matching by an f-divergence: KDEy-HD, DM-T, DM-HD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kdey.bags import Bags
from kdey.matching.interface import Matching
from kdey.problems import Divergence
from kdey.problems.generator import resolve_generator
from kdey.solvers import Solution, solve_divergence
from kdey.solvers.quadratic import warn_uninformative

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
