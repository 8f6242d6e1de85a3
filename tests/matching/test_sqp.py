"""The parts of the SQP solver one by one, and what it reports."""

import numpy as np
import pytest

from kdey.matching import sqp
from kdey.matching.divergence import Divergence
from kdey.matching.histograms import MeanHellinger
from kdey.matching.sqp import solve_sqp
from kdey.matching.squares import QuadraticMatch


class Along:
    """Bags over two classes whose objective is a given function of the second one's share."""

    def __init__(self, functions, slopes, convex=False):
        self.functions, self.slopes, self.convex = functions, slopes, convex
        self.n_bags, self.n_classes, self.asked = len(functions), 2, 0

    def objective(self, x):
        self.asked += 1
        return np.array([f(s) for f, s in zip(self.functions, x[:, 1], strict=True)])

    def gradient(self, x):
        slopes = [g(s) for g, s in zip(self.slopes, x[:, 1], strict=True)]
        return np.stack([np.zeros(len(x)), slopes], axis=1)

    def take(self, which):
        return Along(
            [self.functions[b] for b in which], [self.slopes[b] for b in which], self.convex
        )


def _state(problem):
    n = problem.n_bags
    x = np.tile([1.0, 0.0], (n, 1))
    zeros = np.zeros(n, dtype=np.bool_)
    value, gradient = problem.objective(x), problem.gradient(x)
    return sqp._SqpState(np.arange(n), x, value, gradient, zeros, np.zeros(n, int), zeros.copy())


def _backtracked(functions, slopes, promise, convex=False):
    problem = Along(functions, slopes, convex)
    state = _state(problem)
    target = np.tile([0.0, 1.0], (len(functions), 1))
    t = sqp._backtrack(problem, state, target, np.asarray(promise, dtype=float))
    return t, state


def test_steps_are_halved_until_the_objective_falls_enough():
    functions = [
        lambda s: -s,  # falls all the way
        lambda s: (s - 0.3) ** 2,  # falls at 1/2
        lambda s: (s - 0.1) ** 2,  # equal at 0.2: falls at 1/8
        lambda s: s,  # never falls
    ]
    slopes = [lambda s: -1.0, lambda s: 2 * s - 0.6, lambda s: 2 * s - 0.2, lambda s: 1.0]
    t, state = _backtracked(functions, slopes, [-1.0, -0.6, -0.2, -1.0])
    np.testing.assert_array_equal(t, [1.0, 0.5, 0.125, 0.0])
    np.testing.assert_array_equal(state.x[:, 1], t)
    np.testing.assert_allclose(state.value, [-1.0, 0.04, 0.000625, 0.0])
    np.testing.assert_allclose(state.gradient[:, 1], [-1.0, 0.4, 0.05, 1.0])


def test_a_step_must_deliver_a_share_of_what_was_promised():
    # It falls by 5e-5 and 2e-4 of what was promised; the share asked for is 1e-4.
    barely = [lambda s: -5e-5 * s, lambda s: -2e-4 * s]
    t, _ = _backtracked(barely, [lambda s: -1.0] * 2, [-1.0, -1.0])
    assert t[0] < 1e-8  # where all differences are rounding
    assert t[1] == 1


def test_equal_up_to_rounding_is_no_rise():
    rises = [lambda s: 1.0 + 1e-15 * (s > 0), lambda s: 1.0 + 1e-12 * (s > 0)]
    t, _ = _backtracked(rises, [lambda s: -1.0] * 2, [-1e-20, -1e-20])
    np.testing.assert_array_equal(t, [1.0, 0.0])


def test_points_of_infinite_slope_are_refused():
    t, _ = _backtracked([lambda s: -s], [lambda s: -np.inf if s == 1 else -1.0], [-1.0])
    np.testing.assert_array_equal(t, [0.5])


def test_forty_halvings_are_tried():
    problem = Along([lambda s: s], [lambda s: 1.0])
    state = _state(problem)
    problem.asked = 0
    sqp._backtrack(problem, state, np.array([[0.0, 1.0]]), np.array([-1.0]))
    assert problem.asked == sqp.HALVINGS == 40


@pytest.mark.parametrize(("length", "falls"), [(0.9, True), (1.3, True), (1.4, False)])
def test_convex_falls_are_judged_by_two_slopes(length, falls):
    # Along a parabola of slope -a + c t the bound is met up to c = 4a/3.
    problem = QuadraticMatch(np.eye(2), [[0.0, 0.0]])
    x = np.array([[1.0, 0.0]])
    step = length * 0.5 * np.array([[-1.0, 1.0]])
    end = problem.gradient(x + step)
    np.testing.assert_array_equal(sqp._is_decrease(problem, x, step, end), [falls])


def test_slopes_are_exact_where_gradients_are_nearly_equal():
    gradient = np.array([[1e16 + 2, 1e16, 1e16]])
    step = np.array([[0.3, -0.1, -0.2 + 1e-9]])
    np.testing.assert_allclose(sqp._slope(gradient, step), [0.6], rtol=1e-15)
    # Each bag is taken relative to its own least entry.
    far = np.array([[1e16 + 2, 1e16, 1e16], [1.0, 2.0, 3.0]])
    np.testing.assert_allclose(
        sqp._slope(far, np.tile(step, (2, 1))), [0.6, -0.5 + 2e-9], rtol=1e-9
    )
    endless = np.array([[np.inf, 1.0, 3.0]])
    np.testing.assert_array_equal(sqp._slope(endless, np.array([[0.0, -0.5, 0.5]])), [1.0])


