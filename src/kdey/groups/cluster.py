"""Data frames of Dask and Spark as sources of sums over their partitions.

Every partition is read where it lies (``partitions.py``) and contributes sums per group; sums are
combined and the groups solved from them. No instance moves and no group is gathered.

:func:`first_pass` and :func:`next_pass` make the functions that Spark runs, from an iterator of
pandas frames to another. They know nothing of Spark: any engine with such a hook can run them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from kdey.groups.partitions import (
    GroupNumbers,
    Partition,
    PartitionedSource,
    PartitionReader,
    PartitionSums,
    merge_partitions,
)
from kdey.groups.sums import Contribution, GroupSums, Plan, merge

if TYPE_CHECKING:
    import pandas as pd

#: Makes the source of a data frame from the frame, a reader, and whether rows are kept.
SourceFactory: TypeAlias = Callable[[Any, PartitionReader, bool], PartitionedSource]

#: Sums that one task of Dask puts together.
_FAN_IN = 8


class DaskSource:
    """The partitions of a Dask data frame as a source of sums, combined by trees.

    Rows that are visited again stay where they were made, as float32, and Dask spills them or makes
    them again; the rows of a worker that dies are made again from the table. Everything else that
    moves is sums.

    Parameters
    ----------
    frame : Dask data frame
    reader : PartitionReader
    keep : bool
        Whether rows stay with the workers between passes; else every pass makes them again.
    """

    def __init__(self, frame: Any, reader: PartitionReader, keep: bool = True) -> None:
        self._frame, self._reader, self._keep = frame, reader, keep
        self._parts: list[Any] = []
        self._numbers: Any = None
        self.head: PartitionSums | None = None

    def first(self, plan: Plan, hold: bool) -> GroupSums:
        """Go through the table once."""
        from dask.base import persist
        from dask.delayed import delayed

        columns = self._reader.columns
        frame = self._frame
        if columns is not None and list(frame.columns) != columns:
            frame = frame[columns]
        reader, shared_plan = delayed(self._reader, traverse=False), delayed(plan, traverse=False)
        read = delayed(_read, pure=False, traverse=False)
        self._parts = [
            read(part, reader, shared_plan, hold, number)
            for number, part in enumerate(frame.to_delayed())
        ]
        if hold and self._keep:
            self._parts = list(persist(*self._parts))  # type: ignore[no-untyped-call]
        heads = [delayed(_head, pure=False, traverse=False)(part) for part in self._parts]
        head: PartitionSums = _compute(_tree(heads, merge_partitions))
        self.head = head
        self._numbers = delayed(head.numbers, traverse=False)
        if not hold:
            self._parts = []  # one pass was enough
        return head.sums

    def total(self, contribution: Contribution) -> GroupSums:
        """Go through the rows again."""
        from dask.delayed import delayed

        shared = delayed(contribution, traverse=False)
        contribute = delayed(_contribute, pure=False, traverse=False)
        sums = [contribute(part, self._numbers, shared) for part in self._parts]
        total: GroupSums = _compute(_tree(sums, merge))
        return total

    def close(self) -> None:
        """Let go of the rows that workers hold."""
        self._parts, self._numbers = [], None


def _read(
    frame: pd.DataFrame, reader: PartitionReader, plan: Plan, hold: bool, number: int
) -> Partition:
    return reader.read(frame, plan, hold, number)


def _head(partition: Partition) -> PartitionSums:
    return partition.head


def _contribute(
    partition: Partition, numbers: GroupNumbers, contribution: Contribution
) -> GroupSums:
    return contribution(partition.rows_in(numbers))


def _tree(parts: list[Any], combine: Callable[[Sequence[Any]], Any]) -> Any:
    """Return one delayed value that combines all parts, a few at a time."""
    from dask.delayed import delayed

    join = delayed(combine, pure=False)
    while len(parts) > 1:
        parts = [join(parts[i : i + _FAN_IN]) for i in range(0, len(parts), _FAN_IN)]
    return parts[0]


def _compute(value: Any) -> Any:
    try:
        return value.compute()
    except KeyError as error:  # raised by Dask itself, where it picks columns
        raise ValueError(
            f"a partition lacks a column that the others have ({error}): all partitions must "
            "have the same columns"
        ) from error


@contextmanager
def fits_on_cluster(client: Any = None) -> Iterator[None]:
    """Run what joblib runs in this block (fits of folds, members, methods) on a Dask cluster.

    It is joblib's own ``parallel_config("dask")`` but for one thing: arguments travel inside the
    tasks. joblib sends larger ones ahead, each to one worker, and they are lost when that worker is
    killed; a task that carries its arguments is simply run again.

    Leave ``n_jobs`` unset inside: joblib then takes the whole cluster, and native threads stay one.

    Parameters
    ----------
    client : distributed.Client, optional
        By default the current one.
    """
    from joblib import parallel_config, register_parallel_backend
    from joblib._dask import DaskDistributedBackend

    class Carrying(DaskDistributedBackend):
        """joblib's backend with arguments inside the tasks."""

        call_data_futures: Any

        def start_call(self) -> None:
            super().start_call()
            self.call_data_futures = None  # nothing is sent ahead

        def stop_call(self) -> None:
            self.call_data_futures = {}  # joblib clears it
            super().stop_call()

    register_parallel_backend("kdey-dask", Carrying)
    with parallel_config("kdey-dask", client=client):
        yield


