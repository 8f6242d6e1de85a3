"""The made-up data of T1B's shape."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from experiments.tasks import synthetic_lequa

SMALL = {"n_train": 900, "n_features": 60, "n_classes": 7, "pool_size": 700, "bag_size": 50}


def test_shapes_and_prevalences() -> None:
    data = synthetic_lequa(n_validation=6, n_test=9, **SMALL)
    assert data.train.X.shape == (900, 60)
    assert len(data.validation) == 6
    assert data.test.prevalences.shape == (9, 7)
    pool = data.test.pool()
    labelled = pool.protocol.bags(classes=data.classes)
    for number, positions in enumerate(labelled.bags):
        labels = data.test.instances.y[positions]  # type: ignore[attr-defined]
        shares = np.bincount(labels, minlength=7) / 50
        np.testing.assert_allclose(shares, data.test.prevalences[number])
        np.testing.assert_array_equal(data.test.bag(number), pool.X[positions])
    assert len(list(data.test)) == 9
    assert "not LeQua data" in data.source


def test_a_transform_is_applied_to_the_pool_once() -> None:
    data, sizes = synthetic_lequa(n_validation=4, n_test=2, **SMALL), []
    pool = data.validation.pool(lambda X: (sizes.append(len(X)), X[:, :3])[1], n_bags=3)
    assert sizes == [700]
    assert pool.X.shape == (700, 3)
    assert len(pool.protocol.bags().bags) == 3


def test_the_seed_decides() -> None:
    first, same, other = (
        synthetic_lequa(n_validation=2, n_test=2, seed=s, **SMALL) for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.train.X, same.train.X)
    np.testing.assert_array_equal(first.test.prevalences, same.test.prevalences)
    assert not np.array_equal(first.train.X, other.train.X)


def test_classes_can_be_learnt_but_not_perfectly() -> None:
    data = synthetic_lequa(
        n_train=3000, n_classes=8, n_validation=1, n_test=1, pool_size=800, bag_size=50
    )
    model = LogisticRegression(C=0.01, max_iter=200).fit(data.train.X, data.train.y)
    pool = data.test.instances  # type: ignore[attr-defined]
    assert 0.5 < model.score(pool.X, pool.y) < 0.95


def test_too_few_instances_are_refused() -> None:
    with pytest.raises(ValueError, match="9 instances are too few for 7 classes"):
        synthetic_lequa(**{**SMALL, "n_train": 9}, n_validation=1, n_test=1)
