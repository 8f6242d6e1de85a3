"""Training posteriors to choose on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.posteriors import TrainingPosteriors


def posteriors(
    k: int, n: int, seed: int = 0, sharpness: float = 1.5
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return softmax posteriors (n, k) that lean towards their labels, and the labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    z = rng.normal(size=(n, k)) + sharpness * np.eye(k)[y]
    p = np.exp(2.0 * z)
    return p / p.sum(axis=1, keepdims=True), y.astype(np.int64)


def training(k: int, n: int, seed: int = 0, folds: int | None = None, **extra: Any) -> Any:
    """Return them as training posteriors, in ``folds`` folds where asked for."""
    p, y = posteriors(k, n, seed)
    parts = None if folds is None else np.arange(n, dtype=np.int64) // k % folds
    return TrainingPosteriors(p, y, folds=parts, **extra)
