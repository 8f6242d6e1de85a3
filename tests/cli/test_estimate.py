from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kdey
from kdey.tables import sources as reading

from .cases import FAST, rows, run, without, write


def parsed(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.smoke
def test_by_group_is_the_library(model: Path, tmp_path: Path) -> None:
    table = write(tmp_path / "new.csv", without(rows(seed=1), "kind"))
    result = run("estimate", model, table, "--by", "shop", "--digits", "17")
    assert result.exit_code == 0
    estimates = parsed(result.stdout)
    expected = kdey.load(model).predict_groups(pl.read_csv(table), "shop").to_frame()
    assert [row["shop"] for row in estimates] == expected["shop"].to_list()
    assert [row["class"] for row in estimates] == ["bad", "good"] * 2
    for name in ("estimate", "low", "high", "classify_and_count", "training_prevalence"):
        assert_array_equal([float(row[name]) for row in estimates], expected[name])


def test_columns_are_found_by_name(model: Path, tmp_path: Path) -> None:
    table = without(rows(seed=1), "kind")
    turned = [dict(reversed(row.items())) for row in table]
    first = run("estimate", model, write(tmp_path / "a.csv", table))
    again = run("estimate", model, write(tmp_path / "b.csv", turned))
    assert first.stdout == again.stdout


def test_csv_gzip_semicolons_parquet_and_pipes_agree(model: Path, tmp_path: Path) -> None:
    plain = write(tmp_path / "a.csv", without(rows(seed=1), "kind"))
    text = plain.read_text()
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "b.csv").write_text(text.replace(",", ";"))
    pl.read_csv(plain).write_parquet(tmp_path / "a.parquet")
    expected = run("estimate", model, plain, "--by", "shop").stdout
    assert expected.startswith("shop,class,n,n_missing,estimate")
    for name in ("a.csv.gz", "b.csv", "a.parquet"):
        assert run("estimate", model, tmp_path / name, "--by", "shop").stdout == expected
        data = (tmp_path / name).read_bytes()
        assert run("estimate", model, "-", "--by", "shop", input=data).stdout == expected


def test_formats(model: Path, tmp_path: Path) -> None:
    table = write(tmp_path / "new.csv", without(rows(seed=1), "kind"))
    rest = ("estimate", model, table, "--by", "shop", "--wide")
    records = json.loads(run(*rest, "--format", "json").stdout)
    assert [row["shop"] for row in records] == ["A", "B"]
    assert 0 < records[0]["fit_p_value"] <= 1
    unchecked = json.loads(run(*rest, "--no-check-fit", "--format", "json").stdout)
    assert unchecked[0]["fit_p_value"] is None
    assert unchecked[0]["status"] == "not checked (the check was turned off)"
    assert [row["estimate[bad]"] for row in unchecked] == [row["estimate[bad]"] for row in records]
    assert run(*rest, "--no-check-fit", "--fail-on-misfit").exit_code == 2
    result = run(*rest, "-o", tmp_path / "out.parquet")
    assert result.stdout == ""
    kept = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["estimate[bad]"] for row in kept] == [row["estimate[bad]"] for row in records]
    assert "estimate[bad]" in run(*rest, "--format", "table").stdout


def test_weeks(model: Path, tmp_path: Path) -> None:
    table = write(tmp_path / "new.csv", without(rows(seed=1), "kind"))
    result = run("estimate", model, table, "--time", "day", "--every", "1w", "--wide")
    starts = [row["day"] for row in parsed(result.stdout)]
    assert starts == ["2024-01-01", "2024-01-08", "2024-01-15", "2024-01-22"]


def test_parquet_in_batches_is_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], 500)
    y = np.array([rng.choice(3, p=batch) for batch in p])
    kdey.save(kdey.KDEyML(bandwidth=0.2).fit_posteriors(p, y), tmp_path / "m.kdey")
    table = pa.table({"g": rng.integers(0, 7, 500), **{f"s{i}": p[:, i] for i in range(3)}})
    pq.write_table(table, tmp_path / "t.parquet")
    monkeypatch.setattr(reading, "BATCH", 64)
    out = tmp_path / "o.parquet"
    result = run(
        *("estimate", tmp_path / "m.kdey", tmp_path / "t.parquet", "--by", "g"),
        *("--scores", "s0,s1,s2", "-o", out),
    )
    assert result.exit_code == 0, result.output
    q = kdey.load(tmp_path / "m.kdey")
    expected = q.predict_groups(table, "g", scores=["s0", "s1", "s2"]).to_frame()
    estimates = pq.read_table(out)
    assert estimates["g"].to_pylist() == expected["g"].to_pylist()
    for name in ("estimate", "low", "high"):
        assert_array_equal(estimates[name].to_numpy(), expected[name].to_numpy())