def test_negative_rounding_is_cut_off():
    np.testing.assert_allclose(
        sqp._clipped(np.array([[-1e-3, 0.5, 0.6], [0.2, 0.2, 0.4]])),
        [[0.0, 0.5 / 1.1, 0.6 / 1.1], [0.25, 0.25, 0.5]],
    )


def test_flat_models_alone_are_curved():
    x, g = np.full((2, 2), 0.5), np.array([[0.0, 4.0], [0.0, 4.0]])
    h = np.stack([np.zeros((2, 2)), np.eye(2)])
    curved = sqp._with_curvature(h, x, g)
    np.testing.assert_allclose(curved[0], 4e-9 * np.eye(2))
    np.testing.assert_array_equal(curved[1], np.eye(2))
    assert sqp._with_curvature(h[1:], x[1:], g[1:]) is not None
    np.testing.assert_array_equal(sqp._with_curvature(h[1:], x[1:], g[1:]), h[1:])


def test_bags_retire_at_their_tolerance_or_at_rest():
    problem = Along([lambda s: s] * 5, [lambda s: 1.0] * 5)
    state = _state(problem)
    state.resting[:] = [False, False, True, False, True]
    keep = state.retire(np.array([1e-8, 2e-8, np.nan, np.nan, 1.0]), 1e-8)
    np.testing.assert_array_equal(keep, [1, 3])
    np.testing.assert_array_equal(state.converged, [True, False, True, False, False])


def test_a_quadratic_is_solved_by_its_only_step():
    problem = QuadraticMatch(np.diag([1.0, 2.0]), [[0.5, 0.9], [0.0, 0.0]])
    solution = solve_sqp(problem, max_iter=1)
    assert solution.converged.all()
    np.testing.assert_array_equal(solution.n_iter, [1, 1])
    np.testing.assert_allclose(solution.prevalence, [[1.6 / 3, 1.4 / 3], [2 / 3, 1 / 3]], rtol=1e-9)
    again = solve_sqp(problem, start=solution.prevalence)
    np.testing.assert_array_equal(again.n_iter, [0, 0])
    assert again.converged.all()


def _divergence():
    rng = np.random.default_rng(4)
    return Divergence(rng.gamma(0.5, size=(30, 4)), rng.gamma(0.5, size=(3, 30)), "hellinger")


def test_every_bag_stops_at_its_own_iteration():
    problem = _divergence()
    start = np.stack([np.full(4, 0.25), np.eye(4)[1], np.eye(4)[2]])
    whole = solve_sqp(problem, start=start)
    for b in range(3):
        one = solve_sqp(problem.take(np.array([b])), start=start[b : b + 1])
        np.testing.assert_allclose(whole.prevalence[b], one.prevalence[0], atol=1e-10)
        assert whole.n_iter[b] == one.n_iter[0]
    assert len(set(whole.n_iter.tolist())) > 1


def test_looser_tolerances_stop_sooner_and_are_met():
    problem = _divergence()
    loose, tight = solve_sqp(problem, tol=1e-2), solve_sqp(problem, tol=1e-12)
    assert (loose.n_iter < tight.n_iter).all()
    assert (loose.gap <= 1e-2).all()
    assert (loose.gap > 1e-12).all()
    default = solve_sqp(problem)
    assert (default.gap <= 1e-8).all()
    np.testing.assert_array_equal(solve_sqp(problem, tol=1e-8).n_iter, default.n_iter)


def test_without_certificate_the_iterations_come_to_rest():
    rng = np.random.default_rng(6)
    templates = rng.dirichlet(np.ones(5), size=(2, 3)).transpose(0, 2, 1)
    problem = MeanHellinger(templates, rng.dirichlet(np.ones(5), size=(2, 2)))
    solution = solve_sqp(problem)
    assert solution.converged.all()
    assert np.isnan(solution.gap).all()
    assert (solution.n_iter < 200).all()
    assert not solve_sqp(problem, max_iter=1).converged.any()


def test_polishing_is_for_the_bags_whose_step_was_shortened():
    problem = _divergence()
    polished = []

    def polish(part, x):
        polished.append(len(x))
        return x

    plain = solve_sqp(problem, polish=polish)
    assert plain.converged.all()
    assert all(n <= 3 for n in polished)


class Misled(Along):
    """An objective that rises although its slopes say that it falls."""

    def hessian(self, x):
        return np.tile(np.eye(2), (len(x), 1, 1))

    def gap(self, x):
        return np.ones(len(x))

    def take(self, which):
        return Misled([self.functions[b] for b in which], [self.slopes[b] for b in which])


def test_a_bag_that_cannot_move_is_given_up_and_not_called_converged():
    problem = Misled([lambda s: s, lambda s: 2 * s], [lambda s: -1.0] * 2)
    solution = solve_sqp(problem, start=np.tile([0.5, 0.5], (2, 1)))
    np.testing.assert_array_equal(solution.n_iter, [1, 1])
    np.testing.assert_array_equal(solution.converged, [False, False])
    np.testing.assert_array_equal(solution.prevalence, np.full((2, 2), 0.5))
