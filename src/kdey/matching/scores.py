"""Matchings of the scores of the positive class, for two classes: SORD, MS, MS2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kdey.bags import Bags
from kdey.matching.interface import BagSummary, LimitsSource, Matching
from kdey.problems import CdfDistance
from kdey.problems.least_squares import LeastSquares
from kdey.rows.interface import RowMap, Rows
from kdey.solvers import Solution, solve_cdf_distance


@dataclass(frozen=True)
class MatchScores(Matching[CdfDistance]):
    """Area between the cumulative distributions of scores, at every score: SORD."""

    limits_source: ClassVar[LimitsSource] = "bootstrap"

    @property
    def bag_summary(self) -> BagSummary:
        """All rows of a bag, because its cumulative distribution steps at each of its scores."""
        return "rows"

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> CdfDistance:
        """Return the distance problem, with a knot at each score of training data and bags."""
        lines = rows.distributions(bags)
        return CdfDistance(lines.classes, lines.bags, lines.steps, "l1")

    def solve(self, problem: CdfDistance, n_threads: int = 1) -> Solution:
        """Return the exact optimum."""
        return solve_cdf_distance(problem)


@dataclass(frozen=True)
class MatchThresholds(Matching[LeastSquares]):
    """The median over thresholds of the adjusted counts: MS, MS2.

    At a threshold with rates fpr and tpr, a bag of which the share q reaches it is estimated to
    have (q - fpr) / (tpr - fpr) positives, restricted to [0, 1].
    """

    limits_source: ClassVar[LimitsSource] = "bootstrap"

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> LeastSquares:
        """Return rates and shares of all thresholds, as a least squares problem."""
        return LeastSquares(row_map.templates, rows.mean(bags))

    def solve(self, problem: LeastSquares, n_threads: int = 1) -> Solution:
        """Return the medians; objective and gap are NaN, because a median solves no problem."""
        t = len(problem.templates) // 2
        fpr, tpr = problem.templates[t:].T
        difference = tpr - fpr
        useful = difference != 0
        n = problem.n_bags
        share = np.full(n, 0.5)  # without a useful threshold every share explains the bag
        if useful.any():
            ratio = (problem.targets[:, t:] - fpr)[:, useful] / difference[useful]
            share = np.median(np.clip(ratio, 0.0, 1.0), axis=1)
        unknown, known = np.full(n, np.nan), np.full(n, bool(useful.any()))
        return Solution(
            np.stack([1.0 - share, share], axis=1), unknown, unknown, np.ones(n, np.int64), known
        )
