"""``predict_groups`` on any data frame: in memory, or partition by partition on Dask or Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kdey.fitted import FittedQuantifier
from kdey.groups.answers import GroupSettings
from kdey.groups.cluster.dask_source import DaskSource
from kdey.groups.cluster.partition import PartitionReader, PartitionSums
from kdey.groups.cluster.spark_source import SparkSource
from kdey.groups.frame import assemble, check_key_names
from kdey.groups.frame import predict_groups as predict_in_memory
from kdey.groups.keys import GroupKeys
from kdey.groups.scoring import Grouping, Scorer
from kdey.groups.solve import check_summable, summed_answers
from kdey.groups.sums import Source, estimate_sums
from kdey.intervals import IntervalOptions


class KeyedSource(Source, Protocol):
    """A source that numbers the groups by itself."""

    head: PartitionSums | None

    def close(self) -> None:
        """Give up what is held between passes."""


def predict_groups(
    quantifier: FittedQuantifier, frame: Any, by: str | Sequence[str] = (), **options: Any
) -> Any:
    """Return the prevalences of every group of a data frame, with their limits.

    See :func:`kdey.groups.predict_groups`; data frames of Dask and Spark go to
    :func:`predict_partitioned`.
    """
    if is_frame_of(frame, "dask.dataframe"):
        return predict_partitioned(quantifier, frame, DaskSource, by, **options)
    if is_frame_of(frame, "pyspark.sql"):
        return predict_partitioned(quantifier, frame, SparkSource, by, **options)
    if not {"key", "keep"}.isdisjoint(options):
        raise ValueError("key and keep are for data frames of Dask and Spark: leave them out")
    return predict_in_memory(quantifier, frame, by, **options)


def is_frame_of(frame: Any, library: str) -> bool:
    """Return whether this is a data frame of ``library``; imports nothing."""
    found = sys.modules.get(library)
    return found is not None and isinstance(frame, found.DataFrame)


def predict_partitioned(
    quantifier: FittedQuantifier,
    frame: Any,
    source_of: Callable[[Any, PartitionReader, bool], KeyedSource],
    by: str | Sequence[str] = (),
    *,
    scores: Sequence[str] | None = None,
    time: str | None = None,
    every: str | None = None,
    wide: bool = False,
    missing: str = "drop",
    min_size: int = 10,
    check_fit: bool = False,
    level: float = 0.01,
    key: str | None = None,
    keep: bool = True,
    confidence: float = 0.95,
    target: str = "population",
    method: str = "auto",
    **options: Any,
) -> Any:
    """Return the prevalences of every group of a frame in partitions, as a pandas frame.

    No instance is moved and no group gathered: a group may be larger than any worker's memory. The
    numbers are those of the same call on the table in memory.

    Parameters
    ----------
    quantifier : fitted quantifier
    frame : data frame of Dask or Spark
    source_of : callable
        From frame, reader and ``keep`` to the engine's source of sums.
    by, scores, time, every, wide, missing, min_size, level
        See :func:`kdey.groups.predict_groups`.
    check_fit : bool
        Refused: it needs all instances of a group at once.
    key : name of a column, optional
        Keys of the rows, to which the weights of a bootstrap are tied: whole numbers, dates or
        texts, different for every row (or the same for rows that were drawn together). Needed for
        the limits of methods without analytic ones.
    keep : bool
        Whether rows stay with the workers between passes (4 bytes per class and instance), or are
        made again in each.
    confidence, target, method, **options
        See :class:`~kdey.intervals.IntervalOptions`.
    """
    check_is_fitted(quantifier, "classes_")
    fitted = quantifier.answering
    wanted = IntervalOptions(confidence, target, method, **options)
    settings = GroupSettings(wanted, min_size, check_fit, level)
    check_summable(settings)
    grouping = Grouping((by,) if isinstance(by, str) else tuple(by), time, every)
    check_key_names(grouping.names)
    reader = PartitionReader(Scorer.of(fitted, scores, missing), grouping, key)
    _check_columns(list(frame.columns), reader)
    source = source_of(frame, reader, keep)
    try:
        made = estimate_sums(fitted, source, wanted, keyed=key is not None)
    finally:
        source.close()
    head = source.head
    assert head is not None
    answers = summed_answers(fitted, made, len(head.values), head.missing, settings)
    return _table(head, grouping.names, answers, wide)


def _table(head: PartitionSums, names: tuple[str, ...], answers: Any, wide: bool) -> Any:
    import narwhals as nw

    keys, table = GroupKeys(names), nw.from_native(head.keys, eager_only=True)
    keys.encode([table[name].to_list() for name in names], len(head.values))
    every = np.arange(len(head.values), dtype=np.int64)
    return assemble(table, every, keys.order(), answers, wide)


def _check_columns(there: list[str], reader: PartitionReader) -> None:
    needed = [*(reader.columns or ()), *reader.grouping.names]
    if reader.key is not None:
        needed.append(reader.key)
    lacking = [name for name in needed if name not in there]
    if lacking:
        raise ValueError(
            f"frame has no column {lacking[0]!r}; it has {', '.join(map(str, there[:8]))}"
        )
