"""Solutions: slices, joining, and what is said of bags that were not solved."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kdey.matching import Solution, blank_solution, put_bags, warn_stalled


def _solution(n, first=0):
    count = np.arange(first, first + n)
    return Solution(
        np.stack([count, 1 - count], axis=1) * 1.0, count + 0.1, count + 0.2, count, count % 2 == 0
    )


def _same(one, other):
    for name, values in vars(one).items():
        np.testing.assert_array_equal(values, getattr(other, name), err_msg=name)


def test_a_slice_holds_every_field_of_its_bags():
    _same(_solution(5)[1:3], _solution(2, first=1))
    assert len(_solution(5)[1:3]) == 2


def test_join_replaces_the_named_bags_alone():
    whole = put_bags(_solution(3), np.array([2, 0]), _solution(2, first=10))
    _same(whole[:1], _solution(1, first=11))
    _same(whole[1:2], _solution(1, first=1))
    _same(whole[2:], _solution(1, first=10))


def test_joining_all_bags_copies_nothing():
    part = _solution(3)
    assert put_bags(_solution(3, first=5), np.arange(3), part) is part


def test_nothing_is_known_of_a_blank_solution():
    blank = blank_solution(2, 4)
    np.testing.assert_array_equal(blank.prevalence, np.full((2, 4), 0.25))
    assert np.isnan(blank.objective).all()
    assert np.isnan(blank.gap).all()
    assert blank.n_iter.tolist() == [0, 0]
    assert blank.n_iter.dtype == np.int64
    assert blank.converged.tolist() == [False, False]
    assert blank.converged.dtype == np.bool_


def _with_gaps(*gaps):
    blank = blank_solution(len(gaps), 2)
    blank.gap[:] = gaps
    return blank


def test_only_solvable_bags_far_from_their_optimum_are_warned_of():
    close = _with_gaps(1e-8, 1e-7, 0.5, np.nan)
    assert warn_stalled(close, np.array([True, True, False, False]), 1e-8) is close
    far = _with_gaps(2e-7, 0.5, 3.0, np.nan)
    with pytest.warns(ConvergenceWarning) as caught:
        warn_stalled(far, np.array([True, True, False, True]), 1e-8)
    assert str(caught[0].message).startswith("3 bag(s) did not reach a gap of 1e-08 (largest nan")
    with pytest.warns(ConvergenceWarning, match=r"^2 bag\(s\).*\(largest 0\.5\)"):
        warn_stalled(far, np.array([True, True, False, False]), 1e-8)
