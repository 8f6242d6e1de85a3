"""One estimate per group of a table: the pipeline, and the functions that start it.

A table is read in batches; a batch becomes scored rows with group numbers (``batches.py``); rows
with group numbers become answers (``estimate.py``), and answers a table beside their keys
(``answers.py``). Four sources give batches:

* a frame in memory is a single batch (:func:`predict_groups`);
* a file gives one after another, which are collected (:func:`estimate_file`);
* Dask and Spark read their partitions where they lie, and give sums over them instead of rows
  (:func:`predict_partitioned`), as does a group that is too large to be held at once.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kdey._support.frames import refuse_levels
from kdey.bags import Indices
from kdey.fitted import FittedQuantifier
from kdey.groups.answers import (
    AnswerSheet,
    FileGroups,
    GroupAnswers,
    as_estimates,
    check_key_names,
    key_types,
)
from kdey.groups.batches import BatchReader, GroupStream, ScoredTable, score_table
from kdey.groups.borrowing import AnsweredTable, borrow_strength, check_borrowing
from kdey.groups.checks import GroupChecks
from kdey.groups.cluster import DaskSource, SourceFactory, SparkSource
from kdey.groups.design import Design
from kdey.groups.estimate import OnRows
from kdey.groups.keys import Grouping, GroupKeys
from kdey.groups.partitions import PartitionedSource, PartitionReader, PartitionSums
from kdey.groups.request import Borrowing, GroupRequest, GroupSettings
from kdey.groups.scoring import ScoredRows, Scorer
from kdey.groups.sums import estimate_sums
from kdey.intervals import Estimates
from kdey.status import not_checked
from kdey.tables.columns import require_names
from kdey.tables.files import TableError, TableFile

if TYPE_CHECKING:
    from kdey.tables.columns import Frame


def predict_groups(
    quantifier: FittedQuantifier,
    frame: Any,
    by: str | Sequence[str] = (),
    *,
    scores: Sequence[str] | None = None,
    time: str | None = None,
    every: str | None = None,
    date_format: str = "auto",
    key_types: Mapping[str, str] | None = None,
    missing: str = "auto",
    labelled: str | None = None,
    selection: str | None = None,
    believe: str = "prediction-powered",
    weights: str | None = None,
    clusters: str | None = None,
    strata: str | None = None,
    stratum_shares: Mapping[Any, float] | None = None,
    merge: Mapping[Any, Any] | None = None,
    min_size: int = 10,
    check_fit: bool = True,
    level: float = 0.01,
    confidence: float = 0.95,
    target: str = "population",
    method: str = "auto",
    shrink: bool | str = False,
    smooth: bool = False,
    **options: Any,
) -> Estimates:
    """Return the prevalences of every group of a data frame, with their limits.

    The work per instance is done once. A group that cannot be answered well has a ``status``
    other than "ok"; it raises nothing.

    Parameters
    ----------
    quantifier : fitted quantifier
    frame : data frame of pandas, polars, pyarrow, Dask or Spark, or path
        A path leads to a CSV, Parquet or Excel file, which is read in batches. Features are found
        by name where the quantifier was fitted on a frame; else all columns that are no keys are
        taken.
    by : name or names of the key columns
        Groups are ordered by their keys, the first slowest; a missing key is a group of its own.
    scores : names of k columns, optional
        Posteriors by any classifier, in the place of features; matched to the classes by name
        where they are named after them ("p_cat"), else in the order of the classes. For methods
        that count decisions (CC, ACC) also one column of labels that somebody decided for.
    time : name of a column of dates or times, optional
        One more key, the last.
    every : str, optional
        Period that times are cut down to: "1d", "1w" (from Monday), "1mo", "1q", "1y", "6h".
    date_format : str
        How dates that are written as text are read, in the notation of strftime ("%d.%m.%Y").
        "auto": ISO 8601, or day, month and year where the column shows which comes first.
    key_types : mapping from names of key columns to {"integer", "text"}, optional
        Keys to turn into whole numbers, or into texts.
    missing : {"auto", "drop", "error"}
        Rows with a missing score or feature are left out and counted in ``n_missing`` ("drop"), or
        raise ("error"). With "auto" they are used where the classifier takes missing values and,
        for a model fitted on a table, has learnt from rows that lack the same value; otherwise
        they are left out and counted.
    labelled : name of a column, optional
        Labels of some rows of each group, a random draw from it; the other cells are empty. The
        table then has further columns: ``n_labels``, three estimates side by side with limits
        (``label_shift``, ``label_shift_low``, ``label_shift_high``, ``labels``, ...,
        ``prediction_powered``, ...), ``label_shift_p_value`` of their test and ``verdict``, a
        sentence on which to believe; see :class:`kdey.labelled.LabelledEstimate`. A group without
        a label has the estimate under label shift, and says so in ``status`` and ``verdict``.
    selection : name of a column, optional
        The probability with which each labelled row was chosen, where it was not a random draw.
    believe : {"prediction-powered", "label-shift", "labels"}
        Which of the three is in the column ``estimate``.
    weights, clusters : names of columns, optional
        Sampling weights, and ids of the clusters in which rows were drawn. Rows of weight zero do
        not count.
    strata : name of a column, optional
        The strata from which rows were drawn. Each is estimated by itself, and the estimate of a
        group is their sum weighted by their shares (:mod:`kdey.intervals.strata`).
    stratum_shares : mapping from strata to shares or sizes in the population, optional
        By default the shares of the strata among the (weighted) rows of each group.
    merge : mapping from new label to classes, optional
        Groups of classes whose shares are wanted, in this order, with the limits of their sums;
        see :meth:`kdey.Estimate.merge`. ``{"b": "b", "a": "a"}`` only sets the order.
    min_size : int
        Groups with fewer usable instances are estimated too, but their status is "too small".
    check_fit : bool
        Whether to check of every group that it looks like a mixture of the training classes.
    level : float in (0, 1)
        Fit p-values up to it make the status "poor fit".
    confidence : float in (0, 1)
        Nominal coverage of the limits.
    target : {"population", "bag"}
        The prevalence of the population that a group was drawn from, or of its instances.
    method : {"auto", "analytic", "bootstrap"}
        How limits are computed.
    shrink : bool or str
        Whether small groups lean on the others (partial pooling). The name of a key column: on the
        groups with the same value of it, which lean on all. Limits then cover on average over
        groups, not for each.
    smooth : bool
        Whether periods (``time``) lean on their neighbours. With ``every``, periods without data
        between others get a row.
    **options
        See :class:`~kdey.Options`, and ``key``: the name of a column that tells rows apart, in
        the place of their features. For data frames of Dask and Spark ``keep`` too.

    Returns
    -------
    Estimates
        One per group, in the order of their keys, with ``keys`` and ``status``;
        :meth:`~kdey.Estimates.to_frame` makes a table of the type of ``frame`` (a pyarrow table
        for a path), with one row per group and class.

    See Also
    --------
    kdey.compare_groups : Compare the groups of a table.
    kdey.make_report : Make a report as an HTML page.
    kdey.Estimates : Prevalences of many bags with limits.

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
    source_of = _cluster_source(frame)
    if source_of is None and "keep" in options:
        raise ValueError("keep is for data frames of Dask and Spark: leave it out")
    check_is_fitted(quantifier, "classes_")
    request = GroupRequest.of(
        by,
        scores=scores,
        time=time,
        every=every,
        date_format=date_format,
        key_types=key_types,
        missing=missing,
        design=Design(labelled, selection, weights, clusters, strata, stratum_shares),
        merge=merge,
        believe=believe,
        min_size=min_size,
        check_fit=check_fit,
        level=level,
        confidence=confidence,
        target=target,
        method=method,
        shrink=shrink,
        smooth=smooth,
        **options,
    )
    check_borrowing(quantifier.answering, request)
    if isinstance(frame, str | PathLike):
        return _predict_path(quantifier.answering, str(frame), request)
    if source_of is None:
        return _predict_frame(quantifier.answering, frame, request)
    return _predict_partitions(quantifier.answering, frame, source_of, request)


