"""What a loaded data set is, and how it is cut into training, validation and test parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from kdey.datasets.scaling import Scaling, scale

Labels = NDArray[Any]
Indices = NDArray[np.int64]
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
    given : array of str of shape (n,) or None
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
    given: NDArray[np.str_] | None = field(default=None, repr=False)

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
        train, validation, test, note = self._parts(seed)
        development = np.concatenate([train, validation])
        X, scaled = scale(self.X, development, self.scaling)
        learn, choose, judge = (Part(X[rows], self.y[rows]) for rows in (train, validation, test))
        return Split(learn, choose, judge, self.classes, (*self.notes, note, *scaled))

    def _parts(self, seed: int) -> tuple[Indices, Indices, Indices, str]:
        rows = np.arange(len(self.y))
        if self.given is None:
            development, test = self._halve(rows, _TRAIN_OF_ALL, seed)
            train, validation = self._halve(development, _TRAIN_OF_DEVELOPMENT, seed + 1)
            return train, validation, test, f"70/30 and 60/40 stratified split, seed {seed}"
        train, validation, test = (
            np.flatnonzero(self.given == part) for part in ("train", "validation", "test")
        )
        if len(validation):
            return train, validation, test, "parts as the source defines them"
        train, validation = self._halve(train, _TRAIN_OF_DEVELOPMENT, seed + 1)
        note = f"test part of the source; 40 % of its training part for validation, seed {seed}"
        return train, validation, test, note

    def _halve(self, rows: Indices, share: float, seed: int) -> tuple[Indices, Indices]:
        first, second = train_test_split(
            rows, train_size=share, stratify=self.y[rows], random_state=seed
        )
        return first, second
