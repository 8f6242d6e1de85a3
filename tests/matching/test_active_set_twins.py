"""The NumPy and the native active-set method take the same steps; degenerate programs by hand."""

import numpy as np
import pytest

from kdey import native
from kdey.matching import sqp as active_set
from kdey.matching.sqp import solve_programs


@pytest.mark.parametrize("k", [1, 2, 5, 12])
@pytest.mark.parametrize("simplex", [True, False])
@pytest.mark.parametrize("start", ["none", "sparse"])
@pytest.mark.parametrize("grams", ["shared", "own"])
def test_same_steps_and_answers(k, simplex, start, grams, needs_native, monkeypatch):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        a, b = rng.random((3, k + 3, k)), rng.random((3, k + 3))
        gram = 10.0 ** rng.uniform(-6, 6) * a.transpose(0, 2, 1) @ a
        linear = np.einsum("bij,bj->bi", gram, rng.dirichlet(np.ones(k), size=3)) + b[:, :k]
        options = {"simplex": simplex}
        if start == "sparse":
            options["start"] = rng.dirichlet(np.full(k, 0.3), size=3)
        gram = gram[0] if grams == "shared" else gram
        # Rounding says after how many passes an answer has settled; one is taken by both.
        fast = solve_programs(gram, linear, passes=1, **options)
        settled, _ = solve_programs(gram, linear, **options)
        with monkeypatch.context() as patch:
            patch.setattr(native, "available", lambda: False)
            slow = solve_programs(gram, linear, passes=1, **options)
            other, steps = solve_programs(gram, linear, **options)
        np.testing.assert_array_equal(fast[1], slow[1])
        np.testing.assert_allclose(fast[0], slow[0], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(settled, other, rtol=1e-10, atol=1e-12)
        # Every pass after the first finds its classes in play: one step, two at the most.
        assert (slow[1] <= steps).all()
        assert (steps <= slow[1] + 6).all()


def test_a_program_without_curvature_goes_to_its_best_class(path):
    x, _ = solve_programs(np.zeros((3, 3)), np.array([[1.0, 3.0, 2.0]]), simplex=True)
    np.testing.assert_allclose(x, [[0, 1, 0]], atol=1e-12)
    start = np.array([[1.0, 0.0, 0.0]])
    x, _ = solve_programs(np.zeros((3, 3)), np.array([[1.0, 3.0, 2.0]]), simplex=True, start=start)
    np.testing.assert_allclose(x, [[0, 1, 0]], atol=1e-12)
    np.testing.assert_array_equal(start, [[1.0, 0.0, 0.0]])


def test_a_program_without_anything_stays_where_it_started(path):
    x, steps = solve_programs(np.zeros((2, 2)), np.zeros((1, 2)), simplex=False)
    np.testing.assert_array_equal(x, 0)
    np.testing.assert_array_equal(steps, [1])
    start = np.array([[0.25, 0.75]])
    x, _ = solve_programs(np.zeros((2, 2)), np.zeros((1, 2)), simplex=True, start=start)
    np.testing.assert_allclose(x, start, atol=1e-6)


def test_classes_without_curvature_among_others(path):
    gram = np.diag([1.0, 0.0, 2.0])
    x, _ = solve_programs(gram, np.array([[1.0, 0.0, 2.0]]), simplex=False)
    np.testing.assert_allclose(x, [[1, 1, 1]])  # the second is free: it stays at its start
    # Worth 0.5 each: with less of classes 0 and 2 the flat one must enter.
    x, _ = solve_programs(gram, np.array([[0.6, 0.5, 0.7]]), simplex=True)
    np.testing.assert_allclose(x, [[0.1, 0.8, 0.1]], atol=1e-9)


def test_classes_that_cancel(path):
    gram = np.array([[1.0, -1.0], [-1.0, 1.0]])
    x, _ = solve_programs(gram, np.array([[0.1, 0.3]]), simplex=True)
    np.testing.assert_allclose(x, [[0.45, 0.55]], atol=1e-9)


def test_a_given_start_is_not_written_to(path):
    rng = np.random.default_rng(0)
    a, start = rng.random((9, 4)), rng.dirichlet(np.ones(4), size=2)
    kept = start.copy()
    solve_programs(a.T @ a, rng.random((2, 9)) @ a, simplex=True, start=start)
    np.testing.assert_array_equal(start, kept)


def test_strided_and_single_precision_arrays_are_taken(path):
    rng = np.random.default_rng(1)
    a = rng.random((9, 4))
    gram, linear = a.T @ a, rng.random((3, 9)) @ a
    start = rng.dirichlet(np.ones(4), size=3)
    plain, _ = solve_programs(gram, linear, simplex=True, start=start)
    wide = np.zeros((3, 8))
    wide[:, ::2] = linear
    other, _ = solve_programs(
        np.asfortranarray(gram), wide[:, ::2], simplex=True, start=np.asfortranarray(start)
    )
    np.testing.assert_allclose(other, plain, atol=1e-12)
    single, _ = solve_programs(
        gram.astype(np.float32),
        linear.astype(np.float32),
        simplex=True,
        start=start.astype(np.float32),
    )
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, plain, atol=1e-3)


def test_more_passes_wear_the_proximal_term_off(path, monkeypatch):
    if path == "numpy":
        monkeypatch.setattr(active_set, "PROXIMAL", 1e-3)
        a = np.random.default_rng(2).random((9, 4))
        gram, linear = a.T @ a, (np.full(4, 0.25) @ a.T @ a)[None]
        start = np.array([[0.1, 0.1, 0.1, 0.7]])
        errors = [
            np.abs(
                solve_programs(gram, linear, simplex=True, start=start, passes=n)[0] - 0.25
            ).max()
            for n in (1, 2, 4, 40)
        ]
        assert errors[0] > errors[1] > errors[2] > errors[3]
        assert errors[3] < 1e-9
