"""What a matching is: which problem is made of templates and rows, and which solver solves it.

A matching is the last stage of a quantifier, and holds only the parameters of that stage. One
file per problem family.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags
from kdey.solvers import Solution


@dataclass(frozen=True)
class Matching:
    """Base: a problem made per run of bags, and its solver."""

    @property
    def takes_quick_rows(self) -> bool:
        """Whether rows good to six digits of their largest entries change next to nothing."""
        return False

    def problem(
        self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1, full: bool = False
    ) -> Any:
        """Return the problem of these bags; ``full`` adds terms without the prevalence."""
        raise NotImplementedError

    def solve(self, problem: Any, n_threads: int = 1) -> Solution:
        """Return the problem's solution."""
        raise NotImplementedError

    def match(self, row_map: Any, rows: Any, bags: Bags, n_threads: int = 1) -> Solution:
        """Return the prevalences of all bags, made in runs that bound the memory."""
        parts = (
            self.solve(self.problem(row_map, rows, part, n_threads), n_threads)
            for part in _runs(rows, bags)
        )
        return concatenate(parts)

    def full_objective(
        self, row_map: Any, rows: Any, bags: Bags, prevalence: NDArray[Any], n_threads: int = 1
    ) -> Array:
        """Return the full objective of each bag at ``prevalence``, shape (n_bags,)."""
        out, start = [], 0
        for part in _runs(rows, bags):
            problem = self.problem(row_map, rows, part, n_threads, full=True)
            out.append(problem.objective(np.asarray(prevalence[start : start + len(part)])))
            start += len(part)
        return np.concatenate(out)


def _runs(rows: Any, bags: Bags) -> Iterable[Bags]:
    return rows.chunks(bags) if hasattr(rows, "chunks") else [bags]


def concatenate(parts: Iterable[Solution]) -> Solution:
    """Return the solutions of successive runs of bags as one."""
    found = list(parts)
    if len(found) == 1:
        return found[0]
    fields = ("prevalence", "objective", "gap", "n_iter", "converged")
    return Solution(*(np.concatenate([getattr(s, name) for s in found]) for name in fields))


def exact_solution(prevalence: Array) -> Solution:
    """Return prevalences that need no iteration as a solution with gap zero."""
    n = len(prevalence)
    zeros = np.zeros(n)
    return Solution(prevalence, zeros, zeros, np.zeros(n, np.int64), np.ones(n, np.bool_))
