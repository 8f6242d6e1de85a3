"""Fold models of refitted classifiers score bags for the check, and nothing else."""

from __future__ import annotations

import numpy as np
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
    final = q.model_.points(X)
    assert np.abs(final - pools[0].predict_proba(X)).max() > 0.01
    small = kdey.Quantifier("logistic regression", effort="low", size_limit=1, random_state=0)
    with pytest.warns(MemberWarning, match="size_limit"):
        pools = small.fit(X, y).model_.fold_models
    assert pools is not None
    assert len(pools) == 1
