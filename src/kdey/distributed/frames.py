"""``predict_groups`` on any data frame: in memory, or partition by partition on Dask."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kdey.distributed.dask_source import DaskSource
from kdey.distributed.partition import PartitionReader
from kdey.groups.batch import Grouping, Scorer
from kdey.groups.frame import assemble, check_key_names
from kdey.groups.frame import predict_groups as predict_in_memory
from kdey.groups.keys import GroupKeys
from kdey.groups.settings import GroupSettings
from kdey.groups.summed import check_summable, summed_answers
from kdey.inference import IntervalOptions
from kdey.sums import estimate_sums


def is_dask_frame(frame: Any) -> bool:
    """Return whether this is a Dask data frame; imports nothing."""
    library = sys.modules.get("dask.dataframe")
    return library is not None and isinstance(frame, library.DataFrame)


def predict_groups(
    quantifier: Any, frame: Any, by: str | Sequence[str] = (), **options: Any
) -> Any:
    """Return the prevalences of every group of a data frame, with their limits.

    See :func:`kdey.groups.predict_groups`; a Dask data frame goes to :func:`predict_dask_groups`.
    """
    if is_dask_frame(frame):
        return predict_dask_groups(quantifier, frame, by, **options)
    return predict_in_memory(quantifier, frame, by, **options)


def predict_dask_groups(
    quantifier: Any,
    frame: Any,
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
    """Return the prevalences of every group of a Dask data frame, as a pandas frame.

    No instance is moved and no group gathered: a group may be larger than any worker's memory. The
    numbers are those of the same call on the table in memory.

    Parameters
    ----------
    quantifier : fitted quantifier
    frame : Dask data frame
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
        See :class:`~kdey.inference.IntervalOptions`.
    """
    import narwhals as nw

    check_is_fitted(quantifier, "classes_")
    fitted = getattr(quantifier, "best_estimator_", quantifier)
    wanted = IntervalOptions(confidence, target, method, **options)
    settings = GroupSettings(wanted, min_size, check_fit, level)
    check_summable(settings)
    grouping = Grouping((by,) if isinstance(by, str) else tuple(by), time, every)
    check_key_names(grouping.names)
    reader = PartitionReader(Scorer.of(fitted, scores, missing), grouping, key)
    _check_columns(frame, reader)
    source = DaskSource(frame, reader, keep)
    made = estimate_sums(fitted, source, wanted, keyed=key is not None)
    head = source.head
    assert head is not None
    answers = summed_answers(fitted, made, len(head.values), head.missing, settings)
    keys = GroupKeys(grouping.names)
    table = nw.from_native(head.keys, eager_only=True)
    codes = keys.encode([table[name].to_list() for name in grouping.names], len(head.values))
    assert len(keys) == len(codes) or not grouping.names
    return assemble(table, np.arange(len(head.values)), keys.order(), answers, wide)


def _check_columns(frame: Any, reader: PartitionReader) -> None:
    there = list(frame.columns)
    needed = [*(reader.columns or ()), *reader.grouping.names]
    lacking = [name for name in dict.fromkeys([*needed, reader.key]) if name not in (None, *there)]
    if lacking:
        raise ValueError(
            f"frame has no column {lacking[0]!r}; it has {', '.join(map(str, there[:8]))}"
        )
