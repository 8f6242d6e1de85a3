"""The class-wise kernel log-sums: argument checks, and the choice of native core or NumPy.

The native implementation is ``src/native/kernel.cpp``; the NumPy one is ``numpy_sums.py``.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey import native
from kdey.kernels.numpy_sums import class_log_sums_numpy

Array = NDArray[np.float64]
Floats = NDArray[np.floating]
Indices = NDArray[np.int64]
Precision = Literal["mixed", "double"]
#: Bandwidths outside this range can only be mistakes, and their squares would overflow float64.
BANDWIDTH_RANGE = (1e-50, 1e50)
#: Bound on the sum of all squared coordinates, so that float32 distances do not overflow.
LARGEST_ENERGY = 1e36


def class_log_sums(
    queries: ArrayLike,
    references: ArrayLike,
    offsets: ArrayLike,
    bandwidths: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    exclude: ArrayLike | None = None,
    precision: Precision = "mixed",
    n_threads: int = 1,
) -> Array:
    r"""Return class-wise Gaussian kernel log-sums, float64 of shape (n_bandwidths, m, k).

    .. math:: l_{hji} = \log \sum_{r \in \text{class } i} w_r
              \exp\left(-\frac{\|x_j - y_r\|^2}{2 h^2}\right)

    without the normaliser of the Gaussian. The sum is -inf for a class without references (of
    positive weight, not excluded).

    Parameters
    ----------
    queries : array of shape (m, D)
        The points x_j; float32 and float64 are read in place where C-contiguous.
    references : array of shape (n, D)
        The points y_r, sorted by class.
    offsets : int array of shape (k + 1,)
        The references of class i are ``references[offsets[i]:offsets[i + 1]]``, possibly none.
    bandwidths : float or array of shape (n_bandwidths,)
        Positive bandwidths h; one pass over the distances serves all of them.
    weights : array of shape (n,), optional
        Non-negative weights w_r; a reference of weight zero counts as absent.
    exclude : int array of shape (m,), optional
        For each query the position of one reference that is left out of its sums (-1: none), for
        leave-one-out sums of queries that are references themselves.
    precision : {"mixed", "double"}
        "mixed": float32 distances if they give ``exp(l_ji - max_i l_ji)`` with an error of at most
        1e-4, float64 otherwise, and sums in float64. "double": float64 throughout, with an error of
        at most 1e-9. Terms too small to matter at this accuracy are skipped, and a class without
        any other term has the sum -inf. NumPy always uses float64 and skips nothing.
    n_threads : int
        Native threads; the result is the same to the last bit for every number.

    Returns
    -------
    log_sums : float64 array of shape (n_bandwidths, m, k)

    Raises
    ------
    ValueError
        If an argument has a wrong shape or type, or values that are not finite.
    """
    x = check_points(queries, "queries")
    y = check_points(references, "references")
    check_columns(x, y)
    splits = check_offsets(offsets, len(y))
    h = check_bandwidths(bandwidths)
    w = None if weights is None else check_weights(weights, len(y))
    excluded = None if exclude is None else check_exclude(exclude, len(x), len(y))
    check_precision(precision)
    check_threads(n_threads)
    if not native.available():
        return class_log_sums_numpy(x, y, splits, h, w, excluded)
    return class_log_sums_native(
        x, y, splits, h, w, excluded, double=precision == "double", n_threads=int(n_threads)
    )


def class_log_sums_native(
    queries: Floats,
    references: Floats,
    offsets: Indices,
    bandwidths: Array,
    weights: Array | None = None,
    exclude: Indices | None = None,
    *,
    double: bool = False,
    n_threads: int = 1,
    block_size: int = 0,
    skip: bool = True,
) -> Array:
    """Return the sums of :func:`class_log_sums` from the native core, for checked arguments.

    ``block_size`` (references per block, 0: the built-in choice) and ``skip`` (whether negligible
    blocks are skipped) affect speed only; tests and benchmarks set them.
    """
    m, columns = queries.shape
    k = len(offsets) - 1
    out = np.empty((len(bandwidths), m, k))
    native.call(
        "kdey_class_log_sums",
        queries,
        references,
        int(queries.dtype == np.float64),
        int(references.dtype == np.float64),
        m,
        len(references),
        columns,
        offsets,
        k,
        bandwidths,
        len(bandwidths),
        weights,
        exclude,
        int(double),
        n_threads,
        block_size,
        int(skip),
        out,
    )
    return out


def check_points(values: ArrayLike, name: str) -> Floats:
    """Return points as a C-contiguous float array of shape (n_points, n_columns), or raise."""
    points = np.asarray(values)
    if points.dtype not in (np.float32, np.float64):
        if points.dtype.kind not in "buif":
            raise ValueError(f"{name} must be real numbers, got dtype {points.dtype}")
        points = points.astype(np.float64)
    if points.ndim != 2 or points.shape[1] == 0:
        raise ValueError(f"{name} must have shape (n_points, n_columns), got {points.shape}")
    points = np.ascontiguousarray(points)
    _check_magnitude(points, name)
    return points


def _check_magnitude(points: Floats, name: str) -> None:
    # One pass over the memory detects NaN, infinity and values whose squares overflow float32.
    with np.errstate(over="ignore", invalid="ignore"):
        energy = float(np.vdot(points, points))
    if energy < LARGEST_ENERGY:
        return
    finite = np.isfinite(points).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(f"{name} contains NaN or infinity (first in row {row})")
    raise ValueError(f"{name} contains values too large for coordinates: {np.abs(points).max()}")


def check_columns(queries: Floats, references: Floats) -> None:
    """Raise ValueError unless queries and references have the same number of columns."""
    if queries.shape[1] != references.shape[1]:
        raise ValueError(
            f"queries have {queries.shape[1]} columns but references have {references.shape[1]}"
        )


def check_precision(precision: str) -> None:
    """Raise ValueError unless ``precision`` is one of its two names."""
    if not isinstance(precision, str) or precision not in ("mixed", "double"):
        raise ValueError(f"precision must be 'mixed' or 'double', got {precision!r}")


def check_threads(n_threads: int) -> None:
    """Raise ValueError unless ``n_threads`` is a positive integer."""
    if isinstance(n_threads, bool) or not isinstance(n_threads, int | np.integer) or n_threads < 1:
        raise ValueError(f"n_threads must be a positive integer, got {n_threads!r}")


def check_offsets(offsets: ArrayLike, n_references: int) -> Indices:
    """Return the class boundaries as int64, or raise ValueError."""
    splits = np.asarray(offsets)
    if splits.ndim != 1 or len(splits) < 2 or splits.dtype.kind not in "iu":
        raise ValueError("offsets must be an integer vector of length n_classes + 1")
    splits = np.ascontiguousarray(splits, dtype=np.int64)
    if splits[0] != 0 or splits[-1] != n_references or (np.diff(splits) < 0).any():
        raise ValueError(
            f"offsets must rise from 0 to the number of references ({n_references}), "
            f"got {splits[0]} to {splits[-1]}"
        )
    return splits


def check_bandwidths(bandwidths: ArrayLike) -> Array:
    """Return the bandwidths as a float64 vector, or raise ValueError."""
    h = np.atleast_1d(np.asarray(bandwidths))
    if h.dtype.kind not in "iuf" or h.ndim != 1 or len(h) == 0:
        raise ValueError("bandwidths must be a number or a non-empty vector of numbers")
    low, high = BANDWIDTH_RANGE
    if not ((h >= low) & (h <= high)).all():
        raise ValueError(f"bandwidths must be positive, finite and within [{low}, {high}], got {h}")
    return np.ascontiguousarray(h, dtype=np.float64)


def check_weights(weights: ArrayLike, n_references: int) -> Array:
    """Return the weights of references as a float64 vector, or raise ValueError."""
    w = np.ascontiguousarray(weights, dtype=np.float64)
    if w.shape != (n_references,):
        raise ValueError(f"weights must have shape ({n_references},), got {w.shape}")
    if not np.isfinite(w).all() or (w < 0).any():
        raise ValueError("weights must be finite and non-negative")
    return w


def check_exclude(exclude: ArrayLike, n_queries: int, n_references: int) -> Indices:
    """Return the excluded reference of each query as int64, or raise ValueError."""
    excluded = np.asarray(exclude)
    if excluded.shape != (n_queries,) or excluded.dtype.kind not in "iu":
        raise ValueError(f"exclude must be an integer vector of length {n_queries}")
    excluded = np.ascontiguousarray(excluded, dtype=np.int64)
    if n_queries and (excluded.min() < -1 or excluded.max() >= n_references):
        raise ValueError(f"exclude must lie between -1 and {n_references - 1}")
    return excluded
