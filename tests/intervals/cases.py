"""Populations with known class distributions, small enough to be drawn again and again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array

PARAMETERS = np.array([[4.0, 1.5, 1.0], [1.2, 3.0, 1.5], [1.0, 1.0, 2.5]])


def dirichlet(labels: NDArray[np.int64], rng: np.random.Generator) -> Array:
    """Return posteriors of overlapping Dirichlet classes, shape (m, 3)."""
    raw = rng.gamma(PARAMETERS[labels])
    return raw / raw.sum(axis=1, keepdims=True)


def separated(labels: NDArray[np.int64], rng: np.random.Generator) -> Array:
    """Return posteriors that are never in doubt, shape (m, 3)."""
    raw = np.full((len(labels), 3), 0.01) + 0.002 * rng.random((len(labels), 3))
    raw[np.arange(len(labels)), labels] = 1.0
    return raw / raw.sum(axis=1, keepdims=True)


def training(n: int, rng: np.random.Generator, draw=dirichlet) -> tuple[Array, NDArray[np.int64]]:
    labels = np.arange(n) % 3
    return draw(labels, rng), labels


def bag(
    size: int, prevalence: tuple[float, ...], rng: np.random.Generator, draw=dirichlet
) -> tuple[Array, Array]:
    """Return the posteriors of a bag and its realised class shares."""
    labels = rng.choice(3, size, p=prevalence)
    return draw(labels, rng), np.bincount(labels, minlength=3) / size
