r"""Class-wise Gaussian kernel log-sums: the one expensive operation of kernel quantification.

:func:`class_log_sums` evaluates

    l[h, j, i] = log sum_{r in class i} w_r exp(-|x_j - y_r|^2 / (2 h^2))

for all queries x_j, classes i and bandwidths h at once. The normaliser of the Gaussian is left out:
it is the same for all classes, and (2 pi h^2)^(-D/2) can overflow or underflow where the log-sums
do not. :func:`transform` turns posteriors into coordinates, and :func:`resolve_bandwidth` a
rule of thumb into a bandwidth.

The class-wise log-sums of the native core are in ``src/native/kernel.cpp``; those in NumPy are the
reference for its tests, and its replacement: distances are computed from differences (no expanded
norms) in float64, in blocks that keep the additional memory at a few MB.

:class:`PackedReferences` are checked, ordered and packed once, for many calls. The native core puts
references near each other into blocks, with bounds by which whole blocks are skipped, and stores
them in the order in which its vectors read them. For a large pool this is a small part of the work;
for a bag of ten instances it is nearly all of it.

:func:`kernel_means` averages kernels between bags and fixed points, with the work per pool instance
done once.

.. math:: q_{bi} = \frac{1}{r_i} \sum_j w_{bj}
          \exp\left(-\frac{\|x_i - u_j\|^2}{2 h^2}\right), \qquad \sum_j w_{bj} = 1

A kernel value belongs to an instance, not to a bag. It is computed once for all bags that contain
the instance, and a bag is a weighted mean of such values. Everything is computed in float64 and
nothing is skipped, so that the result of a bag does not depend on the other bags (except with
``quick``). The native core does this for a few points at a time, with all values in the cache
(``src/native/means.cpp``). Where it is missing, and where a dense matrix product is faster, blocks
of points go through NumPy.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from threadpoolctl import ThreadpoolController

from kdey import native
from kdey.bags import Array, Bags, Indices

__all__ = ["PackedReferences", "class_log_sums"]

Floats = NDArray[np.floating]


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
    packed = PackedReferences(
        references, offsets, weights, precision=precision, n_threads=n_threads
    )
    return packed.log_sums(queries, bandwidths, exclude=exclude, n_threads=n_threads)


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


class PackedReferences:
    """The references of :func:`kdey.kernels.class_log_sums`, packed; the sums are the same bits.

    Parameters
    ----------
    references : array of shape (n, D)
        Read in place where they are C-contiguous floats; they must not change afterwards.
    offsets : int array of shape (k + 1,)
    weights : array of shape (n,), optional
    precision : {"mixed", "double"}
    n_threads : int
        Native threads with which to pack.

    Raises
    ------
    ValueError
        As :func:`kdey.kernels.class_log_sums`.

    Notes
    -----
    The packed form takes 4 bytes per coordinate and 16 to 28 per reference (``nbytes``): 2.8 MB for
    20,000 references of 28 classes, whose posteriors take 4.5 MB in float64. Nothing changes it, so
    that threads can share it. It is laid out for the instruction set in use and is not pickled.
    """

    def __init__(
        self,
        references: ArrayLike,
        offsets: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        precision: Precision = "mixed",
        n_threads: int = 1,
    ) -> None:
        check_precision(precision)
        check_threads(n_threads)
        self._points = check_points(references, "references")
        self._offsets = check_offsets(offsets, len(self._points))
        self._weights = None if weights is None else check_weights(weights, len(self._points))
        self._handle: ctypes.c_void_p | None = None
        handle = native.library()
        if handle is not None:
            self._handle = self._pack(precision == "double", int(n_threads))
            weakref.finalize(self, handle.kdey_free_references, self._handle)

    def _pack(self, double: bool, n_threads: int) -> ctypes.c_void_p:
        pointer, points = ctypes.c_void_p(), self._points
        native.call(
            "kdey_pack_references",
            *(points, int(points.dtype == np.float64), *points.shape),
            *(self._offsets, len(self._offsets) - 1, self._weights, int(double), n_threads, 0),
            ctypes.byref(pointer),
        )
        return pointer

    @property
    def nbytes(self) -> int:
        """Memory of the packed form in bytes; zero without the native core, which packs nothing."""
        handle = native.library()
        if self._handle is None or handle is None:
            return 0
        return int(handle.kdey_packed_bytes(self._handle))

    def log_sums(
        self,
        queries: ArrayLike,
        bandwidths: ArrayLike,
        *,
        exclude: ArrayLike | None = None,
        n_threads: int = 1,
    ) -> Array:
        """Return the log-sums of :func:`kdey.kernels.class_log_sums`, (n_bandwidths, m, k).

        Parameters
        ----------
        queries : array of shape (m, D)
        bandwidths : float or array of shape (n_bandwidths,)
        exclude : int array of shape (m,), optional
        n_threads : int

        Returns
        -------
        log_sums : float64 array of shape (n_bandwidths, m, k)
        """
        x = check_points(queries, "queries")
        check_columns(x, self._points)
        h = check_bandwidths(bandwidths)
        n = len(self._points)
        excluded = None if exclude is None else check_exclude(exclude, len(x), n)
        check_threads(n_threads)
        if self._handle is None or not native.available():
            return class_log_sums_numpy(x, self._points, self._offsets, h, self._weights, excluded)
        out = np.empty((len(h), len(x), len(self._offsets) - 1))
        native.call(
            "kdey_packed_log_sums",
            *(self._handle, x, int(x.dtype == np.float64), len(x), h, len(h), excluded),
            *(int(n_threads), 1, out),
        )
        return out

    def __reduce__(self) -> Any:
        """Refuse to be pickled: addresses mean nothing to another process."""
        raise TypeError("packed references are not pickled; pack the references again")


#: Number of kernel values that each thread keeps in memory.
_BLOCK = 1 << 21

#: Mean share of the pool in a bag above which a dense product is faster than a sparse one.
_DENSE_SHARE = 1 / 25

#: Mean share of the pool in a bag, and number of bags, above which a matrix product in float64 is
#: faster than the sums of the native core.
_PRODUCT_SHARE, _PRODUCT_BAGS = 1 / 4, 64

#: Smallest log of a kernel value, in float64 and in float32. Smaller values are raised to it,
#: because denormal numbers would slow every product down.
_LOG_FLOOR = -500.0

_LOG_FLOOR_QUICK = -75.0

#: Largest log of a kernel value relative to its scale, so that every number is finite.
_LOG_CEILING = 1022 * math.log(2.0)

_LOG_CEILING_QUICK = 80.0

#: Selecting the instances near a block of points pays if they are at most this share of all.
_SELECTION_SHARE = 0.8


def kernel_means(
    points: NDArray[np.floating],
    log_scale: Array,
    coordinates: NDArray[np.floating],
    bags: Bags,
    bandwidth: float,
    n_threads: int = 1,
    *,
    quick: bool = False,
) -> Array:
    """Return the mean kernel of each bag at each point, divided by ``exp(log_scale)``.

    Parameters
    ----------
    points : array of shape (t, D)
    log_scale : array of shape (t,)
        Log of the divisor of the values at each point.
    coordinates : array of shape (m, D)
        The instances of the pool.
    bags : Bags
    bandwidth : float
    n_threads : int
        Number of blocks of points computed in parallel; the result does not depend on it.
    quick : bool
        Compute kernel values and sums in float32: accurate to six digits, about twice as fast.

    Returns
    -------
    means : array of shape (n_bags, t)
    """
    if not quick and native.available() and not _is_dense(bags):
        return _native_means(points, log_scale, coordinates, bags, bandwidth, n_threads)
    dtype = np.float32 if quick else np.float64
    limits = (_LOG_FLOOR_QUICK, _LOG_CEILING_QUICK) if quick else (_LOG_FLOOR, _LOG_CEILING)
    used, columns = np.unique(bags.indices, return_inverse=True)
    averaging = bags.matrix()
    shape = (len(bags), len(used))
    weights: Any = sp.csr_array((averaging.data, columns, averaging.indptr), shape=shape)
    if len(bags.indices) > _DENSE_SHARE * shape[0] * shape[1]:
        weights = weights.toarray()
    weights = weights.astype(dtype)
    exponents = _Exponents(np.asarray(coordinates[used], dtype=np.float64), bandwidth)
    out = np.empty((len(bags), len(points)))
    step = max(1, _BLOCK // len(used))

    def fill_block(start: int) -> None:
        block = slice(start, start + step)
        x = np.asarray(points[block], dtype=np.float64)
        logs = exponents(x, log_scale[block])
        out[:, block] = _weighted_sums(weights, logs.astype(dtype, copy=False), limits)

    # One BLAS thread for any n_threads: products must not depend on how they are cut into blocks.
    with _blas_controller().limit(limits=1, user_api="blas"):
        _for_each(fill_block, range(0, len(points), step), n_threads)
    return out


def _is_dense(bags: Bags) -> bool:
    """Whether there are many bags, each with a good part of the instances."""
    if len(bags) <= _PRODUCT_BAGS:
        return False
    n_used = int(np.count_nonzero(np.bincount(bags.indices, minlength=1)))
    return bool(len(bags.indices) > _PRODUCT_SHARE * len(bags) * n_used)


def _native_means(
    points: NDArray[np.floating],
    log_scale: Array,
    coordinates: NDArray[np.floating],
    bags: Bags,
    bandwidth: float,
    n_threads: int,
) -> Array:
    x, u = (np.ascontiguousarray(a, dtype=np.float64) for a in (points, coordinates))
    scale = np.ascontiguousarray(log_scale, dtype=np.float64)
    out = np.empty((len(bags), len(x)))
    native.call(
        "kdey_kernel_means",
        *(x, scale, len(x), u, *u.shape, bags.indices, bags.offsets, bags.weights, len(bags)),
        *(float(bandwidth), _LOG_FLOOR, int(n_threads), out),
    )
    return out


class _Exponents:
    r"""Logs of Gaussian kernels between fixed instances and blocks of points.

    One product gives :math:`-(\|u\|^2 - 2 u \cdot x + \|x\|^2) / 2 h^2 - s`, with the norms and the
    scale as two additional columns.
    """

    def __init__(self, coordinates: Array, bandwidth: float) -> None:
        self._centre = coordinates.mean(axis=0)  # small norms keep distances accurate
        self._factor = -0.5 / bandwidth**2
        u = coordinates - self._centre
        norms = np.einsum("ij,ij->i", u, u)
        self._left = np.column_stack([u, norms, np.ones(len(u))])

    def __call__(self, points: Array, log_scale: Array) -> Array:
        """Return the logs of the kernels divided by ``exp(log_scale)``, shape (m, t)."""
        x = points - self._centre
        last = self._factor * np.einsum("ij,ij->i", x, x) - log_scale
        right = [-2.0 * self._factor * x, np.full(len(x), self._factor), last]
        logs: Array = self._left @ np.column_stack(right).T
        return logs


def _weighted_sums(weights: Any, exponents: Floats, limits: tuple[float, float]) -> Floats:
    """Return ``weights @ exp(exponents)``, without instances that are negligible everywhere."""
    log_floor, log_ceiling = limits
    near = np.flatnonzero(exponents.max(axis=1) > log_floor)
    if len(near) < _SELECTION_SHARE * len(exponents):
        weights, exponents = weights[:, near], exponents[near]
    np.clip(exponents, log_floor, log_ceiling, out=exponents)
    product: Floats = weights @ np.exp(exponents, out=exponents)
    # Every density is positive, because some divergences take its logarithm.
    return np.maximum(product, math.exp(log_floor), out=product)


@cache
def _blas_controller() -> Any:
    """Return the controller of BLAS threads, once: finding the libraries takes milliseconds."""
    return ThreadpoolController()


def _for_each(call: Callable[[int], None], starts: range, n_threads: int) -> None:
    if n_threads == 1 or len(starts) == 1:
        for start in starts:
            call(start)
        return
    with ThreadPoolExecutor(n_threads) as executor:
        list(executor.map(call, starts))


#: Share of the uniform distribution that is mixed into posteriors before taking logarithms.
DEFAULT_SHRINKAGE = 1e-3

#: Accepted kernel names. The isometric log-ratios are a rotation of the centred ones, so "ilr"
#: has the same distances and is an alias of "aitchison".
KERNELS = ("gaussian", "aitchison", "ilr")


def check_geometry(kernel: str, shrinkage: float) -> None:
    """Raise ValueError unless ``kernel`` is one of ``KERNELS`` and 0 <= ``shrinkage`` < 1."""
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {kernel!r}")
    check_shrinkage(shrinkage)


def check_shrinkage(shrinkage: float) -> None:
    """Raise unless ``shrinkage`` is a number with 0 <= ``shrinkage`` < 1."""
    is_number = isinstance(shrinkage, int | float | np.number) and not isinstance(shrinkage, bool)
    if not is_number or not 0 <= shrinkage < 1:
        raise ValueError(f"shrinkage must be a number in [0, 1), got {shrinkage!r}")


def transform(
    posteriors: ArrayLike, kernel: str = "gaussian", shrinkage: float = DEFAULT_SHRINKAGE
) -> Floats:
    r"""Return the coordinates of ``posteriors`` (m, k) in which ``kernel`` is Gaussian, (m, k).

    "gaussian" is the identity (no copy, ``shrinkage`` unused). "aitchison" (alias "ilr") gives
    the centred log-ratios of shrunk posteriors, float64,

    .. math:: z_i = \log q_i - \frac1k \sum_l \log q_l, \quad q = (1 - s)\, p + s / k,

    whose Euclidean distance is Aitchison's distance between the q (Aitchison, *The Statistical
    Analysis of Compositional Data*, 1986).

    Parameters
    ----------
    posteriors : array-like of shape (m, k)
    kernel : {"gaussian", "aitchison", "ilr"}
    shrinkage : float in [0, 1)
        The s above.

    Returns
    -------
    coordinates : float array of shape (m, k)

    Raises
    ------
    ValueError
        If a parameter is invalid, or a logarithm of zero would be needed.
    """
    check_geometry(kernel, shrinkage)
    p = np.asarray(posteriors)
    if p.ndim != 2:
        raise ValueError(f"posteriors must have shape (n_instances, n_classes), got {p.shape}")
    return p if kernel == "gaussian" else _centred_log_ratios(p, float(shrinkage))


def _centred_log_ratios(posteriors: Floats, shrinkage: float) -> Floats:
    n_classes = posteriors.shape[1]
    mixed: Floats = (1.0 - shrinkage) * posteriors.astype(np.float64) + shrinkage / max(
        n_classes, 1
    )
    lowest = float(mixed.min(initial=math.inf))
    if not lowest > 0:
        raise ValueError(
            "log-ratios need positive posteriors, but the smallest is "
            f"{lowest:.3g} after a shrinkage of {shrinkage}: set a shrinkage above 0"
        )
    np.log(mixed, out=mixed)
    mixed -= mixed.mean(axis=1, keepdims=True)
    return mixed


#: Names of the rules of thumb.
RULES = ("scott", "silverman")

#: Result of a rule of thumb if the references of every class coincide.
MINIMUM_BANDWIDTH = 1e-3


def check_bandwidth(bandwidth: float | str) -> None:
    """Raise ValueError unless ``bandwidth`` is a positive finite number or one of ``RULES``.

    "auto" is not accepted: :mod:`kdey.tuning` replaces it by a number before this is called.
    """
    if isinstance(bandwidth, str):
        if bandwidth not in RULES:
            raise ValueError(f"bandwidth must be a number or one of {RULES}, got {bandwidth!r}")
        return
    is_number = isinstance(bandwidth, int | float | np.number) and not isinstance(bandwidth, bool)
    if not is_number or not (math.isfinite(bandwidth) and bandwidth > 0):
        raise ValueError(f"bandwidth must be positive and finite, got {bandwidth!r}")


def resolve_bandwidth(
    bandwidth: float | str,
    references: Floats,
    offsets: Indices,
    weights: Array | None = None,
) -> float:
    r"""Return ``bandwidth`` as a number, computed from the references if it names a rule of thumb.

    With d = k - 1 degrees of freedom (k columns of a simplex or of log-ratios), n the mean
    effective class size, :math:`(\sum w)^2 / \sum w^2`, over the classes that have references,
    and :math:`\sigma^2` the weighted mean over all references of their squared distance
    from their class mean, divided by d,

    .. math:: h_{\text{scott}} = \sigma\, n^{-1/(d+4)}, \quad
              h_{\text{silverman}} = \left(\frac{4}{d+2}\right)^{1/(d+4)} h_{\text{scott}}

    (Scott, *Multivariate Density Estimation*, 1992; Silverman, *Density Estimation*, 1986).
    If this is below ``MINIMUM_BANDWIDTH`` (all references of a class coincide), the minimum is
    returned with a warning.

    Parameters
    ----------
    bandwidth : float or {"scott", "silverman"}
    references : array of shape (n, k)
        Coordinates in the kernel's geometry, sorted by class.
    offsets : int array of shape (n_classes + 1,)
        The references of class i are ``references[offsets[i]:offsets[i + 1]]``.
    weights : array of shape (n,), optional

    Returns
    -------
    bandwidth : float

    Raises
    ------
    ValueError
        If ``bandwidth`` is invalid, or a rule has no references to work on.
    """
    check_bandwidth(bandwidth)
    if not isinstance(bandwidth, str):
        return float(bandwidth)
    degrees = max(references.shape[1] - 1, 1)
    variance, size = _pooled_spread(references, offsets, weights)
    h = math.sqrt(variance / degrees) * math.pow(size, -1.0 / (degrees + 4))
    if bandwidth == "silverman":
        h *= math.pow(4.0 / (degrees + 2), 1.0 / (degrees + 4))
    if h >= MINIMUM_BANDWIDTH:
        return h
    warnings.warn(
        f"bandwidth={bandwidth!r} gives {h:.3g} on these references (their classes hardly vary); "
        f"using the minimum {MINIMUM_BANDWIDTH}",
        UserWarning,
        stacklevel=2,
    )
    return MINIMUM_BANDWIDTH


def _pooled_spread(
    references: Floats, offsets: Indices, weights: Array | None
) -> tuple[float, float]:
    """Return the pooled trace of the within-class covariance and the mean effective size."""
    scatter, mass, sizes = 0.0, 0.0, []
    for low, high in itertools.pairwise(offsets):
        y = np.asarray(references[low:high], dtype=np.float64)
        w = np.ones(len(y)) if weights is None else weights[low:high]
        total = float(w.sum())
        if total > 0:
            centred = y - (w @ y) / total
            scatter += float(w @ np.einsum("rd,rd->r", centred, centred))
            mass += total
            sizes.append(total**2 / float(w @ w))
    if not sizes:
        raise ValueError("references are empty: a bandwidth rule needs at least one")
    return scatter / mass, float(np.mean(sizes))
