"""Labels of some rows, survey designs, and merged classes on the command line."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from numpy.testing import assert_allclose

import kdey

from .cases import rows, run, without, write


def parsed(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a table in which every fourth row has its label in the column ``seen``."""
    lines: list[dict[str, Any]] = []
    for i, row in enumerate(rows(seed=1)):
        seen = row["kind"] if i % 4 == 0 else ("" if i % 3 else "NA")
        lines.append({**row, "seen": seen, "weight": 1 + i % 3, "house": i // 5})
    return write(tmp_path / "new.csv", without(lines, "kind"))


def test_labelled_is_the_library(model: Path, table: Path) -> None:
    options = ("--labelled", "seen", "--missing-values", "NA", "--by", "day", "--every", "1mo")
    result = run("estimate", model, table, "--labelled", "seen", "--missing-values", "NA")
    assert result.exit_code == 0, result.stderr
    estimates = parsed(result.stdout)
    frame = pl.read_csv(table, null_values=["NA"])
    expected = kdey.load(model).predict_groups(frame, labelled="seen").to_frame()
    for name in ("estimate", "label_shift_low", "labels", "prediction_powered_high"):
        assert_allclose(
            [float(row[name]) for row in estimates], expected[name].to_numpy(), rtol=1e-5
        )
    assert {row["verdict"] for row in estimates} == set(expected["verdict"])
    assert "use the prediction-powered estimate" in result.stderr
    assert run("estimate", model, table, *options, "--time", "day").exit_code == 2  # a key twice


def test_an_unknown_label_is_refused_with_its_line(model: Path, table: Path) -> None:
    result = run("estimate", model, table, "--labelled", "seen")
    assert result.exit_code == 2
    # Row 4 of the table, line 5 of the file, is the first with NA.
    assert "column 'seen' has the class 'NA' in row 5, which training lacks" in result.stderr


def test_weights_and_clusters_are_the_library(model: Path, table: Path) -> None:
    result = run(
        "estimate", model, table, "--by", "shop", "--weights", "weight", "--clusters", "house"
    )
    assert result.exit_code == 0, result.stderr
    frame = pl.read_csv(table, null_values=["NA"])
    expected = (
        kdey.load(model)
        .predict_groups(frame, "shop", weights="weight", clusters="house")
        .to_frame()
    )
    for name in ("estimate", "low", "high"):
        values = [float(row[name]) for row in parsed(result.stdout)]
        assert_allclose(values, expected[name].to_numpy(), rtol=1e-5)


def test_strata_with_shares(model: Path, table: Path) -> None:
    shares = ("--stratum-share", "A=0.8", "--stratum-share", "B=0.2")
    result = run("estimate", model, table, "--strata", "shop", *shares)
    assert result.exit_code == 0, result.stderr
    by_shop = parsed(run("estimate", model, table, "--by", "shop").stdout)
    parts = [float(row["estimate"]) for row in by_shop if row["class"] == "bad"]
    total = float(parsed(result.stdout)[0]["estimate"])
    assert_allclose(total, 0.8 * parts[0] + 0.2 * parts[1], atol=1e-6)
    wrong = run("estimate", model, table, "--strata", "shop", "--stratum-share", "A")
    assert wrong.exit_code == 2
    assert "--stratum-share takes NAME=NUMBER" in wrong.stderr


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a model of the classes 1, 2 and 3, and a table."""
    folder = tmp_path_factory.mktemp("sizes")
    lines = [{**row, "size": 1 + i % 3} for i, row in enumerate(rows(seed=2))]
    for row in lines:
        row["length"] += row["size"]
    training = write(folder / "training.csv", without(lines, "kind"))
    model = folder / "model.kdey"
    fit = run("fit", training, "--label", "size", "-o", model, "--method", "pacc")
    assert fit.exit_code == 0, fit.stderr
    return model, training


def test_merge_and_order(sizes: tuple[Path, Path]) -> None:
    model, table = sizes
    plain = parsed(run("estimate", model, table, "--by", "shop").stdout)
    result = run("estimate", model, table, "--by", "shop", "--merge", "small=1,2", "--order", "3")
    assert result.exit_code == 0, result.stderr
    merged = parsed(result.stdout)
    assert [row["class"] for row in merged] == ["3", "small"] * 2
    sums = [float(a["estimate"]) + float(b["estimate"]) for a, b in ((plain[0], plain[1]),)]
    assert_allclose(float(merged[1]["estimate"]), sums[0], rtol=1e-5)
    assert_allclose(float(merged[1]["low"]), 1 - float(plain[2]["high"]), rtol=1e-5)
    ordered = parsed(run("estimate", model, table, "--order", "2,3").stdout)
    assert [row["class"] for row in ordered] == ["2", "3", "1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--merge", "small=1,4"), "--merge: the model has no class '4'; it has 1, 2, 3"),
        (("--merge", "small"), '--merge takes "NEW=A,B"'),
        (("--order", "9"), "--order: the model has no class '9'"),
        (("--merge", "all=1,2,3"), "merge puts all classes into one group"),
        (("--selection", "length"), "name the column of labels"),
    ],
)
def test_what_cannot_be_is_refused(
    sizes: tuple[Path, Path], options: tuple[str, ...], message: str
) -> None:
    result = run("estimate", *sizes, *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_report_merges_and_orders_classes(sizes: tuple[Path, Path], tmp_path: Path) -> None:
    model, table = sizes
    page = tmp_path / "report.html"
    result = run(
        *("report", model, table, "--by", "shop", "--label", "size", "-o", page),
        *("--merge", "small=1,2", "--order", "3,small", "--no-check-fit"),
    )
    assert result.exit_code == 0, result.stderr
    text = page.read_text(encoding="utf-8")
    assert text.index(">3<") < text.index(">small<")
    whole = parsed(run("estimate", model, table, "--merge", "small=1,2").stdout)
    assert f"{100 * float(whole[0]['estimate']):.1f}" in text


def test_a_report_names_classes_that_are_codes(sizes: tuple[Path, Path], tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    names = ("--merge", "tiny=1", "--merge", "usual=2", "--merge", "huge=3")
    result = run("report", *sizes, *names, "--no-check-fit", "-o", page)
    assert result.exit_code == 0, result.stderr
    text = page.read_text(encoding="utf-8")
    assert all(f">{name}<" in text for name in ("tiny", "usual", "huge"))
    assert "“huge”" in text
    assert "“3”" not in text


def test_a_report_of_three_classes_in_another_order(
    sizes: tuple[Path, Path], tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    result = run("report", *sizes, "--order", "3,2,1", "--no-check-fit", "-o", page)
    assert result.exit_code == 0, result.stderr
    assert "The classifier's posteriors" not in page.read_text(encoding="utf-8")


def test_a_report_honours_weights_and_strata(model: Path, table: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    options = ("--weights", "weight", "--strata", "shop", "--no-check-fit")
    result = run("report", model, table, *options, "-o", page)
    assert result.exit_code == 0, result.stderr
    whole = parsed(run("estimate", model, table, *options).stdout)
    assert f"{100 * float(whole[0]['estimate']):.1f}" in page.read_text(encoding="utf-8")


def test_label_noise_and_variance_strata_are_the_library(model: Path, table: Path) -> None:
    frame = pl.read_csv(table, null_values=["NA"])
    q = kdey.load(model)
    first, *_ = q.classes_.tolist()
    design = {"clusters": "house", "variance_strata": "shop", "label_noise_bound": {first: 0.1}}
    frame = frame.with_columns(house=pl.concat_str("shop", "house"))
    frame.write_csv(table)
    asked = ("--clusters", "house", "--variance-strata", "shop")
    result = run("estimate", model, table, *asked, "--label-noise-bound", f"{first}=0.1")
    assert result.exit_code == 0, result.stderr
    expected = q.predict_groups(frame, options=kdey.Options(**design)).to_frame()
    found = parsed(result.stdout)
    for name in ("estimate", "low", "high"):
        assert_allclose([float(row[name]) for row in found], expected[name].to_numpy(), rtol=1e-5)
    for wrong in ("much", "unknown=0.1"):
        assert run("estimate", model, table, "--label-noise", wrong).exit_code == 2
    two = run("estimate", model, table, "--label-noise", "0.1", "--label-noise", "0.2")
    assert "takes one NUMBER" in two.stderr
