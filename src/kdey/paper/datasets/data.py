"""A loaded data set: labelled instances that are split, or a training set with given bags.

:class:`Dataset` is cut into training, validation and test parts by :meth:`Dataset.split`.
:class:`Bagged` comes with bags whose prevalences are known, as the LeQua tasks do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from kdey.bags import Bags
from kdey.protocols import GivenBags

Array = NDArray[np.float64]
Labels = NDArray[Any]
Indices = NDArray[np.int64]
Scaling = Literal["standard", "tfidf"] | None
#: Features (m, d) to what is kept of them, (m, r), such as posteriors.
Transform: TypeAlias = Callable[[Array], Any]

_TRAIN_OF_ALL, _TRAIN_OF_DEVELOPMENT = 0.7, 0.6


@dataclass(frozen=True, eq=False)
class Part:
    """Labelled instances: features X (n, d), dense float64 or CSR, and labels y (n,)."""

    X: Any
    y: Labels

    def __len__(self) -> int:
        """Return the number of instances."""
        return len(self.y)


@dataclass(frozen=True, eq=False)
class Split:
    """The three parts of a data set.

    Attributes
    ----------
    train, validation, test : Part
    classes : array of shape (k,)
        All classes, sorted.
    notes : tuple of str
        All preprocessing, that of the data set included.
    """

    train: Part
    validation: Part
    test: Part
    classes: Labels
    notes: tuple[str, ...]

    @property
    def development(self) -> Part:
        """The training and the validation part, one above the other."""
        both: Any = [self.train.X, self.validation.X]
        X = sp.vstack(both, format="csr") if sp.issparse(self.train.X) else np.vstack(both)
        return Part(X, np.concatenate([self.train.y, self.validation.y]))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled instances and where they come from.

    Attributes
    ----------
    name : str
        For tables: the paper's name where the paper has the set.
    group : str
    X : float64 array or CSR array of shape (n, d)
        Not scaled; scaling depends on the split and happens in :meth:`split`.
    y : array of shape (n,)
        Integers or text.
    classes : array of shape (k,)
        Sorted.
    source : str
        One sentence: where the data come from.
    notes : tuple of str
        Preprocessing applied so far.
    scaling : {"standard", "tfidf", None}
        What :meth:`split` fits on the development part and applies to all parts.
    parts : array of str of shape (n,) or None
        The part each row belongs to, where the source says so: "train", "validation" or "test".
    """

    name: str
    group: str
    X: Any
    y: Labels
    classes: Labels
    source: str
    notes: tuple[str, ...] = ()
    scaling: Scaling = None
    parts: NDArray[np.str_] | None = field(default=None, repr=False)

    def split(self, seed: int = 0) -> Split:
        """Return training, validation and test parts.

        70 % of the rows, stratified, are for development (random state ``seed``); 60 % of these,
        stratified, for training (random state ``seed + 1``), the others for validation. Seed 0 is
        the paper's split. Parts that the source defines stay as they are; where it defines no
        validation part, 40 % of the training rows become one.

        Parameters
        ----------
        seed : int
        """
        train, validation, test, note = self._split_rows(seed)
        development = np.concatenate([train, validation])
        X, scaled = scale(self.X, development, self.scaling)
        parts = [Part(X[rows], self.y[rows]) for rows in (train, validation, test)]
        return Split(parts[0], parts[1], parts[2], self.classes, (*self.notes, note, *scaled))

    def _split_rows(self, seed: int) -> tuple[Indices, Indices, Indices, str]:
        rows = np.arange(len(self.y))
        if self.parts is None:
            development, test = self._stratified(rows, _TRAIN_OF_ALL, seed)
            train, validation = self._stratified(development, _TRAIN_OF_DEVELOPMENT, seed + 1)
            return train, validation, test, f"70/30 and 60/40 stratified split, seed {seed}"
        train, validation, test = (
            np.flatnonzero(self.parts == part) for part in ("train", "validation", "test")
        )
        if len(validation):
            return train, validation, test, "parts as the source defines them"
        train, validation = self._stratified(train, _TRAIN_OF_DEVELOPMENT, seed + 1)
        note = f"test part of the source; 40 % of its training part for validation, seed {seed}"
        return train, validation, test, note

    def _stratified(self, rows: Indices, share: float, seed: int) -> tuple[Indices, Indices]:
        first, second = train_test_split(
            rows, train_size=share, stratify=self.y[rows], random_state=seed
        )
        return first, second


def scale(X: Any, fit_rows: NDArray[np.int64], scaling: Scaling) -> tuple[Any, tuple[str, ...]]:
    """Return scaled features and notes on what was done.

    Parameters
    ----------
    X : array or CSR array of shape (n, d)
    fit_rows : int64 array
        Rows of the development part.
    scaling : {"standard", "tfidf", None}
        "standard": each column to mean 0 and variance 1. "tfidf": sublinear counts times inverse
        document frequency, rows of length 1.
    """
    if scaling == "standard":
        scaled = StandardScaler().fit(X[fit_rows]).transform(X)
        return scaled, ("columns standardised on the development part",)
    if scaling == "tfidf":
        from sklearn.feature_extraction.text import TfidfTransformer

        scaled = TfidfTransformer(sublinear_tf=True).fit(X[fit_rows]).transform(X)
        return scaled.tocsr(), ("sublinear TF-IDF fitted on the development part",)
    return X, ("features as they are, not scaled",)


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

    @property
    def shares_pool(self) -> bool:
        """Whether the bags are positions in one pool; otherwise each has its own instances."""
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

    @property
    def shares_pool(self) -> bool:
        """Bags are positions in one pool."""
        return True

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
    training_bags : IndexBags or None
        The samples that the training set consists of; None if it is one set.
    class_names : tuple of str
        In the order of ``classes``; empty if they have no names.
    """

    name: str
    train: Part
    validation: BagSource
    test: BagSource
    classes: NDArray[Any]
    source: str
    notes: tuple[str, ...] = ()
    training_bags: IndexBags | None = None
    class_names: tuple[str, ...] = ()


def check_number(number: int, n_bags: int) -> None:
    """Raise where there is no bag of this number."""
    if not 0 <= number < n_bags:
        raise IndexError(f"number must be in 0..{n_bags - 1}, got {number}")


def check_n_bags(n_bags: int | None, available: int) -> int:
    """Return the number of bags asked for, by default all of them."""
    count = available if n_bags is None else n_bags
    if not 1 <= count <= available:
        raise ValueError(f"n_bags must be in 1..{available}, got {n_bags}")
    return count
