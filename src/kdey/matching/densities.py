"""Matchings of densities: closed forms (KDEy-CS, KDEy-L2, EDy) and f-divergences (KDEy-HD, DM)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kdey.bags import Bags
from kdey.matching.interface import BagSummary, DeviceProblem, LimitsSource, Matching
from kdey.problems import CauchySchwarz, Divergence, QuadraticMatch
from kdey.problems.separable import resolve_generator
from kdey.rows.interface import RowMap, Rows
from kdey.solvers import Solution, solve_cauchy_schwarz, solve_divergence, solve_quadratic
from kdey.solvers.quadratic import warn_uninformative

#: Densities or shares of a bag below this, relative to those of the classes, count as zero.
NEGLIGIBLE = 1e-24
#: Divergences for the host only, whose solver handles prevalences with infinite values.
ON_HOST = ("reverse-kl",)


@dataclass(frozen=True)
class MatchCauchySchwarz(Matching[CauchySchwarz]):
    """Cauchy-Schwarz divergence between densities: KDEy-CS."""

    limits_source: ClassVar[LimitsSource] = "bootstrap"

    @property
    def bag_summary(self) -> BagSummary:
        """The logarithm of the mean row, because means underflow at small bandwidths."""
        return "log mean"

    def device_problem(self, row_map: RowMap) -> DeviceProblem | None:
        """Return the Cauchy-Schwarz problem if rows are mean kernels."""
        return None if row_map.kernel_width() is None else DeviceProblem("cauchy-schwarz")

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> CauchySchwarz:
        """Return the problem; ``full`` adds the test-test term."""
        log_self = rows.log_self(bags, n_threads) if full else np.zeros(len(bags))
        return CauchySchwarz(row_map.templates, rows.log_mean(bags), log_self)

    def solve(self, problem: CauchySchwarz, n_threads: int = 1) -> Solution:
        """Return the global optimum."""
        return solve_cauchy_schwarz(problem, n_threads=n_threads)


@dataclass(frozen=True)
class MatchSquares(Matching[QuadraticMatch]):
    """Integrated squared error between densities: KDEy-L2."""

    limits_source: ClassVar[LimitsSource] = "bootstrap"

    def device_problem(self, row_map: RowMap) -> DeviceProblem | None:
        """Return the quadratic problem if rows are mean kernels."""
        return None if row_map.kernel_width() is None else DeviceProblem("quadratic")

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> QuadraticMatch:
        """Return the problem; ``full`` adds the test-test term."""
        constants = np.zeros(len(bags))
        if full:
            constants = 0.5 * np.exp(rows.log_self(bags, n_threads))
        return QuadraticMatch(row_map.templates, rows.mean(bags), constants)

    def solve(self, problem: QuadraticMatch, n_threads: int = 1) -> Solution:
        """Return the optimum on the simplex."""
        return solve_quadratic(problem, n_threads=n_threads)


@dataclass(frozen=True)
class MatchEmbeddings(MatchSquares):
    """Squared distance between mean embeddings: EDy, EDx, KMM."""

    # Templates are class means of the rows.
    limits_source: ClassVar[LimitsSource] = "moments"


@dataclass(frozen=True)
class MatchDivergence(Matching[Divergence]):
    """An f-divergence averaged over the row map's terms: KDEy-HD, DM-T, DM-HD.

    A term is a reference point (Monte Carlo) or a histogram (DM): ``row_map.n_terms`` of them.
    """

    divergence: str
    limits_source: ClassVar[LimitsSource] = "bootstrap"

    def __post_init__(self) -> None:
        resolve_generator(self.divergence)

    @property
    def takes_quick_rows(self) -> bool:
        """Whether the profile of the bag enters without a logarithm or a quotient."""
        return self.divergence == "hellinger"

    def device_problem(self, row_map: RowMap) -> DeviceProblem | None:
        """Return the divergence problem if rows are kernels at drawn points."""
        if row_map.drawn_points() is None or self.divergence in ON_HOST:
            return None
        if not row_map.templates.any(axis=1).all():
            return None
        return DeviceProblem("divergence", divergence=self.divergence)

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> Divergence:
        """Return the divergence problem."""
        templates = row_map.templates
        reference = np.full(len(templates), float(row_map.n_terms))
        targets = rows.mean(bags)
        # Densities this far below those of the classes cannot change a divergence by the tolerance
        # of the solver, and the curvature of a bag without larger ones would underflow.
        targets[targets < NEGLIGIBLE] = 0.0
        return Divergence(templates, targets, resolve_generator(self.divergence), reference)

    def solve(self, problem: Divergence, n_threads: int = 1) -> Solution:
        """Return the optimum on the simplex; uniform, with a warning, for bags without mass."""
        solution = solve_divergence(problem, n_threads=n_threads)
        no_mass = ~problem.targets.any(axis=1)
        if no_mass.any():
            warn_uninformative(int(no_mass.sum()), "the bag lies far from every reference point")
            solution.prevalence[no_mass] = 1.0 / problem.n_classes
            solution.objective[no_mass] = solution.gap[no_mass] = np.nan
            solution.converged[no_mass] = False
        return solution
