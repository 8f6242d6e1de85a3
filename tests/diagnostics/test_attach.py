"""The fit check inside an estimate."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import kdey
from kdey import EMQ, PACC, Bags, HDx, KDEyML, OneVsAll, check_fit
from kdey.diagnostics import FitChecker

from .cases import draw, outsiders


@pytest.fixture(scope="module")
def fitted() -> KDEyML:
    P, y = draw([200, 200, 200], np.random.default_rng(0))
    return KDEyML(bandwidth=0.1).fit_posteriors(P, y)


def test_estimate_holds_the_check_of_each_bag(fitted) -> None:
    rng = np.random.default_rng(1)
    points = draw([60, 20, 40], rng)[0]
    odd = outsiders(60, rng)
    pool = np.concatenate([points, odd])
    bags = Bags.from_indices([np.arange(120), np.arange(60, 180)], len(pool))
    found = fitted.estimate_posteriors(pool, bags, check_fit=True)
    for one, where in zip(found, bags, strict=True):
        alone = fitted.estimate_posteriors(pool[where])
        fit = one.diagnostics["fit"]
        assert fit == alone.diagnostics["fit"]  # it does not depend on the other bag
        assert one.checks is not None
        assert one.checks.scores.summary() == fit
        assert fit["verdict"] in repr(one)
        assert json.loads(one.to_json())["diagnostics"]["fit"]["p_value"] == fit["p_value"]
    assert (found[0].status, found[1].status) == ("only scores were checked", "poor fit")
    assert not found[0].diagnostics["fit"]["rejected"]
    assert found[1].diagnostics["fit"]["rejected"]
    assert found[1:][0].diagnostics["fit"] == found[1].diagnostics["fit"]


def test_turned_off_is_not_ok(fitted) -> None:
    points = draw([60, 20, 40], np.random.default_rng(1))[0]
    estimate = fitted.estimate_posteriors(points, check_fit=False)
    assert "fit" not in estimate.diagnostics
    assert estimate.status == "not checked (the check was turned off)"


def test_instances_are_scored_once_and_weights_are_used() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(200, 2)), np.arange(200) % 2
    X[:, 0] += 2 * y
    w = rng.integers(1, 3, size=200).astype(float)
    fitted = PACC(random_state=0).fit(X, y)
    made = fitted.estimate(X, w)
    checker = FitChecker.fit(fitted)
    points = checker.models.posteriors(X, 0)
    (wanted,) = checker.screen(points, Bags.whole(200, w), level=0.005)  # shared with columns
    assert made.diagnostics["fit"] == wanted.summary()
    # Half of the bag has no weight, and is not there.
    odd = np.concatenate([points, outsiders(200, rng)[:, :2]])
    odd = odd / odd.sum(axis=1, keepdims=True)
    absent = Bags.whole(400, np.repeat([1.0, 0.0], 200))
    weighted, whole = (checker.screen(odd, bags)[0] for bags in (absent, Bags.whole(400)))
    assert not weighted.rejected
    assert whole.rejected


@pytest.mark.parametrize(
    ("quantifier", "reason"),
    [
        (HDx(), "the method works on features"),
        (EMQ(), "the method keeps no training posteriors"),
        (OneVsAll(PACC()), "the method combines several quantifiers"),
    ],
    ids=["features", "no posteriors", "wrapper"],
)
def test_methods_that_cannot_be_checked_say_why(quantifier, reason) -> None:
    rng = np.random.default_rng(3)
    X, y = (rng.random((100, 6)) < 0.5).astype(float), np.arange(100) % 2
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(g=0)
    estimate = quantifier.fit(frame[list("abcdef")], y).estimate(
        frame[list("abcdef")], options=kdey.Options(n_replicates=20)
    )
    assert estimate.status.endswith("only columns were checked")
    assert estimate.checks.scores.reason == reason
    assert f"The fit was not checked: {reason}." in repr(estimate)
    table = quantifier.predict_groups(frame, "g", options=kdey.Options(n_replicates=20)).to_frame()
    assert set(table["status"]) == {estimate.status}
    assert_allclose(table["fit_p_value"], estimate.checks.columns.p_value)


def test_held_fold_models_are_those_of_training(tmp_path) -> None:
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(300, 3)), np.arange(300) % 3
    X[np.arange(300), y] += 1.5
    bag = rng.normal(size=(80, 3)) + 1.5 * np.eye(3)[rng.integers(0, 3, 80)]
    fitted = PACC(random_state=0).fit(X, y, keep_fold_models=False)
    blunt = check_fit(fitted, bag, random_state=0)
    fitted.fit(X, y)
    found = check_fit(fitted, bag, random_state=0)
    assert (found.cross_fitted, blunt.cross_fitted) == (True, False)
    assert found.p_value != blunt.p_value
    # Posteriors that are given come from the classifier itself: the fold models cannot help.
    given = check_fit(fitted, posteriors=fitted.classifier_.predict_proba(bag), random_state=0)
    assert given.p_value == blunt.p_value
    assert fitted.estimate(bag).diagnostics["fit"]["cross_fitted"]
    fitted.fit(X, y, keep_fold_models=False)
    assert not hasattr(fitted, "fold_models_")
    assert fitted.estimate(bag).status == "checked one-sided"


def test_held_fold_models_are_saved(tmp_path) -> None:
    pytest.importorskip("skops")
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(120, 2)), np.arange(120) % 2
    X[:, 0] += 2 * y
    fitted = PACC(random_state=0).fit(X, y)
    kdey.save(fitted, tmp_path / "model.kdey")
    loaded = kdey.load(tmp_path / "model.kdey")
    one, two = (check_fit(q, X[:50], random_state=1) for q in (fitted, loaded))
    assert one.p_value == two.p_value
    assert two.cross_fitted
