"""Random mixture problems, most of them degenerate in a way of their own."""

import numpy as np

from kdey.bags import Bags
from kdey.matching.likelihood import MixtureLikelihood


def _duplicates(rng, rows):
    k = rows.shape[1]
    return rows[:, rng.integers(0, max(1, k // 2), k)], None


def _zero_rows(rng, rows):
    rows[rng.random(len(rows)) < 0.3] = 0
    return rows, None


def _one_hot(rng, rows):
    n, k = rows.shape
    return np.eye(k)[rng.integers(0, k, n)] * rng.random((n, 1)), None


def _collinear(rng, rows):
    return rows[:, :1] * (1 + 10.0 ** rng.uniform(-10, -2) * rng.random(rows.shape)), None


def _spanning(rng, rows):
    return 10.0 ** rng.uniform(-300, 0, rows.shape), None


def _sparse(rng, rows):
    return rows * (rng.random(rows.shape) < 0.1), None


def _separated(rng, rows):
    n, k = rows.shape
    rows *= 1e-6
    rows[np.arange(n), rng.integers(0, k, n)] += 1
    return rows, None


def _absent(rng, rows):
    rows[:, rng.random(rows.shape[1]) < 0.5] *= 1e-12
    return rows, None


def _one_hot_tiny_weights(rng, rows):
    return _one_hot(rng, rows)[0] + 1e-200, 10.0 ** rng.uniform(-100, 0, len(rows))


KINDS = {
    "plain": lambda rng, rows: (rows, None),
    "duplicated classes": _duplicates,
    "rows of zeros": _zero_rows,
    "one-hot": _one_hot,
    "near-collinear": _collinear,
    "weights": lambda rng, rows: (rows, rng.gamma(0.2, size=len(rows))),
    "tiny weights": lambda rng, rows: (rows, 10.0 ** rng.uniform(-200, 0, len(rows))),
    "entries from 1e-300": _spanning,
    "sparse": _sparse,
    "separated": _separated,
    "absent classes": _absent,
    "one-hot, tiny weights": _one_hot_tiny_weights,
}


def make_mixture(kind, seed, max_rows, max_classes):
    """Return a one-bag problem of that kind, its shape drawn up to the given one."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    n = int(np.exp(rng.uniform(0, np.log(max_rows + 1))))
    k = int(rng.integers(2, max_classes + 1))
    rows, weights = KINDS[kind](rng, rng.gamma(rng.choice([0.05, 0.3, 1.0, 3.0]), size=(n, k)))
    rows[0, 0] = max(rows[0, 0], 1e-3)  # at least one row must carry information
    if weights is not None:
        weights[0] = 1.0
    return MixtureLikelihood(rows, Bags.whole(n, weights))
