"""Hashes of rows by their values: the same row has the same hash in whatever table it lies."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

#: Numbers that are hashed at a time (32 MB).
_CHUNK = 1 << 22
_STEP = np.uint64(0x9E3779B97F4A7C15)
#: Stands for NaN, which has many bit patterns.
_NAN = np.uint64(0x7FF8000000000000)


def row_hashes(X: Any) -> Hashes:
    """Return one hash per row, which depends on nothing but the values of the row.

    Parameters
    ----------
    X : array, sparse matrix, data frame or list of m rows

    Returns
    -------
    uint64 array of shape (m,)
    """
    import narwhals as nw
    from scipy.sparse import issparse

    if issparse(X):
        return _of_sparse(X)
    if nw.dependencies.is_into_dataframe(X):
        frame = nw.from_native(X, eager_only=True)
        columns = [_of_column(frame[name]) for name in frame.columns]
        return combine(columns, len(frame))
    array = np.asarray(X)
    rows = array if array.ndim == 2 else array.reshape(len(array), -1 if len(array) else 1)
    if rows.dtype.kind in "biuf":
        return _of_numbers(rows)
    return combine([_of_cells(rows[:, j]) for j in range(rows.shape[1])], len(rows))


def combine(columns: Iterable[Hashes], n_rows: int) -> Hashes:
    """Return one hash per row from hashes of its cells, column by column."""
    total = np.zeros(n_rows, dtype=np.uint64)
    for number, column in enumerate(columns):
        total += mix(column + np.uint64(number * int(_STEP) % 2**64))
    return mix(total)


def mix(values: Hashes) -> Hashes:
    """Return values spread over all 64 bits: the finaliser of SplitMix64."""
    mixed = values + _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def text_hashes(texts: Iterable[str]) -> Hashes:
    """Return the hashes of texts; computed once for each distinct one."""
    listed = list(texts)
    known = {text: _text_hash(text) for text in dict.fromkeys(listed)}
    return np.fromiter((known[text] for text in listed), np.uint64, count=len(listed))


def _text_hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _of_cells(values: Iterable[Any]) -> Hashes:
    """Return hashes of cells of any type; a text that spells a number is that number.

    The cells of text files are texts, and those of other tables numbers.
    """
    texts = ["nan" if value is None else str(value) for value in values]
    known: dict[str, int] = {}
    for text in dict.fromkeys(texts):
        try:
            known[text] = int(_bits(np.array([float(text or "nan")]))[0])
        except ValueError:
            known[text] = _text_hash(text)
    return np.fromiter((known[text] for text in texts), np.uint64, count=len(texts))


def _bits(numbers: NDArray[Any]) -> Hashes:
    """Return the bits of numbers as float64; all zeros are one number, and all NaNs."""
    floats = np.ascontiguousarray(numbers, dtype=np.float64) + 0.0
    bits = floats.view(np.uint64)
    return np.where(np.isnan(floats), _NAN, bits)


def _of_numbers(rows: NDArray[Any]) -> Hashes:
    steps = np.arange(rows.shape[1], dtype=np.uint64) * _STEP
    out = np.empty(len(rows), dtype=np.uint64)
    size = max(1, _CHUNK // max(rows.shape[1], 1))
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        out[part] = mix(_bits(rows[part]) + steps).sum(axis=1, dtype=np.uint64)
    return mix(out)


def _of_sparse(matrix: Any) -> Hashes:
    """Return the hashes of the rows of a sparse matrix; entries that are zero do not count."""
    matrix = matrix.tocsr().copy()  # the caller's stays as it is
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    cells = mix(_bits(matrix.data) + matrix.indices.astype(np.uint64) * _STEP)
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(cells, dtype=np.uint64)])
    return mix(total[matrix.indptr[1:]] - total[matrix.indptr[:-1]])


def _of_column(column: Any) -> Hashes:
    import narwhals as nw

    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        return _bits(np.asarray(column.to_numpy(), dtype=np.float64))
    return _of_cells(column.to_list())
