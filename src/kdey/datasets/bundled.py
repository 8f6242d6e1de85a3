"""The sets that scikit-learn brings along: no data directory, no download."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.datasets.registry import Entry

#: scikit-learn corrected two rows of iris; the UCI file has them as first typed.
_IRIS_NOTE = "iris as in scikit-learn: rows 35 and 38 as Fisher printed them, not as UCI has them"
_LOADERS = {
    "digits-subset": "load_digits",
    "iris": "load_iris",
    "wine": "load_wine",
    "wdbc": "load_breast_cancer",
}


def load_bundled(entry: Entry) -> tuple[Any, NDArray[Any], str, tuple[str, ...]]:
    """Return features (n, d), labels (n,), the source in a sentence, and notes.

    Binary sets made of a class, "wine.2", have label 1 for it and 0 for the others. The label 1 of
    wdbc is malignant, as in the paper.
    """
    from sklearn import datasets  # takes long to import, and files may be all that is asked for

    base, _, number = entry.name.partition(".")
    X, y = getattr(datasets, _LOADERS[base])(return_X_y=True)
    notes: tuple[str, ...] = (_IRIS_NOTE,) if base == "iris" else ()
    if number:
        y = (y == int(number) - 1).astype(np.int64)
        notes = (*notes, f"label 1 for class {number}, 0 for the others")
    if base == "wdbc":
        y = 1 - y
        notes = ("label 1 for malignant",)
    return np.asarray(X, dtype=np.float64), y, f"scikit-learn's {_LOADERS[base]}", notes
