"""What is given to the check of prose: sentences, at their lines, and no code."""

from __future__ import annotations

import runpy
from types import SimpleNamespace

import pytest

from tests.documents.pages import ROOT

SCRIPT = ROOT / "scripts" / "prose.py"
if not SCRIPT.exists():
    pytest.skip("scripts are not part of this tree", allow_module_level=True)

PROSE = SimpleNamespace(**runpy.run_path(str(SCRIPT)))
TEXT = """\
# A title

Words with `code` and `code`, a [link](page.md) and 4 4 numbers.
<!-- a comment
of two lines -->
```python
x = 1
```

| a | 0.1 | 0.2 |
| a cell of words | more words |

$$y = x$$
The end.
"""


def test_nothing_but_sentences_is_left() -> None:
    left = PROSE.sentences(TEXT)
    assert left.count("\n") == TEXT.count("\n")
    lines = left.splitlines()
    assert lines[0] == "# A title."
    assert lines[2].startswith("Words with aaaaaa and bbbbbb, a [link")
    assert lines[2].endswith("numbers.")
    assert lines[10] == "| a cell of words | more words |"
    assert lines[13] == "The end."
    for gone in ("comment", "x = 1", "0.1", "code", "page.md", "4"):
        assert gone not in left


def test_docstrings_keep_their_words_and_lose_types_and_examples() -> None:
    docstring = (
        "Do it.\n\nsize : int, default=3\n    Of a bag.\n\nExamples\n--------\n>>> f(1)\n1\n"
    )
    left = PROSE.sentences(docstring)
    assert "Of a bag." in left
    assert "default" not in left
    assert ">>>" not in left


def test_exceptions_need_their_words() -> None:
    assert PROSE.excepted("weasel_words.very", "the share among these very items")
    assert not PROSE.excepted("weasel_words.very", "a very good method")
    assert not PROSE.excepted("cliches", "these very items")


def test_pages_and_docstrings_are_read() -> None:
    names = [name for name, _ in PROSE.pages()]
    assert {"README.md", "docs/index.md", "kdey", "kdey.Quantifier"} <= set(names)
    assert not any("auto_examples" in name or "generated" in name for name in names)


def test_a_wrong_sentence_is_found() -> None:
    pytest.importorskip("proselint", reason="proselint is not installed (extra lint)")
    found = PROSE.findings(
        {"page": "Right.\n\nThe the wrong, of the very items.\n", "other": "Fine.\n"}
    )
    assert [line.split(": ")[0] for line in found] == ["page:3:1"]
