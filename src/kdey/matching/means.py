"""Matchings of mean rows: CC, PCC, ACC, PACC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags
from kdey.matching.interface import (
    DeviceProblem,
    LimitsSource,
    Matching,
    exact_solution,
    means_on_device,
)
from kdey.matching.one_bag import OneBag, one_bag_mean
from kdey.problems import LeastSquares
from kdey.rows.interface import RowMap, Rows
from kdey.solvers import Solution, solve_least_squares
from kdey.solvers.quadratic import solve_programs


@dataclass(frozen=True)
class Mean(Matching[LeastSquares]):
    """The mean row is the prevalence: CC and PCC."""

    # Nothing is inverted, so there is no moment equation.
    limits_source: ClassVar[LimitsSource] = "bootstrap"

    @property
    def minimises(self) -> bool:
        """The mean is no minimum of anything that depends on the classes."""
        return False

    def match(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> Solution:
        """Return the mean rows, scaled to a sum of one (posteriors may deviate slightly)."""
        means = rows.mean(bags)
        return exact_solution(means / means.sum(axis=1, keepdims=True))

    def one_bag(self, row_map: RowMap) -> OneBag | None:
        """Return a single native call for a bag."""
        return one_bag_mean(row_map.templates.shape[0], row_map.mean_rule)

    def device_problem(self, row_map: RowMap) -> DeviceProblem | None:
        """Return the problem of mean rows."""
        return means_on_device(row_map)

    def full_objective(
        self,
        row_map: RowMap,
        rows: Rows,
        bags: Bags,
        prevalence: NDArray[np.floating],
        n_threads: int = 1,
    ) -> Array:
        """Return half the squared distance from the mean row."""
        return np.asarray(0.5 * ((rows.mean(bags) - prevalence) ** 2).sum(axis=1))


@dataclass(frozen=True)
class MatchMeans(Matching[LeastSquares]):
    """Least squares between mean rows and templates: ACC, PACC."""

    # Templates are class means of the rows.
    limits_source: ClassVar[LimitsSource] = "moments"
    takes_templates: ClassVar[bool] = True

    def device_problem(self, row_map: RowMap) -> DeviceProblem | None:
        """Return the problem of mean rows."""
        return means_on_device(row_map)

    def problem(
        self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> LeastSquares:
        """Return the least squares problem."""
        return _first_problem(row_map).with_targets(rows.mean(bags))

    def solve(self, problem: LeastSquares, n_threads: int = 1) -> Solution:
        """Return the solution on the simplex."""
        return solve_least_squares(problem, n_threads=n_threads)

    def one_bag(self, row_map: RowMap) -> OneBag | None:
        """Return a single native call for a bag."""
        problem = _first_problem(row_map)
        return one_bag_mean(problem.templates.shape[1], row_map.mean_rule, problem)

    def match_templates(self, templates: Array, targets: Array, n_threads: int = 1) -> Array:
        """Return the least squares prevalences of bags with their own templates, shape (n, k)."""
        gram = templates.transpose(0, 2, 1) @ templates
        linear = (targets[:, None, :] @ templates)[:, 0, :]
        x, _ = solve_programs(gram, linear, simplex=True, n_threads=n_threads)
        return np.asarray(x / x.sum(axis=1, keepdims=True))


def _first_problem(row_map: RowMap) -> LeastSquares:
    """Return a problem whose target is zero: templates are checked and multiplied once per fit."""
    templates = row_map.templates
    return row_map.derived(
        "least squares", lambda: LeastSquares(templates, np.zeros((1, len(templates))))
    )
