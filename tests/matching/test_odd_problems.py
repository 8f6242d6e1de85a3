"""Branches of the solvers that only odd problems reach, each told apart from its neighbours."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kdey.bags import Bags
from kdey.matching import Solution, histograms as multistart, sqp as active_set, squares
from kdey.matching.divergence import Divergence, solve_divergence
from kdey.matching.histograms import (
    CdfDistance,
    HistogramCauchySchwarz,
    solve_cdf_distance,
    solve_nonconvex,
    ternary_search,
)
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture_em
from kdey.matching.sqp import TOLERANCE, _factor, _most_negative, _on_simplex, _Program
from kdey.matching.squares import (
    CauchySchwarz,
    LeastSquares,
    QuadraticMatch,
    solve_cauchy_schwarz,
    solve_least_squares,
    solve_quadratic,
)


@pytest.mark.parametrize(("short", "raised"), [(1e-13, 1e-12), (1e-10, 1e-9), (1e-7, 1e-6)])
def test_a_matrix_that_rounding_left_indefinite_is_raised_as_little_as_helps(short, raised):
    gram = np.array([[2.0, 2.0], [2.0, 2.0 * (1 - short)]])
    lower, _ = _factor(gram)
    made = np.tril(lower) @ np.tril(lower).T
    np.testing.assert_allclose(made - gram, raised * np.diag(np.diag(gram)), atol=0.2 * raised)


def test_a_definite_matrix_is_not_raised_and_an_infinite_one_not_at_all():
    gram = np.array([[2.0, 1.0], [1.0, 2.0]])
    lower, _ = _factor(gram)
    np.testing.assert_allclose(np.tril(lower) @ np.tril(lower).T, gram, rtol=1e-15)
    with np.errstate(invalid="ignore"):
        assert _factor(np.array([[np.inf, 0.0], [0.0, 1.0]])) is None


def test_where_no_digit_is_left_the_vertex_of_the_least_value_is_taken():
    gram, linear = np.diag([4.0, 1.0]), np.array([[1.6, 0.0], [0.0, 0.0], [1.6, 0.0]])
    x = np.array([[np.nan, np.nan], [0.0, 0.1], [0.5, 0.5]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = _on_simplex(x, gram, linear)
    # 4/2 - 1.6 < 1/2 in the first, 4/2 > 1/2 in the second; the third is left alone.
    np.testing.assert_array_equal(made, [[1, 0], [0, 1], [0.5, 0.5]])


def test_a_lost_bag_of_a_batch_is_found_beside_one_that_is_not(path):
    gram = np.diag([1.0, 1e200])
    targets = np.array([[0.0, 1e-200], [1.0, 0.0]])
    solved = solve_cauchy_schwarz(CauchySchwarz.from_targets(gram / 1e100, targets))
    np.testing.assert_allclose(solved.prevalence, [[0.0, 1.0], [1.0, 0.0]], atol=1e-12)


def test_the_tolerance_of_least_squares_is_that_of_its_longest_template(path):
    problem = LeastSquares(np.array([[1e6, 0.0], [0.0, 1.0]]), np.array([[1.0, 1.0]]))
    solved = solve_least_squares(problem)
    moved = solved.prevalence + np.array([[1e-17, -1e-17]])
    assert solved.converged.all()
    assert problem.gap(moved)[0] <= TOLERANCE * 1e6 * (np.sqrt(2) + 1e6)
    # Its rounding is that of 1e12: a tolerance from the shortest template would refuse it.
    tilted = LeastSquares(np.array([[1e8, 1.0], [1.0, 1.0]]), np.array([[3e7, 0.7]]))
    assert solve_least_squares(tilted).converged.all()


def test_bags_without_information_are_counted_in_words(path):
    problem = CauchySchwarz.from_targets(np.eye(2), np.array([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]]))
    with pytest.warns(ConvergenceWarning, match=r"^2 bag\(s\) carry no information \(every class"):
        solve_cauchy_schwarz(problem)
    apart = Divergence(np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([[0.0, 1.0]]), "kl")
    with pytest.warns(ConvergenceWarning, match=r"^1 bag\(s\) .* \(the divergence is infinite ev"):
        solve_divergence(apart)
    empty = MixtureLikelihood([[0.0, 0.0]], Bags.whole(1))
    with pytest.warns(ConvergenceWarning, match=r"^1 bag\(s\) .* \(every row is zero\)"):
        solve_mixture_em(empty)


def test_the_warning_points_at_whoever_asked(path):
    problem = CauchySchwarz.from_targets(np.eye(2), np.zeros((1, 2)))
    with pytest.warns(ConvergenceWarning) as told:
        solve_cauchy_schwarz(problem)
    assert told[0].filename == __file__


def test_of_two_equal_thirds_the_left_one_is_kept():
    flat = ternary_search(lambda x: np.zeros(len(x)), 1, tol=0.5)
    np.testing.assert_allclose(flat.prevalence, [[1 - 2 / 9, 2 / 9]])


def test_quadratic_tolerance_takes_numbers_without_their_signs(path):
    problem = QuadraticMatch(np.eye(2), np.array([[-1e9, -1e9 + 1e-7]]))
    assert solve_quadratic(problem).converged.all()


def test_the_vertex_is_that_of_half_the_curvature():
    gram, lost = np.diag([4.0, 1.0]), np.full((1, 2), np.nan)
    # 2 - 1.4 > 1/2; with a third of the curvature it would be the other one.
    np.testing.assert_array_equal(_on_simplex(lost, gram, np.array([[1.4, 0.0]])), [[0, 1]])


def test_bags_whose_solution_is_infinite_or_nothing_get_their_best_class(monkeypatch):
    found = np.array([[np.inf, 0.0], [0.0, 0.0], [1.0, 3.0]])
    monkeypatch.setattr(squares, "solve_programs", lambda *_, **__: (found, np.ones(3, np.int64)))
    targets = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 3.0]])
    # Of a_i / sqrt(B_ii) the largest: 1 and 1 / 2, 2 and 1 / 4.
    solved = solve_cauchy_schwarz(CauchySchwarz.from_targets(np.diag([1.0, 16.0]), targets))
    np.testing.assert_array_equal(solved.prevalence, [[1, 0], [1, 0], [0.25, 0.75]])


def test_tolerances_are_relative_to_templates_and_targets(monkeypatch):
    seen = []
    real = squares.certify
    monkeypatch.setattr(squares, "certify", lambda *given: (seen.append(given[3]), real(*given))[1])
    problem = LeastSquares(np.array([[3.0, 0.0], [0.0, 1.0]]), np.array([[0.6, 0.8]]))
    np.testing.assert_allclose(squares._least_squares_tolerance(problem), [TOLERANCE * 3 * (1 + 3)])
    solve_quadratic(QuadraticMatch(np.array([[2.0, -5.0], [-5.0, 13.0]]), np.array([[1.0, -7.0]])))
    np.testing.assert_allclose(seen.pop(), [TOLERANCE * (13 + 7)])
    solve_cauchy_schwarz(CauchySchwarz.from_targets(np.eye(2), np.ones((1, 2))))
    np.testing.assert_allclose(seen.pop(), [TOLERANCE])


def test_reduced_gradients_within_rounding_of_their_terms_let_nothing_enter():
    program = _Program.of(np.eye(1), np.array([-1.0]), True, np.ones(1))
    closed = np.zeros(1, dtype=bool)
    assert _most_negative(program, np.array([-1.0]), np.zeros(1), 1.0 + 2e-15, closed) == -1
    assert _most_negative(program, np.array([-1.0]), np.zeros(1), 1.0 + 2e-13, closed) == 0


def _scripted(monkeypatch, minimisers, entering):
    """Let the active-set loop see given minimisers and entries; return what was closed to entry."""
    closed = []
    minimisers, entering = iter(minimisers), iter(entering)
    monkeypatch.setattr(active_set, "_solve_free", lambda *_: (np.array(next(minimisers)), 0.0))

    def enter(program, linear, x, shift, shut):
        closed.append(shut.tolist())
        return next(entering)

    monkeypatch.setattr(active_set, "_most_negative", enter)
    return closed


def test_a_class_that_enters_and_must_leave_at_once_is_barred(monkeypatch):
    closed = _scripted(monkeypatch, [[1.0, 0.0], [1.5, -0.5], [1.0, 0.0]], [1, -1])
    x, steps = active_set._solve_strict(None, np.zeros(2), np.array([1.0, 0.0]))
    np.testing.assert_array_equal(x, [1.0, 0.0])
    assert closed == [[True, False], [True, True]]
    assert steps == 3


def test_a_class_that_leaves_after_it_moved_may_come_back(monkeypatch):
    script = [[1.0, 0.0], [-0.5, 1.5], [0.0, -1.0], [0.0, 0.0]]
    closed = _scripted(monkeypatch, script, [1, -1])
    x, steps = active_set._solve_strict(None, np.zeros(2), np.array([1.0, 0.0]))
    np.testing.assert_array_equal(x, [0.0, 0.0])
    assert closed == [[True, False], [False, False]]
    assert steps == 4


def test_unfinished_bags_are_told_to_whoever_asked(path):
    rng = np.random.default_rng(0)
    templates = rng.dirichlet(np.ones(30), size=6).T
    problem = Divergence(templates, rng.dirichlet(np.ones(30), size=4), "topsoe")
    with pytest.warns(
        ConvergenceWarning, match=r"^4 bag\(s\) did not reach a gap of 1e-12"
    ) as told:
        solved = solve_divergence(problem, tol=1e-12, max_iter=1)
    assert told[0].filename == __file__
    np.testing.assert_array_equal(solved.n_iter, np.ones(4))
    assert not solved.converged.any()


def test_em_goes_on_beside_a_class_that_starts_at_nothing():
    problem = MixtureLikelihood([[0.9, 0.1, 0.5], [0.2, 0.8, 0.5], [0.3, 0.7, 0.5]], Bags.whole(3))
    solved = solve_mixture_em(problem, start=np.array([[0.5, 0.5, 0.0]]), tol=1e-10)
    assert solved.converged.all()
    assert solved.n_iter[0] > 5
    assert solved.prevalence[0, 2] == 0.0


def test_the_maximum_norm_is_searched_to_the_tolerance_asked_for():
    problem = CdfDistance(np.array([[0.9, 0.2]]), np.array([[0.4]]), np.ones(1), "max")
    coarse, fine = (solve_cdf_distance(problem, tol=tol) for tol in (1e-2, 1e-8))
    assert coarse.n_iter[0] < fine.n_iter[0]


def _two_histograms():
    rng = np.random.default_rng(1)
    templates = rng.dirichlet(np.ones(4), size=(2, 2)).transpose(0, 2, 1)
    return HistogramCauchySchwarz(templates, rng.dirichlet(np.ones(4), size=(1, 2)))


def test_of_several_starts_the_lowest_end_is_kept(monkeypatch):
    """The ends of the three starts are scripted: the second is the lowest."""
    values = np.array([3.0, 1.0, 2.0])
    ends = Solution(
        np.stack([1 - values / 10, values / 10], axis=1),
        values,
        np.full(3, np.nan),
        np.arange(1, 4),
        np.ones(3, dtype=bool),
    )
    monkeypatch.setattr(multistart, "solve_sqp", lambda *_, **__: ends)
    kept = solve_nonconvex(_two_histograms())
    np.testing.assert_allclose(kept.prevalence, [[0.9, 0.1]])
    assert kept.objective[0] == 1.0
    assert kept.n_iter[0] == 6
