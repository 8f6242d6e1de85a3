"""Tables of the documents are those that the committed summaries of the benchmarks give."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"

if not (BENCHMARKS / "results").exists():
    pytest.skip("benchmarks/results is not part of this tree", allow_module_level=True)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """How to get the names of a script of the benchmarks."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return lambda name: runpy.run_path(str(BENCHMARKS / name))


def table_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ")]


def page_lines(name: str) -> list[str]:
    return table_lines((ROOT / "docs" / name).read_text(encoding="utf-8"))


def test_tables_of_the_coverage_page(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script("coverage_default.py")["tables"]("KDEyML")
    printed = table_lines(capsys.readouterr().out)
    assert len(printed) > 80
    assert page_lines("lab/coverage.md") == printed


def test_coverage_of_a_set_by_hand(
    script: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two redraws of two classes and four bags: means, and the bound clustered by redraw."""
    names = script("coverage_default.py")["main"].__globals__
    monkeypatch.setitem(names, "FILE", tmp_path / "raw.jsonl")
    monkeypatch.setitem(names, "SUMMARY", tmp_path / "summary.csv")
    rows = []
    for seed, covered in enumerate(([4, 2], [3, 4])):
        outcome = {"covered": covered, "corners": [2, 1], "width": [0.8, 0.4], "error": [0.1, 0.3]}
        cells = {f"{t} {level:g}": outcome for t in ("population", "bag") for level in (0.9, 0.95)}
        place = {"key": str(seed), "estimator": "PACC", "source": "cmc", "few": 5}
        rows.append(json.dumps(place | {"scarce": 0, "bags": 4, "outcomes": cells}))
    (tmp_path / "raw.jsonl").write_text("\n".join(rows) + "\n")
    names["summarise"]()
    first, second = (
        row
        for row in names["read_summary"](tmp_path / "summary.csv")
        if (row["target"], row["level"]) == ("bag", "0.9")
    )
    assert (first["class"], first["scarce"], first["redraws"]) == ("0", "True", "2")
    assert float(first["covered"]) == pytest.approx(7 / 8)
    assert float(first["bound"]) == pytest.approx(7 / 8 + 31.8205 / 8, rel=1e-4)
    assert float(second["covered"]) == pytest.approx(6 / 8)
    names["tables"]("PACC")
    line = table_lines(capsys.readouterr().out)[2].split("|")
    assert [cell.strip() for cell in line[1:5]] == ["cmc", "5", "2", "0.812"]
    assert line[9].strip() == "3.0"  # mean width over mean error


def test_tables_of_the_fit_check(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script("fit_check.py")["table"]()
    printed = table_lines(capsys.readouterr().out)
    assert len(printed) > 12
    assert set(printed) <= set(page_lines("lab/checks.md"))


def test_a_summary_keeps_the_cells_that_are_not_measured_anew(script: Any, tmp_path: Path) -> None:
    names = script("summaries.py")
    path = tmp_path / "summary.csv"
    names["update_summary"](path, [{"case": "a", "x": 0.1 + 0.2}, {"case": "b", "x": 2}], ["case"])
    names["update_summary"](path, [{"case": "b", "x": 3}], ["case"])
    assert names["read_summary"](path) == [
        {"case": "a", "x": "0.30000000000000004"},
        {"case": "b", "x": "3"},
    ]


def test_half_a_line_of_a_killed_run_is_left_out(script: Any, tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    path.write_text('{"a": 1}\n{"a": 2')
    assert list(script("summaries.py")["read_raw"](path)) == [{"a": 1}]
