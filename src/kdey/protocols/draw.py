"""Drawing bags: prevalences to class counts, class counts to positions in the pool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.bags import Bags, offsets_of
from kdey.labels import Codes, Labels

Replace: TypeAlias = Literal["auto"] | bool
Counts = NDArray[np.int64]


def round_counts(prevalence: ArrayLike, size: int) -> Counts:
    """Return whole class counts that sum to ``size``, by largest remainders.

    Every class gets the floor of ``prevalence * size``; the instances left go, one each, to the
    classes with the largest fractions (to the first of them on ties). No count is off by one
    or more, and a prevalence that is a multiple of 1 / size is met exactly.

    Parameters
    ----------
    prevalence : array-like of shape (..., k)
    size : int
    """
    p = np.asarray(prevalence, dtype=np.float64)
    share = p / p.sum(axis=-1, keepdims=True) * size
    counts = np.floor(share).astype(np.int64)
    order = np.argsort(counts - share, axis=-1, kind="stable")
    rank = np.argsort(order, axis=-1, kind="stable")
    left = size - counts.sum(axis=-1, keepdims=True)
    return np.asarray(counts + (rank < left), dtype=np.int64)


def bag_generators(seed: int, n_bags: int) -> Iterator[np.random.Generator]:
    """Yield one independent generator per bag, the b-th a function of ``seed`` and b alone.

    So the first 100 of 1,000 bags are the bags of ``n_bags=100``, whoever draws them.
    """
    for bag in range(n_bags):
        yield np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(bag,)))


@dataclass(frozen=True, eq=False)
class Pool:
    """The instances of a pool sorted by class, ready for drawing.

    Attributes
    ----------
    order : int64 array of shape (n,)
        Positions in the pool, grouped by class.
    available : int64 array of shape (k,)
        Number of instances of each class.
    starts : int64 array of shape (k,)
        Where each class begins in ``order``.
    classes : array of shape (k,)
    """

    order: Codes
    available: Counts
    starts: Codes
    classes: Labels

    @classmethod
    def from_codes(cls, codes: Codes, classes: Labels) -> Pool:
        """Return the pool whose instances have the class positions ``codes``, shape (n,)."""
        available = np.bincount(codes, minlength=len(classes)).astype(np.int64)
        starts = np.cumsum(available) - available
        return cls(np.argsort(codes, kind="stable"), available, starts, classes)

    def draw(self, counts: Counts, replace: Replace, rng: np.random.Generator) -> Codes:
        """Return the sorted positions of a bag with ``counts[i]`` instances of class i.

        Within a class every subset (with replacement: every sequence) is equally likely.
        """
        distinct = counts <= self.available if replace is not True else np.zeros(len(counts), bool)
        # Above half of a class, rejecting repeats is slow: leave out the complement instead.
        crowded = distinct & (2 * counts > self.available)
        sparse = np.where(crowded, 0, counts)
        parts = [self._draw_sparse(sparse, distinct, rng)]
        parts += [self._draw_crowded(c, counts[c], rng) for c in np.flatnonzero(crowded).tolist()]
        return np.sort(self.order[np.concatenate(parts)])

    def _draw_sparse(
        self, counts: Counts, distinct: NDArray[np.bool_], rng: np.random.Generator
    ) -> Codes:
        """Draw all classes at once and draw again what repeats in a ``distinct`` class.

        Keeping the distinct values and replacing just the missing ones, time after time, gives
        the first counts[i] different values of an endless uniform sequence: a uniform subset.
        Sorting keeps each class in its own stretch, so slot and class stay aligned.
        """
        owner = np.repeat(np.arange(len(counts)), counts)
        slots = self._fresh(owner, rng)
        while True:
            slots.sort()
            again = np.flatnonzero((slots[1:] == slots[:-1]) & distinct[owner[1:]]) + 1
            if len(again) == 0:
                return slots
            slots[again] = self._fresh(owner[again], rng)

    def _fresh(self, owner: Codes, rng: np.random.Generator) -> Codes:
        within = (rng.random(len(owner)) * self.available[owner]).astype(np.int64)
        return np.asarray(self.starts[owner] + within, dtype=np.int64)

    def _draw_crowded(self, label: int, count: int, rng: np.random.Generator) -> Codes:
        keys = rng.random(int(self.available[label]))
        return np.asarray(self.starts[label] + np.argsort(keys, kind="stable")[:count])

    def check(self, counts: Counts, replace: Replace) -> None:
        """Raise where one of the bags of ``counts``, shape (n_bags, k), cannot be drawn."""
        wanted = counts.max(axis=0)
        enough = self.available >= wanted if replace is False else self.available > 0
        short = (wanted > 0) & ~enough
        if not short.any():
            return
        label = int(np.argmax(short))
        name, need, have = self.classes.tolist()[label], wanted[label], self.available[label]
        bag = int(np.argmax(counts[:, label]))
        why = "y has none" if have == 0 else f"y has {have} and replace=False"
        raise ValueError(f"bag {bag} needs {need} instances of class {name!r}, but {why}")


def draw_bags(
    pool: Pool, counts: Counts, replace: Replace, generators: Iterable[np.random.Generator]
) -> Bags:
    """Return one bag per row of ``counts``, shape (n_bags, k), each from its own generator."""
    pool.check(counts, replace)
    drawn = [pool.draw(row, replace, rng) for row, rng in zip(counts, generators, strict=True)]
    offsets = offsets_of(counts.sum(axis=1))
    return Bags(np.concatenate(drawn), offsets, len(pool.order))
