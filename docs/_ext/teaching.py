"""The order of the gallery: that of the lists in ``examples/README.md``, for reading one by one."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[2] / "examples" / "README.md"


def taught_order(name: str) -> int:
    """Return the place of an example, named by its file, in the lists; raises if it has none."""
    return listed(README.read_text(encoding="utf-8")).index(name)


def listed(text: str) -> list[str]:
    """Return the files of the examples in the order of a page's tables."""
    return re.findall(r"^\| `(plot_\w+\.py)` \|", text, re.MULTILINE)
