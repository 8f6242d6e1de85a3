"""The order of the examples: that of the lists in ``examples/README.md``."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[2] / "examples" / "README.md"


def taught_order(file: str) -> int:
    """Return the place of an example, given its file, in the lists; raises if it has none."""
    return listed(README.read_text(encoding="utf-8")).index(Path(file).name)


def listed(text: str) -> list[str]:
    """Return the files of the examples in the order of a page's tables."""
    return re.findall(r"^\| `(plot_\w+\.py)` \|", text, re.MULTILINE)
