r"""Sums of the mixture likelihood at a prevalence per group.

With D the densities of the instances j of a group and :math:`p_j = D_j \cdot \alpha`,

.. math:: v = -\sum_j \log p_j, \qquad s_i = \sum_j \frac{D_{ji}}{p_j}, \qquad
          C_{il} = \sum_j \frac{D_{ji} D_{jl}}{p_j^2}

which are the objective, minus its gradient, and its Hessian, times the number of instances.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Indices
from kdey.sums.batch import GroupedRows
from kdey.sums.group_sums import GroupSums, merge

#: Rows from which a group is worth a matrix product of its own.
_LARGE = 96
#: Numbers held at a time while small groups are summed together.
_HELD = 1 << 19


@dataclass(frozen=True, eq=False)
class Trial:
    """Prevalences at which groups are to be summed.

    Attributes
    ----------
    problems : int64 array of shape (a,)
        Ascending; problem ``member * n_groups + group``.
    prevalence : array of shape (a, k)
    n_groups : int
    curved : bool
        Whether the Hessian is wanted.
    """

    problems: Indices
    prevalence: Array
    n_groups: int
    curved: bool = True

    def __call__(self, part: GroupedRows) -> GroupSums:
        """Return ``value``, ``slope`` and ``curve`` of the problems met in a part of the data."""
        made = [
            self._member(part, rows, member * self.n_groups)
            for member, rows in enumerate(part.rows)
        ]
        return merge(made) if made else GroupSums(np.empty(0, dtype=np.int64), {})

    def _member(self, part: GroupedRows, rows: NDArray[np.float32], first: int) -> GroupSums:
        where, met = self.find(part.groups + first)
        starts, counts = part.offsets[where], np.diff(part.offsets)[where]
        x = self.prevalence[met]
        k = x.shape[1]
        value, slope = np.zeros(len(where)), np.zeros((len(where), k))
        curve = np.zeros((len(where), k, k if self.curved else 0))
        large = counts >= _LARGE
        for number in np.flatnonzero(large):
            own = rows[starts[number] : starts[number] + counts[number]]
            value[number], slope[number], curve[number] = _one_group(own, x[number], self.curved)
        for run in _runs(np.flatnonzero(~large), counts, k):
            taken = rows[_positions(starts[run], counts[run])]
            value[run], slope[run], curve[run] = _many_groups(
                taken, x[run], counts[run], self.curved
            )
        return GroupSums(self.problems[met], {"value": value, "slope": slope, "curve": curve})

    def find(self, problems: Indices) -> tuple[Indices, Indices]:
        """Return which of ``problems`` are on trial, and where they are among those."""
        place = np.minimum(np.searchsorted(self.problems, problems), len(self.problems) - 1)
        where = np.flatnonzero(self.problems[place] == problems)
        return where, place[where]


def _one_group(rows: NDArray[np.float32], x: Array, curved: bool) -> tuple[float, Array, Array]:
    """Return the sums of one group, in blocks that stay in the cache."""
    k = len(x)
    value, slope, curve = 0.0, np.zeros(k), np.zeros((k, k if curved else 0))
    step = max(_LARGE, _HELD // (4 * k))
    for start in range(0, len(rows), step):
        d = rows[start : start + step].astype(np.float64)
        mixture = d @ x
        with np.errstate(divide="ignore", invalid="ignore"):
            value -= float(np.log(mixture).sum())
            d /= mixture[:, None]
        slope += d.sum(axis=0)
        if curved:
            curve += d.T @ d
    return value, slope, curve


def _many_groups(
    rows: NDArray[np.float32], x: Array, counts: Indices, curved: bool
) -> tuple[Array, Array, Array]:
    """Return the sums of consecutive small groups with ``counts`` rows each."""
    starts = np.cumsum(counts) - counts
    d = rows.astype(np.float64)
    mixture = np.einsum("ij,ij->i", d, np.repeat(x, counts, axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = -np.add.reduceat(np.log(mixture), starts)
        d /= mixture[:, None]
        products = d[:, :, None] * (d[:, None, :] if curved else d[:, None, :0])
    slope = np.add.reduceat(d, starts, axis=0)
    return value, slope, np.add.reduceat(products, starts, axis=0)


def _runs(groups: Indices, counts: Indices, k: int) -> list[Indices]:
    """Cut small groups into runs whose products fit a bounded amount of memory."""
    if len(groups) == 0:
        return []
    total = np.cumsum(counts[groups])
    run = (total - 1) * k * k // _HELD
    cuts = [0, *(np.flatnonzero(np.diff(run)) + 1).tolist(), len(groups)]
    return [groups[a:b] for a, b in pairwise(cuts)]


def _positions(starts: Indices, counts: Indices) -> Indices:
    """Return starts[0], starts[0] + 1, ... of every run of ``counts`` rows, one after another."""
    shift = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return np.asarray(shift + np.arange(len(shift)))
