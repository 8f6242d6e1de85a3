"""Weights of instances: the one check that all of them pass."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def check_weights(
    weights: ArrayLike, size: int, *, name: str = "sample_weight", may_vanish: bool = False
) -> NDArray[np.float64]:
    """Return ``weights`` as contiguous float64 of shape (size,): finite and non-negative.

    All of them may be zero only where ``may_vanish``.
    """
    try:
        w = np.ascontiguousarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from error
    if w.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), got {w.shape}")
    if not np.isfinite(w).all() or (w < 0).any() or not (may_vanish or w.any()):
        wanted = " and non-negative" if may_vanish else ", non-negative and not all zero"
        raise ValueError(f"{name} must be finite{wanted}")
    with np.errstate(over="ignore"):
        total = w.sum()
    if not np.isfinite(total):
        raise ValueError(f"{name} must have a finite sum: divide it by its largest entry")
    return w
