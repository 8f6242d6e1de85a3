"""Print the oldest versions that ``pyproject.toml`` allows, as constraints for pip.

``python scripts/versions.py [EXTRA ...] > FILE`` (``make test-oldest``): every requirement of the
package and of the extras (default: ``test``, with all that it names in turn) at its lower bound.
What they pull in themselves is left to pip. Needs ``packaging``.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
LOWER = (">=", "==", "~=")


def requirements(project: Mapping[str, Any], extras: Iterable[str]) -> Iterator[Requirement]:
    """Yield the requirements of the package and of the extras, those named by others too."""
    yield from map(Requirement, project["dependencies"])
    waiting, seen = list(extras), set()
    while waiting:
        extra = waiting.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for text in project["optional-dependencies"][extra]:
            one = Requirement(text)
            if one.name == project["name"]:
                waiting += one.extras
            else:
                yield one


def lower_bound(requirement: Requirement) -> Version:
    """Return the oldest version that a requirement allows."""
    found = [Version(one.version) for one in requirement.specifier if one.operator in LOWER]
    if not found:
        raise ValueError(f"{requirement} has no lower bound; say in pyproject.toml what it needs")
    return max(found)


def oldest(project: Mapping[str, Any], extras: Iterable[str]) -> dict[str, Version]:
    """Return the oldest version of each package; of several bounds the highest holds."""
    made: dict[str, Version] = {}
    for one in requirements(project, extras):
        if one.marker is None or one.marker.evaluate():
            made[one.name] = max(lower_bound(one), made.get(one.name, Version("0")))
    return dict(sorted(made.items()))


def main() -> None:
    """Print one line per package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, version in oldest(project, sys.argv[1:] or ["test"]).items():
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
