"""The search over a lattice, against trying everything."""

from __future__ import annotations

import numpy as np
import pytest

from kdey.tuning.trials import Lattice, best_place, smallest_error


@pytest.mark.parametrize("valley", [-30, -9, 0, 3, 5, 11])
def test_one_valley_is_found_wherever_it_lies(valley: int) -> None:
    tried: list[list[int]] = []

    def errors_at(places: list[int]) -> np.ndarray:
        tried.append(places)
        return np.array([[abs(p - valley), abs(p - valley) + 0.5] for p in places])

    lattice = Lattice(errors_at, -40, 40, 4)
    found = lattice.refine(lattice.scan([-8, -4, 0, 4, 8]), (2, 1))
    # Three coarse steps beyond an edge are allowed, and two refining rounds from there.
    assert best_place(found) == max(valley, -23)
    assert smallest_error(found) == abs(max(valley, -23) - valley) + 0.25
    assert tried[0] == [-8, -4, 0, 4, 8]
    assert len(tried) <= 6
    flat = [p for places in tried for p in places]
    assert len(flat) == len(set(flat))


def test_bounds_are_kept_and_equals_go_to_the_larger() -> None:
    def errors_at(places: list[int]) -> np.ndarray:
        return np.zeros((len(places), 2))

    lattice = Lattice(errors_at, 0, 9, 4)
    found = lattice.refine(lattice.scan([0, 4, 8]), (2, 1))
    assert set(found) <= set(range(10))
    assert best_place(found) == max(found)
