"""How far a run is and how long it still takes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(eq=False)
class Pace:
    """Counts finished cells, weighted by what they are expected to cost.

    Attributes
    ----------
    left : dict from the keys of open cells to their costs
    total : int
        Number of cells in all.
    skipped : int
        Cells that were not run: found in the file, or failed.
    """

    left: dict[Any, float]
    total: int
    skipped: int = 0
    _spent: float = 0.0
    _start: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, costs: Mapping[Any, float]) -> Self:
        """Return the pace of a run with these costs by cell."""
        return cls(dict(costs), len(costs))

    def skip(self, key: Any) -> None:
        """Take out a cell that is not run."""
        if self.left.pop(key, None) is not None:
            self.skipped += 1

    def finish(self, key: Any, mean: float) -> str:
        """Count a cell as finished; return a line that says so."""
        self._spent += self.left.pop(key)
        elapsed = time.monotonic() - self._start
        seconds = elapsed / self._spent * sum(self.left.values())
        done = self.total - len(self.left)
        return f"[{done}/{self.total}] {key}: {mean:.5f} ({duration(elapsed)}, {_left(seconds)})"


def duration(seconds: float) -> str:
    """Return seconds in words: "42 s", "3 min 05 s", "2 h 10 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _left(seconds: float) -> str:
    return "done" if seconds == 0 else f"about {duration(seconds)} left"
