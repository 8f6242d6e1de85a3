"""Starting points: what is refused, what is scaled, and what is moved off the border."""

import numpy as np
import pytest

from kdey.matching import check_start, interior_start
from kdey.matching.divergence import Divergence


def test_uniform_without_a_start():
    np.testing.assert_array_equal(check_start(None, 2, 4), np.full((2, 4), 0.25))


def test_rows_are_scaled_to_the_simplex_in_a_copy():
    given = np.array([[1.0, 3.0], [2.0, 0.0]], dtype=np.float32)
    made = check_start(given, 2, 2)
    assert made.dtype == np.float64
    np.testing.assert_array_equal(made, [[0.25, 0.75], [1.0, 0.0]])
    np.testing.assert_array_equal(given, [[1.0, 3.0], [2.0, 0.0]])


@pytest.mark.parametrize(
    "start", [[[0.5, 0.5], [np.nan, 1.0]], [[0.5, 0.5], [np.inf, 1.0]], [[0.5, 0.5], [0.0, 0.0]]]
)
def test_one_bad_row_among_good_ones_is_refused(start):
    with pytest.raises(ValueError, match="start must hold finite, non-negative rows"):
        check_start(start, 2, 2)


def test_only_starts_with_an_infinite_slope_are_moved():
    problem = Divergence(np.eye(2), [[0.5, 0.5], [0.5, 0.5]], "hellinger")
    start = np.array([[1.0, 0.0], [0.3, 0.7]])
    moved = interior_start(problem, start)
    np.testing.assert_array_equal(moved[1], start[1])
    np.testing.assert_allclose(moved[0], [0.9995, 0.0005], rtol=1e-12)
    np.testing.assert_array_equal(start[0], [1.0, 0.0])
