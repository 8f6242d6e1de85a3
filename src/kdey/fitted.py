"""The interface of a fitted quantifier, as the rest of the library uses it.

Groups, diagnostics, Gibbs sampling, evaluation, searches, reports and model files depend on
:class:`FittedQuantifier` only, not on concrete quantifiers.
:class:`~kdey.quantifiers.base.BaseQuantifier` implements it with defaults, and ``check_quantifier``
tests it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from kdey.bags import Array, BagsLike
from kdey.intervals import Estimate, Estimates, FittedModel
from kdey.posteriors import TrainingPosteriors, predict_posteriors
from kdey.rows.base import TuningRecord
from kdey.simplex import check_posteriors
from kdey.tables.schema import TableSchema

Floats = NDArray[np.floating]
T = TypeVar("T")


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
    def counts_decisions(self) -> bool:
        """Whether it uses no more of a posterior than the class that it decides for."""

    @property
    def n_score_columns(self) -> int:
        """The number of columns of posteriors that it takes."""

    @property
    def fitted_classifier(self) -> Any | None:
        """The classifier that scores instances; None if there is none, or more than one."""

    @property
    def fold_classifiers(self) -> Sequence[Any] | None:
        """The classifiers of the folds if they were kept (``keep_fold_models``), otherwise None."""

    def keep_fold_classifiers(self, classifiers: Sequence[Any]) -> None:
        """Store the classifiers of the folds in addition to the one fitted on all instances."""

    def once_per_fit(self, key: str, compute: Callable[[], T]) -> T:
        """Return what ``compute`` returns, computed once per fit under this key."""

    @property
    def table_schema(self) -> TableSchema | None:
        """The columns of the training table; None if there was no table."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the training features; None if they had no names."""

    @property
    def n_features(self) -> int | None:
        """The number of training features; None if it was fitted on posteriors."""

    @property
    def tuning_record(self) -> TuningRecord | None:
        """The record of an automatic choice at ``fit``; None if nothing was left to choose."""

    def interval_model(self) -> FittedModel | None:
        """Return the fitted stages of a method with rows and a matching; None for other methods."""

    def estimate_bags(self, X: Any, bags: BagsLike, **options: Any) -> Estimates:
        """Return estimates with confidence limits for bags over the pool ``X``."""

    def estimate_posteriors(
        self, posteriors: ArrayLike, bags: BagsLike | None = None, **options: Any
    ) -> Estimate | Estimates:
        """Return estimates with confidence limits for bags over a pool of posteriors."""


def fitted_stages(quantifier: FittedQuantifier) -> FittedModel:
    """Return the stages of a fitted quantifier; raises TypeError unless it works on posteriors."""
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
    """Return the posteriors of a bag, shape (m, k).

    Parameters
    ----------
    quantifier : FittedQuantifier
    X : instances of the bag, or None
        Scored by the quantifier's classifier.
    posteriors : array-like of shape (m, k), or None
        Exactly one of ``X`` and ``posteriors`` must be given.
    """
    fitted_stages(quantifier)
    if (X is None) == (posteriors is None):
        raise ValueError("give exactly one of X and posteriors")
    if posteriors is not None:
        return check_posteriors(posteriors, classes=quantifier.classes_)
    if quantifier.fitted_classifier is None:
        raise ValueError(
            f"this {type(quantifier).__name__} was fitted on posteriors and has no classifier: "
            "give posteriors instead of X"
        )
    return predict_posteriors(quantifier.fitted_classifier, X, quantifier.classes_)


def kept_training(quantifier: FittedQuantifier | None) -> TrainingPosteriors | None:
    """Return what a fitted quantifier keeps of its training data; None if it keeps nothing.

    Methods without training posteriors keep labels only, with ``posteriors`` None.
    """
    model = None if quantifier is None else quantifier.interval_model()
    return None if model is None else model.training


def training_of(quantifier: FittedQuantifier) -> TrainingPosteriors:
    """Return the training posteriors of a fitted quantifier; raises ValueError if it has none."""
    fitted_stages(quantifier)  # raises TypeError unless it works on posteriors
    training = kept_training(quantifier)
    if training is None or training.posteriors is None:
        raise ValueError(
            f"this {type(quantifier).__name__} keeps no training posteriors: use a method that "
            "makes them (KDEyML, PACC, EMQ with calibration), or fit_posteriors"
        )
    return training
