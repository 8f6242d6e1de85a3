"""Diagnostics, adaptation, planning and posterior draws on odd input."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, strategies as st
from sklearn.naive_bayes import GaussianNB

import kdey

from . import strategies as some
from .outcomes import Refused, answer, assert_prevalences, refused
from .profiles import fuzzed

Y = np.arange(40) % 2
P = np.random.default_rng(0).dirichlet([1.0, 1.0], 40) / 2 + np.eye(2)[Y] / 2
FITTED = kdey.KDEyML(bandwidth=0.1, kernel="gaussian").fit_posteriors(P, Y)
PREVALENCE = st.sampled_from(
    [np.array([0.2, 0.8]), np.array([0.0, 1.0]), np.array([1.0, 0.0]), [0.5, 0.5], [1e-300, 1.0]]
)


@fuzzed(80)
@given(data=st.data())
def test_adapted_posteriors(data: Any) -> None:
    p = data.draw(some.simplex_rows(5, 2))
    before, after = data.draw(PREVALENCE | some.ODD), data.draw(PREVALENCE | some.ODD)
    try:
        made = answer(lambda: kdey.adapt_posteriors(p, before, after), "prevalence", "posteriors")
    except Refused:
        return
    assert_prevalences(made, (5, 2))
    bad = data.draw(some.spoilt(p))
    assert refused(lambda: kdey.adapt_posteriors(bad, before, after), "posteriors", "prevalence")


@fuzzed(80)
@given(data=st.data())
def test_importance_weights(data: Any) -> None:
    before, after = data.draw(PREVALENCE), data.draw(PREVALENCE | some.ODD)
    y = data.draw(st.none() | some.BAD_LABELS | st.just([0, 1, 1]))
    classes = data.draw(st.sampled_from([None, [0, 1], ["a", "b"], [0, 0], 5]))
    try:
        made = answer(
            lambda: kdey.diagnostics.importance_weights(before, after, y, classes),
            *("prevalence", "y ", "classes", "label"),
        )
    except Refused:
        return
    assert np.isfinite(made).all()
    assert (made >= 0).all()


@fuzzed(30)
@given(data=st.data())
def test_adapted_classifier(data: Any) -> None:
    X = P[:, :1]
    before, after = data.draw(PREVALENCE), data.draw(PREVALENCE | some.ODD)
    inner = data.draw(st.sampled_from([GaussianNB().fit(X, Y), GaussianNB(), None, 3]))
    adapted = kdey.AdaptedClassifier(inner, before, after)
    try:
        made = answer(
            lambda: adapted.fit().predict_proba(X),
            *("prevalence", "classifier", "fitted", "predict_proba"),
        )
    except Refused:
        return
    assert_prevalences(made, (40, 2))


@fuzzed(25)
@given(data=st.data())
def test_fit_checks(data: Any) -> None:
    p = data.draw(some.simplex_rows(data.draw(st.integers(1, 10)), 2))
    options: dict[str, Any] = {"n_null": 19, "random_state": 0}
    name = data.draw(st.sampled_from(["n_null", "level", "bandwidth", "sample_weight", "nothing"]))
    value = data.draw(some.ODD)
    if isinstance(value, int | float) and value > 1e6:
        return
    if name != "nothing":
        options[name] = value
    try:
        made = answer(lambda: kdey.check_fit(FITTED, posteriors=p, **options), name)
    except Refused:
        return
    assert isinstance(made, kdey.FitCheck)
    assert 0 <= made.p_value <= 1
    assert_prevalences(made.prevalence, (2,))


@fuzzed(30)
@given(data=st.data())
def test_identifiability_and_plans(data: Any) -> None:
    name = data.draw(st.sampled_from(["bag_size", "prevalence", "confidence", "bandwidth"]))
    value = data.draw(some.ODD)
    try:
        known = answer(lambda: kdey.identifiability(FITTED, **{name: value}), name)
    except Refused:
        known = kdey.identifiability(FITTED, 50)
    assert isinstance(known, kdey.Identifiability)
    width = data.draw(some.ODD | st.floats(1e-6, 1.0))
    for plan in (kdey.plan_bag_size, kdey.plan_labels):
        try:
            made = answer(lambda plan=plan: plan(known, width), "width")
        except Refused:
            continue
        assert isinstance(made.verdict, str)
    assert refused(lambda: kdey.plan_bag_size(data.draw(some.ODD), 0.1), "source", "estimator")


@fuzzed(25)
@given(data=st.data())
def test_audits(data: Any) -> None:
    values: dict[str, Any] = {"decided": ["a", "b", "b"] * 9, "human": ["a", None, "b"] * 9}
    name = data.draw(st.sampled_from(["decided", "human", "by", "sample_weight", "clusters"]))
    name = data.draw(st.sampled_from([name, "confidence", "target", "seed"]))
    values[name] = data.draw(some.ODD)
    try:
        made = answer(lambda: kdey.audit(**values), name)
    except Refused:
        return
    assert isinstance(made, kdey.diagnostics.Audit)
    assert made.shares[0] is not None
    assert_prevalences(made.shares[0].estimate[None], made.shares[0].estimate[None].shape)


@fuzzed(15)
@given(data=st.data())
def test_posterior_draws(data: Any) -> None:
    p = data.draw(some.simplex_rows(data.draw(st.integers(1, 8)), 2))
    options: dict[str, Any] = {"min_ess": 20.0, "max_sweeps": 200, "random_state": 0}
    name = data.draw(st.sampled_from(["prior", "min_ess", "n_chains", "max_sweeps", "nothing"]))
    value = data.draw(some.ODD)
    if isinstance(value, int | float) and value > 1e6:
        return
    if name != "nothing":
        options[name] = value
    try:
        made = answer(lambda: kdey.sample_posterior(FITTED, posteriors=p, **options), name)
    except Refused:
        return
    assert isinstance(made, kdey.bayes.PosteriorDraws)
    assert_prevalences(made.population, made.population.shape)


@fuzzed(25)
@given(data=st.data())
def test_calibrated_drift(data: Any) -> None:
    p = data.draw(some.simplex_rows(data.draw(st.integers(2, 8)), 2))
    past = answer(
        lambda: FITTED.estimate_posteriors(p, bags=[range(len(p)), [0, 1]], check_fit=False)
    )
    truth = data.draw(some.ODD | st.just([[0.2, 0.8], [0.0, 1.0]]))
    coverage = data.draw(some.ODD | st.floats(0.1, 1.0))
    try:
        made = answer(
            lambda: kdey.calibrate_drift(past, truth, coverage=coverage),
            *("prevalence", "coverage", "analytic intervals"),
        )
    except Refused:
        return
    assert made >= 1.0


@fuzzed(40)
@given(data=st.data())
def test_expected_performance(data: Any) -> None:
    decided = data.draw(st.none() | some.BAD_LABELS | st.just(Y) | st.just(P))
    cost = data.draw(st.none() | some.ODD | st.just([[0.0, 1.0], [5.0, 0.0]]))
    estimate = FITTED.estimate_posteriors(P[:9], check_fit=False)
    try:
        made = answer(
            lambda: kdey.estimate_performance(
                FITTED, estimate, training_decisions=decided, cost=cost
            ),
            *("training_decisions", "cost"),
        )
    except Refused:
        return
    known = ~np.isnan(made.estimate)
    assert (made.low[known] <= made.estimate[known]).all()
    assert (made.estimate[known] <= made.high[known]).all()
