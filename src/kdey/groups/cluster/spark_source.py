"""Sums over the partitions of a Spark data frame, by ``mapInPandas``.

:func:`first_pass` and :func:`next_pass` make the functions that Spark runs, from an iterator of
pandas frames to another: they know nothing of Spark. :class:`SparkSource` calls them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

from kdey.groups.cluster.partition import (
    Partition,
    PartitionReader,
    PartitionSums,
    merge_partitions,
)
from kdey.groups.sums import Contribution, GroupSums, Plan, merge

#: Columns that the functions give back.
FIRST_SCHEMA = "head binary, part binary"
NEXT_SCHEMA = "sums binary"
Frames = Iterator[Any]


def first_pass(reader: PartitionReader, plan: Plan, hold: bool) -> Callable[[Frames], Frames]:
    """Return the function of the first pass: score rows in, one row per batch out.

    ``head`` holds the first sums, ``part`` the rows that later passes visit.
    """

    def run(frames: Frames) -> Frames:
        import pandas as pd

        for number, frame in enumerate(frames):
            made = reader.read(frame, plan, hold, number)
            head = pickle.dumps(made.head)
            yield pd.DataFrame({"head": [head], "part": [pickle.dumps(made) if hold else b""]})

    return run


def next_pass(
    contribution: Contribution, numbers: dict[tuple[Any, ...], int]
) -> Callable[[Frames], Frames]:
    """Return the function of a later pass: ``part`` in, the sums of a Spark partition out."""

    def run(frames: Frames) -> Frames:
        import pandas as pd

        found: list[GroupSums] = []
        for frame in frames:
            for packed in frame["part"]:
                part: Partition = pickle.loads(packed)
                found.append(contribution(part.rows_in(numbers)))
        if found:
            yield pd.DataFrame({"sums": [pickle.dumps(merge(found))]})

    return run


class SparkSource:
    """The partitions of a Spark data frame as a source of sums.

    Parameters
    ----------
    frame : Spark data frame
    reader : PartitionReader
    keep : bool
        Whether rows are persisted between passes; else every pass makes them again.
    """

    def __init__(self, frame: Any, reader: PartitionReader, keep: bool = True) -> None:
        columns = reader.columns
        self._frame = frame if columns is None else frame.select(*columns)
        self._reader, self._keep = reader, keep
        self._parts: Any = None
        self.head: PartitionSums | None = None

    def first(self, plan: Plan, hold: bool) -> GroupSums:
        """Go through the table once."""
        made = self._frame.mapInPandas(first_pass(self._reader, plan, hold), FIRST_SCHEMA)
        self._parts = made.persist() if hold and self._keep else made
        heads = [pickle.loads(row["head"]) for row in self._parts.select("head").collect()]
        if not heads:
            raise ValueError("frame has no rows")
        self.head = merge_partitions(heads)
        return self.head.sums

    def total(self, contribution: Contribution) -> GroupSums:
        """Go through the rows again."""
        assert self.head is not None, "first() comes first"
        run = next_pass(contribution, self.head.numbers)
        found = self._parts.select("part").mapInPandas(run, NEXT_SCHEMA).collect()
        return merge([pickle.loads(row["sums"]) for row in found])

    def close(self) -> None:
        """Give up what is persisted."""
        if self._keep and self._parts is not None:
            self._parts.unpersist()
