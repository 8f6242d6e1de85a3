r"""Sums of bootstrap replicates: weighted sums of rows, many replicates in one pass.

For a moment method the row itself is summed. For a likelihood the row is :math:`D_{ji} / p_j` at
the estimate, minus the gradient of an instance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array
from kdey.sums.batch import GroupedRows, Hashes
from kdey.sums.group_sums import GroupSums
from kdey.sums.keyed import poisson_weights
from kdey.sums.likelihood import Trial

#: Weights held at a time: rows x replicates.
_HELD = 1 << 21


@dataclass(frozen=True, eq=False)
class Resampled:
    """Weighted sums of the rows of each group in some replicates.

    Attributes
    ----------
    seed, first, count : int
        Replicates ``first`` to ``first + count`` of this seed.
    trial : Trial or None
        Where the gradients of a likelihood are taken; None for moment methods.
    """

    seed: int
    first: int
    count: int
    trial: Trial | None = None

    def __call__(self, part: GroupedRows) -> GroupSums:
        """Return ``mass`` (g, count) and ``rows`` of every member (g, count, r) of a part."""
        if len(part.groups) == 0:
            return GroupSums(part.groups, {})
        if part.hashes is None:
            raise ValueError("a bootstrap needs the key of every row")
        n = len(part.groups)
        mass = np.empty((n, self.count))
        found = [np.empty((n, self.count, rows.shape[1])) for rows in part.rows]
        for group in range(n):
            own = slice(int(part.offsets[group]), int(part.offsets[group + 1]))
            rows = [self._rows(part, member, group, own) for member in range(len(part.rows))]
            mass[group], made = self._one(part.hashes[own], rows)
            for member, values in enumerate(made):
                found[member][group] = values
        sums = {f"rows{member}": values for member, values in enumerate(found)}
        return GroupSums(part.groups, {"mass": mass} | sums)

    def _rows(self, part: GroupedRows, member: int, group: int, own: slice) -> NDArray[np.floating]:
        rows = part.rows[member][own]
        if self.trial is None:
            return rows
        problem = np.array([member * self.trial.n_groups + part.groups[group]])
        where, met = self.trial.find(problem)
        if len(where) == 0:
            return np.ones_like(rows)
        mixture = rows.astype(np.float64) @ self.trial.prevalence[met[0]]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(mixture[:, None] > 0, rows / mixture[:, None], 0.0))

    def _one(self, hashes: Hashes, rows: list[NDArray[np.floating]]) -> tuple[Array, list[Array]]:
        """Return the total weights (count,) and weighted sums (count, r) of one group."""
        mass = np.zeros(self.count)
        made = [np.zeros((self.count, one.shape[1])) for one in rows]
        step = max(1, _HELD // self.count)
        for start in range(0, len(hashes), step):
            part = slice(start, start + step)
            weights = poisson_weights(hashes[part], self.seed, self.first, self.count)
            mass += weights.sum(axis=1)
            dense = weights.astype(np.float32)
            for total, one in zip(made, rows, strict=True):
                total += dense @ one[part].astype(np.float32)
        return mass, made
