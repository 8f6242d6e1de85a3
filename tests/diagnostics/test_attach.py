"""The fit check inside an estimate."""

from __future__ import annotations

import json

import numpy as np
import pytest

import kdey
from kdey import PACC, Bags, HDx, KDEyML, check_fit
from kdey.diagnostics import hold_fold_models

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
        alone = check_fit(fitted, posteriors=pool[where], random_state=0)
        assert one.diagnostics["fit"] == alone.summary()
        assert alone.verdict in repr(one)
        assert json.loads(one.to_json())["diagnostics"]["fit"]["p_value"] == alone.p_value
    assert not found[0].diagnostics["fit"]["rejected"]
    assert found[1].diagnostics["fit"]["rejected"]
    assert found[1:][0].diagnostics["fit"] == found[1].diagnostics["fit"]


def test_not_asked_for_not_there(fitted) -> None:
    points = draw([60, 20, 40], np.random.default_rng(1))[0]
    assert "fit" not in fitted.estimate_posteriors(points).diagnostics


def test_instances_are_scored_once_and_weights_are_used() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(200, 2)), np.arange(200) % 2
    X[:, 0] += 2 * y
    w = rng.integers(1, 3, size=200).astype(float)
    made = PACC(random_state=0).fit(X, y).estimate(X, w, check_fit=True)
    same = PACC(random_state=0).fit(X, y)
    wanted = check_fit(same, X, sample_weight=w, random_state=0)
    assert made.diagnostics["fit"]["p_value"] == wanted.p_value


def test_methods_without_posteriors_say_so() -> None:
    rng = np.random.default_rng(3)
    X, y = (rng.random((100, 6)) < 0.5).astype(float), np.arange(100) % 2
    fitted = HDx().fit(X, y)
    with pytest.raises(TypeError, match="must work on posteriors"):
        fitted.estimate(X, check_fit=True, n_replicates=20)


def test_held_fold_models_are_those_of_training(tmp_path) -> None:
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(300, 3)), np.arange(300) % 3
    X[np.arange(300), y] += 1.5
    bag = rng.normal(size=(80, 3)) + 1.5 * np.eye(3)[rng.integers(0, 3, 80)]
    fitted = PACC(random_state=0).fit(X, y)
    blunt = check_fit(fitted, bag, random_state=0)
    wanted = check_fit(fitted, bag, training=(X, y), random_state=0)
    hold_fold_models(fitted, X, y)
    found = check_fit(fitted, bag, random_state=0)
    assert (wanted.cross_fitted, found.cross_fitted, blunt.cross_fitted) == (True, True, False)
    assert found.p_value == wanted.p_value
    # Posteriors that are given come from the classifier itself: the fold models cannot help.
    given = check_fit(fitted, posteriors=fitted.classifier_.predict_proba(bag), random_state=0)
    assert given.p_value == blunt.p_value
    assert fitted.estimate(bag, check_fit=True).diagnostics["fit"]["cross_fitted"]
    assert not hasattr(fitted.fit(X, y), "fold_classifiers_")


def test_held_fold_models_are_saved(tmp_path) -> None:
    pytest.importorskip("skops")
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(120, 2)), np.arange(120) % 2
    X[:, 0] += 2 * y
    fitted = hold_fold_models(PACC(random_state=0).fit(X, y), X, y)
    kdey.save(fitted, tmp_path / "model.kdey")
    loaded = kdey.load(tmp_path / "model.kdey")
    one, two = (check_fit(q, X[:50], random_state=1) for q in (fitted, loaded))
    assert one.p_value == two.p_value
    assert two.cross_fitted
