"""References that are checked, ordered and packed once, for many calls of the kernel sums.

The native core puts references near each other into blocks, with bounds by which whole blocks are
skipped, and stores them in the order in which its vectors read them. For a large pool this is a
small part of the work; for a bag of ten instances it is nearly all of it.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kdey import native
from kdey.kernels import sums
from kdey.kernels.numpy_sums import class_log_sums_numpy
from kdey.kernels.sums import Array, Precision


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
        sums.check_precision(precision)
        sums.check_threads(n_threads)
        self._points = sums.check_points(references, "references")
        self._offsets = sums.check_offsets(offsets, len(self._points))
        self._weights = None if weights is None else sums.check_weights(weights, len(self._points))
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
        x = sums.check_points(queries, "queries")
        sums.check_columns(x, self._points)
        h = sums.check_bandwidths(bandwidths)
        n = len(self._points)
        excluded = None if exclude is None else sums.check_exclude(exclude, len(x), n)
        sums.check_threads(n_threads)
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
