"""Bags with their true prevalences, and what a protocol is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.bags import Bags
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
