"""Checks and values at the edges of the problems."""

import numpy as np
import pytest

from kdey.bags import Bags
from kdey.matching import check_gram, frank_wolfe_gap
from kdey.matching.divergence import GENERATORS, NEGATIVE_LOG, Divergence, _ratio
from kdey.matching.histograms import (
    CdfDistance,
    Dissimilarity,
    HistogramCauchySchwarz,
    MeanHellinger,
)
from kdey.matching.likelihood import MixtureLikelihood
from kdey.matching.squares import CauchySchwarz, LeastSquares, QuadraticMatch
from kdey.metrics import normalised_absolute_error


def test_a_ratio_of_zeros_is_zero_and_of_something_over_zero_infinite():
    with np.errstate(divide="ignore"):
        made = _ratio(np.array([0.0, 0.0, 1.0, 3.0]), np.array([0.0, 2.0, 0.0, 2.0]))
    np.testing.assert_array_equal(made, [0.0, 0.0, np.inf, 1.5])


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_generators_are_quiet_where_both_densities_vanish(name):
    zero = np.zeros(1)
    with np.errstate(all="raise"):
        assert GENERATORS[name].value(zero, zero)[0] == 0.0


def test_weights_of_cumulative_distributions_are_checked_one_by_one():
    templates, targets = np.array([[0.5, 0.2], [1.0, 1.0]]), np.array([[0.3, 1.0]])
    with pytest.raises(ValueError, match=r"^weights must be non-negative"):
        CdfDistance(templates, targets, np.array([1.0, -1.0]))
    assert CdfDistance(templates, targets, np.array([1.0, 0.0])).convex


def test_one_histogram_without_mass_is_enough_to_refuse():
    full = np.full((2, 3, 2), 1 / 3)
    empty = full.copy()
    empty[1, :, 0] = 0.0
    targets = np.full((2, 2, 3), 1 / 3)
    with pytest.raises(ValueError, match=r"^templates holds a histogram without mass"):
        HistogramCauchySchwarz(empty, targets)
    bare = targets.copy()
    bare[1, 0] = 0.0
    with pytest.raises(ValueError, match=r"^targets holds a histogram without mass"):
        HistogramCauchySchwarz(full, bare)


def test_histograms_of_very_different_sizes_keep_their_shapes():
    """Each is measured by its own largest bin: the square of 1e-200 beside 1 would vanish."""
    templates = np.array([[[0.8, 0.1], [0.2, 0.9]]])
    targets = np.array([[[1e-200, 3e-200]], [[1.0, 3.0]]])
    problem = HistogramCauchySchwarz(templates, targets)
    values = problem.objective(np.array([[0.3, 0.7], [0.3, 0.7]]))
    assert np.isfinite(values).all()
    np.testing.assert_allclose(values[0], values[1], rtol=1e-12)


def test_gap_of_cauchy_schwarz_is_infinite_where_either_product_vanishes():
    problem = CauchySchwarz.from_targets(np.eye(2), np.array([[1.0, 0.0]]))
    assert problem.gap(np.array([[0.0, 1.0]]))[0] == np.inf  # no match, but a norm
    assert problem.objective(np.array([[0.0, 1.0]]))[0] == np.inf
    faint = CauchySchwarz.from_targets(1e-300 * np.eye(2), np.array([[1.0, 0.5]]))
    nothing = np.array([[1e-100, 0.0]])  # a match, but a norm that underflows
    assert faint.gap(nothing)[0] == np.inf
    assert faint.objective(nothing)[0] == np.inf


def test_mean_hellinger_counts_a_steep_bin_for_its_own_classes_alone():
    # Class 0 has no mass in the second bin, which the bag fills: only class 1 is pulled.
    templates = np.array([[[1.0, 0.5], [0.0, 0.5]]])
    problem = MeanHellinger(templates, np.array([[[0.5, 0.5]]]))
    gradient = problem.gradient(np.array([[1.0, 0.0]]))[0]
    assert gradient[1] == -np.inf
    assert np.isfinite(gradient[0])
    root = np.sqrt(((1 - np.sqrt(0.5)) ** 2 + 0.5) / 2)
    assert gradient[0] == pytest.approx(0.25 / root * (1 - np.sqrt(0.5)))
    assert np.isfinite(problem.hessian(np.array([[1.0, 0.0]]))).all()


def test_rows_of_the_wrong_sign_are_named():
    with pytest.raises(ValueError, match=r"^rows "):
        MixtureLikelihood([[1.0, -1.0]], Bags.whole(1))


def test_targets_of_any_number_type_and_gram_of_any_layout():
    gram = np.asfortranarray(np.array([[2.0, 1.0], [1.0, 3.0]]))
    problem = CauchySchwarz(gram, np.zeros((1, 2), dtype=np.float32))
    assert problem.log_targets.dtype == np.float64
    assert problem.gram.flags.c_contiguous


def test_an_error_over_nothing_is_zero():
    with np.errstate(all="raise"):
        assert normalised_absolute_error([1.0], [1.0]) == 0.0


def test_symmetry_is_asked_for_relative_to_the_largest_entry_without_its_sign():
    made = check_gram(np.array([[-1.0, -1.0 + 1e-11], [-1.0, -1.0]]))
    np.testing.assert_array_equal(made, made.T)
    np.testing.assert_allclose(check_gram(np.array([[1.0, 1e-11], [0.0, 1.0]]))[0, 1], 5e-12)
    with pytest.raises(ValueError, match=r"^gram must be symmetric"):
        check_gram(np.array([[1.0, 1e-9], [0.0, 1.0]]))


def test_inner_products_may_be_of_any_size():
    problem = CauchySchwarz.from_targets(np.eye(2), np.array([[1e200, 1.0]]))
    np.testing.assert_allclose(problem.scaled_targets, [[1.0, 1e-200]])


