"""Score columns: which class each belongs to, and which rows can be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.simplex import NEGATIVE_TOLERANCE, SUM_TOLERANCE

Floats = NDArray[np.floating]


def match_scores(columns: Sequence[str], classes: NDArray[Any]) -> list[str]:
    """Return the score columns in the order of the classes.

    Columns named after the classes, all with the same beginning and end (``p_cat``, ``p_dog``),
    are matched by name; where none is, they are taken in the order given.

    Parameters
    ----------
    columns : names of k columns
    classes : array of shape (k,)
    """
    labels = [str(label) for label in np.asarray(classes).tolist()]
    given = list(columns)
    if len(set(given)) != len(given):
        raise ValueError(f"scores names a column twice: {', '.join(given)}")
    if len(given) != len(labels):
        raise ValueError(
            f"scores needs one column per class, {len(labels)} ({_some(labels)}), "
            f"got {len(given)} ({_some(given)})"
        )
    best = max(_spellings(given, labels), key=lambda names: len(set(names) & set(given)))
    strange = [name for name in given if name not in best]
    if not strange:
        return best
    if 2 * len(strange) <= len(given):
        raise ValueError(
            f"scores names columns after classes, but not {', '.join(map(repr, strange))}: "
            f"training has the classes {_some(labels)}"
        )
    return given


def usable_scores(scores: Floats) -> NDArray[np.bool_]:
    """Return which rows of scores (m, k) have no missing entry, shape (m,)."""
    return np.asarray(np.isfinite(scores).all(axis=1))


def bad_score(scores: Floats) -> tuple[int, str] | None:
    """Return the first row that is no posterior, and what is wrong; None: all are.

    Rows with missing entries are passed over.
    """
    with np.errstate(invalid="ignore"):
        sums = scores.sum(axis=1, dtype=np.float64)
        wrong = (scores < -NEGATIVE_TOLERANCE).any(axis=1) | (np.abs(sums - 1.0) > SUM_TOLERANCE)
    wrong &= usable_scores(scores)
    if not wrong.any():
        return None
    row = int(np.argmax(wrong))
    least = float(scores[row].min())
    if least < -NEGATIVE_TOLERANCE:
        return row, f"has a negative score ({least:.4g})"
    return row, f"has scores that sum to {sums[row]:.6g}, not to one"


def _spellings(columns: list[str], labels: list[str]) -> list[list[str]]:
    """Return the names that columns of all classes would have, for each way to read one column."""
    ways = {("", "")}
    for column in columns:
        for label in labels:
            head, found, tail = column.rpartition(label)
            if found:
                ways.add((head, tail))
    return [[head + label + tail for label in labels] for head, tail in sorted(ways)]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
