"""Data that come as a training set and given bags with known prevalences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Bags
from kdey.datasets.data import Part
from kdey.protocols import GivenBags

Array = NDArray[np.float64]
#: Features (m, d) to what is kept of them, (m, r): posteriors, say.
Transform: TypeAlias = Callable[[Array], Any]


class Pool(NamedTuple):
    """Instances of all bags, one above the other, and the bags as positions in them.

    Attributes
    ----------
    X : array of shape (pool_size, d)
        Features, or what a transform made of them.
    protocol : GivenBags
        ``protocol.bags(classes=...)`` gives the bags with their true prevalences.
    """

    X: Any
    protocol: GivenBags


class BagSource(Protocol):
    """Given bags, from files or from memory."""

    @property
    def prevalences(self) -> Array:
        """True prevalences, shape (n_bags, k)."""
        ...

    def __len__(self) -> int:
        """Return the number of bags."""
        ...

    def bag(self, number: int) -> Array:
        """Return the features of one bag, shape (bag_size, d)."""
        ...

    def __iter__(self) -> Iterator[Array]:
        """Iterate over the features of the bags; one is in memory at a time."""
        ...

    def pool(self, transform: Transform | None = None, n_bags: int | None = None) -> Pool:
        """Return the (first ``n_bags``) bags as one pool, transformed as they are read."""
        ...


@dataclass(frozen=True, eq=False)
class IndexBags:
    """Bags that are positions in one labelled pool, held in memory.

    Attributes
    ----------
    instances : Part
        The pool.
    bags : Bags
    prevalences : float64 array of shape (n_bags, k)
    """

    instances: Part
    bags: Bags
    prevalences: Array

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.bags)

    def bag(self, number: int) -> Array:
        """Return the features of one bag, shape (bag_size, d)."""
        check_number(number, len(self))
        part = slice(self.bags.offsets[number], self.bags.offsets[number + 1])
        return np.asarray(self.instances.X[self.bags.indices[part]])

    def __iter__(self) -> Iterator[Array]:
        """Iterate over the features of the bags."""
        for positions in self.bags:
            yield np.asarray(self.instances.X[positions])

    def pool(self, transform: Transform | None = None, n_bags: int | None = None) -> Pool:
        """Return the pool, transformed once, and the (first ``n_bags``) bags over it."""
        count = check_n_bags(n_bags, len(self))
        X = self.instances.X if transform is None else transform(self.instances.X)
        return Pool(X, GivenBags(self.bags[:count], self.prevalences[:count]))


@dataclass(frozen=True, eq=False)
class Bagged:
    """A training set and given bags for validation and test.

    Attributes
    ----------
    name : str
    train : Part
    validation, test : BagSource
    classes : array of shape (k,)
        In the order of the columns of the prevalences.
    source : str
        One sentence: where the data come from.
    notes : tuple of str
    """

    name: str
    train: Part
    validation: BagSource
    test: BagSource
    classes: NDArray[Any]
    source: str
    notes: tuple[str, ...] = ()


def check_number(number: int, n_bags: int) -> None:
    """Refuse the number of a bag that does not exist."""
    if not 0 <= number < n_bags:
        raise IndexError(f"number must be in 0..{n_bags - 1}, got {number}")


def check_n_bags(n_bags: int | None, available: int) -> int:
    """Return how many bags are meant."""
    count = available if n_bags is None else n_bags
    if not 1 <= count <= available:
        raise ValueError(f"n_bags must be in 1..{available}, got {n_bags}")
    return count
