"""docs/lab/comparison.md holds the table that its stored answers give."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ANSWERS = ROOT / "benchmarks" / "answers" / "comparison.jsonl"


def table_module() -> Any:
    spec = importlib.util.spec_from_file_location(
        "comparison_table", ROOT / "benchmarks" / "comparison_table.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_stored_answers() -> None:
    answers = [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]
    page = (ROOT / "docs" / "lab" / "comparison.md").read_text(encoding="utf-8")
    assert [one["library"] for one in answers] == [
        *("kdey", "quapy", "mlquantify", "quantificationlib")
    ]
    assert table_module().as_table(answers) in page


def test_a_missing_answer_is_a_dash() -> None:
    answers = [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]
    row = next(
        line
        for line in table_module().as_table(answers).splitlines()
        if line.startswith("| KDEyML: MAE")
    )
    assert row.endswith("| – |")
