"""From what a file holds to features and labels: words to indicators, rare classes out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.datasets.tables import Table

Array = NDArray[np.float64]
#: A class with fewer rows cannot be in all three parts of a stratified split.
SMALLEST_CLASS = 4


def features(table: Table) -> tuple[Array, tuple[str, ...]]:
    """Return the features of a table, and notes.

    A column of words with v distinct ones becomes v - 1 indicators, of all but the first word in
    sorted order; it keeps its place among the numeric columns.

    Returns
    -------
    X : float64 array of shape (n, d)
    notes : tuple of str
    """
    if not table.words:
        return table.numbers, ()
    blocks, at = [], 0
    for column in table.columns:
        if column in table.words:
            distinct, codes = np.unique(table.words[column], return_inverse=True)
            blocks.append(np.eye(len(distinct))[codes][:, 1:])
        else:
            blocks.append(table.numbers[:, at : at + 1])
            at += 1
    note = f"one-hot without the first value: {', '.join(table.words)}"
    return np.hstack(blocks), (note,)


def frequent_rows(
    labels: NDArray[Any], min_class_size: int, where: str
) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """Return which rows belong to a class of the wanted size at least, and notes.

    Parameters
    ----------
    labels : array of shape (n,)
    min_class_size : int
        Never less than ``SMALLEST_CLASS``.
    where : str
        Named in the error where fewer than two classes are left.
    """
    least = max(min_class_size, SMALLEST_CLASS)
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    rare = counts < least
    if (~rare).sum() < 2:
        raise ValueError(
            f"{where}: {(~rare).sum()} classes have {least} rows or more, two are needed; "
            "lower min_class_size"
        )
    if not rare.any():
        return np.ones(len(labels), dtype=bool), ()
    listed = ", ".join(f"{name} ({n})" for name, n in zip(classes[rare], counts[rare], strict=True))
    note = f"{rare.sum()} classes of fewer than {least} rows left out: {listed}"
    return ~rare[codes], (note,)
