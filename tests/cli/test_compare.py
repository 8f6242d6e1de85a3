"""``kdey compare``: the library's table, and what it says on standard error."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import polars as pl
import pytest
from numpy.testing import assert_allclose

import kdey

from .cases import rows, run, without, write


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compare") / "new.csv"
    return write(path, without(rows(seed=1), "kind"))


@pytest.mark.parametrize("clusters", [None, "day"])
def test_the_table_is_the_librarys(model: Path, table: Path, clusters: str | None) -> None:
    asked = [] if clusters is None else ["--clusters", clusters]
    result = run(
        *("compare", model, table, "--by", "shop", "--against", "shop=A", "--no-check-fit"), *asked
    )
    assert result.exit_code == 0, result.output
    lines = list(csv.DictReader(io.StringIO(result.stdout)))
    expected = kdey.compare_groups(
        kdey.load(model),
        pl.read_csv(table),
        "shop",
        against={"shop": "A"},
        clusters=clusters,
        options=kdey.Options(check_fit=False),
    ).to_frame()
    assert list(lines[0]) == expected.columns
    assert [line["shop"] for line in lines] == ["B", "B"]
    for name in ("difference", "low", "high", "p_value", "adjusted_p_value"):
        assert_allclose([float(line[name]) for line in lines], expected[name].to_numpy(), rtol=1e-5)
    assert "of 2 differences have an adjusted p-value up to 0.05 (holm)" in result.stderr


def test_previous_is_the_default_of_periods_and_the_rest_that_of_groups(
    model: Path, table: Path
) -> None:
    result = run("compare", model, table, "--by", "shop", "--no-check-fit")
    lines = list(csv.DictReader(io.StringIO(result.stdout)))
    assert {line["shop"] for line in lines} == {"A", "B"}
    assert {line["against"] for line in lines} == {"rest"}
    result = run("compare", model, table, "--time", "day", "--every", "1w", "--no-check-fit")
    against = [line["against"] for line in csv.DictReader(io.StringIO(result.stdout))]
    assert against[0] == "2024-01-01"
    assert len(set(against)) == len(against) / 2  # two classes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--by", "shop", "--against", "last"), "previous, rest or NAME=VALUE"),
        (("--by", "shop", "--against", "shop=C"), "no group has shop=C"),
        ((), "needs groups"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    model: Path, table: Path, options: tuple[str, ...], message: str
) -> None:
    result = run("compare", model, table, *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_report_has_a_section_of_differences(model: Path, table: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    page = tmp_path / "page.html"
    options = ("--by", "shop", "--against", "rest", "--no-check-fit", "-o", page)
    result = run("report", model, table, *options)
    assert result.exit_code == 0, result.output
    text = page.read_text("utf-8")
    assert "Did it change?" in text
    assert 'download="comparisons.csv"' in text
    plain = tmp_path / "plain.html"
    run("report", model, table, "--by", "shop", "--no-check-fit", "-o", plain)
    assert "Did it change?" not in plain.read_text("utf-8")
