"""Where instances are equal, the fold models take turns, whatever the order of the instances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import RandomForestClassifier

import kdey
from kdey.diagnostics.score_check import kept_fold_models, one_model_each

SHARES = np.array([[0.2, 0.3, 0.7, 0.5], [0.7, 0.4, 0.2, 0.6], [0.4, 0.8, 0.5, 0.2]])


def data(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table with 16 distinct rows, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = (rng.random((n, 4)) < SHARES[y]).astype(float)
    return pd.DataFrame(X, columns=list("abcd")), y


@pytest.fixture(scope="module")
def fitted() -> Any:
    X, y = data(240, 0)
    forest = RandomForestClassifier(10, min_samples_leaf=3, random_state=0)
    return kdey.KDEyML(forest, bandwidth=0.1).fit(X, y)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    frame = data(600, 1)[0]
    frame["site"] = np.random.default_rng(2).choice(["x", "y", "z"], len(frame))
    return frame


def test_copies_take_the_models_in_turn() -> None:
    by_all = np.arange(24.0).reshape(4, 6)  # four instances, three models, two classes
    hashes = np.array([7, 5, 7, 7], dtype=np.uint64)
    offsets = np.array([0, 3, 4])
    chosen = one_model_each(by_all, hashes, 2, offsets)
    models = [7 % 3, 5 % 3, 8 % 3, 7 % 3]  # the last is the first of its bag
    expected = [by_all[i, 2 * model : 2 * model + 2] for i, model in enumerate(models)]
    assert_array_equal(chosen, expected)
    assert one_model_each(by_all, hashes, 6, offsets) is by_all


def test_every_model_scores_repeated_instances(fitted: Any, table: pd.DataFrame) -> None:
    models = kept_fold_models(fitted)
    assert models is not None
    assert models.repeated
    X = table[list("abcd")]
    hashes = np.arange(len(X), dtype=np.uint64)
    by_all = models.posteriors_by(X, hashes)
    assert by_all.shape == (len(X), 3 * len(models.models))
    assert_array_equal(by_all[:, 3:6], models.models[1].predict_proba(X))
    assert models.posteriors_by(X[:0], hashes[:0]).shape == (0, by_all.shape[1])


def test_distinct_instances_are_scored_once() -> None:
    X = np.random.default_rng(3).normal(size=(120, 3))
    y = (X[:, 0] > 0).astype(int)
    models = kept_fold_models(kdey.PACC().fit(X, y))
    assert models is not None
    assert not models.repeated
    assert models.posteriors_by(X, np.arange(120, dtype=np.uint64)).shape == (120, 2)


def test_neither_order_nor_source_matters(fitted: Any, table: pd.DataFrame, tmp_path: Any) -> None:
    expected = fitted.predict_groups(table, "site").fit_p_value
    assert np.isfinite(expected).all()
    shuffled = table.sample(frac=1.0, random_state=4)
    assert_array_equal(fitted.predict_groups(shuffled, "site").fit_p_value, expected)
    alone = fitted.predict_groups(table[table["site"] == "y"], "site").fit_p_value
    assert_array_equal(alone, expected[1:2])
    table.to_parquet(tmp_path / "t.parquet")
    made = fitted.predict_groups(tmp_path / "t.parquet", "site")
    assert_array_equal(made.fit_p_value, expected)


def test_partitions_give_the_same(fitted: Any, table: pd.DataFrame) -> None:
    dd = pytest.importorskip("dask.dataframe")
    expected = fitted.predict_groups(table, "site").fit_p_value
    made = fitted.predict_groups(dd.from_pandas(table, npartitions=4), "site")
    assert_array_equal(made.fit_p_value, expected)
