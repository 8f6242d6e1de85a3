"""The classifier stage as a value: what it depends on, and what it gives to later stages.

Everything before the rows of a quantifier depends on a classifier, on ``cv`` and on a seed alone.
Held apart, the stage can be fitted once and serve every quantifier and setting that agrees on
these three.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike, NDArray

from kdey.posteriors import TrainingPosteriors, training_posteriors
from kdey.splits import Indices


@dataclass(frozen=True, eq=False)
class FittedStage:
    """A fitted classifier, and the training posteriors that templates are made from."""

    classifier: Any
    training: TrainingPosteriors


@dataclass(frozen=True, eq=False)
class ClassifierStage:
    """What the classifier stage depends on; see :func:`kdey.posteriors.training_posteriors`.

    Attributes
    ----------
    classifier : unfitted classifier
    cv : how the training posteriors are made; None where none are needed
    random_state : int, RandomState or None
    """

    classifier: Any
    cv: Any
    random_state: Any

    def fit(
        self,
        X: Any,
        codes: Indices,
        classes: NDArray[Any],
        sample_weight: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> FittedStage:
        """Return the stage fitted on instances ``X`` with labels ``classes[codes]``."""
        fitted, training = training_posteriors(
            self.classifier,
            X,
            codes,
            classes,
            cv=self.cv,
            sample_weight=sample_weight,
            n_jobs=n_jobs,
            random_state=self.random_state,
        )
        return FittedStage(fitted, training)
