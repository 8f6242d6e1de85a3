"""The mixture likelihood as data: scaling, rows of zeros, bags without information."""

import numpy as np
import pytest

from kdey.bags import Bags
from kdey.matching.divergence import NEGATIVE_LOG, SeparableLoss
from kdey.matching.likelihood import MixtureLikelihood


def test_objective_is_the_mean_negative_log_likelihood_of_the_rows_as_given():
    rng = np.random.default_rng(0)
    rows, w = rng.gamma(1, size=(6, 3)) * 1e-3, rng.random(4)
    problem = MixtureLikelihood(rows, Bags.from_indices([[5, 0, 0, 2]], 6, [w]))
    x = rng.dirichlet(np.ones(3), size=1)
    expected = -np.average(np.log(rows[[5, 0, 0, 2]] @ x[0]), weights=w)
    np.testing.assert_allclose(problem.objective(x), [expected])


def test_log_rows_far_below_underflow_give_the_shifted_objective():
    rng = np.random.default_rng(1)
    logs = rng.normal(size=(8, 3))
    x = rng.dirichlet(np.ones(3), size=1)
    plain = MixtureLikelihood.from_log_rows(logs, Bags.whole(8))
    far = MixtureLikelihood.from_log_rows(logs - 1e5, Bags.whole(8))
    np.testing.assert_allclose(far.objective(x), plain.objective(x) + 1e5)
    np.testing.assert_allclose(far.gap(x), plain.gap(x), atol=1e-9)


def test_row_scales_do_not_touch_gradient_and_gap():
    rng = np.random.default_rng(2)
    rows = rng.random((8, 3))
    x = rng.dirichlet(np.ones(3), size=1)
    one = MixtureLikelihood(rows, Bags.whole(8))
    other = MixtureLikelihood(rows * 10.0 ** rng.uniform(-250, 250, (8, 1)), Bags.whole(8))
    np.testing.assert_allclose(other.gradient(x), one.gradient(x), rtol=1e-12)
    np.testing.assert_allclose(other.gap(x), one.gap(x), rtol=1e-12)


def test_rows_of_zeros_are_ignored_and_counted():
    rng = np.random.default_rng(3)
    rows = rng.random((6, 3))
    rows[[1, 4]] = 0
    bags = Bags.from_indices([[0, 1, 1, 2], [1, 4], [3, 5]], 6)
    problem = MixtureLikelihood(rows, bags)
    np.testing.assert_array_equal(problem.n_ignored, [2, 2, 0])
    np.testing.assert_array_equal(problem.is_informative, [True, False, True])
    x = rng.dirichlet(np.ones(3), size=3)
    bare = MixtureLikelihood(rows, Bags.from_indices([[0, 2], [0], [3, 5]], 6))
    np.testing.assert_allclose(problem.objective(x)[[0, 2]], bare.objective(x)[[0, 2]])
    np.testing.assert_allclose(problem.gap(x)[[0, 2]], bare.gap(x)[[0, 2]])
    assert np.isnan(problem.objective(x)[1])
    assert np.isnan(problem.gap(x)[1])


def test_a_row_of_zeros_with_all_the_weight_leaves_no_information():
    rows = np.array([[0.0, 0.0], [1.0, 2.0]])
    problem = MixtureLikelihood(rows, Bags.whole(2, [1.0, 0.0]))
    assert not problem.is_informative[0]


def test_an_unexplained_row_is_infinitely_bad():
    problem = MixtureLikelihood(np.array([[1.0, 0.0], [0.0, 1.0]]), Bags.whole(2))
    vertex = np.array([[1.0, 0.0]])
    assert problem.objective(vertex)[0] == np.inf
    assert problem.gap(vertex)[0] == np.inf


def test_em_step_stays_on_the_simplex_and_never_hurts():
    rng = np.random.default_rng(4)
    problem = MixtureLikelihood(rng.gamma(0.3, size=(30, 5)), Bags.whole(30))
    x = rng.dirichlet(np.ones(5), size=1)
    for _ in range(20):
        moved = problem.em_step(x)
        np.testing.assert_allclose(moved.sum(axis=1), 1)
        assert problem.objective(moved)[0] <= problem.objective(x)[0] + 1e-14
        x = moved


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        (np.array([[1.0, -1.0]]), "rows contains negative"),
        (np.array([[1.0, np.nan]]), "rows contains NaN"),
        (np.array([[1.0, np.inf]]), "rows contains NaN or infinity"),
        (np.ones(3), "rows must have shape"),
        (np.ones((2, 2)), "rows has 2 rows, but bags were made for a pool of 1"),
        (np.ones((1, 0)), "rows is empty"),
    ],
)
def test_bad_rows_are_refused(rows, match):
    with pytest.raises(ValueError, match=match):
        MixtureLikelihood(rows, Bags.whole(1))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_log_rows_are_refused(bad):
    with pytest.raises(ValueError, match="log_rows contains NaN"):
        MixtureLikelihood.from_log_rows([[0.0, bad]], Bags.whole(1))
    with pytest.raises(ValueError, match="log_rows must have shape"):
        MixtureLikelihood.from_log_rows([0.0, 1.0], Bags.whole(1))
    with pytest.raises(ValueError, match="log_rows must have shape"):
        MixtureLikelihood.from_log_rows(np.zeros((0, 2)), Bags.whole(1))
    with pytest.raises(ValueError, match="log_rows contains NaN"):
        MixtureLikelihood.from_log_rows([[0.0, 1.0], [0.0, bad]], Bags.whole(2))


def test_one_row_of_one_class_is_a_problem_too():
    problem = MixtureLikelihood.from_log_rows([[-3.0]], Bags.whole(1))
    np.testing.assert_allclose(problem.objective(np.ones((1, 1))), [3.0])


def test_the_given_rows_are_never_changed():
    rows = np.full((3, 2), 0.25)
    MixtureLikelihood(rows, Bags.whole(3)).objective(np.array([[0.5, 0.5]]))
    np.testing.assert_array_equal(rows, 0.25)


def test_a_density_too_small_to_divide_by_is_a_steep_slope_and_no_warning() -> None:
    rows = np.array([[1.0, 1e-310], [1.0, 1.0]])
    loss = SeparableLoss(rows, np.full(2, 0.5), np.zeros(2), NEGATIVE_LOG)
    corner = np.array([0.0, 1.0])
    assert loss.gradient(corner)[0] == -np.inf
    assert np.isfinite(loss.value(corner))
    assert np.isfinite(loss.hessian(corner)).all()


def test_a_weight_that_vanishes_beside_the_others_leaves_no_warning() -> None:
    # 1e-320 / 1e10 is zero: the share of a row that the vertex does not explain.
    problem = MixtureLikelihood(np.eye(2), Bags.whole(2, [1e10, 1e-320]))
    vertex = np.array([[1.0, 0.0]])
    assert problem.objective(vertex)[0] == 0
    assert problem.gap(vertex)[0] == 0