def _cluster_source(frame: Any) -> SourceFactory | None:
    """Return what makes the source of a data frame of Dask or Spark; None for other frames."""
    if _is_frame_of(frame, "dask.dataframe"):
        return DaskSource
    return SparkSource if _is_frame_of(frame, "pyspark.sql") else None


def _is_frame_of(frame: Any, library: str) -> bool:
    """Return whether this is a data frame of ``library``, which is not imported for it."""
    module = sys.modules.get(library)
    return module is not None and isinstance(frame, module.DataFrame)


def _predict_frame(quantifier: FittedQuantifier, frame: Any, request: GroupRequest) -> Any:
    """Return the table of a frame in memory, the only batch."""
    shown = request.settings.merging(quantifier.classes_).names
    labelled = request.design.labelled is not None
    check_key_names(request.grouping.names, shown, request.wide, labelled)
    scored = score_frame(quantifier, frame, request)
    answers, key_rows = _answer_scored(quantifier, scored, request)
    return as_estimates(answers, key_rows, scored.keys.order(), request.settings.options)


def _predict_path(quantifier: FittedQuantifier, path: str, request: GroupRequest) -> Estimates:
    """Return the answers of a file."""
    groups = estimate_file(
        quantifier,
        TableFile.open(path),
        request.grouping,
        request.settings,
        scores=request.scores,
        missing=request.missing,
        borrowing=request.borrowing,
        design=request.design,
    )
    options = request.settings.options
    return as_estimates(groups.answers, groups.key_frame(), groups.keys.order(), options)


