"""The kernel log-sums in NumPy: reference for tests of the native core, and its replacement.

Distances are computed from differences (no expanded norms) in float64, in blocks that keep the
additional memory at a few MB.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

Array = NDArray[np.float64]
Floats = NDArray[np.floating]
Indices = NDArray[np.int64]

#: Queries and references per block of distances.
QUERY_BLOCK = 128
REFERENCE_BLOCK = 2048


def class_log_sums_numpy(
    queries: Floats,
    references: Floats,
    offsets: Indices,
    bandwidths: Array,
    weights: Array | None = None,
    exclude: Indices | None = None,
) -> Array:
    """Return the sums of :func:`kdey.kernels.class_log_sums` for arguments that are checked."""
    m, k = len(queries), len(offsets) - 1
    out = np.full((len(bandwidths), m, k), -np.inf)
    for low in range(0, m, QUERY_BLOCK):
        rows = slice(low, min(low + QUERY_BLOCK, m))
        x = np.asarray(queries[rows], dtype=np.float64)
        for i in range(k):
            for start in range(int(offsets[i]), int(offsets[i + 1]), REFERENCE_BLOCK):
                part = slice(start, min(start + REFERENCE_BLOCK, int(offsets[i + 1])))
                squared = _squared_distances(x, references, part)
                if exclude is not None:
                    _exclude_references(squared, exclude[rows], part)
                log_w = None if weights is None else _log(weights[part])
                for b, h in enumerate(bandwidths):
                    sums = _log_sum(squared, log_w, float(h))
                    out[b, rows, i] = np.logaddexp(out[b, rows, i], sums)
    return out


def _squared_distances(x: Array, references: Floats, part: slice) -> Array:
    y = np.asarray(references[part], dtype=np.float64)
    return np.asarray(cdist(x, y, "sqeuclidean"), dtype=np.float64)


def _exclude_references(squared: Array, exclude: Indices, part: slice) -> None:
    rows = np.flatnonzero((exclude >= part.start) & (exclude < part.stop))
    squared[rows, exclude[rows] - part.start] = np.inf


def _log_sum(squared: Array, log_weights: Array | None, bandwidth: float) -> Array:
    exponents = squared * (-0.5 / bandwidth**2)
    if log_weights is not None:
        exponents += log_weights
    top = exponents.max(axis=1)
    shift = np.where(np.isfinite(top), top, 0.0)
    exponents -= shift[:, None]
    return shift + _log(np.exp(exponents, out=exponents).sum(axis=1))


def _log(values: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values), dtype=np.float64)
