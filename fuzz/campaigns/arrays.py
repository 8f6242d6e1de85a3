"""Hostile arrays: non-negative matrices, targets and weights, most of them degenerate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Change = Callable[[np.random.Generator, Array], Array]


def sizes(rng: np.random.Generator) -> tuple[int, int, int]:
    """Return rows (1 to 200), classes (2 to 30) and bags (1 to 200), small ones mostly."""
    n = int(np.exp(rng.uniform(0, np.log(201))))
    k = 2 + int(29 * rng.random() ** 3)
    return n, k, int(np.exp(rng.uniform(0, np.log(201))))


def _duplicated(rng: np.random.Generator, m: Array) -> Array:
    k = m.shape[1]
    return m[:, rng.integers(0, max(1, k // 2), k)]


def _collinear(rng: np.random.Generator, m: Array) -> Array:
    return m[:, :1] * (1 + 10.0 ** rng.uniform(-16, -2) * rng.random(m.shape))


def _proportional(rng: np.random.Generator, m: Array) -> Array:
    return m[:, :1] * 10.0 ** rng.uniform(-3, 3, m.shape[1])


def _zero_rows(rng: np.random.Generator, m: Array) -> Array:
    return m * (rng.random((len(m), 1)) < 0.7)


def _zero_columns(rng: np.random.Generator, m: Array) -> Array:
    return m * (rng.random(m.shape[1]) < 0.7)


def _sparse(rng: np.random.Generator, m: Array) -> Array:
    return m * (rng.random(m.shape) < 0.15)


def _one_hot(rng: np.random.Generator, m: Array) -> Array:
    n, k = m.shape
    return np.eye(k)[rng.integers(0, k, n)]


def _spanning(rng: np.random.Generator, m: Array) -> Array:
    return 10.0 ** rng.uniform(-300, 0, m.shape)


def _uneven_rows(rng: np.random.Generator, m: Array) -> Array:
    return m * 10.0 ** rng.uniform(-60, 60, (len(m), 1))


def _uneven_columns(rng: np.random.Generator, m: Array) -> Array:
    return m * 10.0 ** rng.uniform(-12, 12, m.shape[1])


def _tied(rng: np.random.Generator, m: Array) -> Array:
    return rng.integers(0, 3, m.shape).astype(float)


def _separated(rng: np.random.Generator, m: Array) -> Array:
    n, k = m.shape
    return 10.0 ** rng.uniform(-12, -2) * m + np.eye(k)[rng.integers(0, k, n)]


def _histograms(rng: np.random.Generator, m: Array) -> Array:
    total = m.sum(axis=0)
    return m / np.where(total > 0, total, 1.0)


def _repeated_rows(rng: np.random.Generator, m: Array) -> Array:
    return m[rng.integers(0, max(1, len(m) // 3), len(m))]


CHANGES: tuple[Change, ...] = (
    *(_duplicated, _collinear, _proportional, _zero_rows, _zero_columns, _sparse, _one_hot),
    *(_spanning, _uneven_rows, _uneven_columns, _tied, _separated, _histograms, _repeated_rows),
)


def matrix(rng: np.random.Generator, n: int, k: int) -> Array:
    """Return a non-negative matrix of shape (n, k), changed by none to three of ``CHANGES``."""
    m = rng.gamma(rng.choice([0.02, 0.3, 1.0, 5.0]), size=(n, k))
    for number in rng.integers(0, len(CHANGES), rng.integers(0, 4)):
        with np.errstate(over="ignore", under="ignore"):
            m = CHANGES[number](rng, m)
    return np.ascontiguousarray(np.minimum(m, 1e300))


def scaled(rng: np.random.Generator, values: Array) -> tuple[Array, float]:
    """Return ``values`` times a power of ten, one in four of them extreme, and the power."""
    power = rng.uniform(-300, 300) if rng.random() < 0.25 else rng.uniform(-6, 6)
    with np.errstate(over="ignore", under="ignore"):
        return np.minimum(values * 10.0**power, 1e300), 10.0**power


def prevalences(rng: np.random.Generator, size: int, k: int) -> Array:
    """Return prevalences of shape (size, k): spread, near the border, vertices, uniform."""
    flavour = rng.integers(0, 4)
    if flavour == 0:
        return np.eye(k)[rng.integers(0, k, size)]
    if flavour == 1:
        return np.full((size, k), 1.0 / k)
    drawn = rng.dirichlet(np.full(k, 1.0 if flavour == 2 else 0.05), size=size)
    # Dirichlet draws at tiny parameters can underflow to 0/0.
    return np.where(np.isfinite(drawn).all(axis=1, keepdims=True), drawn, 1.0 / k)


def targets(rng: np.random.Generator, templates: Array, bags: int) -> Array:
    """Return targets of shape (bags, rows): exact mixtures, noisy ones, or strangers."""
    n, k = templates.shape
    flavour = rng.integers(0, 4)
    if flavour == 3:
        return matrix(rng, bags, n)
    with np.errstate(over="ignore", under="ignore"):
        mixed = np.minimum(prevalences(rng, bags, k) @ templates.T, 1e300)
        if flavour == 0:
            return mixed
        noise = np.exp(rng.normal(0, 0.3, mixed.shape)) * (rng.random(mixed.shape) < 0.9)
        return np.minimum(mixed * noise, 1e300)


def weights(rng: np.random.Generator, total: int) -> Array | None:
    """Return weights of drawn instances, or None: plain, uneven, or over 200 decades."""
    flavour = rng.integers(0, 4)
    if flavour == 0:
        return None
    if flavour == 1:
        return rng.gamma(0.2, size=total) + 1e-300
    if flavour == 2:
        return 10.0 ** rng.uniform(-200, 0, total)
    return rng.integers(0, 3, total).astype(float)
