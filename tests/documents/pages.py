"""The pages of the repository and the fenced blocks in them.

A comment on the line before a fence says what to do with the block:

* ``<!-- not run: why -->``: it cannot run here (a cluster, an index, hours);
* ``<!-- needs: module -->``: it runs where that module is installed, with its warnings ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: What is written by the build of the site.
MADE = ("docs/auto_examples", "docs/api/generated")
FENCE = re.compile(
    r"(?:^<!-- (?P<word>not run|needs): (?P<rest>[^\n]*?) -->\n)?"
    r"^(?P<ticks>`{3,})(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=ticks)$",
    re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    """One fenced block: where it stands, what it holds, and why it is not run if it is not."""

    page: str
    line: int
    language: str
    text: str
    not_run: str | None = None
    needs: str | None = None

    @property
    def where(self) -> str:
        """The page and the line of the block's first line of code."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Page:
    """A Markdown page, named by its path in the repository."""

    name: str

    @cached_property
    def text(self) -> str:
        """What the page holds."""
        return (ROOT / self.name).read_text(encoding="utf-8")

    @cached_property
    def blocks(self) -> list[Block]:
        """All fenced blocks, in order."""
        return [self._block(found) for found in FENCE.finditer(self.text)]

    @property
    def code(self) -> list[Block]:
        """The blocks to run."""
        return [one for one in self.blocks if one.language in ("python", "sh") and not one.not_run]

    def _block(self, found: re.Match[str]) -> Block:
        said = {found["word"]: found["rest"]} if found["word"] else {}
        line = self.text.count("\n", 0, found.start("text")) + 1
        language = found["language"].strip()
        return Block(
            self.name, line, language, found["text"], said.get("not run"), said.get("needs")
        )


def all_pages() -> list[Page]:
    """Return every page of the repository that a reader may copy code from."""
    paths = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    paths += [ROOT / folder / "README.md" for folder in ("examples", "benchmarks")]
    names = sorted(path.relative_to(ROOT).as_posix() for path in paths if path.exists())
    return [Page(name) for name in names if not name.startswith(MADE)]
