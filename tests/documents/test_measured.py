"""Numbers of the pages are those of the results they name, and measured numbers name some."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.documents.pages import ROOT, Page, all_pages

SCRIPT = ROOT / "scripts" / "measured.py"
if not (SCRIPT.exists() and (ROOT / "benchmarks" / "results").exists()):
    pytest.skip("scripts or results are not part of this tree", allow_module_level=True)

MEASURED = SimpleNamespace(**runpy.run_path(str(SCRIPT)))
MARKED = [page for page in all_pages() if re.search(r"^<!-- (measured|numbers):", page.text, re.M)]
#: Pages on which every number with decimals, in a table or in a sentence, names its results.
STRICT = (
    *("README.md", "docs/index.md", "docs/evidence.md"),
    *("docs/lab/several-classifiers.md", "docs/lab/coverage.md", "docs/labels.md"),
)
#: Pages whose tables of measurements another test compares with stored results.
ELSEWHERE = {
    "docs/lab/benchmarks.md": "tests/packaging/test_benchmarks_page.py",
    "docs/lab/comparison.md": "tests/interop/test_comparison_page.py",
    "docs/lab/reproduction.md": "tests/experiments/test_reproduction_page.py",
}
#: Folders of pages that record what was so on a day.
RECORDS = (
    *("docs/lab/decisions/", "docs/lab/project/", "CHANGELOG.md"),
    *("docs/lab/release.md", "docs/lab/gpu-log.md", "docs/lab/hardening.md"),
)
TABLE = re.compile(r"(?P<before>^[^\n]*\n)?(?P<table>(?:^\|.*\n)+)", re.M)
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?!\w|\.\d)")


@pytest.mark.parametrize("page", MARKED, ids=lambda page: page.name)
def test_numbers_are_those_of_the_results(page: Page) -> None:
    assert [str(fault) for fault in MEASURED.faults(ROOT / page.name)] == []


def test_the_pages_with_headlines_are_marked() -> None:
    assert {page.name for page in MARKED} >= {"docs/index.md", "docs/evidence.md"}
    assert all((ROOT / test).exists() for test in ELSEWHERE.values())


def test_tables_of_measurements_name_their_results() -> None:
    pages = [page for page in all_pages() if page.name not in ELSEWHERE]
    found = {
        page.name: unmarked_tables(page.text) for page in pages if not page.name.startswith(RECORDS)
    }
    assert len(found) > 30
    assert {name: tables for name, tables in found.items() if tables} == {}


@pytest.mark.parametrize("name", STRICT)
def test_numbers_in_sentences_name_their_results(name: str) -> None:
    assert unlisted_numbers(Page(name).text) == []


def unmarked_tables(text: str) -> list[str]:
    """Return the first lines of tables with several decimals that name no results."""
    text = MEASURED.BLOCK.sub("", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    found = []
    for match in TABLE.finditer(text):
        marked = (match["before"] or "").rstrip().endswith("-->")
        decimals = DECIMAL.findall(re.sub(r"`[^`\n]*`", "", match["table"]))
        if not marked and len(decimals) > 2:
            found.append(match["table"].splitlines()[0])
    return found


def unlisted_numbers(text: str) -> list[str]:
    """Return the numbers with decimals that no comment lists; code and versions do not count."""
    text = MEASURED.BLOCK.sub("", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    for listed in list(MEASURED.LIST.finditer(text)):
        rest = listed["text"]
        for written, _ in MEASURED.entries(listed["entries"]):
            rest = re.sub(rf"(?<![\d.,]){re.escape(written)}(?![\d]|[.,]\d)", "", rest)
        text = text.replace(listed[0], rest)
    text = re.sub(r"^<!-- fixed: [^\n]*-->\n.*?(?=^\s*$|\Z)", "", text, flags=re.M | re.S)
    text = re.sub(r"`[^`\n]*`|\]\([^)]*\)|(?:Python|QuaPy|arXiv) \d[\d.]*", "", text)
    return DECIMAL.findall(text)


# ------------------------------------------------------------------------ the check itself

PRINTED = """\
Two threads are 1.71 times as fast as one.

| way | case | error | time  |
| --- | ---- | ----- | ----- |
| a   | x    | 0.123 | 2,500 |
| a   | y    | 0.25  | 10 / 30 |
| b   | x    | 0.5   |       |

| way | case | error | time  |
| --- | ---- | ----- | ----- |
| c   | x    | 0.001 | 1     |
"""


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one stored section in the place of the repository."""
    names = MEASURED.faults.__globals__
    monkeypatch.setitem(names, "ROOT", tmp_path)
    monkeypatch.setitem(names, "SECTIONS", tmp_path)
    stored = {"printed": PRINTED, "list": [{"share": 0.25}]}
    (tmp_path / "sample.json").write_text(json.dumps(stored))
    MEASURED.printed.cache_clear()
    return tmp_path


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("section sample | table 1 | a / x | error", 0.123),
        ("section sample | table 1 | b | error", 0.5),
        ("section sample | table 1 | a / y | time [2]", 30.0),
        ("section sample | table 1 | a / x | time", 2500.0),
        ("section sample | table 1 | a / x | ti* * 0.001", 2.5),
        ("section sample | table 1 | a / y | time : error", 40.0),
        ("section sample | table 1 | lowest | error", 0.123),
        ("section sample | table 1+2 | lowest | error", 0.001),
        ("section sample | table 1 | count | error", 3.0),
        ('section sample | "Two threads are # times"', 1.71),
        ("sample.json | list.0.share", 0.25),
    ],
)
def test_places(results: Path, place: str, value: float) -> None:
    assert MEASURED.value_at(place) == pytest.approx(value)


