"""Numbers that the method guide quotes stand in the pages they name.

A line of a table with a link in its last cell quotes: every number beside the link, or where there
is nothing beside it in the cell before, must be found in the file behind the link, or, for a
script, in what it prints.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SCRIPT = ROOT / "benchmarks" / "which_method.py"
NUMBER = re.compile(r"\d[\d,]*\.?\d*")


def quotes(page: str) -> list[tuple[str, Path]]:
    """Return the evidence of each line of a page's tables, with the file that it comes from."""
    found = []
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        *_, before, last = ["", "", *line.strip("|").split("|")]
        link = re.search(r"\]\(([^)#]+)\)", last)
        if line.startswith("|") and link:
            beside = re.sub(r"\(?\[[^]]*\]\([^)]*\)\)?", "", last).strip()
            found.append((beside or before, (DOCS / page).parent.joinpath(link[1]).resolve()))
    return found


def numbers(text: str) -> set[str]:
    """Return the numbers of a text that a run may change: those of three signs or more."""
    return {n.rstrip(".,") for n in NUMBER.findall(text) if len(n.rstrip(".,")) >= 3}


def test_evidence_stands_where_it_is_said_to_stand() -> None:
    quoted = [pair for pair in quotes("lab/methods.md") if pair[1].suffix == ".md"]
    assert len(quoted) >= 4
    for evidence, file in quoted:
        there = numbers(file.read_text(encoding="utf-8"))
        assert numbers(evidence) <= there, f"{evidence} is not in {file.name}"


def test_guide_quotes_what_its_script_prints(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if not (SCRIPT.exists() and (ROOT / "results").exists()):
        pytest.skip("benchmarks/ and results/ are not part of this tree")
    pytest.importorskip("matplotlib", reason="extra plot is not installed")
    made = runpy.run_path(str(SCRIPT))
    made["main"](tmp_path)
    printed = numbers(capsys.readouterr().out)
    quoted = [evidence for evidence, file in quotes("lab/methods.md") if file == SCRIPT]
    assert len(quoted) >= 3
    for evidence in quoted:
        assert numbers(evidence) <= printed | {"500"}, evidence
    text = (DOCS / "lab/methods.md").read_text(encoding="utf-8")
    words = text[text.index("## What our runs say") : text.index("## Every method")]
    ratios = set(re.findall(r"\b[1-9]\.\d\d\b", words))
    assert len(ratios) >= 8
    assert ratios <= printed
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "which-classifier.png",
        "which-method.png",
    ]
