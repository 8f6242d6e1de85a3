r"""Reliability of a classifier's posteriors: what it claims against what it keeps.

Decisions are cut into bins of equal size by the posterior of the class decided for. With
:math:`c_b` the mean posterior of bin b, :math:`r_b` the share of right decisions in it and
:math:`w_b` its share of all decisions, the expected calibration error is

.. math:: \sum_b w_b |c_b - r_b|

(Guo et al., 2017, with bins of equal size).

What the cross-validated training posteriors tell of the classifier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.report.svg import percent
from kdey.report.words import listed
from kdey.simplex import check_posteriors

Array = NDArray[np.float64]
#: Two standard errors: about 95 %.
_Z = 1.96


@dataclass(frozen=True, eq=False)
class Reliability:
    """The reliability curve of a classifier.

    Attributes
    ----------
    claimed : array of shape (n_bins,)
        Mean posterior of the class decided for.
    observed : array of shape (n_bins,)
        Share of right decisions.
    low, high : arrays of shape (n_bins,)
        Wilson's 95 % limits of the share.
    counts : int array of shape (n_bins,)
    error : float
        Expected calibration error.
    accuracy : float
    """

    claimed: Array
    observed: Array
    low: Array
    high: Array
    counts: NDArray[np.int64]
    error: float
    accuracy: float


def reliability(posteriors: ArrayLike, labels: ArrayLike, n_bins: int = 10) -> Reliability:
    """Return the reliability of posteriors (n, k) for labels, codes 0..k-1 of shape (n,).

    Bins hold equally many decisions; equal posteriors are not torn apart, so that there may be
    fewer bins than asked for.
    """
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1, got {n_bins!r}")
    p = np.asarray(check_posteriors(posteriors), dtype=np.float64)
    codes = np.asarray(labels)
    if codes.shape != (len(p),):
        raise ValueError(f"labels must have shape ({len(p)},), got {codes.shape}")
    sure, right = p.max(axis=1), p.argmax(axis=1) == codes
    order = np.argsort(sure, kind="stable")
    bins = _bins(sure[order], n_bins)
    counts = np.bincount(bins)
    claimed = np.bincount(bins, weights=sure[order]) / counts
    observed = np.bincount(bins, weights=right[order].astype(np.float64)) / counts
    low, high = _wilson(observed, counts)
    error = float(counts @ np.abs(claimed - observed) / counts.sum())
    return Reliability(claimed, observed, low, high, counts, error, float(right.mean()))


def _bins(values: Array, n_bins: int) -> NDArray[np.int64]:
    """Return the bin of each of the sorted values, ties in the bin of their first."""
    n = len(values)
    bins = np.arange(n) * min(n_bins, n) // n
    first = np.searchsorted(values, values, side="left")
    return np.unique(bins[first], return_inverse=True)[1].astype(np.int64)


def _wilson(share: Array, counts: NDArray[np.int64]) -> tuple[Array, Array]:
    z = _Z**2 / counts
    middle = (share + z / 2) / (1 + z)
    half = np.sqrt(share * (1 - share) * z + z**2 / 4) / (1 + z)
    return np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)


#: Confusions that are told by name.
_TOLD = 10


@dataclass(frozen=True, eq=False)
class ClassifierView:
    """The classifier as its training posteriors show it.

    Attributes
    ----------
    classes : tuple of str
    counts : array of shape (k, k)
        Weight of the instances of class i (row) decided to be j (column).
    curve : Reliability
    held_out : bool
        Whether the posteriors come from models that did not see their instances, as far as known.
    """

    classes: tuple[str, ...]
    counts: Array
    curve: Reliability
    held_out: bool

    @property
    def confusion(self) -> Array:
        """Share of class i decided to be j, rows sum to one; NaN for classes without instances."""
        total = self.counts.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            return np.asarray(self.counts / np.where(total > 0, total, np.nan))

    @property
    def recalls(self) -> Array:
        """Share of each class that is decided right, shape (k,)."""
        return np.asarray(np.diag(self.confusion))

    def frequent(self, most: int = _TOLD) -> list[tuple[str, str, float]]:
        """Return the most frequent confusions: true class, decision, share of the true class."""
        shares = np.nan_to_num(self.confusion) * (1 - np.eye(len(self.classes)))
        order = np.argsort(-shares, axis=None, kind="stable")[:most]
        pairs = [divmod(int(place), len(self.classes)) for place in order]
        return [
            (self.classes[i], self.classes[j], float(shares[i, j]))
            for i, j in pairs
            if shares[i, j] > 0
        ]

    def words(self) -> list[str]:
        """Return what the figures show, in sentences."""
        gap = float(np.sum(self.curve.counts * (self.curve.claimed - self.curve.observed)))
        lean = "surer than it should be" if gap > 0 else "less sure than it could be"
        right, off = percent(self.curve.accuracy), percent(self.curve.error)
        told = [
            f"On its training data, the classifier decides right for {right} of the instances; "
            f"its posteriors are off by {off} on average, and it is {lean}."
        ]
        hard = [
            name for name, recall in zip(self.classes, self.recalls, strict=True) if recall < 0.5
        ]
        if hard:
            shown = listed([f"“{name}”" for name in hard[:5]])
            more = f" and {len(hard) - 5} more" if len(hard) > 5 else ""
            told.append(f"It misses more than half of {shown}{more}.")
        return told


def classifier_view(quantifier: Any, classes: Sequence[str]) -> ClassifierView | None:
    """Return what a fitted quantifier's training posteriors show; None where it keeps none."""
    training = getattr(quantifier, "training_", None)
    posteriors = getattr(training, "posteriors", None)
    if training is None or posteriors is None or not hasattr(quantifier, "aggregate"):
        return None
    k = len(classes)
    decided = posteriors.argmax(axis=1)
    places = training.labels * k + decided
    counts = np.bincount(places, weights=training.weights, minlength=k * k).reshape(k, k)
    curve = reliability(posteriors, training.labels)
    held_out = training.folds is not None
    return ClassifierView(tuple(classes), counts.astype(np.float64), curve, held_out)
