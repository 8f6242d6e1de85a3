"""Write ``.ci/constraints.txt``: the version of every package of the development environment.

``python scripts/lock.py`` (``make lock``) asks pip what ``.[dev,docs]`` comes to today, without
installing it. ``.ci/run`` installs these versions, so that a change is judged on what it changes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / ".ci" / "constraints.txt"
HEAD = "# What .ci/run installs, made by scripts/lock.py on Python {}.{}.\n"


def resolved() -> dict[str, str]:
    """Return the version of each package that the development environment needs."""
    command = ["pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    done = subprocess.run(
        [sys.executable, "-m", *command, f"{ROOT}[dev,docs]"],
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    found = (entry["metadata"] for entry in json.loads(done.stdout)["install"])
    return {one["name"].lower(): one["version"] for one in found if one["name"] != "kdey"}


def main() -> None:
    """Write the file."""
    lines = [f"{name}=={version}\n" for name, version in sorted(resolved().items())]
    FILE.write_text(HEAD.format(*sys.version_info[:2]) + "".join(lines), encoding="utf-8")
    print(f"{len(lines)} versions in {FILE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
