"""Matchings of histograms without a convex problem: DM-CS, HDx, DyS, MM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kdey.bags import Bags
from kdey.matching.interface import Matching
from kdey.problems import CdfDistance, HistogramCauchySchwarz, MeanHellinger
from kdey.problems.histograms import Dissimilarity, resolve_dissimilarity
from kdey.solvers import Solution, solve_cdf_distance, solve_nonconvex, ternary_search


@dataclass(frozen=True)
class MatchHistograms(Matching):
    """A dissimilarity of histograms that is not convex: DM-CS, and DM-HD without the square."""

    kind: str

    def problem(
        self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> HistogramCauchySchwarz | MeanHellinger:
        """Return the problem, with one block of bins per histogram."""
        shape = (row_map.n_terms, row_map.n_bins)
        templates = row_map.templates.reshape(*shape, -1)
        targets = rows.mean(bags).reshape(len(bags), *shape)
        make: dict[str, Any] = {
            "cauchy-schwarz": HistogramCauchySchwarz,
            "mean-hellinger": MeanHellinger,
        }
        made: HistogramCauchySchwarz | MeanHellinger = make[self.kind](templates, targets)
        return made

    def solve(
        self, problem: HistogramCauchySchwarz | MeanHellinger, n_threads: int = 1
    ) -> Solution:
        """Return the best of several starts; no certificate exists."""
        return solve_nonconvex(problem)


@dataclass(frozen=True)
class MatchHistogramsBinary(MatchHistograms):
    """The same for two classes, by ternary search as the literature does: HDx."""

    def solve(
        self, problem: HistogramCauchySchwarz | MeanHellinger, n_threads: int = 1
    ) -> Solution:
        """Return the minimum found by ternary search."""
        return ternary_search(problem.objective, problem.n_bags)


@dataclass(frozen=True)
class MatchBinary(Matching):
    """Any dissimilarity of two histograms, by ternary search: DyS."""

    dissimilarity: Any

    def __post_init__(self) -> None:
        resolve_dissimilarity(self.dissimilarity)

    def problem(
        self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> Dissimilarity:
        """Return the dissimilarity problem."""
        return Dissimilarity(row_map.templates, rows.mean(bags), self.dissimilarity)

    def solve(self, problem: Dissimilarity, n_threads: int = 1) -> Solution:
        """Return the minimum found by ternary search."""
        return ternary_search(problem.objective, problem.n_bags)


@dataclass(frozen=True)
class MatchCdf(Matching):
    """A norm between cumulative histograms of the positive posterior: MM."""

    norm: str

    def problem(
        self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> CdfDistance:
        """Return the distance problem, every bin with the same width."""
        spacing = np.full(len(row_map.templates), 1.0 / row_map.n_bins)
        return CdfDistance(row_map.templates, rows.mean(bags), spacing, self.norm)

    def solve(self, problem: CdfDistance, n_threads: int = 1) -> Solution:
        """Return the optimum: exact for L1, by ternary search for the maximum norm."""
        return solve_cdf_distance(problem)
