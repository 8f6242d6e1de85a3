"""Raw outcomes of long runs, and the summaries of them that are kept.

Outcomes bag by bag go to ``build/benchmarks``, which git ignores: a stopped run goes on from there.
What the documents need of them, one line per cell, is kept in ``results`` as CSV.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RAW = HERE.parent / "build" / "benchmarks"
RESULTS = HERE / "results"


def read_raw(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a file of JSON lines; none where there is no file."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.endswith("}"):  # a run that was killed may have left half a line
            yield json.loads(line)


def read_summary(path: Path) -> list[dict[str, str]]:
    """Return the lines of a summary; none where there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def update_summary(path: Path, rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> None:
    """Write new lines over those of the same keys; the other lines stay.

    Numbers are written with all their digits, so that a table made of the summary is the table that
    the raw outcomes give.
    """
    cells = {tuple(row[key] for key in keys): dict(row) for row in read_summary(path)}
    for row in rows:
        line = {name: str(value) for name, value in row.items()}
        cells[tuple(line[key] for key in keys)] = line
    if not cells:
        return
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(next(iter(cells.values()))), lineterminator="\n")
        writer.writeheader()
        writer.writerows(cells.values())
