r"""Reliability of a classifier's posteriors: what it claims against what it keeps.

Decisions are cut into bins of equal size by the posterior of the class decided for. With
:math:`c_b` the mean posterior of bin b, :math:`r_b` the share of right decisions in it and
:math:`w_b` its share of all decisions, the expected calibration error is

.. math:: \sum_b w_b |c_b - r_b|

(Guo et al., 2017, with bins of equal size).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.simplex import check_posteriors

Array = NDArray[np.float64]
#: Two standard errors: about 95 %.
_Z = 1.96


@dataclass(frozen=True, eq=False)
class Reliability:
    """The reliability curve of a classifier.

    Attributes
    ----------
    claimed : array of shape (n_bins,)
        Mean posterior of the class decided for.
    observed : array of shape (n_bins,)
        Share of right decisions.
    low, high : arrays of shape (n_bins,)
        Wilson's 95 % limits of the share.
    counts : int array of shape (n_bins,)
    error : float
        Expected calibration error.
    accuracy : float
    """

    claimed: Array
    observed: Array
    low: Array
    high: Array
    counts: NDArray[np.int64]
    error: float
    accuracy: float


def reliability(posteriors: ArrayLike, labels: ArrayLike, n_bins: int = 10) -> Reliability:
    """Return the reliability of posteriors (n, k) for labels, codes 0..k-1 of shape (n,).

    Bins hold equally many decisions; equal posteriors are not torn apart, so that there may be
    fewer bins than asked for.
    """
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1, got {n_bins!r}")
    p = np.asarray(check_posteriors(posteriors), dtype=np.float64)
    codes = np.asarray(labels)
    if codes.shape != (len(p),):
        raise ValueError(f"labels must have shape ({len(p)},), got {codes.shape}")
    sure, right = p.max(axis=1), p.argmax(axis=1) == codes
    order = np.argsort(sure, kind="stable")
    bins = _bins(sure[order], n_bins)
    counts = np.bincount(bins)
    claimed = np.bincount(bins, weights=sure[order]) / counts
    observed = np.bincount(bins, weights=right[order].astype(np.float64)) / counts
    low, high = _wilson(observed, counts)
    error = float(counts @ np.abs(claimed - observed) / counts.sum())
    return Reliability(claimed, observed, low, high, counts, error, float(right.mean()))


def _bins(values: Array, n_bins: int) -> NDArray[np.int64]:
    """Return the bin of each of the sorted values, ties in the bin of their first."""
    n = len(values)
    bins = np.arange(n) * min(n_bins, n) // n
    first = np.searchsorted(values, values, side="left")
    return np.unique(bins[first], return_inverse=True)[1].astype(np.int64)


def _wilson(share: Array, counts: NDArray[np.int64]) -> tuple[Array, Array]:
    z = _Z**2 / counts
    middle = (share + z / 2) / (1 + z)
    half = np.sqrt(share * (1 - share) * z + z**2 / 4) / (1 + z)
    return np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)
