"""fit, inspect, evaluate and select."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn.compose import ColumnTransformer

import kdey
from kdey.cli.fit_commands import CLASSIFIERS
from kdey.tables.features import TableFeatures, TableWarning

from .cases import rows, run, without, write


def test_texts_become_one_hot_and_are_recorded(model: Path) -> None:
    q = kdey.load(model)
    assert q.model_.table_schema["colour"].categories == ("blue", "red")
    assert q.model_.table_schema.feature_names == ("length", "width", "colour")
    assert isinstance(q.classifier_.steps[0][1], TableFeatures)
    assert isinstance(q.classifier_.steps[1][1], ColumnTransformer)
    new = pl.DataFrame(without(rows(40, seed=2), "kind"))
    coded = new.select("length", "width", (pl.col("colour") == "red").cast(pl.Float64)).to_numpy()
    assert_allclose(q.predict_groups(new).to_frame()["estimate"], q.predict(coded), atol=1e-12)
    assert_allclose(q.estimate(new).estimate, q.predict(coded), atol=1e-12)


def test_a_text_that_training_lacks_is_no_colour(model: Path) -> None:
    q = kdey.load(model)
    row = {"length": 0.0, "width": 0.0, "colour": "mauve"}
    encoded = q.classifier_.steps[1][1].transform([[0.0, 0.0, np.nan]])
    assert encoded[0, :2].tolist() == [0.0, 0.0]
    with pytest.warns(TableWarning, match="'colour': unseen values in 20 of 20 rows"):
        groups = q.predict_groups(pl.DataFrame([row] * 20)).to_frame()
    assert all("unseen values" in status for status in groups["status"].to_list())


def test_fit_is_the_library(tmp_path: Path) -> None:
    table = without(rows(), "shop", "day", "colour")
    path = write(tmp_path / "t.csv", table)
    run(
        *("fit", path, "--label", "kind", "--method", "pacc", "--classifier-option", "C=0.5"),
        *("-o", tmp_path / "m"),
    )
    q = kdey.load(tmp_path / "m")
    assert type(q) is kdey.PACC
    assert q.classifier_.steps[-1][1].C == 0.5
    X, y = pl.read_csv(path).select("length", "width").to_numpy(), [r["kind"] for r in table]
    again = kdey.PACC(q.classifier, random_state=0).fit(X, np.array(y))
    # The columns lie otherwise in memory, so the fit may end elsewhere in the last digits.
    assert_allclose(q.predict(X), again.predict(X), atol=1e-4)


def test_inspect_tells_what_is_inside(model: Path) -> None:
    facts = json.loads(run("inspect", model, "--json").stdout)
    assert facts["method"] == "KDEyML"
    assert facts["feature columns"] == ["length", "width", "colour"]
    assert facts["label column"] == "kind"
    assert facts["training rows"] == 120
    assert list(facts["classes"]) == ["bad", "good"]
    assert "feature columns: length, width, colour" in run("inspect", model).stdout


def test_evaluate_compares_methods(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", without(rows(200), "shop", "day"))
    result = run(
        *("evaluate", path, "--label", "kind", "--methods", "pacc,cc,emq"),
        *("--bags", 20, "--bag-size", 30),
    )
    assert result.exit_code == 0, result.output
    summary = list(csv.DictReader(io.StringIO(result.stdout)))
    assert sorted(row["method"] for row in summary) == ["cc", "emq", "pacc"]
    errors = [float(row["ae"]) for row in summary]
    assert errors == sorted(errors)
    result = run(
        *("evaluate", path, "--label", "kind", "--methods", "pacc", "--each-bag"),
        *("--bags", 20, "--bag-size", 30),
    )
    each = list(csv.DictReader(io.StringIO(result.stdout)))
    assert len(each) == 20
    expected = next(float(row["ae"]) for row in summary if row["method"] == "pacc")
    assert_allclose(np.mean([float(row["ae"]) for row in each]), expected, rtol=1e-5)


def test_evaluate_a_model(model: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", rows(seed=5))
    result = run(
        "evaluate", path, "--label", "kind", "--model", model, "--bags", 10, "--bag-size", 20
    )
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 2


def test_kdey_ml_chooses_its_own_bandwidth(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", without(rows(), "shop", "day", "colour"))
    run("fit", path, "--label", "kind", "--method", "kdey-ml", "-o", tmp_path / "m.kdey")
    q = kdey.load(tmp_path / "m.kdey")
    assert q.bandwidth == "auto"
    assert "tuning: Chosen" in run("inspect", tmp_path / "m.kdey").stdout


SMALL = {
    "extra-trees": "n_estimators=5",
    "random-forest": "n_estimators=5",
    "boosting": "max_iter=3",
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_makes_a_model_that_can_be_used(tmp_path: Path, name: str) -> None:
    labelled = write(tmp_path / "l.csv", without(rows(), "shop", "day"))
    new = write(tmp_path / "n.csv", without(rows(seed=1), "shop", "day", "kind"))
    model, selection = tmp_path / "m.kdey", ["--no-fold-models", "--method", "pacc"]
    if name in SMALL:
        selection += ["--classifier-option", SMALL[name]]
    result = run("fit", labelled, "--label", "kind", "--classifier", name, "-o", model, *selection)
    assert result.exit_code == 0, result.output
    result = run("estimate", model, new, "--format", "csv")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("checked one-sided") == 2


def test_labels_that_a_judge_decided_are_fitted_and_estimated(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labelled = [
        {"human": row["kind"], "llm": row["kind"] if rng.random() < 0.8 else "good"}
        for row in rows(200)
    ]
    table, model = write(tmp_path / "t.csv", labelled), tmp_path / "m"
    run("fit", table, "--label", "human", "--scores", "llm", "--method", "acc", "-o", model)
    q = kdey.load(model)
    y, decided = ([row[name] for row in labelled] for name in ("human", "llm"))
    expected = kdey.ACC().fit_decisions(decided, y)
    new = write(tmp_path / "new.csv", [{"llm": label} for label in decided[:80]])
    printed = run("estimate", model, new).stdout
    estimates = [float(line["estimate"]) for line in csv.DictReader(io.StringIO(printed))]
    assert_allclose(estimates, expected.aggregate_decisions(decided[:80]), rtol=1e-5)
    assert q.model_.table_schema["llm"].categories == ("bad", "good")
    assert "column of decisions: llm" in run("inspect", model).stdout
    new = write(tmp_path / "odd.csv", [{"llm": "good"}, {"llm": "refused"}])
    message = run("estimate", model, new).output
    assert "column 'llm' has the class 'refused' in row 3" in message


def test_decided_labels_need_a_method_that_counts(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", [{"human": "ab"[i % 2], "llm": "b"} for i in range(40)])
    result = run("fit", table, "--label", "human", "--scores", "llm", "-o", tmp_path / "m")
    assert result.exit_code == 2
    assert "decided labels, which --method acc or cc counts" in result.output
