"""Convergence of chains: whether they agree, and how many independent draws they are worth.

Split R-hat on rank-normalised draws and the bulk effective sample size, as Vehtari, Gelman,
Simpson, Carpenter and Bürkner define them ("Rank-normalization, folding, and localization", 2021).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import rankdata

Array = NDArray[np.float64]


def split_r_hat(draws: Array) -> float:
    """Return the rank-normalised split R-hat of one quantity, draws of (n_chains, n_draws).

    The larger of the plain one (do the chains agree in place?) and the folded one (in spread?);
    one where all draws are equal.
    """
    halves = _halves(draws)
    folded = np.abs(halves - np.median(halves))
    return max(_r_hat(_rank_normal(halves)), _r_hat(_rank_normal(folded)))


def effective_size(draws: Array) -> float:
    """Return the bulk effective sample size of one quantity, draws of (n_chains, n_draws).

    Autocorrelations by FFT, cut off by Geyer's initial monotone sequence.
    """
    z = _rank_normal(_halves(draws))
    n_chains, n = z.shape
    total = float(n_chains * n)
    if np.ptp(z) == 0:
        return total
    covariance = _autocovariance(z)
    within = covariance[:, 0].mean() * n / (n - 1)
    pooled = within * (n - 1) / n + z.mean(axis=1).var(ddof=1)
    correlation = 1.0 - (within - covariance.mean(axis=0) * n / (n - 1)) / pooled
    correlation[0] = 1.0
    time = _geyer_time(correlation)
    return float(min(total / max(time, 1.0 / np.log10(total)), total * np.log10(total)))


def _halves(draws: Array) -> Array:
    n = draws.shape[1] // 2
    if n < 2:
        raise ValueError(f"draws must have at least 4 draws per chain, got {draws.shape[1]}")
    return np.concatenate([draws[:, :n], draws[:, -n:]])


def _rank_normal(z: Array) -> Array:
    ranks = rankdata(z, method="average").reshape(z.shape)
    return np.asarray(ndtri((ranks - 0.375) / (z.size + 0.25)))


def _r_hat(z: Array) -> float:
    n = z.shape[1]
    within = z.var(axis=1, ddof=1).mean()
    if within == 0:
        return 1.0 if np.ptp(z) == 0 else np.inf
    return float(np.sqrt((n - 1) / n + z.mean(axis=1).var(ddof=1) / within))


def _autocovariance(z: Array) -> Array:
    n = z.shape[1]
    centred = z - z.mean(axis=1, keepdims=True)
    size = next_fast_len(2 * n)
    power = np.abs(rfft(centred, n=size, axis=1)) ** 2
    return np.asarray(irfft(power, n=size, axis=1)[:, :n] / n)


def _geyer_time(correlation: Array) -> float:
    """Return 1 + 2 sum of correlations, over pairs whose sums stay positive and fall."""
    even = len(correlation) // 2 * 2
    pairs = correlation[:even].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    used = pairs[: negative[0]] if len(negative) else pairs
    return float(2.0 * np.minimum.accumulate(used).sum() - 1.0) if len(used) else 1.0
