"""Rates with published limits, such as a sensitivity, as counts of a study that would give them."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from kdey._support.validation import check_share

#: A study of this size leaves no uncertainty that matters.
_LARGEST = 1e7


def counts_from_limits(
    rate: float, low: float, high: float, confidence: float = 0.95, name: str = "rate"
) -> tuple[float, float]:
    """Return successes and failures of a study whose Wilson limits are as wide as those given.

    Parameters
    ----------
    rate : float
        The share of successes.
    low, high : float
        Its published limits.
    confidence : float
        The confidence of these limits.
    name : str
        What to call the rate in messages.

    Returns
    -------
    successes, failures : float
        They need not be whole numbers.

    Raises
    ------
    ValueError
        If the rate is not strictly between 0 and 1 and within its limits.
    """
    check_share(confidence, "confidence")
    if not (0.0 < rate < 1.0 and 0.0 <= low <= rate <= high <= 1.0 and low < high):
        raise ValueError(
            f"{name} needs 0 <= low <= rate <= high <= 1 with low below high and a rate strictly "
            f"between 0 and 1, got rate {rate!r} with limits {low!r} and {high!r}"
        )
    z = float(ndtri(0.5 + 0.5 * confidence))

    def excess(log_size: float) -> float:
        n = float(np.exp(log_size))
        half = z * np.sqrt(rate * (1.0 - rate) / n + z**2 / (4.0 * n**2)) / (1.0 + z**2 / n)
        return float(2.0 * half - (high - low))

    first, last = np.log(1e-3), np.log(_LARGEST)
    if excess(last) > 0:
        size = _LARGEST
    elif excess(first) < 0:
        size = 1e-3
    else:
        size = float(np.exp(brentq(excess, first, last)))
    return size * rate, size * (1.0 - rate)
