"""What runs on a partition of a table, whichever engine holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kdey.bags import Indices
from kdey.groups.keys import GroupKeys
from kdey.groups.scoring import Grouping, Scorer
from kdey.groups.sums import GroupedRows, GroupSums, Plan, key_hashes, make_batch, merge


@dataclass(frozen=True, eq=False)
class PartitionSums:
    """The first sums of some partitions, with the keys of their groups.

    Attributes
    ----------
    values : list of g tuples
        Key values of the groups, in the order of their numbers.
    keys : pandas data frame of g rows
        The same with the types they have in the table.
    sums : GroupSums
    missing : int64 array of shape (g,)
        Rows of each group left out for a missing score or feature.
    n_rows : int
    """

    values: list[tuple[Any, ...]]
    keys: Any
    sums: GroupSums
    missing: Indices
    n_rows: int

    @property
    def numbers(self) -> dict[tuple[Any, ...], int]:
        """The number of each group by its key."""
        return {value: number for number, value in enumerate(self.values)}


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition that was gone through: first sums and, where they are held, rows.

    The numbers of its groups are its own.
    """

    head: PartitionSums
    rows: GroupedRows | None

    def rows_in(self, numbers: dict[tuple[Any, ...], int]) -> GroupedRows:
        """Return the rows with the numbers that groups have in the whole table."""
        assert self.rows is not None, "rows were not held"
        common = np.array([numbers[value] for value in self.head.values], dtype=np.int64)
        return self.rows.renumbered(common[self.rows.groups])


@dataclass(frozen=True, eq=False)
class PartitionReader:
    """Turns a partition (a pandas frame) into rows and first sums.

    Attributes
    ----------
    scorer : Scorer
    grouping : Grouping
    key : name of the column of row keys; None: no bootstrap
    """

    scorer: Scorer
    grouping: Grouping
    key: str | None = None

    @property
    def columns(self) -> list[str] | None:
        """The columns that are needed; None: all."""
        needed = self.scorer.columns()
        if needed is None:
            return None
        extra = () if self.key is None else (self.key,)
        return list(dict.fromkeys([*needed, *self.grouping.names, *extra]))

    def read(self, frame: Any, plan: Plan, hold: bool, number: int = 0) -> Partition:
        """Return what a partition contributes first; errors tell its ``number``.

        Parameters
        ----------
        frame : pandas data frame
        plan : Plan
        hold : bool
            Whether rows are to be visited again.
        number : int
        """
        try:
            return self._read(frame, plan, hold)
        except ValueError as error:
            raise ValueError(f"partition {number}: {error}") from error

    def _read(self, frame: Any, plan: Plan, hold: bool) -> Partition:
        import narwhals as nw

        table = nw.from_native(frame.reset_index(drop=True), eager_only=True)
        keys = GroupKeys(self.grouping.names)
        codes = self.grouping.encode(table, keys)
        if len(table) == 0:
            points, usable = np.empty((0, plan.n_classes)), np.empty(0, dtype=np.bool_)
        else:
            points, usable = self.scorer.points(table, self._no_features)
        hashes = None
        if self.key is not None and hold:
            if self.key not in table.columns:
                raise ValueError(f"key column {self.key!r} is not there")
            hashes = key_hashes(table[self.key].to_numpy())[usable]
        sums, rows = make_batch(plan, np.asarray(points), codes[usable], hashes=hashes, hold=hold)
        lost = np.bincount(codes[~usable], minlength=len(keys)).astype(np.int64)
        own = self.grouping.keys(table).to_native()
        if self.grouping.names:
            own = own.iloc[np.unique(codes, return_index=True)[1]].reset_index(drop=True)
        return Partition(PartitionSums(keys.values, own, sums, lost, len(table)), rows)

    @property
    def _no_features(self) -> tuple[str, ...]:
        extra = () if self.key is None else (self.key,)
        return (*self.grouping.names, *extra)


def merge_partitions(parts: Sequence[PartitionSums]) -> PartitionSums:
    """Return the sums of several partitions, groups numbered in the order in which they came."""
    parts = [part for part in parts if part.n_rows] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    import pandas as pd

    numbers: dict[tuple[Any, ...], int] = {}
    sums, frames, places = [], [], []
    for part in parts:
        fresh = [i for i, value in enumerate(part.values) if value not in numbers]
        for i in fresh:
            numbers[part.values[i]] = len(numbers)
        place = np.array([numbers[value] for value in part.values], dtype=np.int64)
        sums.append(part.sums.renumbered(place[part.sums.groups]))
        if fresh:
            frames.append(part.keys.iloc[fresh] if len(part.keys.columns) else part.keys)
        places.append(place)
    missing = np.zeros(len(numbers), dtype=np.int64)
    for place, part in zip(places, parts, strict=True):
        missing[place] += part.missing
    keys = pd.concat(frames, ignore_index=True) if len(frames[0].columns) else frames[0]
    n_rows = sum(part.n_rows for part in parts)
    return PartitionSums(list(numbers), keys, merge(sums), missing, n_rows)
