"""README.md: what its blocks print and write is what the words around them say."""

from __future__ import annotations

import csv
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tests.documents.pages import ROOT, Block, Page
from tests.documents.running import BASH, Session, run_commands, run_page

for needed in ("click", "rich", "pyarrow", "skops", "jinja2"):
    pytest.importorskip(needed, reason=f"the commands need {needed}")
if BASH is None:
    pytest.skip("the commands are typed into bash", allow_module_level=True)

README = Page("README.md")
DATA = Path(os.environ.get("KDEY_DATA") or ROOT.parent / "shared" / "data")
BEANS = DATA / "uci-multi" / "dry-bean.csv.gz"


def block(mark: str) -> Block:
    """Return the one block of code that holds a text."""
    code = [one for one in README.blocks if one.language in ("python", "sh")]
    (found,) = [one for one in code if mark in one.text]
    return found


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """What all blocks of the README leave behind."""
    return run_page(README, tmp_path_factory.mktemp("readme"))


def test_first_block_shows_what_it_prints() -> None:
    assert "analytic intervals" in str(block("images, digit").shows)


def test_words_about_the_first_answer(session: Session) -> None:
    made = session.names
    estimate, digit = made["q"].estimate(made["X_bag"]), made["digit"][1::2]
    truth = np.bincount(digit[digit < 3], minlength=10) / (digit < 3).sum()
    assert estimate.classify_and_count[3:].sum() == pytest.approx(0.07, abs=0.03)
    assert estimate.estimate[3:].sum() == pytest.approx(0.01, abs=0.015)
    assert (estimate.low[3:] == 0).all()
    assert ((estimate.low <= truth) & (truth <= estimate.high)).all()


def test_later_blocks(session: Session) -> None:
    made = session.names
    assert made["solution"].converged.all()
    adjusted = made["ACC"].from_rates(sensitivity=0.9, specificity=0.95).adjust([0.88, 0.12])
    np.testing.assert_allclose(adjusted, [0.918, 0.082], atol=5e-4)


def test_code_is_that_of_its_picture() -> None:
    script = ROOT / "examples" / "plot_first_answer.py"
    if not script.exists():
        pytest.skip("examples/ is not part of this tree")
    drawn = [line.split("  #")[0] for line in script.read_text(encoding="utf-8").splitlines()]
    lines = block("images, digit").text.split("\n\n")[1].splitlines()
    assert [line for line in lines[:-1] if line.split("  #")[0] not in drawn] == []
    assert (ROOT / "docs" / "figures" / "first-answer.png").exists()


def test_commands_on_digits(session: Session) -> None:
    rows = list(csv.DictReader(session.printed[block("labelled.csv").line].splitlines()))
    assert [row["office"] for row in rows] == ["north"] * 10 + ["south"] * 10
    assert {row["status"] for row in rows} == {"ok"}
    y = load_digits().target
    i = np.arange(len(y))
    kept = (i % 2 == 1) & ((y < 4) | (i % 3 == 0))
    north = (y < 4) ^ (i % 5 == 0)
    for office, here in (("north", north), ("south", ~north)):
        truth = np.bincount(y[kept & here], minlength=10) / (kept & here).sum()
        own = [row for row in rows if row["office"] == office]
        estimate = np.array([float(row["estimate"]) for row in own])
        assert int(own[0]["n"]) == (kept & here).sum()
        np.testing.assert_allclose(estimate, truth, atol=0.04)
    page = (session.folder / "digits.html").read_text(encoding="utf-8")
    assert "north" in page
    assert "2026-01-12" in page


@pytest.mark.slow
@pytest.mark.skipif(not BEANS.exists(), reason=f"no {BEANS.name} in the folder of data")
def test_commands_on_dry_bean(tmp_path: Path) -> None:
    shutil.copy(BEANS, tmp_path)
    printed = run_commands(block("dry-bean.csv.gz"), Session(tmp_path))
    text = (tmp_path / "beans-by-field.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    share = {row["field"]: float(row["estimate"]) for row in rows if row["class"] == "SIRA"}
    assert share["west"] > share["east"] + 0.2  # as the fields were made
    assert (tmp_path / "beans.html").exists()
    assert "method: KDEyML" in printed