def test_generators_know_their_names_and_the_end_of_reverse_kl():
    assert NEGATIVE_LOG.name == "negative-log"
    assert {name: g.name for name, g in GENERATORS.items()} == {name: name for name in GENERATORS}
    one, zero = np.ones(1), np.zeros(1)
    assert GENERATORS["reverse-kl"].second(one, zero)[0] == 0.0
    assert GENERATORS["reverse-kl"].second(one, one)[0] == 1.0


def test_dissimilarities_hold_arrays_whatever_they_were_given():
    problem = Dissimilarity([[0.5, 0.2], [0.5, 0.8]], [[0.4, 0.6]], "l1")
    assert problem.targets.dtype == np.float64
    assert problem.templates.dtype == np.float64
    np.testing.assert_allclose(problem.objective(np.array([[1.0, 0.0]])), [0.2])


def test_log_rows_of_single_precision_are_taken_for_what_they_are():
    logs = np.log(np.array([[0.3, 0.1], [0.2, 0.9]])).astype(np.float32)
    single = MixtureLikelihood.from_log_rows(logs, Bags.whole(2))
    double = MixtureLikelihood.from_log_rows(logs.astype(np.float64), Bags.whole(2))
    np.testing.assert_array_equal(single.rows, double.rows)
    np.testing.assert_array_equal(single.log_scales, double.log_scales)


def test_an_em_step_leaves_out_classes_that_are_not_there():
    problem = MixtureLikelihood([[1.0, 0.0], [0.0, 1.0]], Bags.whole(2))
    np.testing.assert_array_equal(problem.em_step(np.array([[1.0, 0.0]])), [[1.0, 0.0]])


def test_problems_say_whether_they_are_convex():
    convex = (MixtureLikelihood, Divergence, LeastSquares, QuadraticMatch, CdfDistance)
    assert [problem.convex for problem in convex] == [True] * 5
    other = (CauchySchwarz, HistogramCauchySchwarz, MeanHellinger)
    assert [problem.convex for problem in other] == [False] * 3


def test_one_infinite_slope_makes_the_gap_infinite():
    x = np.array([[0.5, 0.5], [0.5, 0.5]])
    slopes = np.array([[-np.inf, 1.0], [-1.0, 1.0]])
    np.testing.assert_array_equal(frank_wolfe_gap(x, slopes), [np.inf, 1.0])


def test_curvature_of_mean_hellinger_by_loops():
    rng = np.random.default_rng(3)
    templates = rng.dirichlet(np.ones(4), size=(3, 2)).transpose(0, 2, 1)
    targets, x = rng.dirichlet(np.ones(4), size=(1, 3)), np.array([0.3, 0.7])
    expected = np.zeros((2, 2))
    for c in range(3):
        p, q = templates[c] @ x, targets[0, c]
        root = np.sqrt(((np.sqrt(p) - np.sqrt(q)) ** 2).sum() / 2)
        for b in range(4):
            curve = 0.125 * np.sqrt(q[b] / p[b]) / p[b] / root / 3
            expected += curve * np.outer(templates[c, b], templates[c, b])
    found = MeanHellinger(templates, targets).hessian(x[None])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_bin_that_no_class_fills_moves_nothing():
    templates = np.array([[[0.7, 0.1], [0.3, 0.9], [0.0, 0.0]]])
    problem = MeanHellinger(templates, np.array([[[0.3, 0.5, 0.2]]]))
    x, step = np.array([[0.4, 0.6]]), 1e-6
    slopes = problem.gradient(x)[0]
    assert np.isfinite(slopes).all()
    for i in range(2):
        moved = np.tile(x, (2, 1))
        moved[:, i] += [step, -step]
        high, low = (problem.objective(moved[[j]])[0] for j in range(2))
        assert slopes[i] == pytest.approx((high - low) / (2 * step), abs=1e-7)


def test_small_things_that_nothing_else_asks():
    problem = CdfDistance(np.array([[0.5, 0.2]]), np.array([[0.3]]), np.ones(1))
    assert problem.n_classes == 2
    assert NEGATIVE_LOG.code == 0
    assert GENERATORS["reverse-kl"].first(np.zeros(1), np.zeros(1))[0] == np.inf
    with pytest.raises(ValueError, match=r"^reference"):
        Divergence(np.eye(2), np.array([[0.5, 0.5]]), "hellinger", np.array([1.0, 0.0]))


def test_errors_over_one_exactly_and_the_name_of_the_truth():
    assert normalised_absolute_error([0.5, 0.5], [1.0, 0.0]) == 1.0
    with pytest.raises(ValueError, match=r"^true "):
        normalised_absolute_error([[]], [1.0])


@pytest.mark.parametrize("name", ["mean", *sorted(set(GENERATORS) - {"reverse-kl"})])
def test_slope_of_a_bin_that_is_empty_in_the_bag_and_in_the_mixture(name):
    """An absent class whose bins are empty in the bag costs something as soon as it is present."""
    templates = np.array([[0.6, 0.2, 0.0], [0.4, 0.8, 0.1], [0.0, 0.0, 0.9]])
    target, x, step = np.array([[0.5, 0.5, 0.0]]), np.array([[0.3, 0.7, 0.0]]), 1e-7
    if name == "mean":
        problem = MeanHellinger(templates[None], target[None])
    else:
        problem = Divergence(templates, target, name)
    direction = np.array([[-0.5, -0.5, 1.0]])
    moved = (problem.objective(x + step * direction) - problem.objective(x))[0] / step
    assert problem.gradient(x)[0] @ direction[0] == pytest.approx(moved, rel=1e-4)
    assert moved > 0.1
