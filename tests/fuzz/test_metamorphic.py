"""What must not matter, does not: order, repetition, batches, the names of the classes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.base import clone

from . import strategies as some
from .outcomes import Refused, answer
from .profiles import fuzzed
from .test_quantifiers import METHODS

#: Convex problems with one optimum up to rounding, so that equal input has an equal answer.
EXACT = ["CC", "PCC", "EMQ", "KDEyML", "KDEyCS"]


def _problem(data: Any, name: str) -> tuple[Any, Any, Any]:
    k = data.draw(st.integers(2, METHODS[name][1]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**20)))
    y = np.arange(8 * k) % k
    p = rng.dirichlet(np.ones(k), len(y)) + np.eye(k)[y]
    bag = rng.dirichlet(np.full(k, 0.5), 12) + 0.01
    return p / 2, y, bag / bag.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", EXACT)
@fuzzed(6)
@given(data=st.data())
def test_order_of_instances_and_of_classes(name: str, data: Any) -> None:
    p, y, bag = _problem(data, name)
    plain = clone(METHODS[name][0]).fit_posteriors(p, y)
    expected = plain.aggregate(bag)
    order = np.array(data.draw(st.permutations(range(len(bag)))))
    np.testing.assert_allclose(plain.aggregate(bag[order]), expected, atol=1e-5)
    turn = np.array(data.draw(st.permutations(range(p.shape[1]))))
    turned = clone(METHODS[name][0]).fit_posteriors(p[:, turn], np.argsort(turn)[y])
    np.testing.assert_allclose(turned.aggregate(bag[:, turn]), expected[turn], atol=1e-4)


@pytest.mark.parametrize("name", EXACT)
@fuzzed(6)
@given(data=st.data())
def test_weights_are_repetitions_and_batches_are_loops(name: str, data: Any) -> None:
    p, y, bag = _problem(data, name)
    fitted = clone(METHODS[name][0]).fit_posteriors(p, y)
    counts = np.array(data.draw(st.lists(st.integers(0, 3), min_size=12, max_size=12)))
    counts[0] = 1
    weighted = fitted.aggregate(bag, counts)
    np.testing.assert_allclose(
        weighted, fitted.aggregate(np.repeat(bag, counts, axis=0)), atol=1e-5
    )
    np.testing.assert_allclose(fitted.aggregate(bag, counts * 7.5), weighted, atol=1e-5)
    bags = [np.arange(12), np.arange(3), [0, 0, 5]]
    loop = [fitted.aggregate(bag[np.asarray(one)]) for one in bags]
    np.testing.assert_allclose(fitted.aggregate_bags(bag, bags), loop, atol=1e-5)


@pytest.mark.parametrize("name", METHODS)
@fuzzed(3)
@given(data=st.data())
def test_given_arrays_are_left_alone(name: str, data: Any) -> None:
    k = min(3, METHODS[name][1])
    y = data.draw(some.codes(k))
    p = data.draw(some.simplex_rows(len(y), k))
    held_p, held_y = p.copy(), y.copy()
    with suppress(Refused):
        answer(lambda: clone(METHODS[name][0]).fit_posteriors(p, y).aggregate(p))
    np.testing.assert_array_equal(p, held_p)
    np.testing.assert_array_equal(y, held_y)
