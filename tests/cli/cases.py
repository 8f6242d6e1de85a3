"""Small tables in files, and the command line in this process."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import Result

from ..runner import invoke

FAST = ("--method", "kdey-ml", "--option", "bandwidth=0.2")


def run(*arguments: Any, **options: Any) -> Result:
    return invoke(*arguments, **options)


def rows(n: int = 120, seed: int = 0) -> list[dict[str, Any]]:
    """Return rows of two classes with two numbers, a colour, a shop and a day."""
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n):
        bad = int(rng.random() < 0.4)
        x = rng.normal(size=2) + bad * 1.5
        colour = rng.choice(["red", "blue"], p=[0.8, 0.2] if bad else [0.2, 0.8])
        lines.append(
            {
                "length": round(float(x[0]), 4),
                "width": round(float(x[1]), 4),
                "colour": str(colour),
                "shop": "AB"[i % 2],
                "day": f"2024-01-{1 + i % 28:02d}",
                "kind": "bad" if bad else "good",
            }
        )
    return lines


def write(path: Path, table: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    return path


def without(table: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k not in names} for row in table]
