"""The interface of protocols, and the drawing of bags.

A :class:`BagProtocol` turns the labels of a pool into :class:`LabelledBags`. Drawing has two steps:
:func:`kdey.simplex.round_counts` turns prevalences into class counts, and :func:`draw_bags` turns
class counts into positions in the pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.bags import Bags, offsets_of
from kdey.simplex import Array
from kdey.validation import Codes, Labels, check_count, encode_labels

#: Descriptions of the parameters that protocols share, for their docstrings.
SHARED_PARAMETERS = """
n_bags : int
    Number of bags.
bag_size : int
    Number of instances of each bag.
random_state : int
    Seed of the draws; each bag has its own generator, so that fewer bags are the first of more.
replace : {"auto", True, False}
    Whether an instance may occur more than once in a bag.
"""


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
    """

    bags: Bags
    prevalences: Array
    classes: Labels

    def __post_init__(self) -> None:
        # Users may write their own protocols, and bags go to the solvers without further checks.
        object.__setattr__(self, "bags", self.bags.checked())

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.bags)

    def __getitem__(self, part: slice) -> LabelledBags:
        """Return the bags of a contiguous slice, over the same pool."""
        return LabelledBags(self.bags[part], self.prevalences[part], self.classes)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of instances of each bag, shape (n_bags,)."""
        return self.bags.sizes


class BagProtocol(Protocol):
    """The interface of a protocol, which draws bags with true prevalences from labels."""

    def bags(self, y: ArrayLike, classes: ArrayLike | None = None) -> LabelledBags:
        """Return bags over a pool.

        Parameters
        ----------
        y : array-like of shape (n,)
            Labels of the pool.
        classes : array-like of shape (k,), optional
            Classes in the order of the prevalences; default: the sorted labels.

        Returns
        -------
        LabelledBags
        """
        ...


def realised_prevalences(bags: Bags, codes: Codes, n_classes: int) -> Array:
    """Return the share of each class in each bag (by weight, if it has weights), (n_bags, k)."""
    # Counting integers, rather than averaging indicators, gives exact shares.
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
    """Raise ValueError with the name of the parameter that is not allowed, if there is one."""
    check_count(n_bags, "n_bags")
    check_count(bag_size, "bag_size")
    check_count(random_state, "random_state", least=0)
    if not (isinstance(replace, bool) or (isinstance(replace, str) and replace == "auto")):
        raise ValueError(f'replace must be "auto", True or False, got {replace!r}')


def check_protocol(protocol: Any) -> None:
    """Raise TypeError unless ``protocol`` is an object with a method ``bags``."""
    if isinstance(protocol, type) or not callable(getattr(protocol, "bags", None)):
        raise TypeError(
            f"protocol must be an object with a method bags, such as APP(), got {protocol!r}"
        )


def check_fits(bag_size: int, pool_size: int, replace: Any) -> None:
    """Raise ValueError if a bag without replacement would be larger than the pool."""
    if replace is False and bag_size > pool_size:
        raise ValueError(
            f"bag_size={bag_size} is larger than the pool of {pool_size} instances "
            'and replace=False; use smaller bags, or replace="auto"'
        )


Replace: TypeAlias = Literal["auto"] | bool
Counts = NDArray[np.int64]


def bag_generators(seed: int, n_bags: int) -> Iterator[np.random.Generator]:
    """Yield one independent generator per bag; generator b depends only on ``seed`` and b.

    The first 100 of 1,000 bags are therefore the same as those of ``n_bags=100``.
    """
    for bag in range(n_bags):
        yield np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(bag,)))


@dataclass(frozen=True, eq=False)
class Pool:
    """The instances of a pool sorted by class, from which bags are drawn.

    Attributes
    ----------
    order : int64 array of shape (n,)
        Positions in the pool, grouped by class.
    available : int64 array of shape (k,)
        Number of instances of each class.
    starts : int64 array of shape (k,)
        Position in ``order`` of the first instance of each class.
    classes : array of shape (k,)
    """

    order: Codes
    available: Counts
    starts: Codes
    classes: Labels

    @classmethod
    def from_codes(cls, codes: Codes, classes: Labels) -> Pool:
        """Return the pool whose instances have class codes of shape (n,)."""
        available = np.bincount(codes, minlength=len(classes)).astype(np.int64)
        starts = np.cumsum(available) - available
        return cls(np.argsort(codes, kind="stable"), available, starts, classes)

    def draw(self, counts: Counts, replace: Replace, rng: np.random.Generator) -> Codes:
        """Return the sorted positions of a bag with ``counts[i]`` instances of class i.

        Within a class every subset (with replacement: every sequence) is equally likely.
        """
        distinct = counts <= self.available if replace is not True else np.zeros(len(counts), bool)
        # Rejecting repeats is slow if a bag takes more than half of a class: such classes are
        # drawn by a random order of their instances.
        crowded = distinct & (2 * counts > self.available)
        sparse = np.where(crowded, 0, counts)
        parts = [self._draw_sparse(sparse, distinct, rng)]
        parts += [self._draw_crowded(c, counts[c], rng) for c in np.flatnonzero(crowded).tolist()]
        return np.sort(self.order[np.concatenate(parts)])

    def _draw_sparse(
        self, counts: Counts, distinct: NDArray[np.bool_], rng: np.random.Generator
    ) -> Codes:
        """Draw all classes at once, and redraw repeated instances of ``distinct`` classes.

        Keeping the distinct values and redrawing only the repeated ones gives the first counts[i]
        different values of an infinite uniform sequence, which is a uniform subset. Sorting keeps
        the instances of a class together, so that slots and classes stay aligned.
        """
        owner = np.repeat(np.arange(len(counts)), counts)
        slots = self._random_slots(owner, rng)
        while True:
            slots.sort()
            repeated = np.flatnonzero((slots[1:] == slots[:-1]) & distinct[owner[1:]]) + 1
            if len(repeated) == 0:
                return slots
            slots[repeated] = self._random_slots(owner[repeated], rng)

    def _random_slots(self, owner: Codes, rng: np.random.Generator) -> Codes:
        """Return a uniform position in ``order`` for each entry of ``owner``, its class."""
        within = (rng.random(len(owner)) * self.available[owner]).astype(np.int64)
        return np.asarray(self.starts[owner] + within, dtype=np.int64)

    def _draw_crowded(self, label: int, count: int, rng: np.random.Generator) -> Codes:
        """Return the first ``count`` positions of a class in a random order."""
        keys = rng.random(int(self.available[label]))
        return np.asarray(self.starts[label] + np.argsort(keys, kind="stable")[:count])

    def check(self, counts: Counts, replace: Replace) -> None:
        """Raise ValueError if a bag of ``counts``, shape (n_bags, k), cannot be drawn."""
        required = counts.max(axis=0)
        enough = self.available >= required if replace is False else self.available > 0
        short = (required > 0) & ~enough
        if not short.any():
            return
        label = int(np.argmax(short))
        name, need, have = self.classes.tolist()[label], required[label], self.available[label]
        bag = int(np.argmax(counts[:, label]))
        why = "y has none" if have == 0 else f"y has {have} and replace=False"
        raise ValueError(f"bag {bag} needs {need} instances of class {name!r}, but {why}")


def draw_bags(
    pool: Pool, counts: Counts, replace: Replace, generators: Iterable[np.random.Generator]
) -> Bags:
    """Return one bag for each row of ``counts`` (n_bags, k), each by a generator of its own.

    Raises
    ------
    ValueError
        If the pool does not have enough instances of a class.
    """
    pool.check(counts, replace)
    drawn = [pool.draw(row, replace, rng) for row, rng in zip(counts, generators, strict=True)]
    offsets = offsets_of(counts.sum(axis=1))
    return Bags(np.concatenate(drawn), offsets, len(pool.order))
