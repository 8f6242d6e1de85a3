"""Matchings of histograms that are not f-divergences: DM-CS, HDx, DyS, MM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from kdey.bags import Array, Bags
from kdey.matching.interface import LimitsSource, Matching
from kdey.problems import CdfDistance, HistogramCauchySchwarz, MeanHellinger
from kdey.problems.histograms import Dissimilarity, resolve_dissimilarity
from kdey.rows.interface import RowMap, Rows
from kdey.solvers import Solution, solve_cdf_distance, solve_nonconvex, ternary_search

HistogramProblem: TypeAlias = HistogramCauchySchwarz | MeanHellinger
_PROBLEMS: dict[str, Callable[[Array, Array], HistogramProblem]] = {
    "cauchy-schwarz": HistogramCauchySchwarz,
    "mean-hellinger": MeanHellinger,
}


@dataclass(frozen=True)
class MatchHistograms(Matching[HistogramProblem]):
    """A dissimilarity of histograms that is not convex: DM-CS, and DM-HD without the square."""

    kind: str
    limits_source: ClassVar[LimitsSource] = "bootstrap"

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> HistogramProblem:
        """Return the problem, with one block of bins per histogram."""
        shape = (row_map.n_terms, len(row_map.templates) // row_map.n_terms)
        templates = row_map.templates.reshape(*shape, -1)
        targets = rows.mean(bags).reshape(len(bags), *shape)
        return _PROBLEMS[self.kind](templates, targets)

    def solve(self, problem: HistogramProblem, n_threads: int = 1) -> Solution:
        """Return the best of several starts; no certificate exists."""
        return solve_nonconvex(problem)


@dataclass(frozen=True)
class MatchHistogramsBinary(MatchHistograms):
    """As :class:`MatchHistograms` for two classes, by ternary search as in the literature: HDx."""

    def solve(self, problem: HistogramProblem, n_threads: int = 1) -> Solution:
        """Return the minimum by ternary search."""
        return ternary_search(problem.objective, problem.n_bags)


@dataclass(frozen=True)
class MatchBinary(Matching[Dissimilarity]):
    """Any dissimilarity of two histograms, by ternary search: DyS."""

    dissimilarity: Any
    limits_source: ClassVar[LimitsSource] = "bootstrap"

    def __post_init__(self) -> None:
        resolve_dissimilarity(self.dissimilarity)

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> Dissimilarity:
        """Return the dissimilarity problem."""
        return Dissimilarity(row_map.templates, rows.mean(bags), self.dissimilarity)

    def solve(self, problem: Dissimilarity, n_threads: int = 1) -> Solution:
        """Return the minimum by ternary search."""
        return ternary_search(problem.objective, problem.n_bags)


@dataclass(frozen=True)
class MatchCdf(Matching[CdfDistance]):
    """A norm between cumulative histograms of the positive posterior: MM."""

    norm: str
    limits_source: ClassVar[LimitsSource] = "bootstrap"

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> CdfDistance:
        """Return the distance problem, every bin with the same width."""
        spacing = np.full(len(row_map.templates), row_map.n_terms / len(row_map.templates))
        return CdfDistance(row_map.templates, rows.mean(bags), spacing, self.norm)

    def solve(self, problem: CdfDistance, n_threads: int = 1) -> Solution:
        """Return the optimum: exact for L1, by ternary search for the maximum norm."""
        return solve_cdf_distance(problem)
