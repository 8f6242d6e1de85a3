"""Tables as people have them: other encodings, decimal commas, Excel, dates; the same answers."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kdey.tables.output import table_bytes
from kdey.tables.sources import open_source

from .cases import FAST, rows, run, without, write


def german(path: Path, table: list[dict[str, Any]], encoding: str = "cp1252") -> Path:
    """Write a table as Excel exports it in Germany: semicolons, decimal commas, day first."""
    lines = [list(table[0])]
    for row in table:
        year, month, day = row["day"].split("-") if "day" in row else ("", "", "")
        cells = {**row, "day": f"{day}.{month}.{year}"} if "day" in row else row
        lines.append(
            [str(v).replace(".", ",") if isinstance(v, float) else v for v in cells.values()]
        )
    with path.open("w", newline="", encoding=encoding) as stream:
        csv.writer(stream, delimiter=";").writerows(lines)
    return path


def table() -> list[dict[str, Any]]:
    """Return rows with shops that are no ASCII, and codes that look like numbers."""
    names = {"A": "Süd", "B": "Ost"}
    return [
        {**row, "shop": names[row["shop"]], "code": ["007", "7", "NA"][i % 3]}
        for i, row in enumerate(without(rows(), "kind"))
    ]


def answers(*arguments: Any) -> list[dict[str, Any]]:
    done = run("estimate", *arguments, "--format", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_an_export_of_excel_gives_the_answers_of_the_plain_table(
    model: Path, tmp_path: Path
) -> None:
    options = ("--by", "shop", "--time", "day", "--every", "1w")
    expected = answers(model, write(tmp_path / "t.csv", table()), *options)
    assert {row["shop"] for row in expected} == {"Süd", "Ost"}
    path = german(tmp_path / "german.csv", table())
    assert answers(model, path, *options) == expected
    done = run("estimate", model, path, *options)
    said = done.stderr.splitlines()
    assert sum("read as Windows-1252" in line for line in said) == 1
    assert sum("decimal commas, as in" in line for line in said) == 1
    said_all = ("--encoding", "cp1252", "--separator", ";", "--decimal", ",")
    done = run("estimate", model, path, *options, *said_all, "--date-format", "%d.%m.%Y")
    assert done.exit_code == 0
    assert "Windows" not in done.stderr
    sheet = tmp_path / "t.xlsx"
    sheet.write_bytes(table_bytes(pa.Table.from_pylist(table()), "xlsx"))
    assert answers(model, sheet, *options) == expected


def test_a_model_fitted_on_an_export_is_that_of_the_plain_table(tmp_path: Path) -> None:
    known = without(rows(), "shop", "day")
    found = []
    for path in (write(tmp_path / "a.csv", known), german(tmp_path / "b.csv", known)):
        model = path.with_suffix(".kdey")
        done = run("fit", path, "--label", "kind", *FAST, "-o", model)
        assert done.exit_code == 0, done.output
        found.append(answers(model, write(tmp_path / "t.csv", table())))
    assert found[0] == found[1]


def test_keys_of_text_files_are_text(model: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", table())
    assert {row["code"]: row["n"] for row in answers(model, path, "--by", "code")} == {
        **{"007": 40, "7": 40, "NA": 40}
    }
    kept = answers(model, path, "--by", "code", "--missing-values", "NA,-")
    assert {row["code"] for row in kept} == {"007", "7", "NA"}
    done = run("estimate", model, path, "--by", "code", "--key-type", "code=integer")
    assert done.exit_code == 2
    assert "key column 'code' must hold whole numbers" in done.stderr
    assert "row 4 has 'NA'" in done.stderr
    numbers = write(tmp_path / "n.csv", [row for row in table() if row["code"] != "NA"])
    asked = answers(model, numbers, "--by", "code", "--key-type", "code=integer")
    assert {row["code"]: row["n"] for row in asked} == {7: 80}


def test_texts_that_mean_a_missing_value(model: Path, tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.csv",
        [{**row, "colour": "?"} if i == 3 else row for i, row in enumerate(table())],
    )
    found = answers(model, path, "--missing-values", "?", "--missing", "drop")
    assert found[0]["n_missing"] == 1


def test_answers_as_a_sheet(model: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", [{**row, "shop": "=1+1"} for row in table()])
    out = tmp_path / "out.xlsx"
    assert run("estimate", model, path, "--by", "shop", "-o", out).exit_code == 0
    frame = open_source(str(out)).read()
    assert frame["shop"].to_list() == ["=1+1", "=1+1"]
    assert frame["n"].to_list() == [120, 120]
    done = run("estimate", model, path, "--by", "shop", "--format", "csv")
    assert done.stdout.splitlines()[1].startswith("'=1+1,bad,120,")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--encoding", "klingon"), "encoding must be one that Python knows"),
        (("--separator", "ab"), "separator must be one character"),
        (("--date-format", "DD.MM"), "notation of strftime"),
        (("--key-type", "shop"), "--key-type takes NAME=integer or NAME=text"),
        (("--key-type", "shop=integer"), "'shop', which is no key"),
        (("--by", "estimate[bad]", "--wide"), "has the name of a column of the result"),
        (("--time", "day", "--every", "1w", "--date-format", "%d.%m.%Y"), "row 2 has '2024-01-01'"),
    ],
)
def test_what_is_wrong_is_one_line(
    model: Path, tmp_path: Path, options: tuple[str, ...], says: str
) -> None:
    named = [{**row, "estimate[bad]": "x"} for row in table()]
    done = run("estimate", model, write(tmp_path / "t.csv", named), *options)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_report_of_an_export(model: Path, tmp_path: Path) -> None:
    labelled = [{**row, "kind": known["kind"]} for row, known in zip(table(), rows(), strict=True)]
    path, page = german(tmp_path / "t.csv", labelled), tmp_path / "r.html"
    options = ("--by", "shop", "--time", "day", "--every", "1w", "--label", "kind")
    done = run("report", model, path, *options, "-o", page)
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert "Süd" in text
    assert "week 2 of 2024" in text
