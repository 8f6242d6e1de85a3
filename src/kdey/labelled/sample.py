"""The labelled sample of a bag: which of its instances have labels, and how they were chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey._support.validation import check_weights
from kdey.bags import Array, Bags, offsets_of
from kdey.labels import encode_labels
from kdey.tensors import for_numpy

Indices = NDArray[np.int64]
#: What ``labelled=`` takes: positions in the bag, and the labels at these positions.
Labelled: TypeAlias = tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True, eq=False)
class LabelledSample:
    """A bag of M instances of which n have labels.

    Instances of weight zero are neither labelled nor unlabelled: they do not belong to the bag.

    Attributes
    ----------
    size : int
        Number of instances of the pool, those of weight zero included.
    positions : int64 array of shape (n,)
        Positions of the labelled instances.
    codes : int64 array of shape (n,)
        Class number of each label.
    n_classes : int
    weights : array of shape (size,)
        Sampling weights of all instances.
    selection : array of shape (n,) or None
        The probability with which each labelled instance was chosen for labelling; None if all
        instances had the same.
    clusters : int64 array of shape (size,) or None
        Number of the cluster of each instance.
    """

    size: int
    positions: Indices
    codes: Indices
    n_classes: int
    weights: Array
    selection: Array | None
    clusters: Indices | None

    @property
    def n_labels(self) -> int:
        """Number of labels n."""
        return len(self.positions)

    @cached_property
    def members(self) -> Indices:
        """Positions of the instances of the bag, those of positive weight."""
        return np.flatnonzero(self.weights > 0)

    @cached_property
    def unlabelled(self) -> Indices:
        """Positions of the instances of the bag without a label."""
        rest = self.weights > 0
        rest[self.positions] = False
        return np.flatnonzero(rest)

    @cached_property
    def label_weights(self) -> Array:
        """Weights of the labels in means over the bag, summing to one, shape (n,)."""
        w = self.weights[self.positions]
        w = w if self.selection is None else w / self.selection
        return np.asarray(w / w.sum())

    @property
    def label_size(self) -> float:
        """Effective number of labels, 1 / sum of squared weights."""
        return effective_size(self.label_weights)

    @property
    def labelled_mass(self) -> float:
        """Share of the bag's weight that has labels."""
        return float(self.weights[self.positions].sum() / self.weights.sum())

    @cached_property
    def one_hot(self) -> Array:
        """The labels as one-hot rows, shape (n, k)."""
        rows = np.zeros((self.n_labels, self.n_classes))
        rows[np.arange(self.n_labels), self.codes] = 1.0
        return rows

    def shares(self, positions: Indices) -> Array:
        """Return the weights of instances relative to their sum, in the shape of positions."""
        w = self.weights[positions]
        return np.asarray(w / w.sum())

    def bag(self, positions: Indices) -> Bags:
        """Return one bag of the instances at these positions, with their weights."""
        offsets = np.array([0, len(positions)], dtype=np.int64)
        return Bags(positions, offsets, self.size, self.weights[positions])

    def design_effect(self, influence: Array) -> Array:
        """Return the variance of a sum over instances in clusters, relative to independent ones.

        Parameters
        ----------
        influence : array of shape (size, c)
            What each instance adds to the error of an estimate.

        Returns
        -------
        array of shape (c,)
            At least one, because few clusters can show too little variance by chance.
        """
        if self.clusters is None:
            return np.ones(influence.shape[1])
        sums = np.zeros((int(self.clusters.max()) + 1, influence.shape[1]))
        np.add.at(sums, self.clusters, influence)
        n = len(np.unique(self.clusters[self.members]))
        clustered = (sums**2).sum(axis=0) * n / max(n - 1, 1)
        independent = (influence**2).sum(axis=0)
        positive = independent > 0
        ratio = np.where(positive, clustered / np.where(positive, independent, 1.0), 1.0)
        return np.maximum(ratio, 1.0)

    @property
    def freedom(self) -> float:
        """Degrees of freedom that clusters of labelled instances leave; inf without clusters."""
        if self.clusters is None:
            return np.inf
        return float(max(len(np.unique(self.clusters[self.positions])) - 1, 1))


def effective_size(weights: Array) -> float:
    """Return (sum w)^2 / sum w^2, the number of equal weights with the same variance."""
    return float(weights.sum() ** 2 / (weights @ weights))


