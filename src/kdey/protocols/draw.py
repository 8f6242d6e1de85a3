"""Bags with their true prevalences, and what a protocol is.

Checks of what protocols are asked for.

Drawing bags: prevalences to class counts, class counts to positions in the pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey._support.validation import check_count
from kdey.bags import Bags, offsets_of
from kdey.labels import Codes, Labels, encode_labels
from kdey.simplex import Array


@dataclass(frozen=True, eq=False)
class LabelledBags:
    """Bags whose prevalences are known.

    Attributes
    ----------
    bags : Bags
        Positions in the pool.
    prevalences : float64 array of shape (n_bags, k)
        True prevalences, columns in the order of ``classes``.
    classes : array of shape (k,)
    names : array of shape (n_bags,) or None
        What to call the bags, where they have names (group ids).
    """

    bags: Bags
    prevalences: Array
    classes: Labels
    names: Labels | None = None

    def __post_init__(self) -> None:
        # Protocols may be anybody's, and their bags go straight to the solvers.
        object.__setattr__(self, "bags", self.bags.checked())

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.bags)

    def __getitem__(self, part: slice) -> LabelledBags:
        """Return the bags of a contiguous slice, over the same pool."""
        names = None if self.names is None else self.names[part]
        return LabelledBags(self.bags[part], self.prevalences[part], self.classes, names)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of instances of each bag, shape (n_bags,)."""
        return self.bags.sizes


class BagProtocol(Protocol):
    """What every protocol is: labels of a pool in, bags with true prevalences out."""

    def bags(self, y: ArrayLike, classes: ArrayLike | None = None) -> LabelledBags:
        """Return bags over the pool labelled ``y``, prevalences ordered as ``classes``."""
        ...


def realised_prevalences(bags: Bags, codes: Codes, n_classes: int) -> Array:
    """Return the share of each class in each bag (weighted as the bag is), (n_bags, k)."""
    # Counting in whole numbers, rather than averaging indicators, gives exact shares.
    owner = np.repeat(np.arange(len(bags)), bags.sizes)
    cells = owner * n_classes + codes[bags.indices]
    mass = np.bincount(cells, weights=bags.weights, minlength=len(bags) * n_classes)
    mass = mass.reshape(len(bags), n_classes)
    return np.asarray(mass / mass.sum(axis=1, keepdims=True), dtype=np.float64)


def whole_pool(y: ArrayLike, classes: ArrayLike | None = None) -> LabelledBags:
    """Return the pool labelled ``y`` as a single bag."""
    codes, known = encode_labels(y, classes)
    bags = Bags.whole(len(codes))
    return LabelledBags(bags, realised_prevalences(bags, codes, len(known)), known)


def check_draws(n_bags: Any, bag_size: Any, random_state: Any, replace: Any) -> None:
    """Raise, naming the parameter, unless bags can be drawn with these."""
    check_count(n_bags, "n_bags")
    check_count(bag_size, "bag_size")
    check_count(random_state, "random_state", least=0)
    if not (isinstance(replace, bool) or (isinstance(replace, str) and replace == "auto")):
        raise ValueError(f'replace must be "auto", True or False, got {replace!r}')


def check_protocol(protocol: Any) -> None:
    """Raise unless ``protocol`` can give bags."""
    if isinstance(protocol, type) or not callable(getattr(protocol, "bags", None)):
        raise TypeError(f"protocol must have a method bags, such as APP(), got {protocol!r}")


def check_fits(bag_size: int, pool_size: int, replace: Any) -> None:
    """Raise where a bag without replacement would be larger than the pool."""
    if replace is False and bag_size > pool_size:
        raise ValueError(
            f"bag_size={bag_size} is larger than the pool of {pool_size} instances "
            "and replace=False"
        )


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
