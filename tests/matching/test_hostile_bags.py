"""Bags and starts that the core must refuse or survive: found by fuzz/native."""

import numpy as np
import pytest

from kdey import native
from kdey.bags import Bags
from kdey.matching import blank_solution
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture


def call(indices, offsets):
    rows, n = np.ones((4, 2)), len(offsets) - 1
    found = blank_solution(n, 2)
    native.call(
        "kdey_solve_mixture",
        *(rows, np.zeros(4), 4, 2, np.array(indices), np.array(offsets), None, n, None),
        *(1e-8, 100, 1, found.prevalence, found.objective, found.gap, found.n_iter),
    )
    return found


def test_a_start_that_leaves_a_row_next_to_nothing(needs_native):
    """A mixture of 1e-200 is no zero, but its curvature was infinite and the answer NaN."""
    rows = np.array([[1.0, 1e-200], [1.0, 0.5], [1e-200, 1.0]])
    problem = MixtureLikelihood(rows, Bags.whole(3))
    found = solve_mixture(problem, start=np.array([[1.0, 0.0]]))
    assert found.converged.all()
    np.testing.assert_allclose(found.prevalence, solve_mixture(problem).prevalence, atol=1e-4)


@pytest.mark.parametrize(
    ("indices", "offsets"),
    [([0, 4], [0, 2]), ([0, -1], [0, 2]), ([0, 1, 2], [0, 3, 1]), ([0, 1], [-1, 2])],
)
def test_bags_outside_the_pool_are_refused(needs_native, indices, offsets):
    """The core took them at their word and read what lies beside the rows."""
    with pytest.raises(ValueError, match="kdey_solve_mixture"):
        call(indices, offsets)


def test_bags_within_the_pool_are_solved(needs_native):
    assert (call([0, 3, 1], [0, 2, 3]).gap <= 1e-8).all()


def test_a_bag_built_by_hand_with_a_negative_index(needs_native):
    bags = Bags(np.array([0, -3]), np.array([0, 2]), 2)
    with pytest.raises((ValueError, IndexError)):
        solve_mixture(MixtureLikelihood(np.ones((2, 2)), bags))
    bags = Bags(np.array([0, -1]), np.array([0, 2]), 2)  # NumPy counts this one from the end
    with pytest.raises(ValueError, match="kdey_solve_mixture"):
        solve_mixture(MixtureLikelihood(np.ones((2, 2)), bags))
