"""Evaluation, metrics and tests of significance on odd input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.naive_bayes import GaussianNB

import kdey
from kdey import evaluation, metrics

from . import strategies as some
from .outcomes import Refused, answer, refused
from .profiles import fuzzed

Y = np.arange(30) % 2
X = np.random.default_rng(0).normal(size=(30, 1)) + Y[:, None]
FITTED = kdey.PACC(GaussianNB(), cv=2).fit(X, Y)


@fuzzed(25)
@given(data=st.data())
def test_evaluate(data: Any) -> None:
    given_: dict[str, Any] = {"quantifiers": FITTED, "X": X, "y": Y, "protocol": kdey.APP(3, 4)}
    given_ |= {"metrics": "ae", "verbose": False}
    name = data.draw(st.sampled_from([*given_, "chunk_size"]))
    value = data.draw(some.ODD)
    if name in ("X", "verbose"):
        return
    given_[name] = value
    said = ("quantifier", "protocol", "metric", "chunk_size", "y", "label", "fitted", "bag", "X")
    try:
        made = answer(lambda: kdey.evaluate(**given_), *said)
    except Refused:
        return
    assert isinstance(made, kdey.evaluation.Results)
    assert np.isfinite(made.true).all()


@fuzzed(15)
@given(odd=some.ODD)
def test_fit_many(odd: Any) -> None:
    said = ("quantifier", "fit", "y", "label", "X", "array", "sample", "Complex data")
    for call in (
        lambda: kdey.evaluation.fit_many(odd, X, Y),
        lambda: kdey.evaluation.fit_many({"a": odd}, X, Y),
        lambda: kdey.evaluation.fit_many({"a": kdey.CC(GaussianNB())}, X, odd),
    ):
        try:
            made = answer(call, *said)
        except Refused:
            continue
        assert isinstance(made, dict)


@fuzzed(15)
@given(odd=some.ODD)
def test_stage_cache(odd: Any) -> None:
    for call in (
        lambda: kdey.evaluation.StageCache(odd),
        lambda: kdey.evaluation.StageCache(1, odd),
    ):
        try:
            answer(call, "cache", "max_")
        except Refused:
            continue


def _prevalences(n: int, k: int) -> st.SearchStrategy[Any]:
    drawn = hnp.arrays(float, (n, k), elements=st.sampled_from([0.0, 1e-300, 0.1, 1.0, 5.0]))
    return drawn.map(lambda a: a + (a.sum(axis=1, keepdims=True) == 0)).map(
        lambda a: a / a.sum(axis=1, keepdims=True)
    )


@pytest.mark.parametrize("name", sorted(metrics.METRICS))
@fuzzed(10)
@given(data=st.data())
def test_metrics(name: str, data: Any) -> None:
    metric = metrics.get_metric(name)
    true, found = data.draw(_prevalences(3, 3)), data.draw(_prevalences(3, 3))
    values = answer(lambda: metric(true, found, bag_size=50))
    assert values.shape == (3,)
    assert (values >= -1e-12).all()
    assert not np.isnan(values).any()
    odd = data.draw(some.ODD)
    assert refused(lambda: metric(odd, found, bag_size=50), "prevalence", "true", "shape", "number")


@fuzzed(20)
@given(data=st.data())
def test_significance(data: Any) -> None:
    value = st.sampled_from([0.0, 1.0, 1.0, 2.0, 1e300, -1e-300, np.nan, np.inf])
    errors = data.draw(
        hnp.arrays(float, st.tuples(st.integers(0, 5), st.integers(0, 4)), elements=value)
        | some.ODD
    )
    said = ("errors", "first", "second", "p_values", "method", "level", "number", "must", "data")
    for call in (
        lambda: evaluation.friedman(errors),
        lambda: evaluation.average_ranks(errors),
        lambda: evaluation.nemenyi(errors),
        lambda: evaluation.wilcoxon(np.ravel(errors), np.zeros(np.size(errors))),
        lambda: evaluation.compare_to_best(errors),
        lambda: evaluation.holm(errors),
    ):
        try:
            answer(call, *said)
        except Refused:
            continue
