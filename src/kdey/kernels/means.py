r"""Mean kernels between bags and given points, with the work per pool instance done once.

.. math:: q_{bi} = \frac{1}{r_i} \sum_j w_{bj}
          \exp\left(-\frac{\|x_i - u_j\|^2}{2 h^2}\right), \qquad \sum_j w_{bj} = 1

A kernel value belongs to an instance, not to a bag: each is computed once for all bags that drew
the instance, and a bag is then a weighting of them. All of it is in float64 and nothing is
skipped, so that what a bag gets does not depend on the bags beside it (but see ``quick``).
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

from kdey.bags import Array, Bags

Floats = NDArray[np.floating]

#: Kernel values held at a time by each thread.
_BLOCK = 1 << 21
#: Share of the pool in a bag above which a dense product beats a sparse one.
_DENSE = 1 / 25
#: Log of a kernel value that counts as nothing; smaller ones would slow every product down.
_TINY = -500.0
_TINY_QUICK = -75.0
#: Share of instances near a block of points below which picking them out pays.
_FEW = 0.8


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
    """Return the mean kernel of each bag at each point over ``exp(log_scale)``, (n_bags, t).

    Parameters
    ----------
    points : array of shape (t, D)
    log_scale : array of shape (t,)
        Log of what the values at each point are divided by.
    coordinates : array of shape (m, D)
        The instances of the pool.
    bags : Bags
    bandwidth : float
    n_threads : int
        Blocks of points worked on at once; the result does not depend on it.
    quick : bool
        Kernel values and sums in float32: good to six digits, and about twice as fast.
    """
    dtype, tiny = (np.float32, _TINY_QUICK) if quick else (np.float64, _TINY)
    used, columns = np.unique(bags.indices, return_inverse=True)
    averaging = bags.matrix()
    shape = (len(bags), len(used))
    weights: Any = sp.csr_array((averaging.data, columns, averaging.indptr), shape=shape)
    if len(bags.indices) > _DENSE * shape[0] * shape[1]:
        weights = weights.toarray()
    weights = weights.astype(dtype)
    exponents = _Exponents(np.asarray(coordinates[used], dtype=np.float64), bandwidth)
    out = np.empty((len(bags), len(points)))
    step = max(1, _BLOCK // len(used))

    def fill(start: int) -> None:
        part = slice(start, start + step)
        x = np.asarray(points[part], dtype=np.float64)
        logs = exponents(x, log_scale[part])
        out[:, part] = _weigh(weights, logs.astype(dtype, copy=False), tiny)

    # One BLAS thread, whatever n_threads: a product must not depend on how it was cut.
    with _controller().limit(limits=1, user_api="blas"):
        _each(fill, range(0, len(points), step), n_threads)
    return out


@cache
def _controller() -> Any:
    """Return the handle on BLAS threads; finding the libraries takes milliseconds each time."""
    return ThreadpoolController()


def _weigh(weights: Any, exponents: Floats, tiny: float) -> Floats:
    """Return ``weights @ exp(exponents)``, leaving out instances that are nothing everywhere."""
    near = np.flatnonzero(exponents.max(axis=1) > tiny)
    if len(near) < _FEW * len(exponents):
        weights, exponents = weights[:, near], exponents[near]
    np.maximum(exponents, tiny, out=exponents)
    product: Floats = weights @ np.exp(exponents, out=exponents)
    # No bag has density zero anywhere, however little it is: some divergences take logarithms.
    return np.maximum(product, math.exp(tiny), out=product)


class _Exponents:
    r"""Logs of Gaussian kernels between fixed instances and blocks of points.

    One product gives :math:`-(\|u\|^2 - 2 u \cdot x + \|x\|^2) / 2 h^2 - s`: the norms and the
    scale ride along as two more columns.
    """

    def __init__(self, coordinates: Array, bandwidth: float) -> None:
        self._centre = coordinates.mean(axis=0)  # small norms make exact distances
        self._factor = -0.5 / bandwidth**2
        u = coordinates - self._centre
        norms = np.einsum("ij,ij->i", u, u)
        self._left = np.column_stack([u, norms, np.ones(len(u))])

    def __call__(self, points: Array, log_scale: Array) -> Array:
        """Return the logs of the kernels over ``exp(log_scale)``, shape (m, t)."""
        x = points - self._centre
        last = self._factor * np.einsum("ij,ij->i", x, x) - log_scale
        right = [-2.0 * self._factor * x, np.full(len(x), self._factor), last]
        made: Array = self._left @ np.column_stack(right).T
        return made


def _each(call: Callable[[int], None], starts: range, n_threads: int) -> None:
    if n_threads == 1 or len(starts) == 1:
        for start in starts:
            call(start)
        return
    with ThreadPoolExecutor(n_threads) as executor:
        list(executor.map(call, starts))
