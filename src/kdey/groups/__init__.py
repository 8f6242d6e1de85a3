"""Tables by group: one estimate per group, in one pass over the instances.

:func:`predict_groups` starts the pipeline, ``request.py`` says what can be asked for. A table is
read in batches; a batch is scored (``scoring.py``) and becomes rows with group numbers
(``table.py``); whole groups become estimates (``answers.py``). A frame in memory is a single batch,
a file gives one after another, and Dask and Spark score and answer where their rows lie
(``cluster.py``), by the same functions. ``compare.py`` compares groups with one another.

Groups may lean on one another, because separate estimates of small groups are noisy. With
``shrink`` the groups of a table share a distribution, which is learnt with them
(``kdey.bayes.pooling``); with ``smooth`` the periods of a series follow a random walk
(``kdey.bayes.random_walk``). The pooled estimates and intervals take the place of the separate
ones, which stand beside them in columns of their own. Both need the posteriors of all rows in this
process, k numbers per row, for as long as they work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Indices, offsets_of
from kdey.bayes.each_group import FEWEST, LEVELS, SeparateEnds, lean_on_others
from kdey.bayes.random_walk import PeriodTree, smooth_periods
from kdey.bayes.sampling import TemplateDraws
from kdey.groups.accumulator import Accumulator
from kdey.groups.answers import answer
from kdey.groups.cluster import ClusterTable, fits_on_cluster
from kdey.groups.compare import (
    Comparisons,
    Pair,
    adjust_p_values,
    compare_groups,
    compare_scored,
    find_pairs,
)
from kdey.groups.request import Request, period_numbers, period_starts, truncate
from kdey.groups.scoring import OnRows, TableScorer, engine_of, score
from kdey.groups.table import GroupKeys, ScoredRows, ScoredTable, key_texts
from kdey.intervals import Estimates
from kdey.intervals.estimate import no_uncertainty
from kdey.model import Fitted, model_of, place_of
from kdey.options import Options
from kdey.status import (
    ALIKE,
    DOES_NOT_BELONG,
    EMPTY,
    JUMP,
    NOT_CONVERGED,
    TOO_FEW_GROUPS,
    join_status,
    status_parts,
)

if TYPE_CHECKING:
    from kdey.tables import Frame

__all__ = [
    "Accumulator",
    "Comparisons",
    "GroupKeys",
    "Pair",
    "Request",
    "ScoredRows",
    "ScoredTable",
    "TableScorer",
    "adjust_p_values",
    "answer",
    "compare_groups",
    "compare_scored",
    "estimate_table",
    "find_pairs",
    "fits_on_cluster",
    "predict_groups",
    "score",
    "truncate",
]

#: Periods without data that a table may get rows for.
MOST_ADDED = 10_000


def predict_groups(
    quantifier: Fitted,
    source: Any,
    by: str | Sequence[str] = (),
    *,
    time: str | None = None,
    every: str | None = None,
    scores: Sequence[str] | None = None,
    weights: str | None = None,
    clusters: str | None = None,
    labelled: str | None = None,
    merge: Mapping[Any, Any] | None = None,
    confidence: float = 0.95,
    shrink: bool | str = False,
    smooth: bool = False,
    options: Options | None = None,
) -> Estimates:
    """Return the prevalences of every group of a table, with their intervals.

    The work per instance is done once. A group that cannot be answered well has a ``status``
    that says why; it raises nothing. The separate answer of a group depends on nothing but its
    rows, in whatever order, file or engine they lie.

    Parameters
    ----------
    quantifier : fitted quantifier
    source : data frame of pandas, polars, pyarrow, Dask or Spark, or path
        A path leads to a CSV, Parquet or Excel file, which is read in batches. Features are found
        by name where the quantifier was fitted on a frame; else all columns that are no keys are
        taken. The partitions of Dask and Spark are scored where they lie.
    by : name or names of the key columns
        Groups are ordered by their keys, the first slowest; a missing key is a group of its own.
    time : name of a column of dates or times, optional
        One more key, the last.
    every : str, optional
        Period that times are cut down to: "1d", "1w" (from Monday), "1mo", "1q", "1y", "6h".
    scores : names of k columns, optional
        Posteriors by any classifier, in the place of features; matched to the classes by name
        where they are named after them ("p_cat"), else in the order of the classes. For methods
        that count decisions (CC, ACC) also one column of labels that somebody decided for.
    weights, clusters : names of columns, optional
        Sampling weights, and ids of the clusters in which rows were drawn. Rows of weight zero do
        not count.
    labelled : name of a column, optional
        Labels of some rows of each group, a random draw from it; the other cells are empty. The
        table then has further columns: ``n_labels``, three estimates side by side with intervals
        (``label_shift``, ``label_shift_low``, ``label_shift_high``, ``labels``, ...,
        ``prediction_powered``, ...), ``label_shift_p_value`` of their test and ``verdict``, a
        sentence on which to believe; see :class:`kdey.labelled.LabelledEstimate`. A group without
        a label has the estimate under label shift, and says so in ``status`` and ``verdict``.
    merge : mapping from new label to classes, optional
        Groups of classes whose shares are wanted, in this order, with the intervals of their sums;
        see :meth:`kdey.Estimate.merge`. ``{"b": "b", "a": "a"}`` only sets the order.
    confidence : float in (0, 1)
        Nominal coverage of the intervals.
    shrink : bool or str
        Whether small groups borrow from the others (partial pooling). The name of a key column:
        from the groups with the same value of it, which borrow from all. A group that is unlike
        the others keeps its own estimate, and its status says so; intervals are right for each
        group, unless ``options.shrink_covers`` says otherwise.
    smooth : bool
        Whether periods (``time``) borrow from their neighbours. With ``every``, periods
        without data between others get a row.
    options : Options, optional
        Everything else: ``min_size``, ``missing``, ``check_fit``, ``level``, ``target``,
        ``method``, ``strata``, ``date_format``, ``key_types``, ...; see :class:`kdey.Options`.

    Returns
    -------
    Estimates
        One per group, in the order of their keys, with ``keys`` and ``status``;
        :meth:`~kdey.Estimates.to_frame` makes a table of the type of ``source`` (a pyarrow table
        for a path, a pandas frame for Dask and Spark), with one row per group and class.

    See Also
    --------
    kdey.compare_groups : Compare the groups of a table.
    kdey.make_report : Make a report as an HTML page.
    kdey.Estimates : Prevalences of many bags with intervals.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> q = kdey.KDEyML(bandwidth=0.1).fit(X[::2], y[::2])
    >>> new = X[1::2].assign(field=["east" if i % 3 else "west" for i in range(75)])
    >>> table = kdey.predict_groups(q, new, "field").to_frame()
    >>> table[["field", "class", "n", "estimate"]].round(1).head(3)
      field  class   n  estimate
    0  east      0  50       0.3
    1  east      1  50       0.3
    2  east      2  50       0.3
    """
    request = Request.of(
        by,
        time=time,
        every=every,
        scores=scores,
        weights=weights,
        clusters=clusters,
        labelled=labelled,
        merge=merge,
        confidence=confidence,
        shrink=shrink,
        smooth=smooth,
        options=options,
    )
    return estimate_table(quantifier, source, request)


def estimate_table(
    quantifier: Fitted,
    source: Any,
    request: Request,
    *,
    on_batch: OnRows | None = None,
    on_rows: OnRows | None = None,
) -> Estimates:
    """Return what :func:`predict_groups` does, by a request.

    Parameters
    ----------
    quantifier : fitted quantifier
    source : data frame, path or TableSource
    request : Request
    on_batch, on_rows : callables, optional
        Called with a number of rows: those read after each batch, those solved after each run of
        groups.
    """
    model = model_of(quantifier)
    check_pooling(quantifier, request)
    if engine_of(source) is not None:
        found = ClusterTable.of(source, model, request)
        if not request.is_pooled:
            return found.answer(place_of(quantifier)).take(found.keys.order())
        table = found.gather()
    else:
        table = score(quantifier, source, request, on_batch)
    separate = replace(answer(quantifier, table, request, on_rows=on_rows), keys=table.key_rows)
    return pool_groups(quantifier, table, request, separate).take(table.keys.order())


def check_pooling(fitted: Fitted, request: Request) -> None:
    """Raise ValueError if the groups of a quantifier cannot be pooled as the request asks for."""
    if not request.is_pooled:
        return
    try:
        TemplateDraws.of(fitted)
    except TypeError as error:
        raise ValueError(f"groups cannot be pooled (shrink, smooth): {error}") from error


def pool_groups(
    quantifier: Fitted, table: ScoredTable, request: Request, separate: Estimates
) -> Estimates:
    """Return the pooled estimates of groups; as they are if nothing is asked for.

    Parameters
    ----------
    quantifier : fitted quantifier, or its model
    table : ScoredTable
        Its keys get the periods without data that are added.
    request : Request
    separate : Estimates
        Of all groups by their numbers, with keys.
    """
    if not request.is_pooled:
        return separate
    assert table.rows.on_posteriors, "methods on features are refused"
    if request.smooth and request.every is not None:
        key_rows = add_missing_periods(table.keys, table.key_rows, request.every)
        separate = with_empty(separate, len(table.keys) - len(separate), key_rows)
    if not (separate.size > 0).any():
        return separate
    templates = TemplateDraws.of(quantifier, place_of(quantifier).n_threads)
    if request.smooth:
        return _smoothed(templates, table, request, separate)
    return _shrunk(quantifier, templates, table, request, separate)


def with_empty(estimates: Estimates, n: int, key_rows: Frame) -> Estimates:
    """Return estimates of groups with n more behind the others, which are empty."""
    made = estimates.take(np.concatenate([np.arange(len(estimates)), np.zeros(n, dtype=np.int64)]))
    empty = np.arange(len(estimates), len(made))
    for name in ("estimate", "low", "high", "counted", "gap", "fit_p_value"):
        values: Array = getattr(made, name)
        values[empty] = np.nan
    for name in ("size", "n_missing", "effective_size"):
        getattr(made, name)[empty] = 0
    return replace(
        made,
        keys=key_rows,
        statuses=[*estimates.status, *[EMPTY] * n],
        notes=[*estimates.notes, *([] for _ in range(n))],
    )


def _shrunk(
    quantifier: Fitted,
    templates: TemplateDraws,
    table: ScoredTable,
    request: Request,
    separate: Estimates,
) -> Estimates:
    """Return estimates that lean on the other groups."""
    sizes, options = separate.size, request.options
    # In the order of the keys, so that draws do not depend on that of the rows.
    groups = np.array([g for g in table.keys.order() if sizes[g] > 0], dtype=np.int64)
    if len(groups) < FEWEST:
        status = [join_status([*status_parts(s), TOO_FEW_GROUPS]) for s in separate.status]
        none = np.where(sizes > 0, 0.0, np.nan)
        return replace(separate, statuses=status, separate=separate, shrinkage=none)
    ends, tail = _separate_ends(quantifier, table, request, groups)
    made = lean_on_others(
        templates,
        table.rows.points,
        sizes[groups],
        ends,
        tail,
        parents=_parents(table.keys, request.shrink, groups),
        positions=_positions(table, groups, sizes),
        covers=options.shrink_covers,
        target=options.target,
        random_state=options.random_state,
        n_threads=templates.n_threads,
    )
    shrinkage = np.full(len(separate), np.nan)
    shrinkage[groups] = made.shrinkage
    words = {
        ALIKE: np.full(len(groups), made.alike),
        DOES_NOT_BELONG: made.strange,
        NOT_CONVERGED: np.full(len(groups), not made.converged),
    }
    numbers = (made.estimate, made.low, made.high)
    return replace(_filled(separate, groups, numbers, words), shrinkage=shrinkage)


def _separate_ends(
    quantifier: Fitted, table: ScoredTable, request: Request, groups: Indices
) -> tuple[SeparateEnds, float]:
    """Return the ends of separate intervals at several levels, and the tail asked for."""
    k = model_of(quantifier).n_classes
    tail, ends = request.options.tail(k), []
    for level in LEVELS:
        confidence = 1.0 - min(level * (1.0 - request.options.confidence), 0.98)
        options = replace(request.options, confidence=confidence, check_fit=False)
        made = answer(quantifier, table, replace(request, options=options), kept=0).take(groups)
        ends.append((made.low, made.high))
    return SeparateEnds.of(made.estimate, ends, tail), tail


def _smoothed(
    templates: TemplateDraws, table: ScoredTable, request: Request, separate: Estimates
) -> Estimates:
    """Return estimates that lean on neighbouring periods."""
    sizes, groups = separate.size, table.keys.order()
    series, times = series_and_times(table.keys, request.every)
    drawn = smooth_periods(
        templates,
        table.rows.points,
        PeriodTree(offsets_of(sizes[groups]), series[groups], times[groups]),
        positions=_positions(table, groups, sizes),
        random_state=request.options.random_state,
        n_threads=templates.n_threads,
    )
    words = {JUMP: drawn.jumped, NOT_CONVERGED: np.full(len(groups), not drawn.converged)}
    low, high = drawn.interval(request.options.tail(len(separate.classes)))
    return _filled(separate, groups, (drawn.estimate(), low, high), words)


def _positions(table: ScoredTable, groups: Indices, sizes: Indices) -> Indices:
    """Return the positions of the rows, group after group."""
    order, ends = table.rows.canonical_order(), np.cumsum(sizes)
    return np.concatenate([order[ends[g] - sizes[g] : ends[g]] for g in groups])


def _parents(keys: GroupKeys, column: bool | str, groups: Indices) -> Indices | None:
    """Return the number of the value that each group has in a key column; None without one."""
    if not isinstance(column, str):
        return None
    at, values = keys.names.index(column), keys.values
    texts = [key_texts((values[g][at],)) for g in groups]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return np.array([numbers[text] for text in texts], dtype=np.int64)


def _filled(
    separate: Estimates,
    groups: Indices,
    numbers: tuple[Array, Array, Array],
    words: Mapping[str, NDArray[np.bool_]],
) -> Estimates:
    """Return pooled estimates and intervals with words of a status; the separate ones beside."""
    estimate, low, high = (np.full(separate.estimate.shape, np.nan) for _ in numbers)
    for whole, part in zip((estimate, low, high), numbers, strict=True):
        whole[groups] = part
    status = [status_parts(text) for text in separate.status]
    for word, where in words.items():
        for g in groups[where].tolist():
            status[g] = [*status[g], *([] if word in status[g] else [word])]
    return replace(
        separate,
        estimate=estimate,
        low=low,
        high=high,
        statuses=[join_status(parts) for parts in status],
        uncertainty_of=no_uncertainty(len(separate.classes)),
        separate=separate,
    )


def series_and_times(keys: GroupKeys, every: str | None) -> tuple[Indices, Array]:
    """Return the series of each group, and its time in periods.

    Groups that share all keys but the time are a series; one without a time stands alone. Without
    ``every`` a period is the median distance of neighbouring times.
    """
    values = keys.values
    names = [
        (key_texts(value[:-1]), number if value[-1] is None else -1)
        for number, value in enumerate(values)
    ]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    series = np.array([numbers[name] for name in names], dtype=np.int64)
    instants = [value[-1] for value in values]
    if every is not None:
        return series, period_numbers(_as_times(instants), every).astype(np.float64)
    times = _as_numbers(instants)
    order = np.lexsort((times, series))
    steps = np.diff(times[order])[series[order][1:] == series[order][:-1]]
    return series, times / (np.median(steps) if len(steps) else 1.0)


def _as_times(values: Sequence[Any]) -> NDArray[np.datetime64]:
    """Return dates and times as an array; the origin stands in for a missing one."""
    plain = [datetime(1970, 1, 1) if value is None else _without_zone(value) for value in values]
    return np.array(plain, dtype="datetime64[us]")


def _without_zone(value: date) -> date:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def _as_numbers(values: Sequence[Any]) -> Array:
    """Return times as numbers, dates as days; zero stands in for a missing one."""
    present = [value for value in values if value is not None]
    if all(isinstance(value, date) for value in present):
        days = (_as_times(values) - np.datetime64("1970-01-01", "us")) / np.timedelta64(1, "D")
        return np.asarray(days, dtype=np.float64)
    if all(isinstance(value, int | float) for value in present):
        return np.array([0.0 if value is None else float(value) for value in values])
    raise ValueError(
        "smooth needs a time column of dates, times or numbers, but it holds texts: name a period "
        "(every='1w'), so that they are read as dates"
    )


def add_missing_periods(keys: GroupKeys, key_rows: Frame, every: str) -> Frame:
    """Add the periods between the first and the last of a series that have no data.

    Parameters
    ----------
    keys : GroupKeys
        Changed in place: it gets the new groups.
    key_rows : narwhals frame
        Keys of the groups in the order of their numbers.
    every : str

    Returns
    -------
    narwhals frame
        With one more row for each new group, if it had a row for each group.
    """
    series, times = series_and_times(keys, every)
    values = keys.values
    timed = np.array([value[-1] is not None for value in values], dtype=bool)
    models: list[int] = []  # a group of the series ...
    missing: list[int] = []  # ... and the number of its missing period
    for number in np.unique(series[timed]):
        members = np.flatnonzero(timed & (series == number))
        present = times[members].astype(np.int64)
        if int(present.max() - present.min()) + 1 - len(present) + len(missing) > MOST_ADDED:
            raise ValueError(
                f"more than {MOST_ADDED:,} periods of {every!r} have no data: name a "
                "longer period, or correct the dates that lie far from the others"
            )
        absent = np.setdiff1d(np.arange(present.min(), present.max()), present)
        models += [int(members[0])] * len(absent)
        missing += absent.tolist()
    if not missing:
        return key_rows
    starts = period_starts(np.array(missing, dtype=np.int64), every).tolist()
    is_date = not isinstance(values[models[0]][-1], datetime)
    instants = [start.date() if is_date else start for start in starts]
    keys.encode_values(
        [(*values[model][:-1], start) for model, start in zip(models, instants, strict=True)]
    )
    return _with_periods(key_rows, models, instants) if len(key_rows) == len(values) else key_rows


def _with_periods(key_rows: Frame, models: list[int], instants: list[Any]) -> Frame:
    import narwhals as nw

    name = key_rows.columns[-1]
    times = nw.new_series(name, instants, key_rows.schema[name], backend=key_rows.implementation)
    added = nw.maybe_reset_index(key_rows[models]).with_columns(times)
    return nw.concat([nw.maybe_reset_index(key_rows), added], how="vertical")
