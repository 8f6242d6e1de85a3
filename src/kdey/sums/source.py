"""Where sums come from: parts of the data that one process, or many, go through."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdey.sums.batch import GroupedRows, Hashes, make_batch
from kdey.sums.group_sums import GroupSums, merge
from kdey.sums.plan import Plan

#: From the rows of a part of the data to its sums. Travels: a frozen dataclass that is called.
Contribution: TypeAlias = Callable[[GroupedRows], GroupSums]
#: Points, group numbers and, for a bootstrap, hashes of row keys.
Points: TypeAlias = tuple[NDArray[Any], NDArray[np.integer], "Hashes | None"]


class Source(Protocol):
    """Parts of the data on any engine."""

    def first(self, plan: Plan, hold: bool) -> GroupSums:
        """Go through the instances once: make rows, keep them if ``hold``, return first sums."""

    def total(self, contribution: Contribution) -> GroupSums:
        """Go through the rows again and return the sum of what the parts contribute."""


@dataclass(eq=False)
class LocalSource:
    """Batches in this process, out of memory where the caller's batches are.

    Attributes
    ----------
    batches : callable that gives the batches, each time from the beginning
    keep : bool
        Whether rows stay in memory between passes; else they are made again in each.
    """

    batches: Callable[[], Iterable[Points]]
    keep: bool = True
    _plan: Plan | None = field(default=None, repr=False)
    _rows: list[GroupedRows] = field(default_factory=list, repr=False)

    def first(self, plan: Plan, hold: bool) -> GroupSums:
        """Go through the batches once."""
        self._plan, parts = plan, []
        self._rows.clear()
        for points, codes, hashes in self.batches():
            sums, rows = make_batch(plan, points, codes, hashes=hashes, hold=hold and self.keep)
            parts.append(sums)
            if rows is not None:
                self._rows.append(rows)
        return merge(parts)

    def total(self, contribution: Contribution) -> GroupSums:
        """Go through the rows again."""
        return merge([contribution(rows) for rows in self._parts()])

    def _parts(self) -> Iterable[GroupedRows]:
        if self.keep:
            yield from self._rows
            return
        assert self._plan is not None, "first() comes first"
        for points, codes, hashes in self.batches():
            rows = make_batch(self._plan, points, codes, hashes=hashes, hold=True)[1]
            assert rows is not None
            yield rows
