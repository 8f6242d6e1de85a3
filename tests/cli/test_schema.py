"""Tables as people have them: ids, dates, gaps, odd labels; the same answer through every door."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose

import kdey
from kdey._fingerprints import text_hashes

from .cases import FAST, rows, run, without, write


def messy(n: int = 200, seed: int = 0, gaps: bool = True) -> list[dict[str, Any]]:
    """Return rows with ids, a date, a gap in every tenth length, and a column that never varies."""
    return [
        {
            "id": 7000 + 500 * seed + i,
            "code": f"u{seed}-{i}",
            **row,
            "length": "" if gaps and i % 10 == 3 else row["length"],
            "zone": "EU",
            "long": row["width"],
        }
        for i, row in enumerate(rows(n, seed))
    ]


def parsed(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="module")
def messy_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("messy")
    table = write(folder / "train.csv", messy())
    result = run("fit", table, "--label", "kind", *FAST, "-o", folder / "m.kdey")
    assert result.exit_code == 0, result.output
    for text in (
        "id id 200 different whole numbers in 200 rows",
        "code id 200 different texts in 200 rows",
        "day ignored holds dates such as '2024-01-01'",
        "zone ignored always 'EU'",
        "long ignored the same in every row as 'width'",
        "width number numbers",
        "colour category",
        "accuracy 0.",
        "in held-out bags of 100 (all classes alike:",
    ):
        assert text in " ".join(result.stderr.split()), result.stderr
    return folder / "m.kdey"


def test_ids_dates_and_copies_are_no_features(messy_model: Path) -> None:
    schema = kdey.load(messy_model).model_.table_schema
    assert schema.feature_names == ("length", "width", "colour", "shop")
    assert schema["length"].n_missing == 20


def test_an_id_does_not_move_the_estimate(messy_model: Path, tmp_path: Path) -> None:
    # Trained on ids in the order of the classes, an estimate of other ids went astray.
    table = sorted(messy(gaps=False), key=lambda row: row["kind"])
    table = [{**row, "id": i} for i, row in enumerate(table)]
    run("fit", write(tmp_path / "t.csv", table), "--label", "kind", *FAST, "-o", tmp_path / "m")
    new = messy(300, seed=4, gaps=False)
    near = write(tmp_path / "n.csv", [{**row, "id": 0} for row in new])
    far = write(tmp_path / "f.csv", [{**row, "id": 10**6} for row in new])
    first, second = (run("estimate", tmp_path / "m", path).stdout for path in (near, far))
    assert first == second
    assert len(parsed(first)) == 2


def test_every_door_gives_the_same_answer(messy_model: Path, tmp_path: Path) -> None:
    q = kdey.load(messy_model)
    new = without(messy(150, seed=3), "kind")
    text = write(tmp_path / "n.csv", new)
    answers = parsed(run("estimate", messy_model, text, "--digits", "17").stdout)
    expected = [float(row["estimate"]) for row in answers]
    assert [row["n"] for row in answers] == ["150", "150"]
    frame = pd.read_csv(text)
    typed = tmp_path / "n.parquet"
    shuffled = pl.from_pandas(frame).select(*sorted(frame.columns), pl.lit("x").alias("extra"))
    shuffled.write_parquet(typed)
    again = parsed(run("estimate", messy_model, typed, "--digits", "17").stdout)
    assert_allclose([float(row["estimate"]) for row in again], expected, atol=1e-12)
    whole = [np.arange(150)]
    for table in (frame, frame.astype(object), shuffled, pq.read_table(typed), _texts(text)):
        assert_allclose(q.predict(table), expected, atol=1e-12)
        assert_allclose(q.estimate(table).estimate, expected, atol=1e-12)
        assert_allclose(q.estimate_bags(table, whole).estimate[0], expected, atol=1e-12)
        groups = q.predict_groups(table).to_frame()
        assert_allclose(np.asarray(groups["estimate"]), expected, atol=1e-12)
        check = kdey.check_fit(q, table, random_state=0)
        assert check.p_value == kdey.check_fit(q, frame, random_state=0).p_value


def _texts(path: Path) -> pl.DataFrame:
    return pl.read_csv(path, infer_schema_length=0)


@pytest.mark.filterwarnings("ignore:groups are made by")
def test_dask_gives_the_same_answer(messy_model: Path) -> None:
    dd = pytest.importorskip("dask.dataframe")
    q = kdey.load(messy_model)
    frame = pd.DataFrame(without(messy(150, seed=3, gaps=False), "kind"))
    frame["colour"] = ["mauve" if i < 20 else c for i, c in enumerate(frame["colour"])]
    with pytest.warns(UserWarning, match="'colour': unseen values in 20 of 150 rows"):
        expected = q.predict_groups(frame, "shop").to_frame()
    found = q.predict_groups(dd.from_pandas(frame, npartitions=3), "shop").to_frame()
    assert_allclose(found["estimate"], expected["estimate"], atol=1e-6)
    assert found["status"].tolist() == expected["status"].tolist()
    assert all(status.startswith("unseen values") for status in found["status"])


def test_features_may_be_asked_for(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", messy(gaps=False))
    rest = ("--label", "kind", *FAST, "-o", tmp_path / "m.kdey")
    assert run("fit", table, *rest, "--features", "id,length", "--no-fold-models").exit_code == 0
    assert kdey.load(tmp_path / "m.kdey").model_.table_schema.feature_names == ("id", "length")
    result = run("fit", table, *rest, "--type", "day=date", "--no-fold-models")
    assert result.exit_code == 0, result.output
    assert "day" in kdey.load(tmp_path / "m.kdey").model_.table_schema.feature_names
    result = run("fit", table, *rest, "--type", "day=moment")
    assert result.exit_code == 2
    assert "--type takes NAME=number" in result.stderr


@pytest.mark.parametrize("classifier", ["logistic", "boosting", "naive-bayes"])
def test_missing_values_are_learnt_from(tmp_path: Path, classifier: str) -> None:
    # The length is missing only in bad ones: that it is missing tells the class.
    table = [
        {**row, "length": "" if row["kind"] == "bad" and i % 2 else row["length"]}
        for i, row in enumerate(without(rows(300), "shop", "day"))
    ]
    path = write(tmp_path / "t.csv", table)
    rest = ("--label", "kind", "--classifier", classifier, "--method", "pacc", "--no-fold-models")
    result = run("fit", path, *rest, "-o", tmp_path / "m.kdey")
    assert result.exit_code == 0, result.output
    q = kdey.load(tmp_path / "m.kdey")
    gaps = pl.DataFrame({"length": [None] * 40, "width": [0.0] * 40, "colour": ["blue"] * 40})
    assert q.predict(gaps.with_columns(pl.col("length").cast(pl.Float64)))[0] > 0.9
    assert run("fit", path, *rest, "--missing", "drop", "-o", tmp_path / "d.kdey").exit_code == 0
    dropped = kdey.load(tmp_path / "d.kdey").model_.table_schema
    assert dropped["length"].n_missing == 0


def test_unlabelled_rows_can_be_left_out(tmp_path: Path) -> None:
    table = [{**row, "kind": "" if i % 4 == 0 else row["kind"]} for i, row in enumerate(rows())]
    path = write(tmp_path / "t.csv", table)
    rest = ("--label", "kind", *FAST, "-o", tmp_path / "m.kdey", "--no-fold-models")
    result = run("fit", path, *rest)
    assert result.exit_code == 2
    assert "no label in row 2 (30 rows lack one)" in result.stderr
    result = run("fit", path, *rest, "--unlabelled", "drop")
    assert result.exit_code == 0, result.output
    assert "30 rows without a label left out" in result.stderr
    # The row that is named is that of the file, though rows above it are left out.
    path = write(
        tmp_path / "t.csv",
        [{**r, "width": "wide" if i == 9 else r["width"]} for i, r in enumerate(table)],
    )
    assert "row 11 has 'wide'" in run("fit", path, *rest, "--unlabelled", "drop").stderr


LABELS = {
    "codes": (["01", "1"], ["01", "1"], []),
    "capitals": (["True", "true"], ["True", "true"], []),
    "integers": (["10", "2"], [2, 10], []),
    "huge": (["9223372036854775808", "18446744073709551617"], None, []),
    "asked text": (["10", "2"], ["10", "2"], ["--label-type", "text"]),
    "asked integer": (["01", "2"], [1, 2], ["--label-type", "integer"]),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels(tmp_path: Path, name: str) -> None:
    labels, classes, options = LABELS[name]
    table = [{**row, "kind": labels[row["kind"] == "bad"]} for row in without(rows(), "day")]
    path = write(tmp_path / "t.csv", table)
    rest = ("--label", "kind", *FAST, "--no-fold-models", "-o", tmp_path / "m.kdey")
    result = run("fit", path, *rest, *options)
    assert result.exit_code == 0, result.output
    q = kdey.load(tmp_path / "m.kdey")
    assert q.classes_.tolist() == (classes or sorted(labels))
    # The labelled table itself passes: its labels are the model's classes.
    rest = ("--label", "kind", "-o", tmp_path / "r.html")
    result = run("report", tmp_path / "m.kdey", path, *rest)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("command", ["report", "evaluate", "estimate"])
def test_other_labels_are_refused(tmp_path: Path, command: str) -> None:
    words = {"true": "yes", "false": "no"}
    table = [{**row, "kind": str(row["kind"] == "bad").lower()} for row in without(rows(), "day")]
    path = write(tmp_path / "t.csv", table)
    model = tmp_path / "m.kdey"
    run("fit", path, "--label", "kind", *FAST, "--no-fold-models", "-o", model)
    other = write(tmp_path / "o.csv", [{**row, "kind": words[row["kind"]]} for row in table])
    label = ("--label", "kind")
    arguments = {
        "report": ("report", model, other, *label, "-o", tmp_path / "r.html"),
        "evaluate": ("evaluate", other, *label, "--model", model),
        "estimate": ("estimate", model, other),
    }
    result = run(*arguments[command])
    assert result.exit_code == 2
    assert "in row 2, which training lacks" in result.stderr
    assert "training has false, true" in result.stderr


def test_a_column_in_capitals_is_seen(messy_model: Path, tmp_path: Path) -> None:
    new = [{**row, "colour": row["colour"].upper()} for row in messy(seed=3, gaps=False)]
    path = write(tmp_path / "n.csv", without(new, "kind"))
    result = run("estimate", messy_model, path, "--by", "shop", "--format", "csv")
    # The column check sees it, too.
    assert {row["status"] for row in parsed(result.stdout)} == {"unseen values; poor fit"}
    assert "'colour': unseen values in 200 of 200 rows (such as" in result.stderr
    assert "groups are made by 'shop', which is a feature of the model" in result.stderr
    assert "Fit without that column (--ignore shop)" in result.stderr
    page = tmp_path / "r.html"
    result = run("report", messy_model, path, "-o", page)
    assert result.exit_code == 0, result.output
    assert "unseen values in 200 of 200 rows" in page.read_text(encoding="utf-8")


def test_few_labels_and_classes_that_look_alike_are_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kinds = ["a"] * 150 + ["b"] * 150 + ["c"] * 100 + ["d"] * 8
    table = [
        {"x": rng.normal() + 4 * (k == "c") - 4 * (k == "d"), "z": rng.normal(), "kind": k}
        for k in kinds
    ]
    path = write(tmp_path / "t.csv", table)
    rest = ("--method", "pacc", "--no-fold-models", "-o", tmp_path / "m.kdey")
    result = run("fit", path, "--label", "kind", *rest)
    assert result.exit_code == 0, result.output
    assert "few labels: d (8)" in result.stderr
    assert "a and b can hardly be told apart" in result.stderr
    assert max(map(len, result.stderr.splitlines()[-6:])) <= 80


def test_check_shows_columns_and_a_quick_fit(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", messy())
    result = run("check", table, "--label", "kind")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines[1:])) <= 80
    assert any(line.split()[:2] == ["id", "id"] for line in lines)
    assert any(line.split()[:2] == ["day", "ignored"] for line in lines)
    assert any("length" in line and "20 missing" in line for line in lines)
    assert "2 classes (text), the rarest first: bad" in result.stdout
    assert "accuracy 0." in result.stdout
    assert "accuracy" not in run("check", table, "--label", "kind", "--no-fit").stdout


def test_check_names_everything_that_fit_refuses(tmp_path: Path) -> None:
    table = [
        {**row, "price": "n.n." if i == 4 else i % 9, "kind": "" if i == 7 else row["kind"]}
        for i, row in enumerate(messy())
    ]
    path = write(tmp_path / "t.csv", table)
    result = run("check", path, "--label", "kind")
    assert result.exit_code == 1
    said = " ".join(result.stdout.split())
    assert "refused: column 'price' holds numbers, but row 6 has 'n.n.'" in said
    assert "(--missing-values n.n.), leave the column out (--ignore price)" in said
    assert "refused: column 'kind' has no label in row 9" in said


def test_many_columns_fit_one_screen(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = [
        {**{f"x{i}": round(rng.normal() + k, 3) for i in range(60)}, "kind": "ab"[k]}
        for k in (0, 1) * 40
    ]
    result = run("check", write(tmp_path / "t.csv", table), "--label", "kind")
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) <= 24
    assert "and 49 more columns: 49 as number" in result.stdout


def test_columns_beyond_the_screen_that_are_no_features_are_counted(tmp_path: Path) -> None:
    constant = {f"c{i:02}": 1 for i in range(20)}
    table = [{**constant, "x": i % 7 + i / 100, "kind": "ab"[i % 2]} for i in range(80)]
    result = run("check", write(tmp_path / "t.csv", table), "--label", "kind")
    assert "more columns: 1 as number, " in result.stdout
    assert "that are not features" in result.stdout


def test_ids_of_repeated_rows_do_not_move_the_estimate(tmp_path: Path) -> None:
    # Some rows are there twice, so that not all ids differ; new ids lie in another range.
    once = [{**row, "row": i} for i, row in enumerate(messy(gaps=False))]
    table = write(tmp_path / "t.csv", sorted(once + once[::20], key=lambda row: row["kind"]))
    result = run("fit", table, "--label", "kind", *FAST, "-o", tmp_path / "m")
    assert "row id 200 different whole numbers in 210 rows" in " ".join(result.stderr.split())
    new = messy(300, seed=4, gaps=False)
    near = write(tmp_path / "n.csv", [{**row, "row": 0} for row in new])
    far = write(tmp_path / "f.csv", [{**row, "row": 10**6} for row in new])
    first, second = (run("estimate", tmp_path / "m", path).stdout for path in (near, far))
    assert first == second


def test_training_clusters(tmp_path: Path) -> None:
    import kdey

    lines = [{**line, "patient": f"p{i // 4}"} for i, line in enumerate(without(rows(), "shop"))]
    table, model = write(tmp_path / "train.csv", lines), tmp_path / "m.kdey"
    fast = ("--label", "kind", "--ignore", "day", *FAST)
    plain = run("fit", table, *fast, "-o", model)
    assert plain.exit_code == 0, plain.output
    assert "pass --clusters (this column) if they were drawn together" in plain.stderr
    result = run("fit", table, *fast, "--clusters", "patient", "-o", model)
    assert result.exit_code == 0, result.output
    assert "pass --clusters" not in result.stderr
    training = kdey.load(model).training_
    assert training.clusters is not None
    assert len(set(zip(training.clusters, training.folds, strict=True))) == 30
    assert "patient" not in kdey.load(model).model_.table_schema.feature_names
    for arguments, says in (
        (("--clusters", "ward"), "ward"),
        (("--clusters", "kind"), "must not be the label"),
        (("--clusters", "length", "--features", "length"), "nor among the features"),
    ):
        refused = run("fit", table, *fast, *arguments, "-o", model)
        assert refused.exit_code == 2
        assert says in refused.stderr
    lines[3]["patient"] = ""
    missing = run("fit", write(table, lines), *fast, "--clusters", "patient", "-o", model)
    assert "has no id of a cluster in row 5" in missing.stderr


def test_training_strata(tmp_path: Path) -> None:
    lines = [{**line, "shop": i % 3} for i, line in enumerate(rows())]
    table, model = write(tmp_path / "train.csv", lines), tmp_path / "m.kdey"
    fast = ("--label", "kind", "--ignore", "day", *FAST)
    result = run("fit", table, *fast, "--strata", "shop", "-o", model)
    assert result.exit_code == 0, result.output
    quantifier = kdey.load(model)
    codes = text_hashes([str(line["shop"]) for line in lines]).view(np.int64)
    np.testing.assert_array_equal(quantifier.training_.strata, codes)
    assert "shop" not in quantifier.model_.table_schema.feature_names
    new = write(tmp_path / "new.csv", [{**line, "kind": ""} for line in lines])
    made = run("estimate", model, new, "--by", "shop", "--strata", "shop")
    assert "classes may look different in each stratum" in made.output
    expected = kdey.predict_groups(quantifier, new, "shop", options=kdey.Options(strata="shop"))
    found = [float(line["estimate"]) for line in parsed(made.stdout)]
    assert_allclose(found, expected.estimate.ravel(), rtol=1e-5)
    both = run("fit", table, *fast, "--strata", "kind", "-o", model)
    assert "the column of strata 'kind' must not be the label" in both.stderr
    counted = (*fast[:4], "--method", "cc", "--strata", "shop")
    refused = run("fit", table, *counted, "-o", model)
    assert refused.exit_code == 2
    assert "keeps no training posteriors" in refused.stderr
    lines[3]["shop"] = ""
    missing = run("fit", write(table, lines), *fast, "--strata", "shop", "-o", model)
    assert "has no id of a stratum in row 5" in missing.stderr
