r"""Bootstrap weights tied to row keys: they do not depend on how the rows are spread out.

The weight of a row in replicate b is a Poisson(1) number read off a hash of the row's key, the seed
and b. So every engine, order and partitioning gives a row the same weights, nothing is stored, and
rows that share a key (those of one patient) are drawn together.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import pdtr

from kdey.sums.batch import Hashes

#: Replicates that one hash of 64 bits serves, 16 bits each.
PER_HASH = 4


def key_hashes(keys: NDArray[Any]) -> Hashes:
    """Return a hash of every row key, shape (m,): whole numbers, dates, texts.

    Keys that are equal as numbers, or as text, have equal hashes whatever their type.
    """
    values = np.asarray(keys)
    if values.dtype.kind in "mM":
        values = values.astype("datetime64[ns]" if values.dtype.kind == "M" else "timedelta64[ns]")
        return _mix(values.view(np.int64).view(np.uint64))
    if values.dtype.kind in "iub":
        return _mix(values.astype(np.int64).view(np.uint64))
    if values.dtype.kind == "f":
        raise ValueError("row keys must be whole numbers, dates or texts, not floating numbers")
    distinct, where = np.unique(values.astype(str), return_inverse=True)
    made = [hashlib.blake2b(one.encode(), digest_size=8).digest() for one in distinct.tolist()]
    return np.frombuffer(b"".join(made), dtype=np.uint64)[where]


def poisson_weights(hashes: Hashes, seed: int, first: int, count: int) -> NDArray[np.uint8]:
    """Return the weights of rows in replicates ``first`` to ``first + count``, shape (count, m).

    ``first`` and ``count`` must be multiples of ``PER_HASH``.
    """
    quantiles = _poisson_table()
    out = np.empty((count, len(hashes)), dtype=np.uint8)
    for start in range(0, count, PER_HASH):
        stream = np.array([(seed % (1 << 32)) * (1 << 32) + (first + start)], dtype=np.uint64)
        words = _mix(hashes ^ _mix(stream)).astype("<u8", copy=False)
        bits = words.view("<u2").reshape(len(hashes), PER_HASH)
        out[start : start + PER_HASH] = quantiles[bits].T
    return out


def _mix(values: Hashes) -> Hashes:
    """Return the finaliser of SplitMix64 (Steele, Lea and Flood, 2014) of each value."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


@cache
def _poisson_table() -> NDArray[np.uint8]:
    """Return the Poisson(1) quantile of each number of 16 bits, shape (65536,)."""
    levels = (np.arange(1 << 16) + 0.5) / (1 << 16)
    return np.searchsorted(pdtr(np.arange(12), 1.0), levels).astype(np.uint8)
