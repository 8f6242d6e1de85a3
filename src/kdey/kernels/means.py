r"""Mean kernels between bags and fixed points, with the work per pool instance done once.

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

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from kdey import native
from kdey.bags import Array, Bags

Floats = NDArray[np.floating]
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
