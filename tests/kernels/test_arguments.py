"""Degenerate input has a stated answer, bad input an error that names the argument."""

from __future__ import annotations

import numpy as np
import pytest

from kdey.kernels import class_log_sums

X = np.full((2, 3), 1.0 / 3)
Y = np.eye(3)
OFFSETS = np.array([0, 1, 2, 3])


def test_empty_classes_are_minus_infinity():
    found = class_log_sums(X, Y, [0, 0, 3, 3], 0.1)
    assert np.isneginf(found[0, :, [0, 2]]).all()
    assert np.isfinite(found[0, :, 1]).all()


def test_no_reference_at_all():
    assert np.isneginf(class_log_sums(X, np.empty((0, 3)), [0, 0], 0.1)).all()


def test_no_query():
    assert class_log_sums(np.empty((0, 3)), Y, OFFSETS, [0.1, 0.2]).shape == (2, 0, 3)


def test_one_reference():
    found = class_log_sums(X, Y[:1], [0, 1], 0.5)
    assert found == pytest.approx(np.full((1, 2, 1), -(2.0 / 3) / (2 * 0.25)))


@pytest.mark.parametrize("precision", ["mixed", "double"])
def test_all_references_of_a_class_left_out(precision):
    found = class_log_sums(X, Y, OFFSETS, 0.1, exclude=[1, -1], precision=precision)
    assert np.isneginf(found[0, 0]).tolist() == [False, True, False]
    assert np.isfinite(found[0, 1]).all()
    alone = class_log_sums(X, Y[:1], [0, 1], 0.1, exclude=[0, -1], precision=precision)
    assert np.isneginf(alone[0]).ravel().tolist() == [True, False]


def test_weight_zero_is_absence():
    found = class_log_sums(X, Y, OFFSETS, 0.1, weights=[1.0, 0.0, 2.0])
    assert np.isneginf(found[0, :, 1]).all()
    nothing = class_log_sums(X, Y, OFFSETS, 0.1, weights=np.zeros(3))
    assert np.isneginf(nothing).all()


def test_one_bandwidth_may_be_a_number():
    assert np.array_equal(class_log_sums(X, Y, OFFSETS, 0.1), class_log_sums(X, Y, OFFSETS, [0.1]))


def test_lists_integers_and_strided_arrays_are_taken():
    wide = np.repeat(Y, 2, axis=1)[:, ::2]
    assert not wide.flags.c_contiguous
    plain = class_log_sums(X, Y, OFFSETS, 0.1)
    assert np.array_equal(class_log_sums(X.tolist(), wide, OFFSETS, 0.1), plain)
    assert np.array_equal(class_log_sums(X, Y.astype(int), OFFSETS.astype(np.uint8), 0.1), plain)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"queries": X[0]}, "queries"),
        ({"queries": np.empty((2, 0))}, "queries"),
        ({"queries": np.where(X > 0, np.nan, 0)}, "queries contains NaN"),
        ({"references": np.where(Y > 0, np.inf, 0)}, "references contains NaN or infinity"),
        ({"references": Y * 1e200}, "references contains values too large"),
        ({"references": Y * 1e20}, "references contains values too large"),
        ({"references": Y.astype(object)}, "references must be real"),
        ({"references": Y.astype(complex)}, "references must be real"),
        ({"references": Y[:, :2]}, "columns"),
        ({"offsets": [0, 1, 2]}, "offsets"),
        ({"offsets": [0, 2, 1, 3]}, "offsets"),
        ({"offsets": [1, 2, 3]}, "offsets"),
        ({"offsets": [0.0, 3.0]}, "offsets"),
        ({"offsets": [3]}, "offsets"),
        ({"bandwidths": 0.0}, "bandwidths"),
        ({"bandwidths": -0.1}, "bandwidths"),
        ({"bandwidths": np.nan}, "bandwidths"),
        ({"bandwidths": [0.1, np.inf]}, "bandwidths"),
        ({"bandwidths": []}, "bandwidths"),
        ({"bandwidths": [[0.1]]}, "bandwidths"),
        ({"bandwidths": "scott"}, "bandwidths"),
        ({"bandwidths": True}, "bandwidths"),
        ({"weights": [1.0, 1.0]}, "weights"),
        ({"weights": [1.0, -1.0, 1.0]}, "weights"),
        ({"weights": [1.0, np.nan, 1.0]}, "weights"),
        ({"exclude": [0]}, "exclude"),
        ({"exclude": [0, 3]}, "exclude"),
        ({"exclude": [-2, 0]}, "exclude"),
        ({"exclude": [0.0, 1.0]}, "exclude"),
        ({"precision": "single"}, "precision"),
        ({"n_threads": 0}, "n_threads"),
        ({"n_threads": 1.5}, "n_threads"),
        ({"n_threads": True}, "n_threads"),
    ],
)
def test_bad_arguments_are_named(change, named):
    arguments = {"queries": X, "references": Y, "offsets": OFFSETS, "bandwidths": 0.1, **change}
    with pytest.raises(ValueError, match=named):
        class_log_sums(**arguments)
