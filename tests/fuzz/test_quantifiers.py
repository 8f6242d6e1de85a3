"""Every aggregative quantifier: a valid answer or a refusal, for posteriors of every kind."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import kdey
from kdey.matching.squares import MatchMeans
from kdey.rows.posterior import PosteriorMap

from . import strategies as some
from .outcomes import Refused, answer, assert_limits, assert_solution, refused
from .profiles import fuzzed

#: Name -> (a quantifier that fits quickly, the most classes that it takes).
METHODS: dict[str, tuple[Any, int]] = {
    "CC": (kdey.CC(), 4),
    "PCC": (kdey.PCC(), 4),
    "ACC": (kdey.ACC(), 4),
    "PACC": (kdey.PACC(), 4),
    "EMQ": (kdey.EMQ(), 4),
    "EMQ-em": (kdey.EMQ(solver="em"), 3),
    "DIR": (kdey.DIR(), 3),
    "DM": (kdey.DM(n_bins=4), 3),
    "DM-CS": (kdey.DM(divergence="cauchy-schwarz", n_bins=3), 3),
    "HDy": (kdey.HDy(n_bins=(3, 5, 9)), 2),
    "DyS": (kdey.DyS(), 2),
    "MM": (kdey.MM(), 2),
    "KDEyML": (kdey.KDEyML(bandwidth=0.1, kernel="gaussian"), 4),
    "KDEyCS": (kdey.KDEyCS(bandwidth=0.05, kernel="gaussian"), 4),
    "KDEyL2": (kdey.KDEyL2(bandwidth=0.5, kernel="aitchison"), 4),
    "KDEyHD": (kdey.KDEyHD(bandwidth=0.1, kernel="gaussian", n_points=40, random_state=0), 3),
    "EDy": (kdey.EDy(), 4),
    "Friedman": (kdey.Friedman(), 4),
    "RLLS": (kdey.RLLS(), 4),
    "Ordered": (kdey.Ordered(kdey.PACC(), strength=0.1), 4),
    "Quantifier": (kdey.Quantifier(random_state=0), 3),
    "T50": (kdey.T50(), 2),
    "MAX": (kdey.MAX(), 2),
    "ThresholdX": (kdey.ThresholdX(), 2),
    "MS": (kdey.MS(), 2),
    "MS2": (kdey.MS2(), 2),
    "SORD": (kdey.SORD(), 2),
    "composed": (kdey.compose(PosteriorMap(crisp=False, adjusted=True), MatchMeans()), 4),
    "OneVsAll": (kdey.OneVsAll(kdey.MM()), 3),
    "Median": (kdey.Median(kdey.DyS(), {"n_bins": [2, 4]}), 2),
    "Ensemble": (kdey.Ensemble(kdey.PACC(), n_members=2, min_per_class=1, random_state=0), 3),
}
WRAPPERS = ("OneVsAll", "Median", "Ensemble")
ROWWISE = [name for name in METHODS if name not in WRAPPERS]


@cache
def _fitted(name: str, k: int) -> Any:
    rng = np.random.default_rng(k)
    y = np.arange(30) % k
    p = rng.dirichlet(np.ones(k), 30) + np.eye(k)[y]
    return METHODS[name][0].__sklearn_clone__().fit_posteriors(p / 2, y)


@pytest.mark.parametrize("name", METHODS)
@fuzzed(8)
@given(data=st.data())
def test_fit_and_solve(name: str, data: Any) -> None:
    quantifier, most = METHODS[name]
    k = data.draw(st.integers(2, most))
    y = data.draw(some.codes(k))
    p = data.draw(some.simplex_rows(len(y), k))
    weights = data.draw(st.none() | some.weights(len(y)))
    options = {} if weights is None else {"sample_weight": weights}
    labels = data.draw(some.named(y))
    training = data.draw(some.given_as(p, np.unique(labels)))
    q = quantifier.__sklearn_clone__()
    try:
        answer(
            lambda: q.fit_posteriors(training, labels, **options),
            *("no training instance", "cv=", "min_per_class", "sample_weight", "class"),
        )
    except Refused:
        return
    pool = data.draw(some.simplex_rows(data.draw(st.integers(1, 12)), k))
    bags = data.draw(some.bags(len(pool)))
    handed = data.draw(some.given_as(pool, q.classes_))
    solution = answer(lambda: q.solve_posteriors(handed, bags))
    if isinstance(handed, pd.DataFrame):
        expected = q.solve_posteriors(pool, bags).prevalence
        np.testing.assert_array_equal(solution.prevalence, expected)
    n_bags = bags.shape[0] if hasattr(bags, "shape") else len(bags)
    assert_solution(solution, (n_bags, k))


@pytest.mark.parametrize("name", METHODS)
@fuzzed(6)
@given(data=st.data())
def test_bad_posteriors_are_refused(name: str, data: Any) -> None:
    k = min(3, METHODS[name][1])
    y = data.draw(some.codes(k))
    bad = data.draw(some.spoilt(data.draw(some.simplex_rows(len(y), k))))
    q = METHODS[name][0].__sklearn_clone__()
    assert refused(lambda: q.fit_posteriors(bad, y), "posteriors")
    assert refused(lambda: _fitted(name, k).solve_posteriors(bad), "posteriors")
    assert refused(lambda: q.aggregate(bad), "not fitted yet")


@pytest.mark.parametrize("name", METHODS)
@fuzzed(4)
@given(data=st.data())
def test_bad_labels_bags_and_weights_are_refused(name: str, data: Any) -> None:
    k = min(3, METHODS[name][1])
    p = data.draw(some.simplex_rows(6, k))
    q = METHODS[name][0].__sklearn_clone__()
    labels = data.draw(some.BAD_LABELS)
    assert refused(lambda: q.fit_posteriors(p, labels), "y", "label", "Unknown", "sample")
    bad = data.draw(some.bad_bags(6))
    assert refused(lambda: _fitted(name, k).solve_posteriors(p, bad), "bag", "weights")
    heavy = data.draw(some.bad_weights(6))
    assert refused(lambda: _fitted(name, k).aggregate(p, heavy), "weight")


@pytest.mark.parametrize("name", ROWWISE)
@fuzzed(3)
@given(data=st.data())
def test_estimates_have_limits(name: str, data: Any) -> None:
    k = data.draw(st.integers(2, METHODS[name][1]))
    pool = data.draw(some.simplex_rows(data.draw(st.integers(1, 12)), k))
    options = {"confidence": data.draw(st.sampled_from([0.5, 0.95, 0.999]))}
    options["target"] = data.draw(st.sampled_from(["population", "bag"]))
    try:
        estimate = answer(
            lambda: _fitted(name, k).estimate_posteriors(pool, options=kdey.Options(**options)),
            "method",
        )
    except Refused:
        return
    assert_limits(estimate, k)
    assert refused(lambda: kdey.difference(estimate, data.draw(some.ODD)), "second", "Estimate")
    apart = answer(lambda: kdey.difference(estimate, estimate))
    assert (apart.low <= apart.difference).all()
    assert (apart.difference <= apart.high).all()
