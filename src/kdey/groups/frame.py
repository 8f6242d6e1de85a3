"""Estimates by group of a data frame, given back in the frame's own type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kdey._support.frames import as_column
from kdey.bags import Indices
from kdey.fitted import FittedQuantifier
from kdey.groups.answers import COLUMNS, GroupAnswers, GroupSettings
from kdey.groups.keys import GroupKeys
from kdey.groups.scoring import Grouping, Scorer
from kdey.groups.solve import estimate_groups
from kdey.intervals import IntervalOptions


def predict_groups(
    quantifier: FittedQuantifier,
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
    confidence: float = 0.95,
    target: str = "population",
    method: str = "auto",
    **options: Any,
) -> Any:
    """Return the prevalences of every group of a data frame, with their limits.

    The work per instance is done once. A group that cannot be answered well has a ``status``
    other than "ok"; it raises nothing.

    Parameters
    ----------
    quantifier : fitted quantifier
    frame : data frame of pandas, polars or pyarrow
        Features are found by name where the quantifier was fitted on a frame; else all columns
        that are no keys are taken.
    by : name or names of the key columns
        Groups are ordered by their keys, the first slowest; a missing key is a group of its own.
    scores : names of k columns, optional
        Posteriors by any classifier, in the place of features; matched to the classes by name
        where they are named after them ("p_cat"), else in the order of the classes.
    time : name of a column of dates or times, optional
        One more key, the last.
    every : str, optional
        Period that times are cut down to: "1d", "1w" (from Monday), "1mo", "1q", "1y", "6h".
    wide : bool
        One row per group, with columns ``estimate[c]``, ``low[c]``, ... for every class c.
    missing : {"drop", "error"}
        Rows with a missing score or feature are left out and counted in ``n_missing``, or raise.
    min_size, check_fit, level
        See :class:`~kdey.groups.answers.GroupSettings`.
    confidence, target, method, **options
        See :class:`~kdey.intervals.IntervalOptions`.

    Returns
    -------
    table : data frame of the type of ``frame``
        One row per group and class: the keys, ``class``, ``n``, ``n_missing``, ``estimate``,
        ``low``, ``high``, ``classify_and_count`` (the naive answer), ``training_prevalence``,
        ``fit_p_value`` (NaN unless ``check_fit``) and ``status``.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> q = kdey.KDEyML(bandwidth=0.1).fit(X[::2], y[::2])
    >>> new = X[1::2].assign(field=["east" if i % 3 else "west" for i in range(75)])
    >>> table = kdey.predict_groups(q, new, "field")
    >>> table[["field", "class", "n", "estimate"]].round(1).head(3)
      field  class   n  estimate
    0  east      0  50       0.3
    1  east      1  50       0.3
    2  east      2  50       0.3
    """
    import narwhals as nw

    check_is_fitted(quantifier, "classes_")
    wanted = IntervalOptions(confidence, target, method, **options)
    settings = GroupSettings(wanted, min_size, check_fit, level)
    if not isinstance(by, Sequence):
        raise TypeError(f"by must be the name of a column, or a list of them, got {by!r}")
    grouping = Grouping((by,) if isinstance(by, str) else tuple(by), time, every)
    check_key_names(grouping.names)
    table = nw.from_native(frame, eager_only=True)
    if len(table) == 0:
        raise ValueError("frame has no rows")
    fitted = quantifier.answering
    keys = GroupKeys(grouping.names)
    codes = grouping.encode(table, keys)
    scorer = Scorer.of(fitted, scores, missing, check_fit)
    answers = _answers(scorer, table, grouping, codes, len(keys), settings)
    first = np.unique(codes, return_index=True)[1].astype(np.int64)
    return assemble(grouping.keys(table), first, keys.order(), answers, wide)


def _answers(
    scorer: Scorer,
    table: Any,
    grouping: Grouping,
    codes: NDArray[np.int32],
    n_groups: int,
    settings: GroupSettings,
) -> GroupAnswers:
    points, usable = scorer.points(table, grouping.names)
    return estimate_groups(
        scorer.quantifier,
        points,
        codes[usable],
        n_groups,
        settings,
        on_posteriors=scorer.on_posteriors,
        missing=np.bincount(codes[~usable], minlength=n_groups).astype(np.int64),
    )


def check_key_names(names: Sequence[str]) -> None:
    """Raise where a key has the name of a column of the result."""
    taken = [name for name in names if name in COLUMNS]
    if taken:
        raise ValueError(
            f"key column {taken[0]!r} has the name of a column of the result: rename it"
        )


def assemble(keys: Any, first: Indices, order: Indices, answers: GroupAnswers, wide: bool) -> Any:
    """Return the answers beside the keys, which keep the types they have in the frame."""
    import narwhals as nw

    made = {name: as_column(v) for name, v in answers.columns(order, wide=wide).items()}
    new = nw.from_dict(made, backend=keys.implementation)
    if not keys.columns:
        return new.to_native()
    rows = np.repeat(first[order], 1 if wide else len(answers.classes))
    own = nw.maybe_reset_index(keys[rows.tolist()])
    return nw.concat([own, new], how="horizontal").to_native()
