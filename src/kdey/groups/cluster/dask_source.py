"""Sums over the partitions of a Dask data frame, combined by trees.

Classifier fits on a Dask cluster, through joblib.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kdey.groups.cluster.partition import (
    Partition,
    PartitionReader,
    PartitionSums,
    merge_partitions,
)
from kdey.groups.sums import Contribution, GroupSums, Plan, merge

#: Sums that one task puts together.
_FAN_IN = 8


class DaskSource:
    """The partitions of a Dask data frame as a source of sums.

    Rows that are visited again stay where they were made, as float32, and are spilled or made again
    by Dask's own means; what a lost worker held is made again from the table. Everything else that
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
        reader, known = (
            delayed(self._reader, traverse=False),
            delayed(plan, traverse=False),
        )
        read = delayed(_read, pure=False, traverse=False)
        self._parts = [
            read(part, reader, known, hold, number)
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

        wanted = delayed(contribution, traverse=False)
        contribute = delayed(_contribute, pure=False, traverse=False)
        sums = [contribute(part, self._numbers, wanted) for part in self._parts]
        made: GroupSums = _compute(_tree(sums, merge))
        return made

    def close(self) -> None:
        """Give up the rows that workers hold."""
        self._parts, self._numbers = [], None


def _read(frame: Any, reader: PartitionReader, plan: Plan, hold: bool, number: int) -> Partition:
    return reader.read(frame, plan, hold, number)


def _head(partition: Partition) -> PartitionSums:
    return partition.head


def _contribute(
    partition: Partition, numbers: dict[tuple[Any, ...], int], contribution: Contribution
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
    tasks. joblib's hands out larger ones ahead, each to one worker, and what a killed worker was
    given is then gone for good; a task that carries its arguments is simply run again.

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
            self.call_data_futures = None  # nothing is handed out ahead

        def stop_call(self) -> None:
            self.call_data_futures = {}  # joblib clears it
            super().stop_call()

    register_parallel_backend("kdey-dask", Carrying)
    with parallel_config("kdey-dask", client=client):
        yield
