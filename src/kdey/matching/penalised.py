"""Matching with a penalty on the prevalence that the row map declares: ordered classes, RLLS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kdey.bags import Bags
from kdey.matching.interface import (
    BagSummary,
    DeviceProblem,
    LimitsSource,
    Matching,
    means_on_device,
)
from kdey.problems import PenalisedProblem
from kdey.rows.interface import RowMap, Rows
from kdey.solvers import Solution, solve_sqp


@dataclass(frozen=True)
class Penalised(Matching[PenalisedProblem]):
    """The convex problem of ``inner`` plus the row map's penalty, to a certified optimum.

    Limits are bootstrapped: they show how the penalised estimate varies, and not the bias that a
    penalty accepts in exchange.

    Attributes
    ----------
    inner : Matching
        Any matching whose problem is convex: means, densities, divergences, a likelihood.
    tol : float
        Gap of the penalised objective to reach.
    """

    inner: Matching[Any]
    tol: float = 1e-9
    limits_source: ClassVar[LimitsSource] = "bootstrap"

    @property
    def bag_summary(self) -> BagSummary:
        """What the inner matching needs to know about a bag."""
        return self.inner.bag_summary

    def device_problem(self, row_map: RowMap) -> DeviceProblem | None:
        """Return the problem of mean rows, if the inner matching needs nothing else."""
        return means_on_device(row_map) if self.bag_summary == "mean" else None

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> PenalisedProblem:
        """Return the inner problem with the penalty added."""
        penalty = row_map.penalty()
        if penalty is None:
            raise ValueError(
                f"{type(row_map).__name__} has no penalty: wrap the row spec in PenalisedRows"
            )
        inner = self.inner.problem(row_map, rows, bags, n_threads, full)
        return PenalisedProblem(inner, penalty.matrix, penalty.centre)

    def solve(self, problem: PenalisedProblem, n_threads: int = 1) -> Solution:
        """Return the optimum on the simplex."""
        return solve_sqp(problem, tol=self.tol, n_threads=n_threads)
