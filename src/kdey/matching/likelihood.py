"""Matchings by mixture likelihood: EMQ, DIR, KDEy-ML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kdey.bags import Bags
from kdey.matching.interface import BagSummary, DeviceProblem, Matching
from kdey.problems import MixtureLikelihood
from kdey.rows.interface import RowMap, Rows
from kdey.solvers import Solution, solve_mixture, solve_mixture_em


@dataclass(frozen=True)
class MaximiseLikelihood(Matching[MixtureLikelihood]):
    """Mixture likelihood of the bag, to a certified optimum: EMQ, DIR, KDEy-ML.

    Attributes
    ----------
    log_rows : bool
        Whether rows are logarithms of densities.
    tol : float
        Gap of the mean log-likelihood to reach.
    max_iter : int or None
        None: the default of the solver.
    """

    log_rows: bool = True
    tol: float = 1e-8
    max_iter: int | None = None

    def __post_init__(self) -> None:
        check_stopping(self.tol, self.max_iter)

    @property
    def bag_summary(self) -> BagSummary:
        """All rows of a bag, because a likelihood is not a function of their mean."""
        return "rows"

    @property
    def likelihood(self) -> MaximiseLikelihood:
        """The likelihood itself."""
        return self

    @property
    def is_exact(self) -> bool:
        """Whether the maximum is reached with a certificate."""
        return True

    def device_problem(self, row_map: RowMap) -> DeviceProblem | None:
        """Return the mixture problem, for any rows."""
        return DeviceProblem(
            "mixture",
            tol=self.tol,
            max_iter=self.max_iter,
            pseudo_share=row_map.pseudo_share,
        )

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> MixtureLikelihood:
        """Return the mixture problem."""
        make = MixtureLikelihood.from_log_rows if self.log_rows else MixtureLikelihood
        return make(rows.each(), bags, pseudo_share=row_map.pseudo_share)

    def solve(self, problem: MixtureLikelihood, n_threads: int = 1) -> Solution:
        """Return the maximum likelihood prevalences."""
        options: dict[str, Any] = {} if self.max_iter is None else {"max_iter": self.max_iter}
        return solve_mixture(problem, tol=self.tol, n_threads=n_threads, **options)


@dataclass(frozen=True)
class ExpectationMaximisation(MaximiseLikelihood):
    """EM as the literature runs it, from the training prevalence."""

    tol: float = 1e-4

    @property
    def is_exact(self) -> bool:
        """False, because EM stops by its own rule."""
        return False

    def device_problem(self, row_map: RowMap) -> DeviceProblem | None:
        """Return None, because EM runs on the host only."""
        return None

    def match(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> Solution:
        """Return the result of EM; its gap bounds the distance to the maximum."""
        problem = self.problem(row_map, rows, bags)
        first = row_map.starting_prevalence()
        start = None if first is None else np.tile(first, (len(bags), 1))
        options: dict[str, Any] = {} if self.max_iter is None else {"max_iter": self.max_iter}
        return solve_mixture_em(problem, tol=self.tol, start=start, **options)


def check_stopping(tol: Any, max_iter: Any) -> None:
    """Raise ValueError unless ``tol`` is positive and ``max_iter`` is None or at least one."""
    if not (isinstance(tol, int | float) and tol > 0):
        raise ValueError(f"tol must be a positive number, got {tol!r}")
    if max_iter is not None and not (isinstance(max_iter, int | np.integer) and max_iter >= 1):
        raise ValueError(f"max_iter must be a positive integer, got {max_iter!r}")
