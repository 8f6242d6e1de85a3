"""Quantifiers on features: frames with odd names, strange arrays, every kind of label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier

import kdey

from . import strategies as some
from .outcomes import Refused, answer, assert_prevalences, refused
from .profiles import fuzzed

QUANTIFIERS: dict[str, Any] = {
    "HDx": kdey.HDx(n_bins=(3, 4)),
    "DMx": kdey.DMx(n_bins=3),
    "EDx": kdey.EDx(),
    "KMM": kdey.KMM(),
    "TrainingPrevalence": kdey.TrainingPrevalence(),
    "PACC": kdey.PACC(KNeighborsClassifier(1), cv=2),
    "EMQ": kdey.EMQ(KNeighborsClassifier(1)),
}
#: Features that no method can take: refused by us, or by scikit-learn in its words.
BAD = [None, "x", 3, [[1.0], [1.0, 2.0]], np.zeros((0, 2)), np.full((6, 2), np.nan)]
BAD += [np.full((6, 2), np.inf), np.full((6, 2), "a"), np.zeros((6, 0)), np.zeros(6), [{}] * 6]
SAID = ("X", "x", "array", "sample", "feature", "convert", "NaN", "dtype", "number", "complex")


def _features(draw: Any, y: Any) -> Any:
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    scale = draw(st.sampled_from([1.0, 1e-12, 1e12, 0.0]))
    return (rng.normal(size=(len(y), 2)) + y[:, None]) * scale


@pytest.mark.parametrize("name", QUANTIFIERS)
@fuzzed(8)
@given(data=st.data())
def test_fit_and_predict(name: str, data: Any) -> None:
    y = data.draw(some.codes(2, 20))
    X = _features(data.draw, y)
    if data.draw(st.booleans()):
        columns = data.draw(st.permutations(some.ODD_COLUMNS))[:2]
        X = pd.DataFrame(X, columns=columns)
    q = clone(QUANTIFIERS[name])
    try:
        answer(lambda: q.fit(X, data.draw(some.named(y))), "cv", "class", "X")
    except Refused:
        return
    bags = data.draw(some.bags(len(y)))
    made = answer(lambda: q.predict_bags(X, bags))
    assert_prevalences(made, (bags.shape[0] if hasattr(bags, "shape") else len(bags), 2))


@pytest.mark.parametrize("name", [n for n in QUANTIFIERS if n != "TrainingPrevalence"])
@fuzzed(6)
@given(data=st.data())
def test_bad_features_are_refused(name: str, data: Any) -> None:
    bad = data.draw(st.sampled_from(BAD))
    q = clone(QUANTIFIERS[name])
    good = np.arange(12.0).reshape(6, 2)
    assert refused(lambda: q.fit(bad, [0, 1] * 3), *SAID)
    assert refused(lambda: q.predict(good), "not fitted yet")
    answer(lambda: q.fit(good, [0, 1] * 3))
    assert refused(lambda: q.predict(bad), *SAID)
