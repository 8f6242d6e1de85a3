"""The harness sees blocks as a reader does, and fails where a page is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents import pages
from tests.documents.pages import Page
from tests.documents.running import assert_prints, run_page

TEXT = """
```python
print(1 + 1)
```

```text
2
```

<!-- not run: needs a cluster of its own -->
```python
1 / 0
```
Some words.
```python
made = print("x", 0.25)
```
So it is:
```text
never printed
```
<!-- needs: no_such_module_anywhere -->
```python
import no_such_module_anywhere
```
"""


def page(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    (folder / "page.md").write_text(text)
    monkeypatch.setattr(pages, "ROOT", folder)
    return Page("page.md")


def test_blocks_and_what_they_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = page(TEXT, tmp_path, monkeypatch)
    assert [one.line for one in made.blocks] == [3, 7, 12, 16, 20, 24]
    assert made.blocks[0].shows == "2\n"
    assert made.blocks[2].not_run == "needs a cluster of its own"
    assert made.blocks[3].shows is None  # words stand between
    session = run_page(made, tmp_path)
    assert session.printed == {3: "2\n", 16: "x 0.25\n"}


@pytest.mark.parametrize(
    "text",
    [
        "```python\n1 / 0\n```\n",
        "```python\nprint(2)\n```\n\n```text\n3\n```\n",
        "```python\nprint('a b')\n```\n\n```text\na c\n```\n",
        "```sh\nexit 3\n```\n",
        "```sh\ncd no-such-folder\necho done\n```\n",
    ],
)
def test_wrong_pages_fail(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((AssertionError, ZeroDivisionError)) as caught:
        run_page(page(text, tmp_path, monkeypatch), tmp_path)
    assert any("page.md:2" in note for note in caught.value.__notes__)


def test_a_command_has_its_own_folder_streams_and_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("click")
    line = "mkdir -p here && cd here && { kdey inspect model 2>../told || echo $?; } | cat"
    made = page(f"```sh\n{line}\ncat ../told\n```\n", tmp_path, monkeypatch)
    printed = run_page(made, tmp_path).printed[2]
    assert printed == "2\nError: model: No such file or directory\n"


def test_a_failure_names_its_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = page("\n\n```python\nx = nothing\n```\n", tmp_path, monkeypatch)
    with pytest.raises(NameError) as caught:
        run_page(wrong, tmp_path)
    assert caught.value.__notes__ == ["in the block at page.md:4"]


def test_numbers_may_differ_a_little_and_words_not() -> None:
    assert_prints("a 0.331 b\n-12 %", "a   0.34 b -12 %")
    for printed in ("a 0.4 b -12 %", "a 0.34 c -12 %", "a 0.34 b 12 %", "a 0.34 b"):
        with pytest.raises((AssertionError, ValueError)):
            assert_prints(printed, "a 0.34 b -12 %")
