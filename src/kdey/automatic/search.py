"""Coarse-to-fine search over a lattice of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from kdey.automatic.parts import Array

#: Errors per bag at every lattice place tried.
Found: TypeAlias = "dict[int, Array]"
#: Steps of the coarse grid that may be added beyond an edge where the best value lies on it.
_BEYOND = 3


@dataclass(frozen=True, eq=False)
class Lattice:
    """Places to look at, evenly spaced integers that stand for values.

    Attributes
    ----------
    errors_at : callable
        From places to their errors per bag, shape (n_places, n_bags).
    low, high : int
        Smallest and largest place allowed.
    step : int
        Distance between the places of a coarse grid.
    """

    errors_at: Callable[[list[int]], Array]
    low: int
    high: int
    step: int

    def scan(self, coarse: Sequence[int]) -> Found:
        """Return the errors on a coarse grid, and beyond it where the best lies on its edge."""
        found = self._visit({}, list(coarse))
        for _ in range(_BEYOND):
            place = best_place(found)
            if min(found) < place < max(found):
                break
            found = self._visit(found, [place - self.step, place + self.step])
        return found

    def refine(self, found: Found, strides: Sequence[int]) -> Found:
        """Return ``found`` and the neighbours of its best place at each stride, coarse to fine."""
        for stride in strides:
            place = best_place(found)
            found = self._visit(found, [place - stride, place + stride])
        return found

    def _visit(self, found: Found, places: list[int]) -> Found:
        new = [p for p in places if p not in found and self.low <= p <= self.high]
        return found | dict(zip(new, self.errors_at(new), strict=True)) if new else found


def best_place(found: Found) -> int:
    """Return the place of smallest mean error; of equals the larger."""
    return min(found, key=lambda place: (float(np.mean(found[place])), -place))


def smallest(found: Found) -> float:
    """Return the smallest mean error."""
    return float(np.mean(found[best_place(found)]))
