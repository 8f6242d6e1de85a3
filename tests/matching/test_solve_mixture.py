"""The mixture solver: certified on degenerate problems, and its invariances."""

import numpy as np
import pytest
from mixture_cases import KINDS, make_mixture
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from kdey import native
from kdey.bags import Bags
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture, solve_mixture_em

TOL = 1e-8


def _check(problem):
    solution = solve_mixture(problem)
    x = solution.prevalence
    assert (x >= 0).all()
    np.testing.assert_allclose(x.sum(axis=1), 1, atol=1e-12)
    assert solution.converged.all()
    # The certificate is the problem's own; the solver must report the same.
    gap = problem.gap(x)
    assert (gap <= TOL).all()
    np.testing.assert_allclose(solution.gap, gap, atol=1e-12)
    np.testing.assert_allclose(solution.objective, problem.objective(x), rtol=1e-11, atol=1e-11)
    return solution


@pytest.mark.parametrize("kind", KINDS)
def test_certified_on_random_problems(kind, path):
    shape = (400, 30) if path == "native" else (150, 15)
    for seed in range(8 if path == "native" else 3):
        _check(make_mixture(kind, seed, *shape))


@pytest.mark.parametrize("kind", KINDS)
def test_never_above_long_em(kind, needs_native):
    problem = make_mixture(kind, 100, 200, 12)
    em = solve_mixture_em(problem, tol=0.0, max_iter=3000)
    assert _check(problem).objective[0] <= em.objective[0] + TOL


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_certified_on_a_thousand_problems(kind, needs_native):
    for seed in range(84):
        problem = make_mixture(kind, 1000 + seed, 5000, 100)
        solution = _check(problem)
        if seed % 6 == 0:
            em = solve_mixture_em(problem, tol=0.0, max_iter=10_000)
            assert solution.objective[0] <= em.objective[0] + TOL


@pytest.mark.parametrize("k", [1, 2, 200])
def test_few_and_many_classes(k, path):
    rng = np.random.default_rng(k)
    rows = rng.gamma(0.3, size=(300, k)) + 1e-9
    _check(MixtureLikelihood(rows, Bags.whole(300)))


def test_tiny_weights_cost_no_long_series_of_halved_steps(path):
    for seed in range(5):
        problem = make_mixture("one-hot, tiny weights", seed, 300, 20)
        assert _check(problem).n_iter[0] <= 15


