"""The last stage of a moment method, from the mean rows of groups instead of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kdey.bags import Array, Bags
from kdey.groups.sums.source import GroupSums, Plan
from kdey.intervals import FittedModel
from kdey.rows.composite import CompositeRows
from kdey.rows.interface import Rows
from kdey.solvers.solution import Solution


@dataclass(frozen=True, eq=False)
class MeanRows(Rows):
    """Mean rows of groups, each of them one instance of a pool of groups.

    ``array`` has shape (n_groups, r) and holds logarithms where ``in_logs``.
    """

    array: Array
    in_logs: bool

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.array)

    def mean(self, bags: Bags) -> Array:
        """Return the mean row of each bag of groups, shape (n_bags, r)."""
        return bags.mean(np.exp(self.array) if self.in_logs else self.array)

    def log_mean(self, bags: Bags) -> Array:
        """Return the logs of the mean rows of bags of one group each."""
        if self.in_logs:
            return np.asarray(self.array[bags.indices])
        with np.errstate(divide="ignore"):
            return np.log(self.mean(bags))


def mean_rows(plan: Plan, sums: GroupSums) -> list[MeanRows]:
    """Return the mean rows of every member, for the groups of ``sums``."""
    n = sums.sums["n"][:, None]
    names = [f"mean{member}" for member in range(len(plan.row_maps))]
    if plan.kind == "log mean":
        return [MeanRows(sums.logs[name] - np.log(n), True) for name in names]
    return [MeanRows(sums.sums[name] / n, False) for name in names]


def solve_means(model: FittedModel, means: Sequence[MeanRows]) -> Solution:
    """Return the solutions of groups given by their mean rows, one for every member."""
    n = len(means[0].array)
    alone = Bags(np.arange(n, dtype=np.int64), np.arange(n + 1, dtype=np.int64), n)
    rows: Rows = CompositeRows(tuple(means)) if model.row_map.is_composite else means[0]
    return model.matching.match(model.row_map, rows, alone, model.n_threads)