def score_frame(quantifier: FittedQuantifier, frame: Any, request: GroupRequest) -> ScoredTable:
    """Return the rows of a frame in memory, scored and numbered by group.

    Parameters
    ----------
    quantifier : fitted quantifier
    frame : data frame of pandas, polars or pyarrow
    request : GroupRequest
    """
    import narwhals as nw

    refuse_levels(frame, "frame")
    table = nw.from_native(frame, eager_only=True)
    if len(table) == 0:
        raise ValueError("frame has no rows")
    check = request.settings.check_fit
    scorer = Scorer.of(quantifier, request.scores, request.missing, check)
    grouping = request.grouping.settled([table])
    reader = BatchReader(scorer, grouping, request.row_key, design=request.design)
    _check_columns(table.columns, reader)
    return score_table(reader, [table], GroupStream(memory=None))


def _answer_scored(
    quantifier: FittedQuantifier,
    scored: ScoredTable,
    request: GroupRequest,
    on_run: OnRows | None = None,
) -> tuple[GroupAnswers, Frame]:
    """Return the answers of all groups, pooled where that is asked for, and their keys."""
    n_groups = len(scored.keys)
    with scored.stream.collected(quantifier, n_groups) as collected:
        answers = collected.answers(quantifier, n_groups, request.settings, on_run)
        table = AnsweredTable(
            answers, collected.rows, collected.codes, scored.keys, scored.first_keys
        )
        return borrow_strength(quantifier, table, request)


