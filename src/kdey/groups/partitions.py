"""Partitions of a table: what runs where a partition lies, whichever engine holds it.

:class:`PartitionReader` scores the rows of a partition as any other batch and sums them at once;
only sums per group leave the partition, and :func:`merge_partitions` adds them up. Where groups are
pooled, the posteriors of all rows leave it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from kdey.bags import Indices
from kdey.groups.batches import BatchReader
from kdey.groups.checks import GroupSample
from kdey.groups.keys import GroupKeys, key_texts
from kdey.groups.pooling import GatheredRows
from kdey.groups.scoring import ScoredRows
from kdey.groups.sums import GroupedRows, GroupSums, Plan, Source, key_hashes, make_batch, merge
from kdey.groups.sums.group_sums import Hashes

if TYPE_CHECKING:
    import pandas as pd

    from kdey.tables.columns import Frame


#: The number of each group, by the canonical texts of its keys.
GroupNumbers: TypeAlias = dict[tuple[str, ...], int]


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
    unseen : int64 array of shape (g,)
        Rows of each group with a value that training lacks.
    sample : GroupSample or None
        Instances on which the fit of the groups is checked; None if it is not.
    gathered : GatheredRows or None
        All rows, where groups are pooled; None if they are not.
    """

    values: list[tuple[Any, ...]]
    keys: pd.DataFrame
    sums: GroupSums
    missing: Indices
    n_rows: int
    unseen: Indices
    sample: GroupSample | None = None
    gathered: GatheredRows | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The key columns."""
        return tuple(map(str, self.keys.columns))

    @property
    def numbers(self) -> GroupNumbers:
        """The number of each group by the canonical texts of its keys."""
        return {key_texts(value): number for number, value in enumerate(self.values)}


class PartitionedSource(Source, Protocol):
    """A table in partitions, as a source of sums that numbers the groups by itself.

    Attributes
    ----------
    head : PartitionSums or None
        The first sums of all partitions, once there are any.
    """

    head: PartitionSums | None

    def close(self) -> None:
        """Let go of what is held between passes."""


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition that was read: first sums and, where they are held, rows.

    Groups are numbered within the partition.
    """

    head: PartitionSums
    rows: GroupedRows | None

    def rows_in(self, numbers: GroupNumbers) -> GroupedRows:
        """Return the rows with the numbers that groups have in the whole table."""
        assert self.rows is not None, "rows were not held"
        common = np.array([numbers[key_texts(key)] for key in self.head.values], dtype=np.int64)
        return self.rows.renumbered(common[self.rows.groups])


@dataclass(frozen=True, eq=False)
class PartitionReader(BatchReader):
    """Turns a partition (a pandas frame) into rows and first sums.

    Attributes
    ----------
    scorer : Scorer
    grouping : Grouping
    key : name of the column of row keys; None: no bootstrap
    sampled : bool
        Whether a sample of the rows is sent with the sums, for the fit check.
    pooled : bool
        Whether all rows are sent, because groups are pooled.
    """

    sampled: bool = False
    pooled: bool = False

    def read(self, frame: pd.DataFrame, plan: Plan, hold: bool, number: int = 0) -> Partition:
        """Return the first sums of a partition; errors name its ``number``.

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

    def _read(self, frame: pd.DataFrame, plan: Plan, hold: bool) -> Partition:
        import narwhals as nw

        table = nw.from_native(frame.reset_index(drop=True), eager_only=True)
        keys = GroupKeys(self.grouping.names)
        batch = self.batch(table, keys)
        hashes = self._hashes(table) if hold else None
        sums, rows = make_batch(
            plan,
            batch.rows.points,
            batch.usable_codes,
            hashes=None if hashes is None else hashes[batch.usable],
            hold=hold,
        )
        key_rows = batch.keys_of_groups().to_native().reset_index(drop=True)
        sample = None
        if self.sampled and isinstance(batch.rows, ScoredRows):
            sample = GroupSample.draw(batch.rows, batch.usable_codes, len(keys))
        gathered = None
        if self.pooled and isinstance(batch.rows, ScoredRows):
            codes = batch.usable_codes.astype(np.int64)
            gathered = GatheredRows(codes, np.asarray(batch.rows.posteriors))
        head = PartitionSums(
            keys.values,
            key_rows,
            sums,
            batch.missing(len(keys)),
            len(table),
            batch.unseen(len(keys)),
            sample,
            gathered,
        )
        return Partition(head, rows)

    def _hashes(self, table: Frame) -> Hashes | None:
        if self.key is None:
            return None
        if self.key not in table.columns:
            raise ValueError(f"key column {self.key!r} is not there")
        return key_hashes(table[self.key].to_numpy())


def merge_partitions(parts: Sequence[PartitionSums]) -> PartitionSums:
    """Return the sums of several partitions, groups numbered in the order in which they came."""
    parts = [part for part in parts if part.n_rows] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    import pandas as pd

    groups = GroupKeys(parts[0].names)
    sums, key_rows, numberings = [], [], []
    for part in parts:
        known = len(groups)
        common = groups.encode_values(part.values).astype(np.int64)
        new = np.flatnonzero(common >= known).tolist()
        sums.append(part.sums.renumbered(common[part.sums.groups]))
        if new:
            key_rows.append(part.keys.iloc[new] if len(part.keys.columns) else part.keys)
        numberings.append(common)
    missing, unseen = np.zeros((2, len(groups)), dtype=np.int64)
    for common, part in zip(numberings, parts, strict=True):
        missing[common] += part.missing
        unseen[common] += part.unseen
    keys = pd.concat(key_rows, ignore_index=True) if len(key_rows[0].columns) else key_rows[0]
    n_rows = sum(part.n_rows for part in parts)
    samples = [
        part.sample.renumbered(common)
        for common, part in zip(numberings, parts, strict=True)
        if part.sample is not None
    ]
    sample = GroupSample.merge(samples, len(groups)) if samples else None
    rows = [
        part.gathered.renumbered(common)
        for common, part in zip(numberings, parts, strict=True)
        if part.gathered is not None
    ]
    gathered = GatheredRows.merge(rows) if rows else None
    return PartitionSums(
        groups.values, keys, merge(sums), missing, n_rows, unseen, sample, gathered
    )
