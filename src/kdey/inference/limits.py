"""The last step to every interval: what holds whichever way the limits were made."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array
from kdey.inference.bag import SampledBags
from kdey.inference.options import IntervalOptions, IntervalWarning
from kdey.inference.score_interval import wilson
from kdey.telling import warn


def settle(
    estimates: Array, low: Array, high: Array, bags: SampledBags, options: IntervalOptions
) -> tuple[Array, Array]:
    """Return limits (n_bags, k) that contain the estimate and claim no more than labels could.

    An interval for the population is never inside the one that perfect labels of the bag would
    give, Wilson's at the estimate.
    """
    low, high = np.minimum(low, estimates), np.maximum(high, estimates)
    if options.target == "population":
        sizes = np.minimum(bags.effective_sizes, bags.n_units)[:, None]
        first, last = wilson(estimates, sizes, options.tail(estimates.shape[1]))
        low, high = np.minimum(low, first), np.maximum(high, last)
    return low, high


def give_up(low: Array, high: Array, bags: SampledBags, rare: NDArray[np.bool_]) -> list[list[str]]:
    """Widen, in place, limits that nothing supports to [0, 1]; return what to say of each bag.

    ``rare`` marks classes with a single training instance, shape (k,).
    """
    notes: list[list[str]] = [[] for _ in range(len(bags))]
    single = np.flatnonzero(bags.n_units < 2).tolist()
    for number in single:
        low[number], high[number] = 0.0, 1.0
        notes[number].append("one instance or cluster says next to nothing: limits are 0 and 1")
    if single:
        _warn(f"{len(single)} bag(s) have a single instance or cluster; their limits are 0 and 1")
    if rare.any():
        low[:, rare], high[:, rare] = 0.0, 1.0
        told = "a class with one training instance has limits 0 and 1"
        notes = [[*own, told] for own in notes]
        _warn(
            f"{int(rare.sum())} class(es) have a single training instance, whose spread is "
            "unknown: their limits are 0 and 1, and those of the other classes are rough"
        )
    return notes


def _warn(message: str) -> None:
    warn(message, IntervalWarning, stacklevel=6)
