"""Labels as class positions, and bags with their true prevalences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.bags import Bags
from kdey.simplex import Array

Codes = NDArray[np.int64]
Labels = NDArray[Any]


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


def encode_labels(y: ArrayLike, classes: ArrayLike | None = None) -> tuple[Codes, Labels]:
    """Return the class position of each label and the classes.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of any sortable type.
    classes : array-like of shape (k,), optional
        The classes in the order of the prevalences; some may be absent from ``y``, but ``y`` may
        hold no other. By default the sorted labels found in ``y``.
    """
    found, inverse = _unique(y, "y")
    known = found if classes is None else check_classes(classes)
    # Python equality keeps 1 and "1" apart, where comparing arrays would turn both into text.
    position = {label: code for code, label in enumerate(known.tolist())}
    unseen = [label for label in found.tolist() if label not in position]
    if unseen:
        raise ValueError(f"y has labels that are not in classes: {unseen[:5]}")
    codes = np.array([position[label] for label in found.tolist()], dtype=np.int64)
    return codes[inverse], known


def check_classes(classes: ArrayLike) -> Labels:
    """Return ``classes`` as a vector in the given order, or raise if a class comes twice."""
    distinct, _ = _unique(classes, "classes")
    known = np.asarray(classes)
    if len(distinct) != len(known):
        raise ValueError(f"classes must be distinct, got {known.tolist()}")
    return known


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


def group_codes(groups: ArrayLike) -> tuple[Labels, Codes]:
    """Return the sorted distinct group ids and the position among them of each instance."""
    return _unique(groups, "groups")


def _unique(values: ArrayLike, name: str) -> tuple[Labels, Codes]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be a vector, got shape {array.shape}")
    if len(array) == 0:
        raise ValueError(f"{name} is empty")
    if _has_missing(array):
        raise ValueError(f"{name} has missing values")
    try:
        distinct, inverse = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"{name} mixes types that cannot be ordered: {error}") from error
    return distinct, inverse.astype(np.int64)


def _has_missing(array: Labels) -> bool:
    """Say whether NaN, NaT, None or pandas.NA is among the values."""
    if array.dtype != object:
        return bool((array != array).any())
    return any(_is_missing(value) for value in array.tolist())


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA: neither equal to itself nor not
        return True