# Older SciPy says of its SLSQP, the oracle here, that it left the bounds.
@pytest.mark.smoke
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")
def test_as_good_as_a_general_optimiser(path):
    rng = np.random.default_rng(0)
    problem = MixtureLikelihood(rng.gamma(0.5, size=(60, 6)), Bags.whole(60))
    found = minimize(
        lambda x: problem.objective(x[None])[0],
        np.full(6, 1 / 6),
        jac=lambda x: problem.gradient(x[None])[0],
        bounds=[(1e-9, 1)] * 6,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    solution = _check(problem)
    assert solution.objective[0] <= found.fun + 1e-10
    np.testing.assert_allclose(solution.prevalence[0], found.x, atol=1e-4)


def test_known_optimum_of_one_hot_rows(path):
    rows = np.eye(3)[[0, 0, 1, 2, 2, 2]]
    solution = solve_mixture(MixtureLikelihood(rows, Bags.whole(6)))
    np.testing.assert_allclose(solution.prevalence[0], [2 / 6, 1 / 6, 3 / 6], atol=1e-7)


def test_recovers_prevalences_of_a_large_bag(path):
    rng = np.random.default_rng(5)
    alpha = rng.dirichlet(np.ones(4))
    centres = np.arange(4) * 4.0
    points = centres[rng.choice(4, size=4000, p=alpha)] + rng.normal(size=4000)
    rows = np.exp(-((points[:, None] - centres) ** 2) / 2)
    solution = solve_mixture(MixtureLikelihood(rows, Bags.whole(4000)))
    np.testing.assert_allclose(solution.prevalence[0], alpha, atol=0.03)


def _batch(seed=0, bags=12, weights=True):
    rng = np.random.default_rng(seed)
    rows = rng.gamma(0.3, size=(300, 7))
    drawn = [rng.integers(0, 300, rng.integers(1, 120)) for _ in range(bags)]
    w = [rng.random(len(d)) for d in drawn] if weights else None
    return rows, drawn, w


@pytest.mark.smoke
def test_native_and_numpy_agree(needs_native, monkeypatch):
    rows, drawn, w = _batch()
    problem = MixtureLikelihood(rows, Bags.from_indices(drawn, 300, w))
    fast = solve_mixture(problem, tol=1e-12)
    monkeypatch.setattr(native, "available", lambda: False)
    slow = solve_mixture(problem, tol=1e-12)
    np.testing.assert_allclose(fast.objective, slow.objective, atol=1e-11)
    np.testing.assert_allclose(fast.prevalence, slow.prevalence, atol=1e-5)


def test_batch_is_the_loop_bit_for_bit(needs_native):
    rows, drawn, w = _batch()
    whole = solve_mixture(MixtureLikelihood(rows, Bags.from_indices(drawn, 300, w)))
    for b, (indices, weights) in enumerate(zip(drawn, w, strict=True)):
        one = solve_mixture(MixtureLikelihood(rows, Bags.from_indices([indices], 300, [weights])))
        np.testing.assert_array_equal(one.prevalence[0], whole.prevalence[b])


def test_batch_is_the_loop_in_numpy(monkeypatch):
    monkeypatch.setattr(native, "available", lambda: False)
    rows, drawn, _ = _batch(bags=4, weights=False)
    whole = solve_mixture(MixtureLikelihood(rows, Bags.from_indices(drawn, 300)))
    for b, indices in enumerate(drawn):
        one = solve_mixture(MixtureLikelihood(rows, Bags.from_indices([indices], 300)))
        np.testing.assert_allclose(one.prevalence[0], whole.prevalence[b], atol=1e-10)


def test_thread_count_changes_no_bit(needs_native):
    rows, drawn, w = _batch(bags=40)
    problem = MixtureLikelihood(rows, Bags.from_indices(drawn, 300, w))
    one, three = solve_mixture(problem, n_threads=1), solve_mixture(problem, n_threads=3)
    np.testing.assert_array_equal(one.prevalence, three.prevalence)
    np.testing.assert_array_equal(one.objective, three.objective)
    np.testing.assert_array_equal(one.n_iter, three.n_iter)


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_every_instruction_set_is_certified(isa, needs_native, monkeypatch):
    best = [_check(make_mixture(kind, 3, 300, 40)).objective for kind in KINDS]
    monkeypatch.setenv("KDEY_ISA", isa)
    other = [_check(make_mixture(kind, 3, 300, 40)).objective for kind in KINDS]
    np.testing.assert_allclose(best, other, atol=2 * TOL)


def test_class_permutation_permutes_the_answer(path):
    rows, drawn, _ = _batch(weights=False)
    bags = Bags.from_indices(drawn[:4], 300)
    order = np.random.default_rng(1).permutation(7)
    plain = solve_mixture(MixtureLikelihood(rows, bags), tol=1e-12)
    moved = solve_mixture(MixtureLikelihood(rows[:, order], bags), tol=1e-12)
    np.testing.assert_allclose(moved.objective, plain.objective, atol=1e-11)
    np.testing.assert_allclose(moved.prevalence, plain.prevalence[:, order], atol=1e-5)


def test_row_scales_and_repetition_do_not_matter(path):
    rng = np.random.default_rng(2)
    rows, counts = rng.gamma(0.3, size=(50, 5)), rng.integers(1, 5, 50)
    plain = solve_mixture(MixtureLikelihood(rows, Bags.whole(50, counts)), tol=1e-12)
    scaled = rows * 10.0 ** rng.uniform(-200, 200, (50, 1))
    other = solve_mixture(MixtureLikelihood(scaled, Bags.whole(50, 3.0 * counts)), tol=1e-12)
    repeated = Bags.from_indices([np.repeat(np.arange(50), counts)], 50)
    drawn = solve_mixture(MixtureLikelihood(rows, repeated), tol=1e-12)
    twice = Bags.from_indices([np.tile(np.repeat(np.arange(50), counts), 2)], 50)
    again = solve_mixture(MixtureLikelihood(rows, twice), tol=1e-12)
    for solution in (other, drawn, again):
        np.testing.assert_allclose(solution.prevalence, plain.prevalence, atol=1e-8)


def test_warm_start_reaches_the_same_optimum_sooner(path):
    rows, drawn, _ = _batch(weights=False)
    problem = MixtureLikelihood(rows, Bags.from_indices(drawn[:4], 300))
    cold = solve_mixture(problem)
    warm = solve_mixture(problem, start=cold.prevalence)
    assert (warm.n_iter == 0).all()
    vertices = solve_mixture(problem, start=np.eye(7)[:4])
    np.testing.assert_allclose(vertices.objective, cold.objective, atol=2 * TOL)


def test_large_bag_from_a_thinned_start(needs_native):
    rng = np.random.default_rng(3)
    problem = MixtureLikelihood(rng.gamma(0.2, size=(9000, 10)), Bags.whole(9000))
    thinned = _check(problem)
    plain = solve_mixture(problem, start=np.full((1, 10), 0.1))
    np.testing.assert_allclose(thinned.objective, plain.objective, atol=2 * TOL)


def test_bag_without_information_is_uniform_and_said_so(path):
    rows = np.array([[0.0, 0.0], [1.0, 3.0], [2.0, 1.0]])
    problem = MixtureLikelihood(rows, Bags.from_indices([[0, 0], [1, 2]], 3))
    with pytest.warns(ConvergenceWarning, match=r"1 bag\(s\) carry no information"):
        solution = solve_mixture(problem)
    np.testing.assert_array_equal(solution.prevalence[0], 0.5)
    np.testing.assert_array_equal(solution.converged, [False, True])
    assert np.isnan(solution.gap[0])
    assert np.isnan(solution.objective[0])
    assert solution.gap[1] <= TOL


def test_no_bag_with_information_at_all(path):
    problem = MixtureLikelihood(np.zeros((2, 3)), Bags.from_indices([[0], [1, 0]], 2))
    said = r"^2 bag\(s\) carry no information \(every row is zero\)"
    with pytest.warns(ConvergenceWarning, match=said):
        solution = solve_mixture(problem)
    np.testing.assert_array_equal(solution.prevalence, 1 / 3)
    np.testing.assert_array_equal(solution.n_iter, [0, 0])


def test_too_few_iterations_warn_and_still_certify(path):
    problem = make_mixture("tiny weights", 2, 400, 30)
    with pytest.warns(ConvergenceWarning, match="did not reach a gap"):
        solution = solve_mixture(problem, max_iter=1, start=np.full((1, problem.n_classes), 1.0))
    assert not solution.converged[0]
    np.testing.assert_allclose(solution.gap, problem.gap(solution.prevalence), rtol=1e-9)


@pytest.mark.parametrize("start", [np.ones((2, 2)), [[-1.0, 2.0]], [[0.0, 0.0]], [[np.nan, 1.0]]])
def test_bad_starts_are_refused(start, path):
    problem = MixtureLikelihood(np.ones((1, 2)), Bags.whole(1))
    with pytest.raises(ValueError, match="start must"):
        solve_mixture(problem, start=start)
