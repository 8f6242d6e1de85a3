"""One estimate per group of a table: the pipeline, and the function that starts it.

A table is read in batches; a batch becomes scored rows with group numbers (``scoring.py``); whole
groups become estimates (``answers.py``), which may lean on one another (``pooling.py``). A frame in
memory is a single batch, a file gives one after another, and Dask and Spark score and answer where
their rows lie (``cluster.py``), by the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kdey.groups.answers import answer
from kdey.groups.cluster import ClusterTable, cluster_of
from kdey.groups.pooling import check_pooling, pool_groups
from kdey.groups.request import Request
from kdey.groups.scoring import OnRows, score
from kdey.intervals import Estimates
from kdey.intervals.display import check_key_names
from kdey.model import Fitted, model_of, place_of
from kdey.options import Options
from kdey.validation import refuse_levels


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
    other than "ok"; it raises nothing. The separate answer of a group depends on nothing but its
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
        Whether small groups lean on the others (partial pooling). The name of a key column: on the
        groups with the same value of it, which lean on all. Intervals then cover on average over
        groups, not for each.
    smooth : bool
        Whether periods (``time``) lean on their neighbours. With ``every``, periods without data
        between others get a row.
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
    source : data frame, path or TableFile
    request : Request
    on_batch, on_rows : callables, optional
        Called with a number of rows: those read after each batch, those solved after each run of
        groups.
    """
    model = model_of(quantifier)
    check_pooling(quantifier, request)
    check_key_names(
        request.grouping.names,
        request.merging(model.classes).names,
        wide=False,
        labelled=request.labelled is not None,
        pooled=request.is_pooled,
    )
    cluster = cluster_of(source)
    if cluster is not None:
        refuse_levels(source, "frame")
        found = ClusterTable.of(cluster, model, request)
        if not request.is_pooled:
            return found.answer(place_of(quantifier)).take(found.keys.order())
        table = found.gather()
    else:
        table = score(quantifier, source, request, on_batch)
    separate = replace(answer(quantifier, table, request, on_rows=on_rows), keys=table.key_rows)
    return pool_groups(quantifier, table, request, separate).take(table.keys.order())
