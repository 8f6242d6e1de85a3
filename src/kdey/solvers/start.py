"""Starting points: checking warm starts and keeping them where a problem has finite slopes."""

from __future__ import annotations

import numpy as np

from kdey.problems.protocol import Array, Problem

#: Share of the uniform prevalence blended into a warm start at which the slope is infinite.
BLEND = 1e-3
#: Slopes beyond this count as infinite: the curvature, their square, would be.
STEEP = 1e100


def check_start(start: Array | None, n_bags: int, n_classes: int) -> Array:
    """Return ``start`` scaled to the simplex, shape (n_bags, n_classes); uniform if None."""
    if start is None:
        return np.full((n_bags, n_classes), 1.0 / n_classes)
    x = np.array(start, dtype=np.float64)
    if x.shape != (n_bags, n_classes):
        raise ValueError(f"start must have shape ({n_bags}, {n_classes}), got {x.shape}")
    if not np.isfinite(x).all() or x.min() < 0 or not (x.sum(axis=1) > 0).all():
        raise ValueError("start must hold finite, non-negative rows with a positive sum")
    return np.asarray(x / x.sum(axis=1, keepdims=True))


def interior_start(problem: Problem, start: Array | None) -> Array:
    """Return starting prevalences at which every gradient is finite and not huge."""
    x = check_start(start, problem.n_bags, problem.n_classes)
    if start is None:
        return x
    steep = ~(np.abs(problem.gradient(x)) < STEEP).all(axis=1)
    x[steep] = (1 - BLEND) * x[steep] + BLEND / problem.n_classes
    return x
