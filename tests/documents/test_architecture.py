"""ARCHITECTURE.md: what it says is in a file is there."""

from __future__ import annotations

import ast
import re

from tests.documents.pages import ROOT, Page

#: "`KernelSpec.fit` (`rows/references.py`)", also over the end of a line.
PLACED = re.compile(r"`([A-Za-z_][\w.]*)`\s+\(`([\w/]+\.py)`\)")


def defined(path: str) -> set[str]:
    """Return the functions and classes of a module, methods as ``Class.method``."""
    tree = ast.parse((ROOT / "src" / "kdey" / path).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.ClassDef)
    names = {node.name for node in tree.body if isinstance(node, kinds)}
    for owner in tree.body:
        if isinstance(owner, ast.ClassDef):
            names |= {f"{owner.name}.{node.name}" for node in owner.body if isinstance(node, kinds)}
    return names


def test_names_are_where_the_journey_says() -> None:
    placed = PLACED.findall(Page("ARCHITECTURE.md").text)
    assert len(placed) > 15
    wrong = [f"{name} is not in {path}" for name, path in placed if name not in defined(path)]
    assert wrong == []


def test_every_problem_and_solver_of_the_table_exists() -> None:
    table = Page("ARCHITECTURE.md").text.split("| method |")[1].split("\n\n")[0]
    files = sorted((ROOT / "src" / "kdey" / "matching").glob("*.py"))
    known = {name for file in files for name in defined(f"matching/{file.name}")}
    names = set(re.findall(r"`(\w+)`", table))
    assert len(names) > 12
    assert names <= known
