"""Estimates, with their uncertainty, of bags that consist of one or more groups of a table.

:func:`~kdey.groups.estimate_groups` keeps numbers only, because the uncertainties of a million
groups would not fit into memory. Comparisons and histories need them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from kdey.bags import Bags, Indices, offsets_of
from kdey.fitted import FittedQuantifier
from kdey.groups.batches import CollectedRows
from kdey.intervals import Estimate
from kdey.options import IntervalWarning, Options

#: Numbers of the groups that make one bag.
Side: TypeAlias = tuple[int, ...]
#: Instances of all bags that are estimated in one call (256 MB of positions).
_MOST_INDICES = 1 << 25


def estimate_sides(
    quantifier: FittedQuantifier,
    collected: CollectedRows,
    sides: Sequence[Side],
    n_groups: int,
    options: Options,
) -> dict[Side, Estimate]:
    """Return the estimate of each bag that has instances.

    Parameters
    ----------
    quantifier : fitted quantifier
    collected : CollectedRows
    sides : sequence of tuples of int
        The groups of each bag.
    n_groups : int
    options : Options

    Returns
    -------
    dict from sides to Estimate
    """
    members, rows = _members(collected.codes, n_groups), collected.rows
    estimates: dict[Side, Estimate] = {}
    for run in _runs(list(dict.fromkeys(sides)), members):
        parts = [np.concatenate([members[group] for group in side]) for side in run]
        bags = Bags(np.concatenate(parts), offsets_of([len(p) for p in parts]), len(rows))
        with warnings.catch_warnings():
            # The status of the groups says it.
            warnings.simplefilter("ignore", IntervalWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            estimated = rows.estimates(quantifier, bags, options)
        estimates |= dict(zip(run, estimated, strict=True))
    return estimates


def _members(codes: NDArray[np.integer], n_groups: int) -> list[Indices]:
    """Return the rows of each group."""
    order = np.argsort(codes, kind="stable").astype(np.int64)
    ends = np.cumsum(np.bincount(codes, minlength=n_groups))
    return np.split(order, ends[:-1])


def _runs(sides: Sequence[Side], members: Sequence[Indices]) -> Iterator[list[Side]]:
    """Cut the sides with instances into runs of bounded size, since a row may be in many."""
    run: list[Side] = []
    total = 0
    for side in sides:
        size = sum(len(members[group]) for group in side)
        if not size:
            continue
        if run and total + size > _MOST_INDICES:
            yield run
            run, total = [], 0
        run.append(side)
        total += size
    if run:
        yield run
