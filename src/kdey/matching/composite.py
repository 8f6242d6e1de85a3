"""The weighted average of the solutions of a committee (``kdey.rows.composite``).

The median of several matchings: HDy, HDx.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags
from kdey.matching.interface import Matching
from kdey.solvers import Solution


@dataclass(frozen=True)
class AverageOf(Matching):
    """The average of the members' solutions, by the weights of the row map.

    Objective and gap are averaged like the prevalences: the gap is how far the members are, on
    average, above the optima of their own problems. Every member must have converged.
    """

    inner: Matching

    def match(self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1) -> Solution:
        """Solve each member and average."""
        parts = [
            self.inner.match(part_map, part_rows, bags, n_threads)
            for part_map, part_rows in zip(row_map.parts, rows.parts, strict=True)
        ]
        return average_solution(parts, row_map.weights)

    def full_objective(
        self, row_map: Any, rows: Any, bags: Bags, prevalence: NDArray[Any], n_threads: int = 1
    ) -> Array:
        """Return the weighted average of the members' full objectives, shape (n_bags,)."""
        parts = [
            self.inner.full_objective(part_map, part_rows, bags, prevalence, n_threads)
            for part_map, part_rows in zip(row_map.parts, rows.parts, strict=True)
        ]
        return np.asarray(np.tensordot(row_map.weights, np.array(parts), axes=1))


def average_solution(parts: Sequence[Solution], weights: Array) -> Solution:
    """Return the average of several solutions of the same bags, ``weights`` summing to one."""
    if len(parts) == 1:
        return parts[0]

    def mean(name: str) -> Array:
        # Not a matrix product: its rounding would depend on the number of bags beside.
        return np.asarray(
            sum(w * getattr(part, name) for w, part in zip(weights, parts, strict=True))
        )

    prevalence = mean("prevalence")
    prevalence /= prevalence.sum(axis=1, keepdims=True)
    n_iter = np.sum([part.n_iter for part in parts], axis=0)
    converged = np.all([part.converged for part in parts], axis=0)
    return Solution(prevalence, mean("objective"), mean("gap"), n_iter, converged)


@dataclass(frozen=True)
class MedianOf(Matching):
    """The median of the solutions of stacked row maps (``kdey.rows.composite``): HDy, HDx."""

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
