"""The kernel log-sums by the native core (``src/native/kernel.cpp``).

The public kernel sums: argument checks and the choice of route.
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
    """Return the log-sums of :func:`kdey.kernels.class_log_sums`; arguments already checked.

    ``block_size`` (references per block, 0: the built-in choice) and ``skip`` (whether blocks
    that cannot matter are skipped) change the speed alone; tests and benchmarks set them.
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


Precision = Literal["mixed", "double"]

#: Bandwidths outside these can only be mistakes, and their squares would leave float64.
BANDWIDTH_RANGE = (1e-50, 1e50)
#: Bound on the sum of all squared coordinates, which float32 distances must be able to hold.
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

    without the Gaussian's normaliser; -inf where a class has no (weighted, not excluded)
    reference.

    Parameters
    ----------
    queries : array of shape (m, D)
        The points x_j; float32 and float64 are read in place where C-contiguous.
    references : array of shape (n, D)
        The points y_r, sorted by class.
    offsets : int array of shape (k + 1,)
        Class i owns ``references[offsets[i]:offsets[i + 1]]``; classes may be empty.
    bandwidths : float or array of shape (n_bandwidths,)
        Positive bandwidths h; one pass over the distances serves all of them.
    weights : array of shape (n,), optional
        Non-negative weights w_r; a reference of weight zero counts as absent.
    exclude : int array of shape (m,), optional
        For each query the one reference left out of its sums (-1: none), as a position in
        ``references``: leave-one-out sums for queries that are references themselves.
    precision : {"mixed", "double"}
        "mixed": float32 distances wherever they hold ``exp(l_ji - max_i l_ji)`` to 1e-4, float64
        elsewhere, sums in float64. "double": float64 throughout, good to 1e-9. Terms that
        cannot reach this accuracy are skipped, and a class of which every term was skipped is
        -inf. The NumPy route is always double and skips nothing.
    n_threads : int
        Native threads; the result is the same to the last bit for every number.
    """
    x = _points(queries, "queries")
    y = _points(references, "references")
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"queries have {x.shape[1]} columns but references have {y.shape[1]}")
    splits = _check_offsets(offsets, len(y))
    h = _check_bandwidths(bandwidths)
    w = None if weights is None else _check_weights(weights, len(y))
    left_out = None if exclude is None else _check_exclude(exclude, len(x), len(y))
    if not isinstance(precision, str) or precision not in ("mixed", "double"):
        raise ValueError(f"precision must be 'mixed' or 'double', got {precision!r}")
    if isinstance(n_threads, bool) or not isinstance(n_threads, int | np.integer) or n_threads < 1:
        raise ValueError(f"n_threads must be a positive integer, got {n_threads!r}")
    if not native.available():
        return class_log_sums_numpy(x, y, splits, h, w, left_out)
    return class_log_sums_native(
        x, y, splits, h, w, left_out, double=precision == "double", n_threads=int(n_threads)
    )


def _points(values: ArrayLike, name: str) -> Floats:
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
    # One pass over the memory finds NaN, infinity and values whose squares leave float32.
    with np.errstate(over="ignore", invalid="ignore"):
        energy = float(np.vdot(points, points))
    if energy < LARGEST_ENERGY:
        return
    finite = np.isfinite(points).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(f"{name} contains NaN or infinity (first in row {row})")
    raise ValueError(f"{name} contains values too large for coordinates: {np.abs(points).max()}")


def _check_offsets(offsets: ArrayLike, n_references: int) -> Indices:
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


def _check_bandwidths(bandwidths: ArrayLike) -> Array:
    h = np.atleast_1d(np.asarray(bandwidths))
    if h.dtype.kind not in "iuf" or h.ndim != 1 or len(h) == 0:
        raise ValueError("bandwidths must be a number or a non-empty vector of numbers")
    low, high = BANDWIDTH_RANGE
    if not ((h >= low) & (h <= high)).all():
        raise ValueError(f"bandwidths must be positive, finite and within [{low}, {high}], got {h}")
    return np.ascontiguousarray(h, dtype=np.float64)


def _check_weights(weights: ArrayLike, n_references: int) -> Array:
    w = np.ascontiguousarray(weights, dtype=np.float64)
    if w.shape != (n_references,):
        raise ValueError(f"weights must have shape ({n_references},), got {w.shape}")
    if not np.isfinite(w).all() or (w < 0).any():
        raise ValueError("weights must be finite and non-negative")
    return w


def _check_exclude(exclude: ArrayLike, n_queries: int, n_references: int) -> Indices:
    left_out = np.asarray(exclude)
    if left_out.shape != (n_queries,) or left_out.dtype.kind not in "iu":
        raise ValueError(f"exclude must be an integer vector of length {n_queries}")
    left_out = np.ascontiguousarray(left_out, dtype=np.int64)
    if n_queries and (left_out.min() < -1 or left_out.max() >= n_references):
        raise ValueError(f"exclude must lie between -1 and {n_references - 1}")
    return left_out
