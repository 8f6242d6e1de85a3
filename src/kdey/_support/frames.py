"""Data frames: results in whichever frame library the user has installed, and rows of any frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing

#: Supported libraries, in order of preference.
BACKENDS = ("pandas", "polars", "pyarrow")


def make_frame(columns: Mapping[str, Any], backend: str | None = None) -> Any:
    """Return named columns as a data frame.

    Parameters
    ----------
    columns : mapping from name to a vector; all of the same length
    backend : {"pandas", "polars", "pyarrow"}, optional
        By default the first of these that is installed.

    Raises
    ------
    ValueError
        If ``backend`` is none of these.
    ImportError
        If none of them is installed.
    """
    import narwhals as nw

    name: Any = _installed() if backend is None else backend
    if name not in BACKENDS:
        raise ValueError(f"backend must be one of {BACKENDS}, got {backend!r}")
    data = {key: as_column(values) for key, values in columns.items()}
    return nw.from_dict(data, backend=name).to_native()


def as_column(values: Sequence[Any] | NDArray[Any]) -> Any:
    """Return values as a column of one type: numbers, or text if the types are mixed.

    None stays a missing value beside text and becomes NaN beside numbers.
    """
    array = np.asarray(values)
    if array.dtype.kind in "biuf" and array.ndim == 1:
        return array
    items = list(values)
    numbers = [value for value in items if value is not None]
    if numbers and all(isinstance(v, int | float | np.number) for v in numbers):
        return np.array([np.nan if v is None else v for v in items], dtype=np.float64)
    return [None if value is None else str(value) for value in items]


def take_rows(X: Any, rows: ArrayLike) -> Any:
    """Return the instances at some positions, in the type that they have.

    Tables of pyarrow are handled here, because scikit-learn 1.6 takes positions for their columns.

    Parameters
    ----------
    X : array, sparse matrix, data frame, table of pyarrow or list
    rows : array-like of int or bool
        Positions, or which instances.
    """
    import narwhals as nw

    if not nw.dependencies.is_pyarrow_table(X):
        return _safe_indexing(X, rows)
    positions = np.asarray(rows)
    return X.take(np.flatnonzero(positions) if positions.dtype == np.bool_ else positions)


def refuse_levels(frame: Any, name: str) -> Any:
    """Return a frame, or raise if its columns have names of several levels (a MultiIndex).

    scikit-learn and narwhals know no such names, and would take the columns by position.

    Parameters
    ----------
    frame : data frame, or anything else, which is returned as it is
    name : str
        What to call it in messages.
    """
    columns: Any = getattr(frame, "columns", None)
    if getattr(columns, "nlevels", 1) > 1:
        raise ValueError(
            f"{name} has columns with names of several levels, such as {columns[0]!r}: give every "
            "column one name, for instance '_'.join(name)"
        )
    return frame


def _installed() -> str:
    for name in BACKENDS:
        if find_spec(name) is not None:
            return name
    raise ImportError(f"data frames need one of {', '.join(BACKENDS)}: install one of them")