#: Columns that the functions of :func:`first_pass` and :func:`next_pass` return.
FIRST_SCHEMA = "head binary, part binary"
NEXT_SCHEMA = "sums binary"
#: Batches of a Spark partition: pandas frames.
Frames: TypeAlias = "Iterator[pd.DataFrame]"


def first_pass(reader: PartitionReader, plan: Plan, hold: bool) -> Callable[[Frames], Frames]:
    """Return the function of the first pass: score rows in, one row per batch out.

    ``head`` holds the first sums, ``part`` the rows that later passes visit.
    """

    def run(frames: Frames) -> Frames:
        import pandas as pd

        for number, frame in enumerate(frames):
            partition = reader.read(frame, plan, hold, number)
            head = pickle.dumps(partition.head)
            yield pd.DataFrame({"head": [head], "part": [pickle.dumps(partition) if hold else b""]})

    return run


def next_pass(contribution: Contribution, numbers: GroupNumbers) -> Callable[[Frames], Frames]:
    """Return the function of a later pass: ``part`` in, the sums of a Spark partition out."""

    def run(frames: Frames) -> Frames:
        import pandas as pd

        sums: list[GroupSums] = []
        for frame in frames:
            for packed in frame["part"]:
                partition: Partition = pickle.loads(packed)
                sums.append(contribution(partition.rows_in(numbers)))
        if sums:
            yield pd.DataFrame({"sums": [pickle.dumps(merge(sums))]})

    return run


class SparkSource:
    """The partitions of a Spark data frame as a source of sums, by ``mapInPandas``.

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
        parts = self._frame.mapInPandas(first_pass(self._reader, plan, hold), FIRST_SCHEMA)
        self._parts = parts.persist() if hold and self._keep else parts
        heads = [pickle.loads(row["head"]) for row in self._parts.select("head").collect()]
        if not heads:
            raise ValueError("frame has no rows")
        self.head = merge_partitions(heads)
        return self.head.sums

    def total(self, contribution: Contribution) -> GroupSums:
        """Go through the rows again."""
        assert self.head is not None, "first() comes first"
        run = next_pass(contribution, self.head.numbers)
        rows = self._parts.select("part").mapInPandas(run, NEXT_SCHEMA).collect()
        return merge([pickle.loads(row["sums"]) for row in rows])

    def close(self) -> None:
        """Let go of what is persisted."""
        if self._keep and self._parts is not None:
            self._parts.unpersist()
