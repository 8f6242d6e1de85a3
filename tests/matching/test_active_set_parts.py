"""The parts of the active-set method in NumPy, one by one."""

import numpy as np
import pytest

from kdey.matching import sqp as active_set
from kdey.matching.sqp import (
    PROXIMAL,
    _first_point,
    _most_negative,
    _Program,
    _solve_free,
    _solve_program,
    _solve_strict,
)

HALF = np.full(2, 0.5)


def _program(gram, linear, simplex=True, around=None):
    gram, linear = np.array(gram, dtype=float), np.array(linear, dtype=float)
    around = np.full(len(linear), 1 / len(linear)) if around is None else around
    return _Program.of(gram, linear, simplex, around)


def test_on_the_simplex_the_gram_matrix_is_raised_by_its_own_scale():
    gram = np.array([[4.0, 1.0], [1.0, 2.0]])
    program = _program(gram, [1.0, 1.0])
    assert program.level == 2.0  # (4 + 1 + 1 + 2) / 4
    np.testing.assert_array_equal(program.diagonal, [6.0, 4.0])
    np.testing.assert_allclose(
        program.ridged, gram + 2 + PROXIMAL * np.diag([6.0, 4.0]), rtol=1e-15
    )
    assert program.ridged[0, 0] > 6.0
    assert _program(gram, [1.0, 1.0], around=np.array([1.0, 0.0])).level == 4.0
    free = _program(gram, [1.0, 1.0], simplex=False)
    assert free.level == 0.0
    np.testing.assert_array_equal(free.diagonal, [4.0, 2.0])


def test_without_any_scale_the_largest_curvature_or_one_takes_its_place():
    assert _program(np.zeros((2, 2)), [1.0, 2.0]).level == 1.0
    apart = _program([[4.0, -4.0], [-4.0, 4.0]], [1.0, 2.0])  # no curvature at the middle
    assert apart.level == 4.0
    flat = _program(np.diag([3.0, 0.0]), [1.0, 0.0], simplex=False)
    np.testing.assert_array_equal(flat.diagonal, [3.0, 3.0])
    small = _program(1e-3 * np.eye(2), [1.0, 1.0], simplex=False)
    np.testing.assert_array_equal(small.diagonal, [1e-3, 1e-3])
    assert _program(1e-3 * np.eye(2), [1.0, 1.0]).level == pytest.approx(5e-4)


def test_the_first_point_is_the_best_multiple_of_the_middle():
    np.testing.assert_array_equal(_first_point(_program(np.eye(2), [1.0, 3.0])), HALF)
    best = _first_point(_program(4 * np.eye(2), [1.0, 3.0], simplex=False))
    np.testing.assert_allclose(best, [0.5, 0.5])  # slope 2, curvature 2 at the middle
    tiny = _first_point(_program(0.5 * np.eye(2), [0.1, 0.3], simplex=False))
    np.testing.assert_allclose(tiny, [0.4, 0.4])  # slope 0.2, curvature 0.25
    falling = _first_point(_program(np.eye(2), [-1.0, -3.0], simplex=False))
    np.testing.assert_array_equal(falling, [0.0, 0.0])
    flat = _first_point(_program(np.zeros((2, 2)), [1.0, 1.0], simplex=False))
    np.testing.assert_array_equal(flat, [0.0, 0.0])


def test_the_class_to_enter_promises_most_for_its_scale():
    program = _program(np.diag([1.0, 100.0, 1.0]), [2.0, 10.0, 0.5], simplex=False)
    x, nobody = np.zeros(3), np.zeros(3, dtype=np.bool_)
    # Slopes 2, 10, 0.5 over lengths 1, 10, 1.
    assert _most_negative(program, program.linear, x, 0.0, nobody) == 0
    assert _most_negative(program, program.linear, x, 0.0, np.array([True, False, False])) == 1
    assert _most_negative(program, program.linear, x, 0.0, ~nobody) == -1
    # A shift is added to every slope.
    assert _most_negative(program, program.linear, x, -20.0, nobody) == -1
    assert _most_negative(program, np.array([0.0, 0.0, 0.1]), x, 0.5, nobody) == 2


