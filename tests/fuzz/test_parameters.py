"""Parameters of the wrong type, sign or size: refused by name at fit, or harmless."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.base import clone

import kdey

from . import strategies as some
from .outcomes import Refused, answer, assert_prevalences
from .profiles import fuzzed
from .test_quantifiers import METHODS

Y = np.arange(24) % 2
P = np.random.default_rng(0).dirichlet([1.0, 1.0], 24) / 2 + np.eye(2)[Y] / 2
X = P[:, :1] * 4 - 2
#: Parameters of scikit-learn's, or read by another library: not ours to judge.
NOT_OURS = {"classifier", "quantifier"}
#: Too much work where the odd value is a good one: a billion points are a fair thing to ask for.
LARGE = {
    *("n_points", "n_bins", "n_members", "min_per_class", "size", "tune_bag_size", "n_jobs"),
    "max_iter",
}
#: Taken as true or false, whatever they are.
FLAGS = {"cdf", "simultaneous"}
FEATURES = {"HDx": kdey.HDx(n_bins=(3, 4)), "DMx": kdey.DMx(n_bins=3)}
OWN = {
    name: [p for p in q.get_params(deep=False) if p not in NOT_OURS | FLAGS]
    for name, q in {n: q for n, (q, _) in METHODS.items()}.items()
}


def _said(parameter: str) -> tuple[str, ...]:
    """Return words one of which an error must hold; some are raised by scikit-learn in its own."""
    theirs = {"random_state": "seed", "param_grid": "Parameter grid", "cv": "n_splits"}
    own = theirs.get(parameter, parameter)
    return (parameter, own, own.capitalize())


@pytest.mark.parametrize("name", METHODS)
@fuzzed(12)
@given(data=st.data())
def test_aggregative(name: str, data: Any) -> None:
    parameter = data.draw(st.sampled_from(OWN[name]))
    value = data.draw(some.ODD)
    if parameter in LARGE and isinstance(value, int | float) and value > 1e6:
        return
    quantifier = clone(METHODS[name][0])
    quantifier.set_params(**{parameter: value})
    try:
        made = answer(lambda: quantifier.fit_posteriors(P, Y).aggregate(P[:5]), *_said(parameter))
    except Refused:
        return
    assert_prevalences(made, (2,))


@pytest.mark.parametrize("name", FEATURES)
@fuzzed(8)
@given(data=st.data())
def test_on_features(name: str, data: Any) -> None:
    quantifier = clone(FEATURES[name])
    parameter = data.draw(st.sampled_from(sorted(set(quantifier.get_params()) - FLAGS)))
    value = data.draw(some.ODD)
    if parameter in LARGE and isinstance(value, int | float) and value > 1e6:
        return
    quantifier.set_params(**{parameter: value})
    try:
        made = answer(lambda: quantifier.fit(X, Y).predict(X[:4]), parameter)
    except Refused:
        return
    assert_prevalences(made, (2,))


PROTOCOLS: dict[str, Any] = {
    "APP": kdey.APP,
    "NPP": kdey.NPP,
    "DirichletProtocol": kdey.evaluation.DirichletProtocol,
    "GridAPP": kdey.evaluation.GridAPP,
    "AtPrevalences": kdey.evaluation.AtPrevalences,
}


@pytest.mark.parametrize("name", PROTOCOLS)
@fuzzed(15)
@given(data=st.data())
def test_protocols(name: str, data: Any) -> None:
    make = PROTOCOLS[name]
    parameters = sorted(make.__dataclass_fields__)
    small: dict[str, Any] = {"bag_size": 4, "n_bags": 3, "n_prevalences": 3, "repeats": 1}
    small |= {"prevalences": [[0.2, 0.8]], "covariate": np.arange(len(Y))}
    given_ = {p: v for p, v in small.items() if p in parameters}
    parameter, value = data.draw(st.sampled_from(parameters)), data.draw(some.ODD)
    if isinstance(value, int | float) and value > 1e6:
        return
    given_[parameter] = value
    labels = data.draw(some.named(Y))
    try:
        drawn = answer(lambda: make(**given_).bags(labels), parameter, "bag_size")
    except Refused:
        return
    assert drawn.bags.pool_size == len(Y)
    assert_prevalences(drawn.prevalences, (len(drawn.bags), 2))


@fuzzed(40)
@given(data=st.data())
def test_interval_options(data: Any) -> None:
    quantifier = kdey.PACC().fit_posteriors(P, Y)
    names = ["confidence", "target", "method", "n_replicates", "clusters"]
    name, value = data.draw(st.sampled_from(names)), data.draw(some.ODD)
    if isinstance(value, int | float) and value > 1e6:
        return
    try:
        made = answer(
            lambda: quantifier.estimate_posteriors(P[:6], options=kdey.Options(**{name: value})),
            name,
        )
    except Refused:
        return
    assert_prevalences(made.estimate, (2,))


@fuzzed(20)
@given(data=st.data())
def test_searches(data: Any) -> None:
    kinds: dict[str, Any] = {
        "GridSearchQ": kdey.GridSearchQ,
        "RandomSearchQ": kdey.evaluation.RandomSearchQ,
    }
    search = kinds[data.draw(st.sampled_from(sorted(kinds)))](
        kdey.PACC(cv=2), {"cv": [2]}, protocol=kdey.APP(3, 5), verbose=False
    )
    left = {"quantifier", "log", "verbose"} | FLAGS
    own = [p for p in search.get_params(deep=False) if p not in left]
    name, value = data.draw(st.sampled_from(own)), data.draw(some.ODD)
    if isinstance(value, int | float) and value > 1e6:
        return
    search.set_params(**{name: value})
    try:
        answer(lambda: search.fit(X, Y), *_said(name), "candidate", "protocol", "metric")
    except Refused:
        return
    if search.refit:
        assert_prevalences(search.predict(X[:5]), (2,))
