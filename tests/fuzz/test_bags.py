"""Bags and protocols that take given bags: positions and weights of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, strategies as st

import kdey

from . import strategies as some
from .outcomes import Refused, answer, assert_prevalences, refused
from .profiles import fuzzed


@fuzzed(25)
@given(data=st.data())
def test_bags_average_rows(data: Any) -> None:
    pool = data.draw(st.integers(1, 8))
    drawn = data.draw(
        st.lists(st.lists(st.integers(0, pool - 1), min_size=1), min_size=1, max_size=5)
    )
    heavy = [data.draw(some.weights(len(one))) for one in drawn]
    made = answer(lambda: kdey.Bags.from_indices(drawn, pool, heavy))
    rows = np.arange(2.0 * pool).reshape(pool, 2)
    slow = [np.average(rows[one], axis=0, weights=w) for one, w in zip(drawn, heavy, strict=True)]
    np.testing.assert_allclose(made.mean(rows), slow, rtol=1e-12)
    assert made[:1].sizes.tolist() == [len(drawn[0])]


@fuzzed(60)
@given(data=st.data())
def test_bad_bags_are_refused(data: Any) -> None:
    bad = data.draw(some.bad_bags(4))
    if not isinstance(bad, kdey.Bags) and not hasattr(bad, "tocsr"):
        assert refused(lambda: kdey.Bags.from_indices(bad, 4), "bag")
    heavy = data.draw(some.bad_weights(3))
    assert refused(lambda: kdey.Bags.whole(3, heavy), "weight")
    assert refused(lambda: kdey.Bags.from_indices([[0, 1, 2]], 4, [heavy]), "weight")


@fuzzed(60)
@given(odd=some.ODD)
def test_odd_matrices_and_slices(odd: Any) -> None:
    try:
        made = answer(lambda: kdey.Bags.from_matrix(odd), "weights", "bag")
        assert len(made) >= 1
    except Refused:
        pass
    assert refused(lambda: kdey.Bags.whole(3)[odd], "bags are taken by slices")


@fuzzed(60)
@given(data=st.data())
def test_given_bags(data: Any) -> None:
    y = data.draw(some.codes(2, 8))
    bags = data.draw(some.bags(len(y)) | some.bad_bags(len(y)))
    n = bags.shape[0] if hasattr(bags, "shape") else len(bags) if hasattr(bags, "__len__") else 1
    prevalences = data.draw(
        st.sampled_from([np.full((n, 2), 0.5), np.full((n, 3), 0.5), np.ones(2), "x", None, [[]]])
    )
    try:
        drawn = answer(
            lambda: kdey.evaluation.GivenBags(bags, prevalences).bags(y),
            "bag",
            "prevalence",
            "weights",
        )
    except Refused:
        return
    assert_prevalences(drawn.prevalences, (len(drawn.bags), 2))
