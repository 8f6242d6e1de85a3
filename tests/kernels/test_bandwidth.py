"""Bandwidths as numbers and by rules of thumb."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kdey.kernels import MINIMUM_BANDWIDTH, resolve_bandwidth

from .cases import pool

Y, OFFSETS = pool(np.random.default_rng(0), 4, 50)


def test_numbers_pass_through():
    for value in (0.1, 1, np.float32(0.5), 1e-4, 5):
        assert resolve_bandwidth(value, Y, OFFSETS) == float(value)


def test_scott_written_out():
    parts = [Y[a:b] for a, b in itertools.pairwise(OFFSETS)]
    trace = np.mean([((p - p.mean(axis=0)) ** 2).sum(axis=1).mean() for p in parts])
    wanted = np.sqrt(trace / 3) * 50 ** (-1 / 7)
    assert resolve_bandwidth("scott", Y, OFFSETS) == pytest.approx(wanted)
    silverman = resolve_bandwidth("silverman", Y, OFFSETS)
    assert silverman == pytest.approx(wanted * (4 / 5) ** (1 / 7))


def test_scales_with_the_data():
    once = resolve_bandwidth("scott", Y, OFFSETS)
    assert resolve_bandwidth("scott", 3 * Y + 1, OFFSETS) == pytest.approx(3 * once)


def test_weights():
    ones = np.ones(len(Y))
    plain = resolve_bandwidth("scott", Y, OFFSETS)
    assert resolve_bandwidth("scott", Y, OFFSETS, 7 * ones) == pytest.approx(plain)
    halves = np.tile([1.0, 0.0], len(Y) // 2)
    dropped = resolve_bandwidth("scott", Y[::2], OFFSETS // 2)
    assert resolve_bandwidth("scott", Y, OFFSETS, halves) == pytest.approx(dropped)


def test_empty_classes_do_not_count():
    with_empty = np.insert(OFFSETS, 2, OFFSETS[2])
    plain = resolve_bandwidth("scott", Y, OFFSETS)
    assert resolve_bandwidth("scott", Y, with_empty) == pytest.approx(plain)


def test_classes_without_spread_get_the_minimum_and_a_warning():
    same = np.repeat(np.eye(3), 4, axis=0)
    with pytest.warns(UserWarning, match="hardly vary"):
        assert resolve_bandwidth("scott", same, np.array([0, 4, 8, 12])) == MINIMUM_BANDWIDTH


def test_no_reference_is_an_error():
    with pytest.raises(ValueError, match="references are empty"):
        resolve_bandwidth("scott", Y[:0], np.array([0, 0]))


@pytest.mark.parametrize("bandwidth", [0, -0.1, np.nan, np.inf, None, True, "auto", "Scott", [0.1]])
def test_bad_bandwidths_are_named(bandwidth):
    with pytest.raises(ValueError, match="bandwidth must be"):
        resolve_bandwidth(bandwidth, Y, OFFSETS)