@pytest.mark.parametrize(
    "place",
    [
        "section sample | table 3 | a | error",
        "section sample | table 1 | a | error",  # two rows
        "section sample | table 1 | b | speed",
        "section sample | table 1 | b | time",  # an empty cell
        'section sample | "Three threads are # times"',
        'section sample | "no hole"',
        "section sample | table 1",
        "nothing.py --table | table 1 | a | error",
    ],
)
def test_places_that_lead_nowhere_are_refused(results: Path, place: str) -> None:
    with pytest.raises(MEASURED.MeasuredError):
        MEASURED.value_at(place)


def test_a_script_that_fails_is_named(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURED.faults.__globals__, "BENCHMARKS", results)
    (results / "broken.py").write_text("{}['absent']\n")
    with pytest.raises(MEASURED.MeasuredError, match=r"broken.py --table fails with KeyError"):
        MEASURED.value_at("broken.py --table | table 1 | a | b")


TEXT = """\
<!-- numbers:
{0} section sample | table 1 | b | error
{1} section sample | table 1 | a / x | time
-->
The error of b is {0}, and a takes {1} seconds; 0.55 is not listed.

<!-- measured: section sample | table 2 -->
{2}<!-- end -->
"""
ROWS = "\n" + "\n".join(PRINTED.splitlines()[-3:]) + "\n\n"


def test_stale_numbers_are_found_and_rewritten(results: Path) -> None:
    fresh = TEXT.format("0.500", "2,500", ROWS)
    stale = TEXT.format("0.400", "2,400", "\n| way |\n\n")
    (results / "page.md").write_text(fresh)
    assert MEASURED.faults(results / "page.md") == []
    (results / "page.md").write_text(stale)
    lines = [str(fault) for fault in MEASURED.faults(results / "page.md")]
    assert len(lines) == 3
    assert lines[1].startswith("page.md:1: 0.400 is written, 0.500 (section sample")
    assert MEASURED.rewritten(stale) == fresh


def test_a_number_that_is_not_in_its_paragraph_is_a_fault(results: Path) -> None:
    text = "<!-- numbers:\n0.5 section sample | table 1 | b | error\n-->\nNo number here.\n"
    (results / "page.md").write_text(text)
    assert [fault.written for fault in MEASURED.faults(results / "page.md")] == ["no such number"]


def test_what_leads_nowhere_stays_as_it_is_and_the_rest_is_rewritten(results: Path) -> None:
    text = (
        "<!-- numbers:\n0.7 section sample | table 1 | b | error\n"
        "0.8 section sample | table 9 | b | error\n-->\nFrom 0.7 to 0.8.\n\n"
        "<!-- measured: section sample | table 9 -->\n| old |\n<!-- end -->\n"
    )
    new = MEASURED.rewritten(text)
    assert "From 0.5 to 0.8." in new
    assert "| old |" in new


def test_equal_numbers_are_told_apart_by_their_order(results: Path) -> None:
    text = (
        "<!-- numbers:\n0.7 section sample | table 1 | b | error\n"
        "0.7 section sample | table 1 | a / x | error\n-->\nFrom 0.7 to 0.7.\n"
    )
    assert MEASURED.rewritten(text).endswith("-->\nFrom 0.5 to 0.1.\n")


@pytest.mark.parametrize(
    ("example", "value", "text"),
    [
        ("0.12", 0.127, "0.13"),
        ("7", 8.2, "8"),
        ("1,000", 12345.6, "12,346"),
        ("6.8e-9", 7.23e-9, "7.2e-9"),
        ("6.8e-09", 7.23e-9, "7.2e-09"),
        ("1.53e+12", 2e12, "2.00e+12"),
    ],
)
def test_numbers_are_written_as_before(example: str, value: float, text: str) -> None:
    assert MEASURED.written_like(example, value) == text


def test_unmarked_numbers_are_found() -> None:
    table = "\n| a | b |\n|---|---|\n| 0.1 | 0.2 |\n| 0.3 | 0.4 |\n"
    assert unmarked_tables(table) == ["| a | b |"]
    assert unmarked_tables(f"<!-- fixed: published -->{table}") == []
    assert unlisted_numbers("An error of 0.123 with QuaPy 0.2.3 and `h=0.1`.\n") == ["0.123"]
    assert unlisted_numbers("<!-- fixed: a setting -->\nA level of 0.05.\n\nAnd 0.7.\n") == ["0.7"]
