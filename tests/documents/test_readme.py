"""README.md: what its blocks print and write is what the words around them say."""

from __future__ import annotations

import csv
import re
import runpy
from types import SimpleNamespace

import pytest

from kdey.datasets import load_beans
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


def test_first_answer_shows_what_it_prints() -> None:
    assert "analytic intervals" in str(block("load_beans").shows)


def test_words_about_the_first_answer(session: Session) -> None:
    made = session.names
    lake = made["new"]["supplier"] == "lake"
    truth = made["known"]["variety"][lake].value_counts(normalize=True)["seker"]
    estimate = made["q"].estimate(made["new"][lake])
    seker = list(estimate.classes).index("seker")
    assert truth == 0.8
    assert estimate.classify_and_count[seker] == pytest.approx(0.61, abs=0.02)
    assert estimate.low[seker] == pytest.approx(0.74, abs=0.02)
    assert estimate.high[seker] == pytest.approx(0.83, abs=0.02)
    for words in ("61 % of the variety *seker*", "80 % is\nright", "74 to 83 %"):
        assert words in README.text


def test_code_is_that_of_its_picture() -> None:
    script = ROOT / "examples" / "plot_first_answer.py"
    if not script.exists():
        pytest.skip("examples/ is not part of this tree")
    drawn = script.read_text(encoding="utf-8").splitlines()
    lines = block("load_beans").text.split("\n\n")[1].splitlines()
    assert [line for line in lines[:-1] if line not in drawn] == []
    assert (ROOT / "docs" / "figures" / "first-answer.png").exists()


def test_commands_on_the_tables_of_the_demonstration(session: Session) -> None:
    page = (session.folder / "beans.html").read_text(encoding="utf-8")
    assert "lake" in page
    assert "August 2026" in page
    printed = session.printed[block("kdey audit").line]
    shares = {row["class"]: row for row in csv.DictReader(printed.splitlines())}
    for name, truth in load_beans()[2]["variety"].value_counts(normalize=True).items():
        assert float(shares[name]["low"]) <= truth <= float(shares[name]["high"])
    assert len((session.folder / "next.csv").read_text(encoding="utf-8").splitlines()) > 10


def test_badges_are_those_of_the_project() -> None:
    made = SimpleNamespace(**runpy.run_path(str(ROOT / "scripts" / "badges.py"))).badges()
    assert len(made) == 3
    for name, text in made.items():
        assert (ROOT / "docs" / "figures" / name).read_text(encoding="utf-8") == text
        assert f"docs/figures/{name}" in README.text


def test_the_page_fits_on_a_screen_or_two() -> None:
    assert len(README.text.splitlines()) <= 90
    assert "<<" not in README.text
    assert "awk" not in README.text


def test_the_home_page_has_the_same_first_answer() -> None:
    (home,) = [one for one in Page("docs/index.md").blocks if one.language == "python"]
    readme = block("load_beans")
    assert (home.text, home.shows) == (readme.text, readme.shows)


def test_the_paper_has_a_reference_for_every_citation() -> None:
    text = (ROOT / "paper.md").read_text(encoding="utf-8")
    entries = re.findall(r"^@\w+\{(\w+),$", (ROOT / "paper.bib").read_text(encoding="utf-8"), re.M)
    assert set(re.findall(r"@(\w+)", text)) == set(entries)
