"""Labels: from whatever the user calls the classes to codes 0..k-1, and the checks on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

Codes = NDArray[np.int64]


def encode_labels(
    y: ArrayLike, classes: ArrayLike | None = None, *, min_classes: int = 2
) -> tuple[NDArray[Any], Codes]:
    """Return the sorted classes, shape (k,), and the code of each label, shape (n,).

    Parameters
    ----------
    y : array-like of shape (n,)
        Integer, string or boolean labels.
    classes : array-like of shape (k,), optional
        All classes, sorted; by default those found in ``y``. Each must occur in ``y``.
    min_classes : int
        Fewer classes than this are refused.
    """
    labels = column_or_1d(y, warn=True)
    if len(labels) == 0:
        raise ValueError("y is empty: training needs labelled instances")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y contains NaN or infinity")
    check_classification_targets(labels)
    found = _unique(labels)
    if classes is not None:
        known = np.asarray(classes)
        _check_classes(known, found)
        found = known
    if len(found) < min_classes:
        raise ValueError(
            f"y contains one class only ({found[0]!r}); prevalences need at least "
            f"{min_classes} classes"
        )
    return found, np.searchsorted(found, labels).astype(np.int64)


def _unique(labels: NDArray[Any]) -> NDArray[Any]:
    try:
        return np.unique(labels)
    except TypeError as error:
        raise ValueError(f"y mixes labels that cannot be compared: {error}") from error


def _check_classes(classes: NDArray[Any], found: NDArray[Any]) -> None:
    if classes.ndim != 1 or len(_unique(classes)) != len(classes):
        raise ValueError("classes must be a vector without repetitions")
    if not (np.sort(classes) == classes).all():
        raise ValueError("classes must be sorted")
    unseen = np.setdiff1d(found, classes)
    if len(unseen):
        raise ValueError(f"y has labels that are not in classes: {list(unseen)[:5]}")
    absent = np.setdiff1d(classes, found)
    if len(absent):
        raise ValueError(
            f"classes without a single training instance cannot be estimated: {list(absent)[:5]}"
        )
