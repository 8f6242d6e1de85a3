"""Composites: every member is matched by itself, and the solutions are combined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags
from kdey.matching.interface import BagSummary, DeviceProblem, LimitsSource, Matching
from kdey.matching.likelihood import MaximiseLikelihood
from kdey.rows.interface import RowMap, Rows
from kdey.solvers import Solution


@dataclass(frozen=True)
class Composite(Matching[Any]):
    """Base: the matching ``inner`` on every member of a composite row map (``kdey.rows``)."""

    inner: Matching[Any]
    # Only where no likelihood is maximised: an average of maxima has the limits of a likelihood.
    limits_source: ClassVar[LimitsSource] = "bootstrap"

    @property
    def member(self) -> Matching[Any]:
        """The matching of each member."""
        return self.inner

    def with_member(self, change: Callable[[Matching[Any]], Matching[Any]]) -> Matching[Any]:
        """Return the composite with ``change`` applied to the matching of its members."""
        return replace(self, inner=change(self.inner))

    @property
    def bag_summary(self) -> BagSummary:
        """What the members need to know about a bag."""
        return self.inner.bag_summary

    def match(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> Solution:
        """Solve each member and combine the solutions."""
        parts = [
            self.inner.match(part_map, part_rows, bags, n_threads)
            for part_map, part_rows in zip(row_map.members, rows.members, strict=True)
        ]
        return self.combine(parts, row_map.shares)


@dataclass(frozen=True)
class AverageOf(Composite):
    """The average of the solutions of the members, weighted by the shares of the row map.

    Objective and gap are averaged like the prevalences: the gap bounds how far the members are, on
    average, above the optima of their problems. A bag has converged if all members have.
    """

    @property
    def likelihood(self) -> MaximiseLikelihood | None:
        """The likelihood that every member maximises."""
        return self.inner.likelihood

    def device_problem(self, row_map: RowMap) -> DeviceProblem | None:
        """Return the problem of the members if all of them can be solved on a device."""
        problems = [self.inner.device_problem(part) for part in row_map.members]
        return None if None in problems else problems[0]

    def combine(self, parts: Sequence[Solution], shares: Array) -> Solution:
        """Return the weighted average of the solutions."""
        return average_solution(parts, shares)

    def combine_estimates(self, estimates: Array, shares: Array) -> Array:
        """Return the weighted average of prevalences of shape (members, n, k)."""
        return np.asarray(np.tensordot(shares, estimates, axes=1))

    def full_objective(
        self,
        row_map: RowMap,
        rows: Rows,
        bags: Bags,
        prevalence: NDArray[np.floating],
        n_threads: int = 1,
    ) -> Array:
        """Return the weighted average of the members' full objectives, shape (n_bags,)."""
        parts = [
            self.inner.full_objective(part_map, part_rows, bags, prevalence, n_threads)
            for part_map, part_rows in zip(row_map.members, rows.members, strict=True)
        ]
        return np.asarray(np.tensordot(row_map.shares, np.array(parts), axes=1))


@dataclass(frozen=True)
class MedianOf(Composite):
    """The class-wise median of the members' solutions: HDy, HDx."""

    def combine(self, parts: Sequence[Solution], shares: Array) -> Solution:
        """Return the median of the solutions, scaled back to a sum of one."""
        return median_solution(parts)

    def combine_estimates(self, estimates: Array, shares: Array) -> Array:
        """Return the class-wise median of prevalences of shape (members, n, k)."""
        return _median(estimates)

    def full_objective(
        self,
        row_map: RowMap,
        rows: Rows,
        bags: Bags,
        prevalence: NDArray[np.floating],
        n_threads: int = 1,
    ) -> Array:
        """Raise NotImplementedError: a median minimises no objective."""
        raise NotImplementedError(
            "the median over several numbers of bins minimises no divergence; use a method with "
            "one number of bins (DM, DyS)"
        )


def average_solution(parts: Sequence[Solution], weights: Array) -> Solution:
    """Return the average of several solutions of the same bags, ``weights`` summing to one."""
    if len(parts) == 1:
        return parts[0]

    def mean(name: str) -> Array:
        # Not a matrix product, whose rounding would depend on the number of other bags.
        return np.asarray(
            sum(w * getattr(part, name) for w, part in zip(weights, parts, strict=True))
        )

    prevalence = mean("prevalence")
    prevalence /= prevalence.sum(axis=1, keepdims=True)
    n_iter = np.sum([part.n_iter for part in parts], axis=0)
    converged = np.all([part.converged for part in parts], axis=0)
    return Solution(prevalence, mean("objective"), mean("gap"), n_iter, converged)


def median_solution(parts: Sequence[Solution]) -> Solution:
    """Return the class-wise median of several solutions, scaled back to a sum of one.

    Objective and gap are NaN, because a median is not the solution of a problem.
    """
    middle = _median(np.array([part.prevalence for part in parts]))
    unknown = np.full(len(middle), np.nan)
    n_iter = np.sum([part.n_iter for part in parts], axis=0)
    converged = np.all([part.converged for part in parts], axis=0)
    return Solution(middle, unknown, unknown, n_iter, converged)


def _median(estimates: Array) -> Array:
    middle = np.median(estimates, axis=0)
    return np.asarray(middle / middle.sum(axis=1, keepdims=True))
