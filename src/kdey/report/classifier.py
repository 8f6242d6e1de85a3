"""What the cross-validated training posteriors tell of the classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.report.axes import percent
from kdey.report.reliability import Reliability, reliability
from kdey.report.words import listed

Array = NDArray[np.float64]
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
