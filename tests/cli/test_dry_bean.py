"""The commands on a data set of the paper, where it is there."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.real_data import DATA, needs_data

from .cases import run, write

BEANS = "uci-multi/dry-bean.csv.gz"


@pytest.mark.slow
@needs_data(BEANS)
def test_shares_by_field_are_found(tmp_path: Path) -> None:
    with gzip.open(DATA / BEANS, "rt", encoding="utf-8", newline="") as stream:
        beans = list(csv.DictReader(stream))
    known = write(tmp_path / "known.csv", beans[::2])
    rng = np.random.default_rng(0)
    west = [rng.random() < (0.8 if bean["label"] == "SIRA" else 0.3) for bean in beans[1::2]]
    fields = [
        {"field": "west" if here else "east", **bean}
        for here, bean in zip(west, beans[1::2], strict=True)
    ]
    new = write(tmp_path / "fields.csv", fields)
    model, table, page = (tmp_path / name for name in ("beans.kdey", "by-field.csv", "beans.html"))
    method = ("--method", "kdey-ml", "--classifier", "extra-trees")
    commands = (
        ("fit", known, "--label", "label", *method, "-o", model),
        ("estimate", model, new, "--by", "field", "-o", table),
        ("report", model, new, "--by", "field", "--label", "label", "-o", page),
        ("evaluate", known, "--label", "label", "--methods", "kdey-ml,emq,cc", "--bags", "50"),
    )
    for command in commands:
        result = run(*command)
        assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    for field in ("west", "east"):
        labels = [row["label"] for row in fields if row["field"] == field]
        truth = labels.count("SIRA") / len(labels)
        (row,) = [row for row in rows if (row["field"], row["class"]) == (field, "SIRA")]
        assert float(row["estimate"]) == pytest.approx(truth, abs=0.05)
    assert page.exists()
    assert "method: KDEyML" in run("inspect", model).output