def test_slopes_at_rounding_level_let_no_class_enter():
    program = _program(np.eye(2), [1.0, 1.0], simplex=False)
    x, nobody = np.array([1.0, 0.0]), np.array([True, False])
    for slope, entering in [(1e-15, -1), (1e-12, 1)]:
        linear = np.array([1.0, slope])
        # The terms of size one that cancelled are the class's own: with a shift of -1.
        assert _most_negative(program, linear + 1, x, -1.0, nobody) == entering


def test_the_free_classes_alone_are_solved_for():
    program = _program(np.diag([1.0, 2.0, 4.0]), [1.0, 1.0, 1.0], simplex=False)
    z, shift = _solve_free(program, program.linear, np.array([True, False, True]))
    np.testing.assert_allclose(z, [1.0, 0.0, 0.25], rtol=1e-9)
    assert shift == 0.0
    z, shift = _solve_free(program, program.linear, np.zeros(3, dtype=np.bool_))
    np.testing.assert_array_equal(z, 0)
    assert shift == 0.0
    on = _program(np.diag([1.0, 2.0, 4.0]), [1.0, 1.0, 1.0])
    z, shift = _solve_free(on, on.linear, np.array([True, False, True]))
    np.testing.assert_allclose(z, [0.8, 0.0, 0.2], rtol=1e-9)
    # Stationary: (Q + level) z - c = shift on the free classes.
    np.testing.assert_allclose((on.ridged @ z - on.linear)[[0, 2]], shift, rtol=1e-9)


def test_steps_are_counted_from_the_first_solve():
    program = _program(np.eye(3), [1.0, 2.0, -1.0], simplex=False)
    x, steps = _solve_strict(program, program.linear, np.array([1.0, 2.0, 0.0]))
    np.testing.assert_allclose(x, [1, 2, 0], rtol=1e-9)
    assert steps == 1
    # From zero: class 1 enters, then class 0, then none is left.
    x, steps = _solve_strict(program, program.linear, np.zeros(3))
    np.testing.assert_allclose(x, [1, 2, 0], rtol=1e-9)
    assert steps == 3
    # From all of them: class 2 leaves, the others are solved.
    x, steps = _solve_strict(program, program.linear, np.ones(3))
    np.testing.assert_allclose(x, [1, 2, 0], rtol=1e-9)
    assert steps == 2


def _passes_taken(monkeypatch, answers, passes):
    centres = []

    def strict(program, linear, x):
        centres.append((x.copy(), linear.copy()))
        return np.array(answers[min(len(centres), len(answers)) - 1]), 10 ** (len(centres) - 1)

    monkeypatch.setattr(active_set, "_solve_strict", strict)
    program = _program(np.diag([1.0, 3.0]), [1.0, 1.0], simplex=False)
    x, steps = _solve_program(program, np.array([0.5, 0.5]), passes)
    return x, steps, centres, program


def test_passes_end_when_an_answer_has_settled(monkeypatch):
    answers = [[1.0, 0.25], [1.0, 0.2], [1.0, 0.2 + 5e-16], [7.0, 7.0]]
    x, steps, centres, program = _passes_taken(monkeypatch, answers, 9)
    assert steps == 111  # three passes, all their steps
    np.testing.assert_array_equal(x, answers[2])
    # Every pass is centred at the last answer.
    for (centre, linear), expected in zip(centres, [[0.5, 0.5], *answers[:2]], strict=True):
        np.testing.assert_array_equal(centre, expected)
        np.testing.assert_allclose(
            linear - program.linear, PROXIMAL * program.diagonal * expected, rtol=1e-4
        )


def test_passes_end_at_their_number(monkeypatch):
    answers = [[1.0, 0.25], [1.0, 0.2], [1.0, 0.1]]
    x, steps, _, _ = _passes_taken(monkeypatch, answers, 2)
    assert steps == 11
    np.testing.assert_array_equal(x, answers[1])


def test_large_answers_settle_relative_to_their_size(monkeypatch):
    answers = [[1e9, 1.0], [1e9, 1.0 + 5e-7], [7.0, 7.0]]
    assert _passes_taken(monkeypatch, answers, 9)[1] == 11
