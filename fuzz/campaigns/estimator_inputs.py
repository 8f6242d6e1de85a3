"""Generated inputs of quantifiers: training data, pools, bags, and how to spoil them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from fuzz.campaigns.arrays import Array
from kdey.bags import Bags

NAMES = np.array(["a", "b", "c", "d", "e", "f", "g", "h"])


def _spread(rng: np.random.Generator, p: Array, y: Any) -> Array:
    return p


def _one_hot(rng: np.random.Generator, p: Array, y: Any) -> Array:
    return np.eye(p.shape[1])[p.argmax(axis=1)]


def _constant(rng: np.random.Generator, p: Array, y: Any) -> Array:
    return np.tile(p[:1], (len(p), 1))


def _uniform(rng: np.random.Generator, p: Array, y: Any) -> Array:
    return np.full(p.shape, 1.0 / p.shape[1])


def _extreme(rng: np.random.Generator, p: Array, y: Any) -> Array:
    with np.errstate(under="ignore"):
        sharp = (p / p.max(axis=1, keepdims=True)) ** rng.choice([20.0, 200.0, 2000.0])
    return sharp / sharp.sum(axis=1, keepdims=True)


def _rounded(rng: np.random.Generator, p: Array, y: Any) -> Array:
    q = np.round(p, 1)
    q[:, 0] += 1.0 - q.sum(axis=1)
    return np.where((q >= 0).all(axis=1, keepdims=True), q, p)


def _unseen(rng: np.random.Generator, p: Array, y: Any) -> Array:
    q = p.copy()
    q[:, -1] = 0.0
    q[:, 0] += 1.0 - q.sum(axis=1)
    return q


def _perfect(rng: np.random.Generator, p: Array, y: Any) -> Array:
    return np.eye(p.shape[1])[y]


def _reversed(rng: np.random.Generator, p: Array, y: Any) -> Array:
    return np.eye(p.shape[1])[(y + 1) % p.shape[1]]


FLAVOURS = (_spread, _spread, _one_hot, _constant, _uniform, _extreme, _rounded, _unseen)


def posteriors(rng: np.random.Generator, y: Any, k: int, training: bool = False) -> Array:
    """Return posteriors for the codes ``y``, shape (n, k), one of ``FLAVOURS``."""
    sharp = rng.choice([0.0, 1.0, 5.0])
    p = rng.dirichlet(np.full(k, rng.choice([0.3, 1.0, 10.0])), len(y)) + sharp * np.eye(k)[y]
    p = p / p.sum(axis=1, keepdims=True)
    p = np.where(np.isfinite(p), p, 1.0 / k)
    choices = (*FLAVOURS, _perfect, _reversed) if training else FLAVOURS
    return choices[int(rng.integers(0, len(choices)))](rng, p, y)


def labels(rng: np.random.Generator, k: int) -> Any:
    """Return codes of 2 k to 60 training instances, one of each class at least."""
    n = int(rng.integers(2 * k, 61))
    shares = rng.dirichlet(np.full(k, rng.choice([0.3, 3.0])))
    shares = np.where(np.isfinite(shares), shares, 0) + 1e-6
    return rng.permutation(np.r_[np.arange(k), rng.choice(k, n - k, p=shares / shares.sum())])


def as_given(rng: np.random.Generator, p: Array) -> Any:
    """Return the same posteriors as users hand them over: types, orders, lists."""
    flavour = rng.integers(0, 8)
    if flavour == 0:
        return p.astype(np.float32)
    if flavour == 1:
        return np.asfortranarray(p)
    if flavour == 2:
        return p.tolist()
    if flavour == 3:
        return p.astype(object)
    if flavour == 4:
        return np.repeat(p, 2, axis=0)[::2]
    if flavour == 5:
        locked = p.copy()
        locked.flags.writeable = False
        return locked
    return p


def named(rng: np.random.Generator, y: Any) -> Any:
    """Return codes as labels of some kind that sorts in the same order."""
    kinds: list[Callable[[Any], Any]] = [
        lambda c: c,
        lambda c: NAMES[c],
        lambda c: NAMES[c].astype(object).tolist(),
        lambda c: c - 3,
        lambda c: c.astype(np.float64),
        lambda c: np.array(["ä", "ö", "ü", "α", "β", "γ", "日", "本"])[c],
    ]
    return kinds[int(rng.integers(0, len(kinds)))](y)


def bags(rng: np.random.Generator, pool: int, count: int) -> Any:
    """Return ``count`` bags over a pool, in one of the forms that bags may have."""
    sizes = np.exp(rng.uniform(0, np.log(40), count)).astype(int)
    drawn = [rng.integers(0, pool, size) for size in sizes]
    flavour = rng.integers(0, 5)
    if flavour == 0:
        weights = [10.0 ** rng.uniform(-9, 3, size) for size in sizes]
        return Bags.from_indices(drawn, pool, weights)
    if flavour == 1:
        return rng.integers(0, pool, (count, int(sizes[0])))
    if flavour == 2:
        m = rng.random((count, pool)) * (rng.random((count, pool)) < 0.3)
        m[:, 0] += 1e-12
        return sp.csr_array(m)
    if flavour == 3:
        return [part.tolist() for part in drawn]
    return Bags.from_indices(drawn, pool)


def spoil(rng: np.random.Generator, p: Array) -> tuple[Any, str]:
    """Return posteriors that must be refused, and what was done to them."""
    q = np.array(p, dtype=float)
    row, col = int(rng.integers(0, len(q))), int(rng.integers(0, q.shape[1]))
    changes: list[tuple[str, Callable[[], Any]]] = [
        ("nan", lambda: _put(q, row, col, np.nan)),
        ("inf", lambda: _put(q, row, col, np.inf)),
        ("negative", lambda: _put(q, row, col, -0.5)),
        ("huge", lambda: _put(q, row, col, 1e300)),
        ("scaled", lambda: q * 3),
        ("columns", lambda: q[:, :-1]),
        ("vector", lambda: q[:, 0]),
        ("cube", lambda: q[None]),
        ("empty", lambda: q[:0]),
        ("text", lambda: q.astype(str)),
        ("none", lambda: None),
        ("complex", lambda: q.astype(complex)),
        ("ragged", lambda: [[0.5, 0.5], [1.0]]),
    ]
    name, change = changes[int(rng.integers(0, len(changes)))]
    return change(), name


def _put(q: Array, row: int, col: int, value: float) -> Array:
    q[row, col] = value
    return q
