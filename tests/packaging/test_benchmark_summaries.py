"""Tables of the documents are those that the committed summaries of the benchmarks give."""

from __future__ import annotations

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


def test_every_cell_of_the_coverage_page(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script("coverage.py")["table"]("auto")
    printed = table_lines(capsys.readouterr().out)
    assert len(printed) > 100
    assert page_lines("coverage.md") == printed


def test_coverage_in_short(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script("coverage.py")["summary"]("auto")
    printed = table_lines(capsys.readouterr().out)
    assert len(printed) > 40
    assert set(printed) <= set(page_lines("intervals.md"))


def test_tables_of_the_fit_check(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script("fit_check.py")["table"]()
    # Bags under label shift stand in the first table of the page and not in the second.
    printed = [line for line in table_lines(capsys.readouterr().out) if "| null |" not in line]
    assert len(printed) > 12
    assert set(printed) <= set(page_lines("trust.md"))


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