def test_scores_in_answer_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1], 300)
    y = np.where(rng.random(300) < p[:, 1], "yes", "no")
    table = [
        {"p_yes": b, "p_no": a, "y": label} for (a, b), label in zip(p.tolist(), y, strict=True)
    ]
    train = write(tmp_path / "t.csv", table)
    result = run(
        *("fit", train, "--label", "y", "--scores", "p_yes,p_no", *FAST),
        *("-o", tmp_path / "m.kdey"),
    )
    assert result.exit_code == 0, result.output
    estimates = parsed(run("estimate", tmp_path / "m.kdey", train).stdout)
    expected = kdey.KDEyML(bandwidth=0.2).fit_posteriors(p, y).aggregate(p)
    assert_allclose([float(row["estimate"]) for row in estimates], expected, rtol=1e-5)


def test_missing_rows_are_left_out_when_asked(model: Path, tmp_path: Path) -> None:
    table = without(rows(seed=1), "kind")
    table[4]["width"] = ""
    path = write(tmp_path / "new.csv", table)
    result = run("estimate", model, path, "--missing", "drop")
    row = parsed(result.stdout)[0]
    assert (row["n"], row["n_missing"], row["status"]) == ("119", "1", "missing values")
    assert result.stderr == "missing values: the whole table\n"


def test_misfit_is_exit_code_one_with_the_table_still_there(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    sure = np.where(y == 1, 0.97, 0.03) + rng.uniform(-0.02, 0.02, 300)
    p = np.column_stack([1 - sure, sure])
    kdey.save(kdey.KDEyML(bandwidth=0.1).fit_posteriors(p, y), tmp_path / "m.kdey")
    misfit = write(tmp_path / "odd.csv", [{"a": 0.5, "b": 0.5}] * 60)
    fine = write(tmp_path / "fine.csv", [{"a": a, "b": b} for a, b in p[:60].tolist()])
    options = ("--scores", "a,b", "--fail-on-misfit")
    result = run("estimate", tmp_path / "m.kdey", misfit, *options)
    assert result.exit_code == 1
    assert parsed(result.stdout)[0]["status"] == "poor fit"
    assert "1 of 1 groups do not fit" in result.stderr
    assert run("estimate", tmp_path / "m.kdey", fine, *options).exit_code == 0


def test_help_loads_no_numpy() -> None:
    code = (
        "import sys; from kdey.cli.__main__ import kdey\n"
        "from click.testing import CliRunner\n"
        "for name in ('fit', 'estimate', 'evaluate', 'audit', 'inspect'):\n"
        "    assert CliRunner().invoke(kdey, [name, '--help']).exit_code == 0\n"
        "assert not {'numpy', 'sklearn', 'pyarrow', 'rich'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_small_groups_lean_on_others(model: Path, tmp_path: Path) -> None:
    table = [
        {**row, "town": "CD"[i % 4 // 2]} for i, row in enumerate(without(rows(seed=1), "kind"))
    ]
    path = write(tmp_path / "new.csv", table)
    options = ("estimate", model, path, "--no-check-fit", "--by")
    plain = parsed(run(*options, "shop").stdout)
    shrunk = parsed(run(*options, "shop", "--shrink", "--shrink-covers", "average-group").stdout)
    assert [row["separate_low"] for row in shrunk] == [row["low"] for row in plain]
    assert all(0 <= float(row["shrinkage"]) <= 1 for row in shrunk)
    within = run(*options, "town,shop", "--shrink-within", "town")
    assert len(parsed(within.stdout)) == 8
    refused = run(*options, "shop", "--shrink-within", "town")
    assert refused.exit_code == 2
    assert "'town', which is no key" in refused.stderr


def test_periods_lean_on_neighbours(model: Path, tmp_path: Path) -> None:
    table = [row for row in without(rows(seed=1), "kind") if row["day"][-2:] not in ("10", "11")]
    path = write(tmp_path / "new.csv", table)
    options = ("--no-check-fit", "--time", "day", "--every", "1d")
    smooth = parsed(run("estimate", model, path, *options, "--smooth").stdout)
    assert len(smooth) == 2 * 28
    empty = [row for row in smooth if row["n"] == "0"]
    assert {row["day"] for row in empty} == {"2024-01-10", "2024-01-11"}
    assert all(row["estimate"] and row["status"] == "empty" for row in empty)
    assert run("estimate", model, path, "--no-check-fit", "--smooth").exit_code == 2


def test_drift_adds_wider_limits(model: Path, tmp_path: Path) -> None:
    table = write(tmp_path / "new.csv", without(rows(seed=1), "kind"))
    result = run("estimate", model, table, "--by", "shop", "--drift", "1.25")
    assert result.exit_code == 0, result.output
    for row in parsed(result.stdout):
        low, high, first, last = (
            float(row[name]) for name in ("low", "high", "drift_low", "drift_high")
        )
        assert first <= low
        assert high <= last
        assert last - first > high - low
    assert run("estimate", model, table, "--drift", "0.5").exit_code == 2
    assert "--wide" in run("estimate", model, table, "--drift", "1.5", "--wide").output
