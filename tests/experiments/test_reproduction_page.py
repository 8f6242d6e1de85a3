"""docs/lab/reproduction.md has the mean errors of the committed results."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from experiments.results import read_results
from experiments.scores import gather
from experiments.settings import METRICS

ROOT = Path(__file__).parents[2]
if not (ROOT / "results").exists():
    pytest.skip("results are not part of this tree", allow_module_level=True)


@pytest.mark.parametrize("experiment", ["multi", "binary"])
def test_mean_errors_are_those_of_the_results(experiment: str) -> None:
    page = (ROOT / "docs" / "lab" / "reproduction.md").read_text(encoding="utf-8")
    start, end = f"<!-- tables: {experiment} -->", f"<!-- end of tables: {experiment} -->"
    shown = set(re.findall(r"\d+\.\d{5}", page[page.index(start) : page.index(end)]))
    stored = read_results(ROOT / "results" / f"{experiment}.jsonl")
    for metric in METRICS:
        means = gather(stored, experiment, metric).means()
        means = means[~np.isnan(means)]
        assert len(means) > 50
        missing = [f"{mean:.5f}" for mean in means if f"{mean:.5f}" not in shown]
        assert missing == [], "run python -m experiments tables --document docs/lab/reproduction.md"
