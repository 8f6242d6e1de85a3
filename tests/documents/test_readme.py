"""README.md: what its blocks print and write is what the words around them say."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest

from kdey.cli.data_commands import demo_forms
from tests.documents.pages import ROOT, Block, Page
from tests.documents.running import BASH, Session, run_page

for needed in ("click", "rich", "pyarrow", "skops", "jinja2"):
    pytest.importorskip(needed, reason=f"the commands need {needed}")
if BASH is None:
    pytest.skip("the commands are typed into bash", allow_module_level=True)

README = Page("README.md")


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


def test_code_is_that_of_its_picture() -> None:
    script = ROOT / "examples" / "plot_first_answer.py"
    if not script.exists():
        pytest.skip("examples/ is not part of this tree")
    drawn = [line.split("  #")[0] for line in script.read_text(encoding="utf-8").splitlines()]
    lines = block("images, digit").text.split("\n\n")[1].splitlines()
    assert [line for line in lines[:-1] if line.split("  #")[0] not in drawn] == []
    assert (ROOT / "docs" / "figures" / "first-answer.png").exists()


def test_commands_on_the_tables_of_the_demonstration(session: Session) -> None:
    printed = session.printed[block("forms/labelled.csv").line]
    table = printed[printed.index("office,class,") :]
    rows = list(csv.DictReader(table.splitlines()))
    assert [row["office"] for row in rows] == ["north"] * 10 + ["south"] * 10
    assert {row["status"] for row in rows} == {"no problem found"}
    forms = demo_forms()
    for office in ("north", "south"):
        digits = forms["digits"][forms["new"] & (forms["offices"] == office)]
        truth = np.bincount(digits, minlength=10) / len(digits)
        own = [row for row in rows if row["office"] == office]
        estimate = np.array([float(row["estimate"]) for row in own])
        assert int(own[0]["n"]) == len(digits)
        np.testing.assert_allclose(estimate, truth, atol=0.05)
    page = (session.folder / "forms.html").read_text(encoding="utf-8")
    assert "north" in page
    assert "week 3 of 2026" in page


def test_the_page_fits_on_a_screen_or_two() -> None:
    assert len(README.text.splitlines()) <= 90
    assert "<<" not in README.text
    assert "awk" not in README.text


def test_the_home_page_has_the_same_first_answer() -> None:
    (home,) = [one for one in Page("docs/index.md").blocks if one.language == "python"]
    readme = block("images, digit")
    assert (home.text, home.shows) == (readme.text, readme.shows)


def test_the_paper_has_a_reference_for_every_citation() -> None:
    text = (ROOT / "paper.md").read_text(encoding="utf-8")
    entries = re.findall(r"^@\w+\{(\w+),$", (ROOT / "paper.bib").read_text(encoding="utf-8"), re.M)
    assert set(re.findall(r"@(\w+)", text)) == set(entries)
