"""The literature's EM."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kdey.bags import Bags
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture, solve_mixture_em


def _problem(seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.gamma(0.5, size=(80, 4))
    drawn = [rng.integers(0, 80, 30) for _ in range(3)]
    return rows, drawn, MixtureLikelihood(rows, Bags.from_indices(drawn, 80))


def test_follows_the_textbook_loop():
    rows, drawn, problem = _problem()
    prior = np.array([0.4, 0.3, 0.2, 0.1])
    solution = solve_mixture_em(problem, start=np.tile(prior, (3, 1)))
    for b, indices in enumerate(drawn):
        x, steps = prior, 0
        while True:
            posterior = rows[indices] * x
            posterior /= posterior.sum(axis=1, keepdims=True)
            new, steps = posterior.mean(axis=0), steps + 1
            change, x = np.abs(new - x).mean(), new
            if change < 1e-4:
                break
        np.testing.assert_allclose(solution.prevalence[b], x, atol=1e-12)
        assert solution.n_iter[b] == steps
    assert solution.converged.all()
    np.testing.assert_array_equal(solution.gap, problem.gap(solution.prevalence))


def test_converges_to_the_exact_solution():
    _, _, problem = _problem(1)
    exact, em = solve_mixture(problem), solve_mixture_em(problem, tol=1e-14, max_iter=100_000)
    np.testing.assert_allclose(em.prevalence, exact.prevalence, atol=1e-4)
    assert (exact.objective <= em.objective + 1e-8).all()


def test_iteration_limit_is_told():
    _, _, problem = _problem(2)
    solution = solve_mixture_em(problem, tol=0.0, max_iter=3)
    assert not solution.converged.any()
    assert (solution.n_iter == 3).all()


def test_a_class_that_starts_at_zero_stays_there():
    _, _, problem = _problem(3)
    solution = solve_mixture_em(problem, start=np.tile([0.0, 0.5, 0.25, 0.25], (3, 1)))
    np.testing.assert_array_equal(solution.prevalence[:, 0], 0)
    np.testing.assert_allclose(solution.prevalence.sum(axis=1), 1)


def test_bag_without_information():
    problem = MixtureLikelihood(np.zeros((2, 3)), Bags.whole(2))
    with pytest.warns(ConvergenceWarning, match="no information"):
        solution = solve_mixture_em(problem, start=[[0.2, 0.3, 0.5]])
    np.testing.assert_array_equal(solution.prevalence, 1 / 3)
    assert not solution.converged[0]


def test_the_iteration_limit_is_how_many_are_made():
    rows, drawn, problem = _problem(4)
    solution = solve_mixture_em(problem, tol=0.0, max_iter=2)
    for b, indices in enumerate(drawn):
        x = np.full(4, 0.25)
        for _ in range(2):
            posterior = rows[indices] * x
            x = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
        np.testing.assert_allclose(solution.prevalence[b], x, atol=1e-12)