def estimate_file(
    quantifier: FittedQuantifier,
    file: TableFile,
    grouping: Grouping,
    settings: GroupSettings,
    *,
    scores: Sequence[str] | None = None,
    missing: str = "auto",
    borrowing: Borrowing | None = None,
    on_batch: OnRows | None = None,
    on_run: OnRows | None = None,
    design: Design | None = None,
) -> FileGroups:
    """Return the answers for the groups of a table, of which one batch is held at a time.

    The numbers are those of :func:`~kdey.groups.predict_groups` on the whole table.

    Parameters
    ----------
    quantifier : fitted quantifier
    file : TableFile
    grouping : Grouping
    settings : GroupSettings
    scores, missing
        See :func:`~kdey.groups.predict_groups`.
    borrowing : Borrowing, optional
        Whether groups borrow strength.
    on_batch, on_run : callables, optional
        Called with a number of rows: those read after each batch, those solved after each run of
        groups.
    design : Design, optional
        Columns of labels, weights, clusters and strata. They take up to 40 bytes per row of memory.
    """
    schema = quantifier.table_schema
    asked = Borrowing() if borrowing is None else borrowing
    columns = Design() if design is None else design
    request = GroupRequest(grouping, settings, scores, missing, design=columns, borrowing=asked)
    check_borrowing(quantifier, request)
    scored = score_file(
        quantifier,
        file,
        request,
        label=None if schema is None else schema.label,
        on_batch=on_batch,
    )
    answers, _ = _answer_scored(quantifier, scored, request, on_run)
    return FileGroups(scored.keys, answers, key_types(scored.first_keys))


def score_file(
    quantifier: FittedQuantifier,
    file: TableFile,
    request: GroupRequest,
    *,
    label: str | None = None,
    on_batch: OnRows | None = None,
) -> ScoredTable:
    """Return the rows of a file, scored and numbered by group; errors name the file.

    Parameters
    ----------
    quantifier : fitted quantifier
    file : TableFile
    request : GroupRequest
    label : name of a column of known labels, optional
        They are counted, and must be among the classes.
    on_batch : callable, optional
        Called after each batch with the number of its rows.

    Raises
    ------
    TableError
        If the file cannot be read or used; the message begins with its name.
    """
    scorer = Scorer.of(
        quantifier, request.scores, request.missing, request.settings.check_fit, file.decimal
    )
    if scorer.quantifier.takes_posteriors and not scorer.on_posteriors:
        raise TableError(
            f"{file.name}: the model was fitted on scores: name the score columns (--scores)"
        )
    grouping = request.grouping
    try:
        key, design = request.row_key, request.design
        _check_columns(file.columns, BatchReader(scorer, grouping, key, design=design))
        reader = BatchReader(scorer, _settled(grouping, file), key, label, design)
        # Only posteriors are collected from several batches; other methods need the whole table.
        frames = (
            file.batches(reader.columns_of_files, grouping.by)
            if scorer.on_posteriors
            else [file.read(grouping.by)]
        )
        return score_table(reader, frames, GroupStream(), on_batch, file.first_row)
    except TableError:
        raise
    except ValueError as error:
        raise TableError(f"{file.name}: {error}") from error


def _settled(grouping: Grouping, file: TableFile) -> Grouping:
    """Return the grouping that knows how the file writes its times; looks at that column alone."""
    if grouping.time is None:
        return grouping
    return grouping.settled(file.batches([grouping.time]), file.first_row)


