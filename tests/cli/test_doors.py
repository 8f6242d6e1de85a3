"""Errors name the door through which the user came: parameters in Python, options in a shell."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import kdey
from kdey.cli.terminal import in_options

SOURCE = Path(kdey.__file__).parent


def texts_of(path: Path) -> list[str]:
    """Return the texts of a file that are not its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
    ]


def test_only_the_command_line_names_its_options() -> None:
    named = [
        f"{path.relative_to(SOURCE)}: {text}"
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] != "cli"
        for text in texts_of(path)
        # What a message tells the user to run in a shell is written as it is run.
        if re.search(r"(?<![\w-])--[a-z]", text) and not re.search(r"kdey |FILE|pip", text)
    ]
    assert named == []


@pytest.mark.parametrize(
    ("in_python", "in_a_shell"),
    [
        ("say so (new_model=True): then", "say so (--new-model): then"),
        ("name it, too (by=)", "name it, too (--by)"),
        ("as text (key_types={'a b': 'text'})", "as text (--key-type 'a b=text')"),
        ("leave it out (roles={'c': 'ignored'})", "leave it out (--ignore c)"),
        ("say types={'c': 'date'}", "say --type c=date"),
        ("name a period (every='1w')", "name a period (--every 1w)"),
        ("such as date_format='excel'", "such as --date-format excel"),
        ("the period=3 stays", "the period=3 stays"),
    ],
)
def test_options_take_the_place_of_parameters(in_python: str, in_a_shell: str) -> None:
    assert in_options(in_python) == in_a_shell
