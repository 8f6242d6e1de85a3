"""A labelled table as training data: labels, features or scores, and the layout they came in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.tables.layout import (
    Frame,
    Series,
    TableLayout,
    is_number,
    learn_layout,
    missing_in,
    numbers,
    require,
)


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
    frame: Frame,
    label: str,
    *,
    features: Sequence[str] = (),
    ignore: Sequence[str] = (),
    scores: Sequence[str] = (),
    missing: str = "error",
) -> TrainingTable:
    """Return the training data of a frame.

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


def table_labels(frame: Frame, label: str, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the labels of a table, all of which must be among ``classes``."""
    require(frame, [label], "label column")
    known = np.asarray(classes)
    y = _in_type_of(known, _labels(frame[label]))
    check_known(y, known, label)
    return y


def check_known(y: NDArray[Any], classes: NDArray[Any], label: str, first: int = 1) -> None:
    """Raise where a label is not among ``classes``; ``first`` is the number of the first row."""
    unknown = ~np.isin(y, classes)
    if unknown.any():
        row = int(np.argmax(unknown))
        raise ValueError(
            f"column {label!r} has the class {_plain(y[row])!r} in row {row + first}, which "
            f"training lacks ({int(unknown.sum())} such rows): leave them out, or fit on them too"
        )


def labels_seen(frame: Frame, label: str, classes: NDArray[Any], first: int = 1) -> NDArray[Any]:
    """Return the labels of a table that need not have any, as ``classes`` writes them.

    Raises where one of them is not among ``classes``.
    """
    missing, known = missing_in(frame[label]), np.asarray(classes)
    y = np.full(len(missing), known[0], dtype=object)
    if not missing.all():
        y[~missing] = _in_type_of(known, _labels(frame[label].filter((~missing).tolist())))
        check_known(y, known.astype(object), label, first)
    return y[~missing]


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _in_type_of(classes: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """Return labels in the type of the classes: 1 and "1" are the same text in a CSV file."""
    if y.dtype.kind == classes.dtype.kind:
        return y
    if classes.dtype.kind == "U":
        return y.astype(str)
    try:
        return y.astype(classes.dtype)
    except ValueError:
        return y.astype(object)


def _labels(column: Series) -> NDArray[Any]:
    missing = missing_in(column)
    if missing.any():
        raise ValueError(
            f"column {column.name!r} has no label in row {int(np.argmax(missing)) + 1} "
            f"({int(missing.sum())} rows lack one): leave them out or label them"
        )
    if not is_number(column):
        return np.array([str(value) for value in column.to_list()])
    values: NDArray[Any] = column.to_numpy()
    if values.dtype.kind == "f" and (values % 1 != 0).any():
        row = int(np.argmax(values % 1 != 0))
        raise ValueError(
            f"column {column.name!r} must hold classes, but row {row + 1} has {values[row]}"
        )
    return values.astype(np.int64) if values.dtype.kind in "fiu" else values


def usable_rows(frame: Frame, names: Sequence[str], missing: str) -> NDArray[np.bool_]:
    """Return which rows have a value in all columns named; raise where ``missing`` is "error"."""
    usable = np.ones(len(frame), dtype=np.bool_)
    for name in names:
        empty = missing_in(frame[name])
        if empty.any() and missing == "error":
            raise ValueError(
                f"column {name!r} has no value in row {int(np.argmax(empty)) + 1} "
                f"({int(empty.sum())} rows lack one): fill them in, leave the column out with "
                f"--ignore {name}, or such rows with --missing drop"
            )
        usable &= ~empty
    if not usable.any():
        raise ValueError("every row lacks a value in some column: nothing is left")
    return usable
