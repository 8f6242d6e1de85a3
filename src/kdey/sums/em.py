"""Expectation maximisation from sums: the iterations of the literature, one pass each."""

from __future__ import annotations

import numpy as np

from kdey.bags import Array, Indices
from kdey.solvers.solution import Solution
from kdey.sums.likelihood import Trial
from kdey.sums.newton import Mixtures
from kdey.sums.source import Source


def iterate_mixtures(
    source: Source, given: Mixtures, n_groups: int, start: Array, *, tol: float, max_iter: int
) -> Solution:
    """Return what :func:`kdey.solvers.solve_mixture_em` does, from sums.

    Parameters
    ----------
    source : Source
    given : Mixtures
    n_groups : int
    start : array of shape (k,)
    tol : float
        Mean absolute change of the prevalences at which to stop.
    max_iter : int
    """
    informative = given.sizes > 0
    x = np.tile(start, (len(given.sizes), 1))
    x[~informative] = 1.0 / x.shape[1]
    rounds = np.zeros(len(x), dtype=np.int64)
    converged = np.zeros(len(x), dtype=np.bool_)
    active = np.flatnonzero(informative)
    while len(active) and rounds[active[0]] < max_iter:
        slope = _slope(source, given, active, x[active], n_groups)[1]
        moved = x[active] * slope
        moved /= moved.sum(axis=1, keepdims=True)
        done = np.abs(moved - x[active]).mean(axis=1) < tol
        x[active] = moved
        rounds[active] += 1
        converged[active] = done
        active = active[~done]
    value, gap = np.full(len(x), np.nan), np.full(len(x), np.nan)
    every = np.flatnonzero(informative)
    value[every], slope = _slope(source, given, every, x[every], n_groups)
    gap[every] = np.maximum(slope.max(axis=1) - 1.0, 0.0)
    return Solution(x, value, gap, rounds, converged)


def _slope(
    source: Source, given: Mixtures, which: Indices, x: Array, n_groups: int
) -> tuple[Array, Array]:
    """Return objective (a,) and minus its gradient (a, k) of the problems ``which``."""
    sums = source.total(Trial(which, x, n_groups, curved=False)).sums
    n, blank = given.sizes[which], given.ignored[which]
    value = (sums["value"] - given.scale[which]) / n
    return value, (sums["slope"] - blank[:, None]) / n[:, None]
