"""What the campaigns over generated problems found: each of these gave NaN, or an error."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kdey.bags import Bags
from kdey.matching.divergence import Divergence, solve_divergence
from kdey.matching.histograms import MeanHellinger
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture, solve_mixture_em
from kdey.matching.sqp import solve_programs, solve_sqp
from kdey.matching.squares import (
    CauchySchwarz,
    LeastSquares,
    QuadraticMatch,
    solve_cauchy_schwarz,
    solve_quadratic,
)


def _valid(solution):
    assert np.isfinite(solution.prevalence).all()
    np.testing.assert_allclose(solution.prevalence.sum(axis=1), 1.0, atol=1e-9)
    return solution


def test_a_start_that_explains_a_row_by_1e_192_of_it(path):
    """It gave NaN prevalences, a gap of zero and ``converged``."""
    problem = MixtureLikelihood([[0.0, 1.0, 5e-192]], Bags.whole(1))
    solution = _valid(solve_mixture(problem, start=[[0.0, 0.0, 1.0]]))
    np.testing.assert_allclose(solution.prevalence, [[0, 1, 0]], atol=1e-8)
    assert solution.converged.all()


def test_weights_so_small_that_a_squared_mixture_underflows(path):
    """The curvature of a row of weight 1e-187 is 1e187, not infinite: it gave NaN, too."""
    rows = np.eye(3) + 1e-300
    problem = MixtureLikelihood(rows, Bags.whole(3, [1.0, 1e-187, 1e-60]))
    solution = _valid(solve_mixture(problem))
    np.testing.assert_allclose(solution.prevalence[0], [1.0, 1e-187, 1e-60], atol=1e-8)
    assert solution.converged.all()


def test_em_from_a_start_that_explains_no_row():
    """It divided zero by zero."""
    problem = MixtureLikelihood([[0.0, 1.0]], Bags.whole(1))
    solution = solve_mixture_em(problem, start=[[1.0, 0.0]])
    np.testing.assert_array_equal(solution.prevalence, [[1.0, 0.0]])
    assert not solution.converged[0]
    assert np.isposinf(solution.gap[0])


def test_a_hellinger_step_that_would_remove_the_only_class_of_a_row(path):
    """A prevalence underflowed to zero, and the slope there is no number."""
    rows = np.eye(3)[[0, 1, 2, 1, 2, 1]] * 0.0969
    targets = [[5.3e-39, 9.5e-6, 5.1e-5, 5.3e-39, 3.1e-3, 9.4e-2]]
    weights = [0.05, 18.0, 1e-3, 18.0, 0.5, 2.0]
    solution = _valid(solve_divergence(Divergence(rows, targets, "hellinger", weights)))
    assert not np.isnan(solution.gap).any()
    assert solution.prevalence[0, 0] >= 0


@pytest.mark.parametrize("generator", ["topsoe", "jensen-shannon", "kl"])
def test_values_of_terms_whose_ratio_underflows(generator, path):
    """The logarithm of a ratio of 1e-332 was taken after the division: -inf."""
    problem = Divergence([[1e38, 2e38], [1.0, 1.0]], [[1e-294, 1.0]], generator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 1e-8 is nothing beside 1e38
        solution = _valid(solve_divergence(problem, max_iter=5))
    assert np.isfinite(solution.objective).all()
    np.testing.assert_allclose(solution.objective, problem.objective(solution.prevalence))


def test_pulls_beside_which_the_gram_matrix_is_rounding(path):
    """The condition that shares sum to one was lost, and 0 / 0 returned."""
    profile = np.array([1.0, 1.7, 170.0, 0.05])
    gram = np.outer(profile, profile) * 2.4e5
    solution = _valid(solve_quadratic(QuadraticMatch(gram, [profile * 1e34, -profile * 1e34])))
    np.testing.assert_allclose(solution.prevalence, np.eye(4)[[2, 3]], atol=1e-9)
    assert solution.converged.all()


def test_gram_matrices_at_the_edge_of_underflow(path):
    gram = np.diag([1.2, 2.4, 2.2]) * 1e-319
    _valid(solve_quadratic(QuadraticMatch(gram, np.zeros((2, 3)))))
    problem = CauchySchwarz(np.diag([1e-319, 1.0, 1e-200]), np.log([[1e-300, 1e-10, 1.0]]))
    solution = _valid(solve_cauchy_schwarz(problem))
    assert not (solution.gap < 0).any()


def test_a_matrix_that_rounding_left_indefinite(path):
    """The NumPy path raised LinAlgError."""
    gram = np.ones((3, 3)) + np.diag([0.0, -1e-9, -1e-9])
    x, _ = solve_programs(gram, np.array([[1.0, 1.0, 1.0]]), simplex=True)
    np.testing.assert_allclose(x.sum(), 1.0)
    endless = np.full((1, 2, 2), np.inf)
    x, _ = solve_programs(endless, np.array([[1.0, 2.0]]), simplex=True)
    np.testing.assert_allclose(x.sum(), 1.0)


def test_curvatures_that_overflow_are_left_out(path):
    """The mean Hellinger distance warned of an overflow."""
    problem = MeanHellinger([[[1e-320, 1.0]]], [[[1.0]]])
    assert np.isfinite(problem.hessian(np.array([[1.0, 0.0]]))).all()


def test_slopes_that_overflow_leave_a_finite_model(path):
    problem = LeastSquares(np.array([[1e100, -1e100, 1.0]]), [[1e100]])
    _valid(solve_sqp(problem, max_iter=5))


@pytest.mark.parametrize("size", [1e101, 1e300])
def test_entries_whose_products_overflow_are_refused(size):
    for make in (
        lambda: LeastSquares([[size, 1.0]], [[1.0]]),
        lambda: LeastSquares([[1.0, 1.0]], [[-size]]),
        lambda: Divergence([[size, 1.0]], [[1.0]], "topsoe"),
        lambda: QuadraticMatch(np.eye(2) * size, [[1.0, 1.0]]),
        lambda: MeanHellinger([[[size, 1.0]]], [[[1.0]]]),
    ):
        with pytest.raises(ValueError, match=r"(templates|targets|gram) has values beyond 1e\+100"):
            make()
    # Rows of a likelihood are held relative to their largest entry: any finite size will do.
    problem = MixtureLikelihood([[size, size / 2]], Bags.whole(1))
    np.testing.assert_allclose(solve_mixture(problem).prevalence, [[1, 0]], atol=1e-8)


def test_cauchy_schwarz_where_match_and_norm_underflow():
    """Infinity less infinity: the objective was NaN."""
    problem = CauchySchwarz(np.diag([5e-324, 1.0]), np.log([[1e-300, 1.0]]))
    at = np.array([[1e-30, 0.0]])
    assert np.isposinf(problem.objective(at)).all()
    assert np.isposinf(problem.gap(at)).all()
