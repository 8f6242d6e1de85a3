"""Least squares, L2 matching and Cauchy-Schwarz: exact, certified, invariant."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from kdey.matching import squares
from kdey.matching.squares import (
    CauchySchwarz,
    LeastSquares,
    QuadraticMatch,
    solve_cauchy_schwarz,
    solve_least_squares,
    solve_quadratic,
)

SOLVERS = {
    "least squares": (lambda m, q: LeastSquares(m, q), solve_least_squares),
    "quadratic": (lambda m, q: QuadraticMatch(m.T @ m, q @ m), solve_quadratic),
    "cauchy-schwarz": (
        lambda m, q: CauchySchwarz.from_targets(m.T @ m, q @ m),
        solve_cauchy_schwarz,
    ),
}


def _data(seed, r=20, k=6, bags=5):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(r, 0.5), size=k).T, rng.dirichlet(np.full(r, 0.5), size=bags)


def _slsqp(problem):
    k = problem.n_classes
    return minimize(
        lambda x: problem.objective(x[None])[0],
        np.full(k, 1 / k),
        jac=lambda x: problem.gradient(x[None])[0],
        bounds=[(0, 1)] * k,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    ).fun


@pytest.mark.smoke
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("seed", range(3))
def test_certified_and_never_above_slsqp(name, seed, path):
    make, solve = SOLVERS[name]
    problem = make(*_data(seed))
    solution = solve(problem)
    assert solution.converged.all()
    assert (solution.gap <= 1e-11).all()
    rounding = {"rtol": 1e-13, "atol": 1e-15}
    np.testing.assert_allclose(solution.gap, problem.gap(solution.prevalence), **rounding)
    np.testing.assert_allclose(
        solution.objective, problem.objective(solution.prevalence), **rounding
    )
    for b in range(problem.n_bags):
        assert solution.objective[b] <= _slsqp(problem.take(np.array([b]))) + 1e-11


@pytest.mark.parametrize("name", SOLVERS)
def test_recovers_an_exact_mixture(name, path):
    make, solve = SOLVERS[name]
    m, _ = _data(3)
    alpha = np.random.default_rng(3).dirichlet(np.ones(6), size=4)
    alpha[0] = np.eye(6)[2]
    np.testing.assert_allclose(solve(make(m, alpha @ m.T)).prevalence, alpha, atol=1e-7)


@pytest.mark.parametrize("name", SOLVERS)
def test_invariances(name, path):
    make, solve = SOLVERS[name]
    m, q = _data(4)
    plain = solve(make(m, q)).prevalence
    order = np.random.default_rng(0).permutation(6)
    np.testing.assert_allclose(solve(make(m[:, order], q)).prevalence, plain[:, order], atol=1e-9)
    for b in range(len(q)):
        np.testing.assert_allclose(solve(make(m, q[b : b + 1])).prevalence[0], plain[b], atol=1e-12)
    again = solve(make(m, q), n_threads=2).prevalence
    np.testing.assert_allclose(again, plain, atol=1e-9)


@pytest.mark.parametrize("name", SOLVERS)
def test_duplicated_classes_share_one_optimum(name, path):
    make, solve = SOLVERS[name]
    m, q = _data(5)
    twice = solve(make(np.concatenate([m, m], axis=1), q))
    assert twice.converged.all()
    np.testing.assert_allclose(twice.objective, solve(make(m, q)).objective, atol=1e-12)


def test_least_squares_with_fewer_rows_than_classes(path):
    rng = np.random.default_rng(6)
    solution = solve_least_squares(LeastSquares(rng.random((2, 9)), rng.random((4, 2))))
    assert solution.converged.all()
    assert (solution.gap <= 1e-12).all()


@pytest.mark.parametrize("seed", range(4))
def test_cauchy_schwarz_beats_a_fine_grid(seed, path):
    m, q = _data(seed, r=8, k=3, bags=3)
    problem = CauchySchwarz.from_targets(m.T @ m, q @ m)
    ticks = np.linspace(0, 1, 101)
    grid = np.array([(a, b, max(0.0, 1 - a - b)) for a in ticks for b in ticks if a + b <= 1])
    solution = solve_cauchy_schwarz(problem)
    for b in range(3):
        values = problem.take(np.full(len(grid), b)).objective(grid)
        assert solution.objective[b] <= values.min() + 1e-12
        nearest = grid[values.argmin()]
        assert np.abs(nearest - solution.prevalence[b]).max() <= 0.1


def test_cauchy_schwarz_far_below_underflow(path):
    m, q = _data(7)
    logs = np.log(q @ m)
    near = solve_cauchy_schwarz(CauchySchwarz(m.T @ m, logs))
    far = solve_cauchy_schwarz(CauchySchwarz(m.T @ m, logs - 1e5))
    np.testing.assert_allclose(far.prevalence, near.prevalence, atol=1e-9)
    np.testing.assert_allclose(far.objective, near.objective + 1e5)


def test_cauchy_schwarz_without_information(path):
    problem = CauchySchwarz(np.eye(2), [[-np.inf, -np.inf], [0.0, -np.inf]])
    said = r"^1 bag\(s\) carry no information \(every class inner product is zero\)"
    with pytest.warns(ConvergenceWarning, match=said):
        solution = solve_cauchy_schwarz(problem)
    np.testing.assert_allclose(solution.prevalence, [[0.5, 0.5], [1.0, 0.0]], atol=1e-15)
    np.testing.assert_array_equal(solution.converged, [False, True])
    assert np.isnan(solution.gap[0])


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_quadratic_at_extreme_scales(scale, path):
    m, q = _data(8)
    plain = solve_quadratic(QuadraticMatch(m.T @ m, q @ m))
    scaled = solve_quadratic(QuadraticMatch(scale * (m.T @ m), scale * (q @ m)))
    assert scaled.converged.all()
    np.testing.assert_allclose(scaled.prevalence, plain.prevalence, atol=1e-9)


def test_least_squares_converge_by_their_tolerance(path, monkeypatch):
    problem = LeastSquares(*_data(5))
    assert solve_least_squares(problem).converged.all()
    monkeypatch.setattr(squares, "_least_squares_tolerance", lambda p: np.full(p.n_bags, -1.0))
    assert not solve_least_squares(problem).converged.any()


def test_least_squares_of_a_bag_do_not_depend_on_the_others(path):
    problem = LeastSquares(*_data(6))
    together = solve_least_squares(problem, n_threads=2)
    for b in range(problem.n_bags):
        alone = solve_least_squares(problem.take(np.array([b])))
        np.testing.assert_allclose(alone.prevalence[0], together.prevalence[b], atol=1e-14)


def test_other_targets_are_checked_and_share_the_templates():
    templates, targets = _data(7)
    problem = LeastSquares(templates, targets)
    other = problem.with_targets(targets[:1] / 2)
    assert other.gram is problem.gram
    np.testing.assert_array_equal(other.targets, targets[:1] / 2)
    assert problem.n_bags == len(targets)
    for bad in (np.full((1, templates.shape[0]), np.nan), np.ones((1, templates.shape[0] + 1))):
        with pytest.raises(ValueError, match="targets"):
            problem.with_targets(bad)


def test_least_squares_lost_in_rounding_give_the_best_vertex(path):
    problem = LeastSquares(np.array([[1e-160, 2e-160]]), np.array([[1e90]]))
    np.testing.assert_array_equal(solve_least_squares(problem).prevalence, [[0.0, 1.0]])
