"""Draw the badges of the README from ``pyproject.toml`` and the version: no service is asked.

python scripts/badges.py [FOLDER]
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="20" role="img"
  aria-label="{name}: {value}">
<rect width="{total}" height="20" rx="3" fill="#4a4a4a"/>
<path d="M{left} 0h{rest}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{rest}z" fill="#0b5fa5"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="6" y="14">{name}</text><text x="{start}" y="14">{value}</text>
</g>
</svg>
"""


def badges() -> dict[str, str]:
    """Return the pictures by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module = (ROOT / "src" / "kdey" / "__init__.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(.*)"$', module, re.M)
    python = project["requires-python"].removeprefix(">=") + " or newer"
    shown = {"python": python, "licence": project["license"], "version": version}
    return {f"badge-{name}.svg": _badge(name, value) for name, value in shown.items()}


def _badge(name: str, value: str) -> str:
    left, right = (round(6.8 * len(text)) + 12 for text in (name, value))
    return SVG.format(
        name=name, value=value, total=left + right, left=left, rest=right - 3, start=left + 6
    )


def main(folder: Path) -> None:
    """Write the pictures."""
    for name, text in badges().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "figures")
