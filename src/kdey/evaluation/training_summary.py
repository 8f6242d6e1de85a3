"""What a fitted quantifier's own training data say about it, in a few lines.

The training posteriors come from models that had not seen their instances. Templates made from one
half of them are tried on bags drawn from the other half, so that the error is that of new bags.
"""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kdey._parallel import thread_count
from kdey.bags import Array, Indices
from kdey.diagnostics import identifiability
from kdey.posteriors import TrainingPosteriors
from kdey.quantifiers.aggregative import AggregativeQuantifier

#: Labels of a class below which limits are wide and estimates may lean on a few instances.
FEW_LABELS = 20
#: Training posteriors of each half that are used at most: more would take long and change little.
MOST_ROWS = 3000
#: Bags that are tried, and their size.
N_BAGS, BAG_SIZE = 100, 100
#: An error above this share of that of equal shares says that little can be learnt, unless
#: decisions, most of which are on frequent classes, close more than the rest of the gap.
POOR = 0.7


@dataclass(frozen=True, eq=False)
class TrainingSummary:
    """How well classes can be told apart, by the training data of a quantifier.

    Attributes
    ----------
    classes : array of shape (k,)
    counts : int64 array of shape (k,)
        Labels of each class.
    accuracy : float or None
        Share of right decisions on instances that the classifier had not seen; None if the
        quantifier keeps no training posteriors.
    error : float or None
        Mean absolute error of a prevalence in bags of held-out instances, with prevalences uniform
        on the simplex; None where it could not be had.
    error_of_equal_shares : float or None
        The same for the answer that all classes are equally frequent.
    inseparable : tuple of (class, class, affinity)
        Pairs of classes that can hardly be told apart (:func:`kdey.identifiability`).
    """

    classes: NDArray[Any]
    counts: Indices
    accuracy: float | None = None
    error: float | None = None
    error_of_equal_shares: float | None = None
    inseparable: tuple[tuple[Any, Any, float], ...] = ()

    @classmethod
    def of(cls, quantifier: AggregativeQuantifier, seed: int = 0) -> Self:
        """Return the summary of a fitted quantifier.

        Parameters
        ----------
        quantifier : fitted quantifier on posteriors
        seed : int
            Of the halves and the bags.
        """
        training = quantifier.training_
        classes = np.asarray(quantifier.classes_)
        counts = np.bincount(training.labels, minlength=len(classes)).astype(np.int64)
        if training.posteriors is None:
            return cls(classes, counts)
        accuracy = float((training.posteriors.argmax(axis=1) == training.labels).mean())
        rng = np.random.default_rng(seed)
        halves = _halves(training, len(classes), rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of halves, which are no concern of the user's
            try:
                fitted = _fit_half(quantifier, training, halves[0])
                errors = _bag_errors(fitted, training, halves[1], rng)
                pairs = tuple(identifiability(fitted).inseparable)
            except ValueError:  # too few labels for the method in one half
                return cls(classes, counts, accuracy)
        return cls(classes, counts, accuracy, *errors, pairs)

    @property
    def majority(self) -> float:
        """The accuracy of always naming the most frequent class."""
        return float(self.counts.max() / self.counts.sum())

    @property
    def rare(self) -> tuple[tuple[Any, int], ...]:
        """The classes with fewer than ``FEW_LABELS`` labels, and how many they have."""
        return tuple(
            (label, count)
            for label, count in zip(self.classes.tolist(), self.counts.tolist(), strict=True)
            if count < FEW_LABELS
        )

    def sentences(self) -> list[str]:
        """Return what a user should know, and what to do about it, one sentence per line."""
        lines = []
        if self.accuracy is not None:
            lines.append(
                f"accuracy {self.accuracy:.3f} on rows not fitted on (the most frequent class "
                f"alone: {self.majority:.3f})"
            )
        if self.error is not None and self.error_of_equal_shares is not None:
            lines.append(
                f"mean error of a share {self.error:.3f} in held-out bags of {BAG_SIZE} (all "
                f"classes alike: {self.error_of_equal_shares:.3f})"
            )
            if self._says_little:
                lines.append(
                    "the columns say little about the classes: estimates will be vague; add "
                    "features, or labels"
                )
        return lines + self._rare_sentences() + self._pair_sentences()

    @property
    def _says_little(self) -> bool:
        """Whether neither decisions nor estimates gain much from the features."""
        if self.accuracy is None or self.error is None or self.error_of_equal_shares is None:
            return False
        gain = self.accuracy - self.majority
        poor_decisions = gain < (1.0 - POOR) * (1.0 - self.majority)
        return poor_decisions and self.error > POOR * self.error_of_equal_shares

    def _rare_sentences(self) -> list[str]:
        if not self.rare:
            return []
        shown = ", ".join(f"{label} ({count})" for label, count in self.rare[:6])
        more = f" and {len(self.rare) - 6} more" if len(self.rare) > 6 else ""
        return [
            f"few labels: {shown}{more}; label at least {FEW_LABELS} of each class, or merge "
            "classes: until then their limits are wide"
        ]

    def _pair_sentences(self) -> list[str]:
        lines = [
            f"{first} and {second} can hardly be told apart (overlap {affinity:.2f}): trust their "
            "sum, merge them, or add features that part them"
            for first, second, affinity in self.inseparable[:3]
        ]
        if len(self.inseparable) > 3:
            lines.append(f"and {len(self.inseparable) - 3} more such pairs")
        return lines


def _halves(
    training: TrainingPosteriors, n_classes: int, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Return two halves of the training posteriors, every class in both if it has two labels."""
    first, second = [], []
    share = min(1.0, 2 * MOST_ROWS / len(training.labels))
    for code in range(n_classes):
        rows = rng.permutation(np.flatnonzero(training.labels == code))
        rows = rows[: max(2 * FEW_LABELS, round(share * len(rows)))]
        cut = (len(rows) + 1) // 2
        first.append(rows[:cut])
        second.append(rows[cut:])
    return np.concatenate(first), np.concatenate(second)


def _fit_half(
    quantifier: AggregativeQuantifier, training: TrainingPosteriors, rows: Indices
) -> AggregativeQuantifier:
    """Return the quantifier with templates of some rows; what it chose at ``fit`` is kept."""
    weights = None if training.weights is None else training.weights[rows]
    part = TrainingPosteriors(training.required()[rows], training.labels[rows], weights)
    half = copy(quantifier)
    half.model_ = quantifier.model_.with_training(part, thread_count(quantifier.n_jobs))
    return half


def _bag_errors(
    fitted: AggregativeQuantifier,
    training: TrainingPosteriors,
    rows: Indices,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return the mean absolute errors of the method and of equal shares over bags of ``rows``."""
    labels, k = training.labels[rows], len(fitted.classes_)
    present = np.unique(labels)
    members = {code: np.flatnonzero(labels == code) for code in present.tolist()}
    bags, truth = [], np.zeros((N_BAGS, k))
    for number in range(N_BAGS):
        shares = rng.dirichlet(np.ones(len(present)))
        drawn = rng.choice(present, BAG_SIZE, p=shares)
        bags.append(np.array([rng.choice(members[code]) for code in drawn.tolist()]))
        truth[number] = np.bincount(drawn, minlength=k) / BAG_SIZE
    estimates: Array = fitted.aggregate_bags(training.required()[rows], bags)
    return float(np.abs(estimates - truth).mean()), float(np.abs(1.0 / k - truth).mean())