def sample_offsets(samples: Sequence[LabelledSample]) -> Indices:
    """Return where each of consecutive samples starts, and where the last ends, (n + 1,)."""
    return offsets_of(np.array([sample.size for sample in samples], dtype=np.int64))


def joined_bags(samples: Sequence[LabelledSample], positions: Sequence[Indices]) -> Bags:
    """Return one bag per sample over the joined points of consecutive samples.

    Parameters
    ----------
    samples : sequence of LabelledSample
    positions : sequence of int64 arrays
        The instances of each bag, counted within its sample.

    Returns
    -------
    Bags
    """
    starts = sample_offsets(samples)
    pairs = list(zip(samples, positions, strict=True))
    indices = np.concatenate([s + p for s, p in zip(starts[:-1], positions, strict=True)])
    offsets = offsets_of(np.array([len(p) for p in positions], dtype=np.int64))
    weights = np.concatenate([sample.weights[p] for sample, p in pairs])
    return Bags(indices, offsets, int(starts[-1]), weights)


def labelled_sample(
    labelled: Labelled,
    classes: NDArray[Any],
    size: int,
    *,
    weights: ArrayLike | None = None,
    selection: ArrayLike | None = None,
    clusters: Indices | None = None,
) -> LabelledSample:
    """Return the labelled sample of a bag, checked.

    Parameters
    ----------
    labelled : pair of array-likes of shape (n,)
        Positions of the labelled instances in the bag, and their labels.
    classes : array of shape (k,)
    size : int
        Number of instances of the bag.
    weights : array-like of shape (size,), optional
        Sampling weights of the instances.
    selection : array-like of shape (n,), optional
        The probability with which each labelled instance was chosen for labelling.
    clusters : int64 array of shape (size,), optional

    Returns
    -------
    LabelledSample

    Raises
    ------
    ValueError
        If positions, labels or probabilities are not allowed.
    """
    if not isinstance(labelled, Sequence) or isinstance(labelled, str) or len(labelled) != 2:
        raise ValueError("labelled must be a pair (positions, labels) of equal length")
    positions = _positions(labelled[0], size)
    labels = np.asarray(for_numpy(labelled[1], "labels"))
    if labels.shape != positions.shape:
        raise ValueError(
            f"labelled has {len(positions)} positions but labels of shape {labels.shape}: give "
            "one label per position"
        )
    try:
        codes = encode_labels(labels, classes)[0]
    except ValueError as error:
        raise ValueError(f"labelled: {error}") from error
    w = np.ones(size) if weights is None else check_weights(weights, size)
    chosen = None if selection is None else _probabilities(selection, len(positions))
    inside = w[positions] > 0
    if not inside.any():
        raise ValueError("labelled: all labelled instances have weight zero")
    return LabelledSample(
        size=size,
        positions=positions[inside],
        codes=codes[inside],
        n_classes=len(classes),
        weights=w,
        selection=None if chosen is None else chosen[inside],
        clusters=clusters,
    )


def _positions(values: ArrayLike, size: int) -> Indices:
    """Return distinct positions in the bag, or raise ValueError."""
    array = np.asarray(for_numpy(values, "positions"))
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(
            f"labelled needs a vector of at least one position, got shape {array.shape}"
        )
    if array.dtype.kind not in "iu":
        raise ValueError(
            f"labelled positions must be integers, row numbers of the bag, got {array.dtype}; "
            "for a boolean mask use np.flatnonzero(mask)"
        )
    if array.min() < 0 or array.max() >= size:
        raise ValueError(
            f"labelled positions must be in 0 to {size - 1}, got {array.min()} to {array.max()}"
        )
    if len(np.unique(array)) != len(array):
        raise ValueError("labelled positions must be distinct: an instance has one label")
    return array.astype(np.int64)


def _probabilities(values: ArrayLike, n_labels: int) -> Array:
    """Return probabilities of selection, or raise ValueError."""
    p = check_weights(values, n_labels, name="selection")
    if not ((p > 0) & (p <= 1)).all():
        raise ValueError(
            "selection must hold the probability, above 0 and at most 1, with which each "
            f"labelled instance was chosen, got {p.min():g} to {p.max():g}"
        )
    return p
