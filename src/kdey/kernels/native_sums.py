"""The kernel log-sums by the native core (``src/native/kernel.cpp``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kdey import native

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
