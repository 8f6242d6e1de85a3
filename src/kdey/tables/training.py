"""A labelled table as training data: labels, features or scores, and the layout they came in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.tables.layout import TableLayout, is_number, learn_layout, missing_in, numbers, require


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """Labelled rows of a table.

    Attributes
    ----------
    X : array of shape (n, d)
        Features as numbers (see :meth:`~kdey.tables.layout.TableLayout.matrix`), or scores.
    y : array of shape (n,)
    layout : TableLayout
    dropped : int
        Rows left out because a value was missing.
    """

    X: NDArray[np.float64]
    y: NDArray[Any]
    layout: TableLayout
    dropped: int


def training_table(
    frame: Any,
    label: str,
    *,
    features: Sequence[str] = (),
    ignore: Sequence[str] = (),
    scores: Sequence[str] = (),
    missing: str = "error",
) -> TrainingTable:
    """Return the training data of a narwhals frame.

    Parameters
    ----------
    frame : narwhals frame
    label : name of the column of labels
    features : names of columns; by default all but the label and those to ignore
    ignore : names of columns
    scores : names of columns of posteriors, in the place of features
    missing : {"error", "drop"}
        What becomes of rows without a feature or score; a missing label is always an error.
    """
    require(frame, [label], "label column")
    require(frame, list(ignore))
    y = _labels(frame[label])
    if scores:
        names, layout = tuple(scores), TableLayout(label, scores=tuple(scores))
    else:
        others = [n for n in frame.columns if n != label and n not in ignore]
        names = tuple(features) or tuple(others)
        if label in names:
            raise ValueError(f"the label column {label!r} must not be among the features")
        if not names:
            raise ValueError(f"no column is left beside the label {label!r}: features are needed")
    require(frame, names)
    usable = usable_rows(frame, names, missing)
    kept = frame if usable.all() else frame.filter(usable.tolist())
    if not scores:
        layout = learn_layout(kept, label, names)
    X = layout.matrix(kept) if not scores else np.column_stack([numbers(kept[n]) for n in names])
    if len(np.unique(y[usable])) < 2:
        raise ValueError(f"column {label!r} holds one class only; at least two are needed")
    return TrainingTable(X, y[usable], layout, int((~usable).sum()))


def table_labels(frame: Any, label: str, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the labels of a table, all of which must be among ``classes``."""
    require(frame, [label], "label column")
    known = np.asarray(classes)
    y = _as(known, _labels(frame[label]))
    check_known(y, known, label)
    return y


def check_known(y: NDArray[Any], classes: NDArray[Any], label: str, first: int = 1) -> None:
    """Raise where a label is not among ``classes``; ``first`` is the number of the first row."""
    strange = ~np.isin(y, classes)
    if strange.any():
        row = int(np.argmax(strange))
        raise ValueError(
            f"column {label!r} has the class {_word(y[row])!r} in row {row + first}, which "
            f"training lacks ({int(strange.sum())} such rows): leave them out, or fit on them too"
        )


def labels_seen(frame: Any, label: str, classes: NDArray[Any], first: int = 1) -> NDArray[Any]:
    """Return the labels of a table that need not have any, as ``classes`` writes them.

    Raises where one of them is not among ``classes``.
    """
    gone, known = missing_in(frame[label]), np.asarray(classes)
    y = np.full(len(gone), known[0], dtype=object)
    if not gone.all():
        y[~gone] = _as(known, _labels(frame[label].filter((~gone).tolist())))
        check_known(y, known.astype(object), label, first)
    return y[~gone]


def _word(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _as(classes: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """Return labels in the type of the classes: 1 and "1" are the same word in a CSV file."""
    if y.dtype.kind == classes.dtype.kind:
        return y
    if classes.dtype.kind == "U":
        return y.astype(str)
    try:
        return y.astype(classes.dtype)
    except ValueError:
        return y.astype(object)


def _labels(series: Any) -> NDArray[Any]:
    gone = missing_in(series)
    if gone.any():
        raise ValueError(
            f"column {series.name!r} has no label in row {int(np.argmax(gone)) + 1} "
            f"({int(gone.sum())} rows lack one): leave them out or label them"
        )
    if not is_number(series):
        return np.array([str(value) for value in series.to_list()])
    values: NDArray[Any] = series.to_numpy()
    if values.dtype.kind == "f" and (values % 1 != 0).any():
        row = int(np.argmax(values % 1 != 0))
        raise ValueError(
            f"column {series.name!r} must hold classes, but row {row + 1} has {values[row]}"
        )
    return values.astype(np.int64) if values.dtype.kind in "fiu" else values


def usable_rows(frame: Any, names: Sequence[str], missing: str) -> NDArray[np.bool_]:
    """Return which rows have a value in all columns named; raise where ``missing`` is "error"."""
    usable = np.ones(len(frame), dtype=np.bool_)
    for name in names:
        gone = missing_in(frame[name])
        if gone.any() and missing == "error":
            raise ValueError(
                f"column {name!r} has no value in row {int(np.argmax(gone)) + 1} "
                f"({int(gone.sum())} rows lack one): mend them, leave the column out with "
                f"--ignore {name}, or such rows with --missing drop"
            )
        usable &= ~gone
    if not usable.any():
        raise ValueError("every row lacks a value in some column: nothing is left")
    return usable
