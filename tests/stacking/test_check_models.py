"""Fold models of refitted classifiers score bags for the check, and nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import kdey
from kdey.stacking import MemberWarning, StackRecord


def test_bags_are_checked_by_models_that_have_not_seen_their_training_scores() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = rng.normal(size=(120, 30)) + 0.4 * y[:, None]
    q = kdey.Quantifier("logistic regression", effort="low", random_state=0).fit(X, y)
    assert isinstance(q.stack_, StackRecord)
    pools = q.model_.fold_models
    assert pools is not None
    assert len(pools) == 3
    training = q.model_.training
    assert training is not None
    for fold, pool in enumerate(pools):
        held_out = training.folds == fold
        np.testing.assert_allclose(
            pool.predict_proba(X[training.instances[held_out]]),
            training.required()[held_out],
            atol=1e-6,
        )
    by_fold = q.model_.scorer.predict_by_fold(X)
    assert by_fold is not None
    for pool, posteriors in zip((q.classifier_, *pools), by_fold, strict=True):
        np.testing.assert_allclose(pool.predict_proba(X), posteriors)
    final = q.model_.points(X)
    assert np.abs(final - pools[0].predict_proba(X)).max() > 0.01
    small = kdey.Quantifier("logistic regression", effort="low", size_limit=1, random_state=0)
    with pytest.warns(MemberWarning, match="size_limit"):
        pools = small.fit(X, y).model_.fold_models
    assert pools is not None
    assert len(pools) == 1


def test_models_that_score_once_give_the_same_estimate_and_checks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = pd.DataFrame(rng.normal(size=(120, 4)) + 0.8 * y[:, None], columns=list("abcd"))
    q = kdey.Quantifier(["logistic regression", "extra trees"], effort="low", random_state=0)
    q.fit(X, y)
    together = q.estimate(X[:50]), q.predict_groups(X[:50])[0]
    monkeypatch.setattr(kdey.model, "TOGETHER", 0)
    for found, expected in zip(
        together, (q.estimate(X[:50]), q.predict_groups(X[:50])[0]), strict=True
    ):
        np.testing.assert_allclose(found.estimate, expected.estimate, atol=1e-12)
        np.testing.assert_allclose(found.low, expected.low, atol=1e-12)
        assert found.checks is not None
        assert expected.checks is not None
        assert found.checks.summary() == expected.checks.summary()
