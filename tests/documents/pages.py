"""The pages of the repository and the fenced blocks in them.

A ``text`` block right after a block of code shows what that one prints, unless a comment between
them says that it varies. A comment on the line before a fence says what to do with the block:

* ``<!-- not run: why -->``: it cannot run here (a cluster, an index, hours);
* ``<!-- needs: module -->``: it runs where that module is installed, with its warnings ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: What is written by the build of the site.
MADE = ("docs/auto_examples", "docs/api/generated", "docs/lab/generated")
FENCE = re.compile(
    r"(?:^<!-- (?P<word>not run|needs): (?P<rest>[^\n]*?) -->\n)?"
    r"^(?P<ticks>`{3,})(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=ticks)$",
    re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    """One fenced block: where it stands, what it holds, what is shown as its output."""

    page: str
    line: int
    language: str
    text: str
    not_run: str | None = None
    needs: str | None = None
    shows: str | None = None

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
        found = list(FENCE.finditer(self.text))
        return [self._block(one, after) for one, after in zip_longest(found, found[1:])]

    @property
    def code(self) -> list[Block]:
        """The blocks to run."""
        return [one for one in self.blocks if one.language in ("python", "sh") and not one.not_run]

    def _block(self, found: re.Match[str], after: re.Match[str] | None) -> Block:
        said = {found["word"]: found["rest"]} if found["word"] else {}
        line = self.text.count("\n", 0, found.start("text")) + 1
        return Block(
            self.name,
            line,
            found["language"].strip(),
            found["text"],
            said.get("not run"),
            said.get("needs"),
            self._shown(found, after),
        )

    def _shown(self, found: re.Match[str], after: re.Match[str] | None) -> str | None:
        """Return what the block after ``found`` shows, where nothing but space parts them."""
        if after is None or after["language"] != "text" or found["language"] == "text":
            return None
        between = self.text[found.end() : after.start()]
        return None if between.strip() else after["text"]


def all_pages() -> list[Page]:
    """Return every page of the repository that a reader may copy code from."""
    paths = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    paths += [ROOT / folder / "README.md" for folder in ("examples", "benchmarks")]
    names = sorted(path.relative_to(ROOT).as_posix() for path in paths if path.exists())
    return [Page(name) for name in names if not name.startswith(MADE)]
