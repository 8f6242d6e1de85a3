"""What all problems share: checked arrays, symmetric Gram matrices, copies, contiguous data."""

import numpy as np
import pytest

from kdey.bags import Bags
from kdey.matching import check_array, check_gram, check_non_negative
from kdey.matching.divergence import Divergence
from kdey.matching.histograms import CdfDistance, HistogramCauchySchwarz, MeanHellinger
from kdey.matching.likelihood import MixtureLikelihood
from kdey.matching.squares import CauchySchwarz, LeastSquares, QuadraticMatch


def test_arrays_become_contiguous_float64():
    made = check_array(np.arange(6, dtype=np.int32).reshape(2, 3).T, "it", (None, 2))
    assert made.dtype == np.float64
    assert made.flags.c_contiguous
    np.testing.assert_array_equal(made, [[0, 3], [1, 4], [2, 5]])


@pytest.mark.parametrize(
    ("values", "shape", "message"),
    [
        (np.ones((2, 3)), (None, 4), r"it must have shape \(any, 4\), got \(2, 3\)"),
        (np.ones((2, 3)), (3, None), r"it must have shape \(3, any\), got \(2, 3\)"),
        (np.ones(3), (None, None), r"it must have shape \(any, any\), got \(3,\)"),
        (np.ones((2, 3)), (None,), r"it must have shape \(any\), got \(2, 3\)"),
        (np.ones((0, 3)), (None, 3), r"it is empty, shape \(0, 3\)"),
        ([[1.0, np.inf]], (None, None), "it contains NaN or infinity"),
    ],
)
def test_bad_arrays_are_refused(values, shape, message):
    with pytest.raises(ValueError, match=message):
        check_array(values, "it", shape)


def test_zero_is_not_negative_and_the_lowest_value_is_told():
    np.testing.assert_array_equal(check_non_negative([0.0, 1.0], "it", (None,)), [0, 1])
    with pytest.raises(ValueError, match=r"it contains negative values \(lowest -2\)"):
        check_non_negative([-1.0, -2.0, 3.0], "it", (3,))


def test_rounding_off_symmetry_is_evened_out_and_more_is_refused():
    base = 1e3 * np.array([[2.0, 1.0], [1.0, 3.0]])
    slightly = base + np.array([[0.0, 1e-9], [0.0, 0.0]])
    made = check_gram(slightly)
    np.testing.assert_array_equal(made, made.T)
    np.testing.assert_allclose(made[0, 1], 1e3 + 5e-10, rtol=1e-15)
    with pytest.raises(ValueError, match="gram must be symmetric"):
        check_gram(base + np.array([[0.0, 1e-6], [0.0, 0.0]]))
    with pytest.raises(ValueError, match="it must be symmetric"):
        check_gram([[0.0, 1.0], [-1.0, 0.0]], "it")


def test_replaced_fields_leave_the_problem_as_it_was():
    problem = LeastSquares(np.eye(2), np.ones((3, 2)))
    other = problem._with(targets=np.zeros((1, 2)))
    assert (other.n_bags, problem.n_bags) == (1, 3)
    assert other.templates is problem.templates


def _strided(*shape):
    return np.asfortranarray(np.random.default_rng(0).random(shape) + 0.1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LeastSquares(_strided(4, 3), _strided(2, 4)),
        lambda: QuadraticMatch(np.asfortranarray(np.eye(3)), _strided(2, 3)),
        lambda: CauchySchwarz(np.asfortranarray(np.eye(3)), _strided(2, 3)),
        lambda: Divergence(_strided(4, 3), _strided(2, 4), "kl", _strided(8)[::2]),
        lambda: MeanHellinger(_strided(2, 4, 3), _strided(5, 2, 4)),
        lambda: HistogramCauchySchwarz(_strided(2, 4, 3), _strided(5, 2, 4)),
        lambda: CdfDistance(_strided(4, 2), _strided(3, 4), _strided(8)[::2]),
        lambda: MixtureLikelihood(_strided(4, 3), Bags.whole(4)),
    ],
)
def test_problems_hold_contiguous_data(make):
    for name, value in vars(make()).items():
        if isinstance(value, np.ndarray):
            assert value.flags.c_contiguous, name
