"""Schemas of tables in model files."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import kdey
from kdey import persistence
from kdey.persistence import archive
from kdey.tables.features import TableFeatures
from kdey.tables.schema import Column, TableSchema

pytest.importorskip("skops")


def fitted(table_step: bool = True) -> kdey.PACC:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=90), rng.integers(0, 2, 90)])
    y = np.where(X[:, 0] + X[:, 1] + rng.normal(size=90) > 0.5, "good", "bad")
    columns = (Column("kind", "label"), Column("x"), Column("c", "feature", "category", ("u", "v")))
    schema = TableSchema(columns)
    steps = [TableFeatures(schema)] if table_step else []
    return kdey.PACC(make_pipeline(*steps, LogisticRegression()), random_state=0).fit(X, y)


FRAME = pd.DataFrame({"c": ["u", "v"] * 10, "x": np.linspace(-1, 2, 20)})


def test_the_file_has_its_format_and_the_schema(tmp_path: Path) -> None:
    path = kdey.save(fitted(), tmp_path / "m.kdey")
    assert archive.read_manifest(path)["format"] == archive.FORMAT
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = kdey.load(path)
    assert_array_equal(again.predict(FRAME), fitted().predict(FRAME))


@pytest.mark.parametrize(
    "damage",
    [
        {"columns": [{"name": "x", "role": "king"}]},
        {"columns": "x"},
        {"columns": [{"name": "x", "categories": [[]]}]},
    ],
)
def test_a_damaged_schema_is_refused(
    tmp_path: Path, damage: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fitted()
    monkeypatch.setattr(TableSchema, "__getstate__", lambda self: {"json": json.dumps(damage)})
    monkeypatch.setattr(persistence, "_quantifier", lambda *_, **__: None)  # that would refuse it
    path = kdey.save(model, tmp_path / "m.kdey")
    monkeypatch.undo()
    with pytest.raises(archive.ModelFileError, match="cannot be read"):
        kdey.load(path)


def test_score_columns_are_kept(tmp_path: Path) -> None:
    p = np.random.default_rng(0).dirichlet([1, 1], 60)
    model = kdey.PACC().fit_posteriors(p, np.where(p[:, 1] > 0.4, "b", "a"))
    columns = (Column("kind", "label"), *(Column(n, "feature", "score") for n in ("pa", "pb")))
    model.model_ = model.model_.with_scorer(schema=TableSchema(columns))
    again = kdey.load(kdey.save(model, tmp_path / "m.kdey"))
    assert again.model_.table_schema == model.model_.table_schema
    frame = pd.DataFrame({"pb": p[:, 1], "pa": p[:, 0]})
    made = again.predict_groups(frame).to_frame()
    assert_allclose(made["estimate"], model.aggregate(p), atol=1e-12)
