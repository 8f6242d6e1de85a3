"""Training posteriors, bags and integration grids for the tests of row maps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert

from kdey.posteriors import TrainingPosteriors

Array = NDArray[np.float64]


def posteriors(k: int, n: int, seed: int, sharpness: float = 2.0) -> tuple[Array, Any]:
    """Return posteriors (n, k) that lean towards their labels, every class present."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % k)
    p = rng.dirichlet(np.ones(k), n) + sharpness * rng.random((n, 1)) * np.eye(k)[y]
    return p / p.sum(axis=1, keepdims=True), y.astype(np.int64)


def training(k: int, n: int = 60, seed: int = 0, weighted: bool = False) -> TrainingPosteriors:
    p, y = posteriors(k, n, seed)
    weights = np.random.default_rng(seed).integers(1, 4, n).astype(float) if weighted else None
    return TrainingPosteriors(p, y, weights)


def repeated(given: TrainingPosteriors) -> TrainingPosteriors:
    """Return the same training data with weights written out as repetitions."""
    assert given.weights is not None
    counts = given.weights.astype(int)
    p = np.repeat(given.required(), counts, axis=0)
    return TrainingPosteriors(p, np.repeat(given.labels, counts))


def plane_grid(k: int, step: float, reach: float) -> tuple[Array, float]:
    """Return points (t, k) of the plane of the simplex around its centre, and the area of each.

    The trapezoidal rule on such a grid is exact to rounding for mixtures of Gaussians wider than
    about one step, once the grid reaches far enough.
    """
    axis = np.arange(-reach, reach + step, step)
    mesh = np.stack(np.meshgrid(*[axis] * (k - 1), indexing="ij"), axis=-1).reshape(-1, k - 1)
    return 1.0 / k + mesh @ helmert(k), step ** (k - 1)


def plane_density(points: Array, centres: Array, h: float, weights: Array | None = None) -> Array:
    """Return the kernel density at ``points``, normalised within the plane (k - 1 dimensions)."""
    squared = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    kernels = np.exp(-squared / (2 * h * h)) / (2 * np.pi * h * h) ** ((centres.shape[1] - 1) / 2)
    return np.asarray(np.average(kernels, axis=1, weights=weights))
