"""docs/troubleshooting.md quotes messages of the source, and names every warning class."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kdey
from tests.documents.pages import Page

SOURCE = Path(kdey.__file__).parent
PAGE = Page("docs/troubleshooting.md")
#: Fields of a message in the source, and what the page writes in their place.
FIELD, DOTS = "\0", "…"
#: Roots of all warnings, and those of other libraries that kdey issues.
OTHERS = {"UserWarning", "ConvergenceWarning"}


def first_cells() -> list[str]:
    """Return the first cell of every line of the page's tables, without the headings."""
    lines = [line for line in PAGE.text.splitlines() if line.startswith("| `")]
    return [line.split(" | ")[0].removeprefix("| ") for line in lines]


def quoted_messages() -> list[str]:
    """Return the message of every line: the last text in backquotes of its first cell."""
    return [re.findall(r"`([^`]+)`", cell)[-1] for cell in first_cells()]


def texts(tree: ast.AST) -> Iterator[str]:
    """Return all texts of a file; those with fields have a mark in the place of each."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else FIELD for part in node.values
            )


def holds(text: str, message: str) -> bool:
    """Return whether a text of the source has the parts of a message in this order."""
    start = 0
    for part in message.split(DOTS):
        start = text.find(part.strip(), start)
        if start < 0:
            return False
    return True


@pytest.fixture(scope="module")
def sources() -> dict[Path, str]:
    """Return the text of every file of the package."""
    return {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}


def test_every_message_is_in_the_source(sources: dict[Path, str]) -> None:
    written = {
        text
        for source in sources.values()
        if "raise " in source or "warn" in source or "return f" in source
        for text in texts(ast.parse(source))
        if " " in text and "\n" not in text  # words, and no docstrings of several lines
    }
    missing = [m for m in quoted_messages() if not any(holds(text, m) for text in written)]
    assert missing == []
    assert len(quoted_messages()) > 40


def test_every_warning_class_has_a_line(sources: dict[Path, str]) -> None:
    defined = {
        name
        for source in sources.values()
        for name in re.findall(r"^class (\w+Warning)\(", source, re.M)
    }
    named = {re.findall(r"`(\w+Warning)`", cell)[0] for cell in first_cells() if "Warning`" in cell}
    assert named - OTHERS == defined


def test_the_search_for_messages_can_fail() -> None:
    assert holds(f"class {FIELD} has one", "class … has one")
    assert not holds(f"class {FIELD} has two", "class … has one")
