r"""The classifier as its training posteriors show it: reliability and confusion.

Decisions are cut into bins of equal size by the posterior of the predicted class. With
:math:`c_b` the mean posterior of bin b, :math:`r_b` the share of correct predictions in it and
:math:`w_b` its share of all predictions, the expected calibration error is

.. math:: \sum_b w_b |c_b - r_b|

(Guo et al., 2017, with bins of equal size).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.model import kept_training as kept_training  # also read from here by the report
from kdey.quantifiers.base import BaseQuantifier
from kdey.report.vocabulary import listed, percent
from kdey.simplex import check_posteriors

Array = NDArray[np.float64]
#: Two standard errors: about 95 %.
_Z = 1.96
#: Confusions that are listed.
_MOST_CONFUSIONS = 10


@dataclass(frozen=True, eq=False)
class Reliability:
    """The reliability curve of a classifier.

    Attributes
    ----------
    claimed : array of shape (n_bins,)
        Mean posterior of the predicted class.
    observed : array of shape (n_bins,)
        Share of correct predictions.
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

    Bins hold equally many predictions; equal posteriors stay in one bin, so that there may be
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


@dataclass(frozen=True, eq=False)
class ClassifierView:
    """The classifier as its training posteriors show it.

    Attributes
    ----------
    classes : tuple of str
    counts : array of shape (k, k)
        Weight of the instances of class i (row) predicted to be j (column).
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
        """Share of class i predicted to be j; NaN for classes without instances."""
        total = self.counts.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            return np.asarray(self.counts / np.where(total > 0, total, np.nan))

    @property
    def recalls(self) -> Array:
        """Share of each class that is predicted correctly, shape (k,)."""
        return np.asarray(np.diag(self.confusion))

    def frequent(self, most: int = _MOST_CONFUSIONS) -> list[tuple[str, str, float]]:
        """Return the most frequent confusions: true class, prediction, share of the true class."""
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
        tendency = "overconfident" if gap > 0 else "underconfident"
        accuracy, error = percent(self.curve.accuracy), percent(self.curve.error)
        sentences = [
            f"On its training data, the classifier is right for {accuracy} of the instances; "
            f"its posteriors are off by {error} on average, and it is {tendency}."
        ]
        hard = [
            name for name, recall in zip(self.classes, self.recalls, strict=True) if recall < 0.5
        ]
        if hard:
            shown = listed([f"“{name}”" for name in hard[:5]])
            more = f" and {len(hard) - 5} more" if len(hard) > 5 else ""
            sentences.append(f"It misses more than half of {shown}{more}.")
        return sentences


def classifier_view(quantifier: BaseQuantifier, classes: Sequence[str]) -> ClassifierView | None:
    """Return what a fitted quantifier's training posteriors show; None where it keeps none."""
    training = kept_training(quantifier)
    posteriors = None if training is None else training.posteriors
    if training is None or posteriors is None or not quantifier.takes_posteriors:
        return None
    k = len(classes)
    predicted = posteriors.argmax(axis=1)
    places = training.labels * k + predicted
    counts = np.bincount(places, weights=training.weights, minlength=k * k).reshape(k, k)
    curve = reliability(posteriors, training.labels)
    held_out = training.folds is not None
    return ClassifierView(tuple(classes), counts.astype(np.float64), curve, held_out)
