"""Errors as text."""

from __future__ import annotations

import json

import numpy as np
import pytest

from experiments.results import decode_array, encode_array


@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1.0, 1e4])
def test_round_trip_is_precise(scale: float) -> None:
    values = np.random.default_rng(0).gamma(1.0, scale, size=1000)
    np.testing.assert_allclose(decode_array(encode_array(values)), values, rtol=1.6e-5)


def test_rounding_does_not_shrink() -> None:
    values = np.random.default_rng(0).gamma(1.0, 1.0, size=20_000)
    ratio = decode_array(encode_array(values)) / values
    assert abs(ratio.mean() - 1) < 1e-6  # clearing bits without rounding gives 1 - 8e-6


def test_zero_stays_zero_and_twice_is_once() -> None:
    values = np.array([0.0, 0.5, 1.0, 0.1])
    once = decode_array(encode_array(values))
    assert once[0] == 0.0
    assert encode_array(once) == encode_array(values)


def test_a_thousand_errors_are_short_and_need_no_escape() -> None:
    text = encode_array(np.random.default_rng(0).gamma(2.0, 0.01, size=1000))
    assert len(text) < 3600
    assert json.dumps(text) == f'"{text}"'


@pytest.mark.parametrize("text", ["", "no array", encode_array(np.ones(5))[:-3]])
def test_damage_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not an encoded array"):
        decode_array(text)


def test_only_vectors() -> None:
    with pytest.raises(ValueError, match="vector"):
        encode_array(np.ones((2, 2)))
