"""What the searches report beside their answer: steps, rest, ties, and where nothing is known."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kdey import native
from kdey.bags import Bags
from kdey.matching import squares
from kdey.matching.histograms import (
    CdfDistance,
    HistogramCauchySchwarz,
    MeanHellinger,
    _starts,
    solve_cdf_distance,
    solve_nonconvex,
    ternary_search,
)
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture_em
from kdey.matching.sqp import solve_sqp
from kdey.matching.squares import (
    CauchySchwarz,
    LeastSquares,
    QuadraticMatch,
    solve_cauchy_schwarz,
    solve_least_squares,
    solve_quadratic,
)


@pytest.mark.parametrize(("tol", "steps"), [(1e-8, 46), (0.5, 2), (0.1, 6)])
def test_ternary_search_takes_a_third_off_per_step(tol, steps):
    asked = []

    def objective(x):
        asked.append(x[:, 1].copy())
        return (x[:, 1] - 0.3) ** 2

    found = ternary_search(objective, 1, tol=tol)
    np.testing.assert_array_equal(found.n_iter, [steps])
    assert found.n_iter.dtype == np.int64
    np.testing.assert_allclose(asked[:2], [[1 / 3], [2 / 3]])
    assert len(asked) == 2 * steps + 3
    assert abs(found.prevalence[0, 1] - 0.3) <= max(tol, 1e-7)
    assert np.isnan(found.gap).all()


def test_ternary_search_prefers_the_border_where_it_is_lower():
    # The search settles at 0.7; the jump at one is seen only because both ends are tried.
    found = ternary_search(lambda x: np.where(x[:, 1] == 1, -1.0, (x[:, 1] - 0.7) ** 2), 1)
    np.testing.assert_array_equal(found.prevalence, [[0.0, 1.0]])
    np.testing.assert_array_equal(found.objective, [-1.0])
    found = ternary_search(lambda x: np.where(x[:, 1] == 0, -1.0, (x[:, 1] - 0.7) ** 2), 1)
    np.testing.assert_array_equal(found.prevalence, [[1.0, 0.0]])


def test_ternary_search_says_where_no_value_is_finite():
    found = ternary_search(lambda x: np.where([True, False], np.inf, x[:, 1]), 2)
    np.testing.assert_array_equal(found.converged, [False, True])


def test_classes_that_look_alike_share_evenly():
    problem = CdfDistance(np.full((4, 2), 0.5), np.ones((3, 4)), np.ones(4))
    solution = solve_cdf_distance(problem)
    np.testing.assert_array_equal(solution.prevalence, np.full((3, 2), 0.5))
    np.testing.assert_array_equal(solution.n_iter, [1, 1, 1])
    assert solution.n_iter.dtype == np.int64


def test_weighted_median_is_the_first_to_hold_half_the_weight():
    # Classes at 0 and 1 everywhere: the targets are the ratios, and the middle one wins.
    templates = np.tile([0.0, 1.0], (3, 1))
    problem = CdfDistance(templates, [[0.9, 0.2, 0.4]], [1.0, 1.0, 1.0])
    np.testing.assert_allclose(solve_cdf_distance(problem).prevalence[:, 1], [0.4])
    heavy = CdfDistance(templates, [[0.9, 0.2, 0.4]], [2.0, 1.0, 1.0])
    np.testing.assert_allclose(solve_cdf_distance(heavy).prevalence[:, 1], [0.4])
    heavier = CdfDistance(templates, [[0.9, 0.2, 0.4]], [2.1, 1.0, 1.0])
    np.testing.assert_allclose(solve_cdf_distance(heavier).prevalence[:, 1], [0.9])


def _nudged(monkeypatch, amount):
    exact = squares.solve_programs

    def solve(*args, **kwargs):
        x, steps = exact(*args, **kwargs)
        move = amount * x.sum(axis=1)
        x[:, 0] += move
        x[:, 1] -= move
        return x, steps

    monkeypatch.setattr(squares, "solve_programs", solve)
    # The native core solves and certifies least squares in one call.
    monkeypatch.setattr(native, "available", lambda: False)


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_converged_means_a_gap_at_rounding_level_of_the_terms(scale, monkeypatch):
    rng = np.random.default_rng(0)
    m, x = scale * rng.random((6, 3)), rng.dirichlet(np.full(3, 5.0), size=2)
    gram, targets = m.T @ m, x @ m.T
    largest = np.sqrt(np.diag(gram).max())
    cases = [
        (
            solve_least_squares,
            LeastSquares(m, targets),
            largest * (np.linalg.norm(targets, axis=1) + largest),
        ),
        (
            solve_quadratic,
            QuadraticMatch(gram, targets @ m),
            np.abs(gram).max() + np.abs(targets @ m).max(axis=1),
        ),
        (solve_cauchy_schwarz, CauchySchwarz.from_targets(gram, targets @ m), np.ones(2)),
    ]
    for amount in np.geomspace(1e-13, 1e-7, 25):
        for solve, problem, size in cases:
            with monkeypatch.context() as patch:
                _nudged(patch, amount)
                solution = solve(problem)
            np.testing.assert_array_equal(solution.converged, solution.gap <= 1e-10 * size)


def test_the_tolerance_of_every_quadratic_solver_is_met_and_missed(monkeypatch):
    # Without this the test above could pass with all answers on one side.
    problem = LeastSquares(np.eye(2), [[0.4, 0.6]])
    answers = []
    for amount in (1e-12, 1e-8):
        with monkeypatch.context() as patch:
            _nudged(patch, amount)
            answers.append(bool(solve_least_squares(problem).converged[0]))
    assert answers == [True, False]


def test_em_passes_over_rows_that_its_classes_cannot_explain():
    rows = np.array([[0.9, 0.3, 0.0], [0.2, 0.8, 0.0], [0.0, 0.0, 1.0]])
    start = [[0.5, 0.5, 0.0]]
    solution = solve_mixture_em(MixtureLikelihood(rows, Bags.whole(3)), start=start, tol=1e-12)
    bare = solve_mixture_em(MixtureLikelihood(rows[:2], Bags.whole(2)), start=start, tol=1e-12)
    np.testing.assert_allclose(solution.prevalence, bare.prevalence, atol=1e-12)
    np.testing.assert_allclose(solution.prevalence.sum(), 1.0)
    assert solution.objective[0] == np.inf


def test_em_leaves_the_others_alone_where_one_bag_says_nothing():
    rows = np.array([[0.0, 0.0], [0.9, 0.3], [0.2, 0.8]])
    problem = MixtureLikelihood(rows, Bags.from_indices([[0], [1, 2, 2], [0, 0]], 3))
    with pytest.warns(ConvergenceWarning, match=r"^2 bag\(s\) .*\(every row is zero\)"):
        solution = solve_mixture_em(problem)
    alone = solve_mixture_em(MixtureLikelihood(rows, Bags.from_indices([[1, 2, 2]], 3)))
    np.testing.assert_array_equal(
        solution.prevalence, [[0.5, 0.5], alone.prevalence[0], [0.5, 0.5]]
    )
    np.testing.assert_array_equal(solution.n_iter, [0, alone.n_iter[0], 0])
    assert (solution.n_iter.dtype, solution.converged.dtype) == (np.int64, np.bool_)
    np.testing.assert_array_equal(solution.converged, [False, True, False])


def test_em_stops_below_its_tolerance_not_at_it():
    # One step moves (1/2, 1/2) to (2/3, 1/3), a mean change of 1/6, and stays there.
    problem = MixtureLikelihood(np.eye(2)[[0, 0, 1]], Bags.whole(3))
    change = float(np.abs(np.array([2 / 3, 1 / 3]) - 0.5).mean())
    assert solve_mixture_em(problem, tol=change).n_iter[0] == 2
    assert solve_mixture_em(problem, tol=1.01 * change).n_iter[0] == 1


def _histograms(seed=0):
    rng = np.random.default_rng(seed)
    templates = rng.dirichlet(np.ones(5), size=(3, 3)).transpose(0, 2, 1)
    return templates, rng.dirichlet(np.ones(5), size=(2, 3))


def test_searches_without_certificate_start_where_they_say():
    problem = MeanHellinger(*_histograms())
    uniform, inner, corner = _starts(problem, 1)
    match = LeastSquares(problem.templates.reshape(-1, 3), problem.targets.reshape(2, -1))
    near = solve_least_squares(match).prevalence
    np.testing.assert_array_equal(uniform, np.full((2, 3), 1 / 3))
    np.testing.assert_allclose(inner, 0.99 * near + 0.01 / 3)
    np.testing.assert_allclose(corner, (inner + np.eye(3)[near.argmax(axis=1)]) / 2)


@pytest.mark.parametrize("kind", [HistogramCauchySchwarz, MeanHellinger])
def test_the_best_start_wins_and_all_their_steps_are_counted(kind):
    problem = kind(*_histograms(1))
    parts = [solve_sqp(problem, start=start, max_iter=100) for start in _starts(problem, 1)]
    solution = solve_nonconvex(problem)
    np.testing.assert_array_equal(solution.n_iter, sum(part.n_iter for part in parts))
    values = np.stack([part.objective for part in parts])
    np.testing.assert_allclose(solution.objective, values.min(axis=0), rtol=1e-12)
    few = solve_nonconvex(problem, max_iter=1)
    np.testing.assert_array_equal(few.n_iter, [3, 3])
