"""The scripts that compare two trees and count what one holds."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
if not (SCRIPTS / "weight.py").exists():
    pytest.skip("scripts are not part of this tree", allow_module_level=True)


def load(name: str) -> SimpleNamespace:
    """Return what a script defines."""
    return SimpleNamespace(**runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name=name))


@pytest.fixture(scope="module")
def trees() -> SimpleNamespace:
    return load("compare_trees")


OPTIONS = SimpleNamespace(tolerance=1e-10, ignore_texts=False, wording=())


def case(*numbers: float, texts: tuple[str, ...] = (), error: str = "") -> Any:
    return np.array(numbers), list(texts), error


@pytest.mark.parametrize(
    ("old", "new", "ok"),
    [
        (case(1.0, np.nan), case(1.0 + 1e-12, np.nan), True),
        (case(1.0), case(1.0 + 1e-9), False),
        (case(1.0), case(1.0, 2.0), False),
        (case(texts=("a",)), case(texts=("b",)), False),
        (case(error="ValueError: a"), case(error="ValueError: b"), True),
        (case(error="ValueError: a"), case(error="RuntimeError: a"), False),
        (case(error="ValueError: a"), case(1.0), False),
        (case(error="AttributeError: no APP"), case(error="AttributeError: no APP"), False),
        (case(error="TypeError: no option"), case(error="TypeError: no option"), False),
    ],
)
def test_what_agrees(trees: SimpleNamespace, old: Any, new: Any, ok: bool) -> None:
    assert trees.compare("part", "case", old, new, OPTIONS).ok is ok


def test_intended_changes_cover_what_they_say(trees: SimpleNamespace) -> None:
    near = trees.compare("groups", "ACC [limits]", case(1.0), case(1.01), OPTIONS)
    gone = trees.compare("groups", "ACC", case(1.0), case(error="ImportError: no"), OPTIONS)
    within = trees.Intended("groups: .*", "a reason", tolerance=0.05)
    removed = trees.Intended("groups: .*", "a reason", refused="new")
    assert within.covers(near)
    assert not within.covers(gone)
    assert removed.covers(gone)
    assert not removed.covers(near)
    assert not trees.Intended("groups: ACC", "a reason", tolerance=1.0).covers(near)


def test_every_intended_change_has_a_reason(trees: SimpleNamespace) -> None:
    assert all(len(one.reason) > 10 for one in trees.read_intended())


def test_lines_of_code_leave_out_words(tmp_path: Path) -> None:
    text = '''"""A file."""

import os  # one
from dataclasses import dataclass


@dataclass
class A:
    """A class."""

    x: int = 0

    def f(self, a, *, b=os):
        """Two
        lines.
        """
        # nothing
        return """text
        that counts"""
'''
    (tmp_path / "a.py").write_text(text)
    found = load("weight").Source.read(tmp_path / "a.py")
    assert (found.code, found.imports) == (8, 2)
    assert found.classes == found.dataclasses == ["A"]
    assert found.parameters == [2]
