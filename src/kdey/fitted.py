"""What the library asks of a fitted quantifier, as one protocol.

Groups, diagnostics, Gibbs sampling, evaluation, searches, reports and model files lie beside the
quantifiers, not above them, and take anything that keeps :class:`FittedQuantifier`.
:class:`~kdey.quantifiers.base.BaseQuantifier` does so with defaults; ``check_quantifier`` tries it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from kdey.bags import Array, BagsLike
from kdey.intervals import Estimate, Estimates, FittedModel
from kdey.posteriors import TrainingPosteriors, predict_posteriors
from kdey.rows.interface import TuningRecord
from kdey.simplex import check_posteriors

Floats = NDArray[np.floating]


class FittedQuantifier(Protocol):
    """A fitted quantifier as other parts of the library see it.

    Attributes
    ----------
    classes_ : array of shape (k,)
        Sorted labels; prevalences follow this order.
    prevalence_ : array of shape (k,)
        Class prevalences of the training data.
    n_jobs : int or None
    """

    classes_: NDArray[Any]
    prevalence_: Array
    n_jobs: int | None

    @property
    def answering(self) -> FittedQuantifier:
        """The quantifier that gives the answers: itself, or the best one of a search."""

    @property
    def takes_posteriors(self) -> bool:
        """Whether it works on posteriors, and so has ``aggregate`` and ``estimate_posteriors``."""

    @property
    def fitted_classifier(self) -> Any | None:
        """The one classifier that scores instances; None: there is none, or several."""

    @property
    def fold_classifiers(self) -> Sequence[Any] | None:
        """The classifiers of the folds, where they are kept; see ``hold_fold_models``."""

    def keep_fold_classifiers(self, classifiers: Sequence[Any]) -> None:
        """Keep the classifiers of the folds beside the one fitted on everything."""

    @property
    def table_layout(self) -> Mapping[str, Any] | None:
        """The columns of the table it was fitted on, as ``TableLayout`` has them; or None."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features it was fitted on; None: they had no names."""

    @property
    def n_features(self) -> int | None:
        """The number of features it was fitted on; None: it was fitted on scores."""

    @property
    def tuning_record(self) -> TuningRecord | None:
        """What an automatic choice at ``fit`` tried and chose; None: nothing was chosen."""

    def interval_model(self) -> FittedModel | None:
        """Return the fitted stages of a method given by rows and a matching; None for others."""

    def estimate_bags(self, X: Any, bags: BagsLike, **options: Any) -> Estimates:
        """Return estimates with limits of bags over the pool ``X``."""

    def estimate_posteriors(
        self, posteriors: ArrayLike, bags: BagsLike | None = None, **options: Any
    ) -> Estimate | Estimates:
        """Return estimates with limits of bags over a pool of posteriors."""


def fitted_stages(quantifier: FittedQuantifier) -> FittedModel:
    """Return the stages of a fitted quantifier that works on posteriors, or raise."""
    if not hasattr(quantifier, "fit"):
        raise TypeError(f"quantifier must be a fitted estimator, got {quantifier!r}")
    check_is_fitted(quantifier, "classes_")
    model = quantifier.interval_model() if quantifier.takes_posteriors else None
    if model is None:
        raise TypeError(
            f"quantifier must work on posteriors (PACC, EMQ, KDEyML, ...), got "
            f"{type(quantifier).__name__}"
        )
    return model


def bag_posteriors(quantifier: FittedQuantifier, X: Any, posteriors: ArrayLike | None) -> Floats:
    """Return the posteriors of a bag, shape (m, k): given, or the classifier's for ``X``."""
    fitted_stages(quantifier)
    if (X is None) == (posteriors is None):
        raise ValueError("give exactly one of X and posteriors")
    if posteriors is not None:
        return check_posteriors(posteriors, len(quantifier.classes_))
    if quantifier.fitted_classifier is None:
        raise ValueError(
            f"this {type(quantifier).__name__} was fitted on posteriors and has no classifier: "
            "give posteriors instead of X"
        )
    return predict_posteriors(quantifier.fitted_classifier, X, quantifier.classes_)


def training_of(quantifier: FittedQuantifier) -> TrainingPosteriors:
    """Return the training posteriors of a fitted quantifier, or say how to have some."""
    training = fitted_stages(quantifier).training
    if training is None or training.posteriors is None:
        raise ValueError(
            f"this {type(quantifier).__name__} keeps no training posteriors: use a method that "
            "makes them (KDEyML, PACC, EMQ with calibration), or fit_posteriors"
        )
    return training
