"""The median of several matchings: HDy, HDx."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags
from kdey.matching.interface import Matching
from kdey.solvers import Solution


@dataclass(frozen=True)
class MedianOf(Matching):
    """The median of the solutions of stacked row maps (``kdey.rows.stack``): HDy, HDx."""

    inner: Matching

    def match(self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1) -> Solution:
        """Solve each part and take class-wise medians, scaled back to a sum of one."""
        parts = [
            self.inner.match(part_map, part_rows, bags, n_threads)
            for part_map, part_rows in zip(row_map.parts, rows.parts, strict=True)
        ]
        return median_solution(parts)

    def full_objective(
        self, row_map: Any, rows: Any, bags: Bags, prevalence: NDArray[Any], n_threads: int = 1
    ) -> Array:
        """Raise: a median has no objective of its own."""
        raise NotImplementedError(
            "the median over several numbers of bins minimises no divergence of its own; "
            "ask a method with one number of bins (DM, DyS)"
        )


def median_solution(parts: list[Solution]) -> Solution:
    """Return the class-wise median of several solutions, scaled back to a sum of one.

    The gap is NaN: a median solves no problem of its own.
    """
    middle = np.median([part.prevalence for part in parts], axis=0)
    middle = middle / middle.sum(axis=1, keepdims=True)
    unknown = np.full(len(middle), np.nan)
    n_iter = np.sum([part.n_iter for part in parts], axis=0)
    converged = np.all([part.converged for part in parts], axis=0)
    return Solution(middle, unknown, unknown, n_iter, converged)
