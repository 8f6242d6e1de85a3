"""The code in README.md and CONTRIBUTING.md runs as printed."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kdey import check_quantifier

ROOT = Path(__file__).parents[1]


def blocks(name: str, language: str = "python") -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


@pytest.fixture(scope="module")
def first_screen() -> tuple[dict[str, Any], str]:
    """What the README's first block leaves behind, and what it prints."""
    made: dict[str, Any] = {}
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(blocks("README.md")[0], "README.md", "exec"), made)
    return made, printed.getvalue()


def test_readme_blocks_run_in_order(
    first_screen: tuple[dict[str, Any], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some of them write files
    namespace = dict(first_screen[0])
    q, X_bag = namespace["q"], namespace["X_bag"]
    bags = [np.random.default_rng(0).integers(len(X_bag), size=40) for _ in range(3)]
    namespace |= {"X_pool": X_bag, "bags": bags}
    namespace |= {"P": q.training_.posteriors, "P_bag": q.classifier_.predict_proba(X_bag)}
    found = blocks("README.md")[1:]
    assert len(found) >= 3
    for block in found:
        exec(compile(block, "README.md", "exec"), namespace)
    assert namespace["solution"].converged.all()


def test_readme_prints_what_it_shows(first_screen: tuple[dict[str, Any], str]) -> None:
    (shown,) = blocks("README.md", "text")
    head, *rows = shown.strip().splitlines()
    own_head, *own_rows = first_screen[1].strip().splitlines()
    assert [own_head, own_rows[0]] == [head, rows[0]]
    numbers = [np.array([row.split() for row in lines[1:]], float) for lines in (rows, own_rows)]
    # Other builds of the numerical libraries end their fits a little elsewhere.
    np.testing.assert_allclose(numbers[1], numbers[0], atol=0.02)


def test_readme_words_about_the_first_answer(first_screen: tuple[dict[str, Any], str]) -> None:
    made = first_screen[0]
    estimate = made["q"].estimate(made["X_bag"])
    labels = made["digit"][1::2][made["digit"][1::2] < 3]
    truth = np.bincount(labels, minlength=10) / len(labels)
    assert estimate.classify_and_count[3:].sum() == pytest.approx(0.11, abs=0.03)
    assert estimate.estimate[3:].sum() == pytest.approx(0.03, abs=0.02)
    assert (estimate.low[3:] == 0).all()
    assert ((estimate.low <= truth) & (truth <= estimate.high)).all()


def test_readme_code_is_that_of_its_picture() -> None:
    script = ROOT / "examples" / "plot_first_answer.py"
    if not script.exists():
        pytest.skip("examples/ is not part of this tree")
    drawn = [line.split("  #")[0] for line in script.read_text(encoding="utf-8").splitlines()]
    lines = blocks("README.md")[0].split("\n\n")[1].splitlines()
    missing = [line for line in lines[:-1] if line.split("  #")[0] not in drawn]
    assert missing == []
    assert (ROOT / "docs" / "figures" / "first-answer.png").exists()


def test_links_of_the_documents_lead_somewhere() -> None:
    for name in ("README.md", "examples/README.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
        gone = [link for link in links if not ((ROOT / name).parent / link).exists()]
        assert gone == [], name


def test_contributing_quantifier_passes_the_checks() -> None:
    (block,) = blocks("CONTRIBUTING.md")
    made: dict[str, Any] = {"__name__": "contributed"}
    exec(compile(block, "CONTRIBUTING.md", "exec"), made)
    # Pickling needs a class to be found under its module's name.
    import sys
    import types

    module = types.ModuleType("contributed")
    module.__dict__.update(made)
    sys.modules["contributed"] = module
    try:
        check_quantifier(made["SquaredPACC"](cv=3))
    finally:
        del sys.modules["contributed"]


def test_readme_claim_of_adjusted_prevalence() -> None:
    from kdey import ACC

    adjusted = ACC.from_rates(sensitivity=0.9, specificity=0.95).adjust([0.88, 0.12])
    np.testing.assert_allclose(adjusted, [0.918, 0.082], atol=5e-4)