def predict_partitioned(
    quantifier: FittedQuantifier,
    frame: Any,
    source_of: SourceFactory,
    by: str | Sequence[str] = (),
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
    by : name or names of the key columns
    key : name of a column, optional
        Keys of the rows, to which the weights of a bootstrap are tied: whole numbers, dates or
        texts, different for every row (or the same for rows that were drawn together). Needed for
        the limits of methods without analytic ones.
    keep : bool
        Whether rows stay with the workers between passes (4 bytes per class and instance), or are
        made again in each. True by default.
    **options
        As for :func:`kdey.groups.predict_groups`. The fit is checked on a random sample of each
        group, of at most 8,000,000 posteriors in all, which the partitions send with their sums.
        With ``shrink`` or ``smooth`` the posteriors of all rows are sent (at most 4 GiB).
    """
    check_is_fitted(quantifier, "classes_")
    request = GroupRequest.of(by, **options)
    check_borrowing(quantifier.answering, request)
    return _predict_partitions(quantifier.answering, frame, source_of, request)


def _predict_partitions(
    quantifier: FittedQuantifier, frame: Any, source_of: SourceFactory, request: GroupRequest
) -> Any:
    """Return the table of a frame in partitions, which give sums."""
    import narwhals as nw

    from kdey.diagnostics import unchecked_reason  # slow to import

    refuse_levels(frame, "frame")
    _refuse_design(request)
    check_key_names(request.grouping.names, quantifier.classes_, request.wide)
    check = request.settings.check_fit and unchecked_reason(quantifier) is None
    scorer = Scorer.of(quantifier, request.scores, request.missing, check)
    gathers = request.borrowing.is_asked
    reader = PartitionReader(
        scorer, request.grouping, request.row_key, sampled=check, gathers=gathers
    )
    _check_columns(list(frame.columns), reader)
    source = source_of(frame, reader, request.keep)
    head, answers = _sum_partitions(quantifier, source, request)
    key_rows = nw.from_native(head.keys, eager_only=True)
    keys = GroupKeys(request.grouping.names)
    keys.encode([key_rows[name] for name in keys.names], len(head.values))
    if head.gathered is not None:
        rows, codes = ScoredRows(head.gathered.posteriors), head.gathered.groups
        table = AnsweredTable(answers, rows, codes, keys, key_rows)
        answers, key_rows = borrow_strength(quantifier, table, request)
    return as_estimates(answers, key_rows, keys.order(), request.settings.options)


def _refuse_design(request: GroupRequest) -> None:
    """Raise ValueError where a request needs the rows of a group in one place."""
    if request.design.names or request.settings.merge is not None:
        raise ValueError(
            "labelled, selection, weights, clusters, strata and merge are not available for data "
            "frames of Dask and Spark, of which only sums over partitions are known: write the "
            "table to Parquet and use `kdey estimate`, which reads it in batches, or use a frame "
            "in memory"
        )


def _sum_partitions(
    quantifier: FittedQuantifier,
    source: PartitionedSource,
    request: GroupRequest,
) -> tuple[PartitionSums, GroupAnswers]:
    """Return the keys of the groups with their first sums, and the answers."""
    settings = request.settings
    try:
        summed = estimate_sums(
            quantifier, source, settings.options, keyed=request.row_key is not None
        )
    finally:
        source.close()
    head = source.head
    assert head is not None, "estimates have made the first pass"
    sizes = np.zeros(len(head.values), dtype=np.int64)
    sizes[summed.groups] = summed.sizes
    sheet = AnswerSheet(quantifier, len(sizes))
    sheet.fill_from_sums(summed.groups, summed)
    _check_sample(quantifier, settings, sheet, head, sizes)
    return head, sheet.answers(sizes, head.missing, settings, head.unseen)


def _check_sample(
    quantifier: FittedQuantifier,
    settings: GroupSettings,
    sheet: AnswerSheet,
    head: PartitionSums,
    sizes: Indices,
) -> None:
    """Check the groups on the sample that the partitions sent, where they sent one."""
    sample = head.sample
    checks = GroupChecks.start(quantifier, settings, sheet, sample is not None and sample.by_folds)
    if sample is None:
        return
    groups, bags = sample.bags(len(sizes))
    if bags is None:
        sheet.fit_status[:] = not_checked("too many groups")
    else:
        checks.check(groups, sample.posteriors, bags, sizes[groups])


def _check_columns(present: Sequence[str], reader: BatchReader) -> None:
    """Raise where a table lacks a column; what is read later are the columns needed alone."""
    require_names(present, reader.grouping.names, "key column")
    if reader.key is not None:
        require_names(present, [reader.key])
    require_names(present, reader.design.names)
    scorer = reader.scorer
    require_names(present, scorer.columns() or (), "score column" if scorer.scores else "column")
