"""What functions on a fitted quantifier ask of it: posteriors of a bag, posteriors of training.

These functions lie below the quantifiers, so that an estimate may call them: they take anything
that has the fitted attributes of :class:`~kdey.quantifiers.rowwise.AggregativeQuantifier`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from kdey.posteriors import TrainingPosteriors, predict_posteriors
from kdey.simplex import check_posteriors

Floats = NDArray[np.floating]


def check_aggregative(quantifier: Any) -> None:
    """Raise unless ``quantifier`` is fitted and works on posteriors."""
    if not hasattr(quantifier, "fit"):
        raise TypeError(f"quantifier must be a fitted estimator, got {quantifier!r}")
    check_is_fitted(quantifier, "classes_")
    if not hasattr(quantifier, "row_map_") or not hasattr(quantifier, "aggregate"):
        raise TypeError(
            f"quantifier must work on posteriors (PACC, EMQ, KDEyML, ...), got "
            f"{type(quantifier).__name__}"
        )


def bag_posteriors(quantifier: Any, X: Any, posteriors: ArrayLike | None) -> Floats:
    """Return the posteriors of a bag, shape (m, k): given, or the classifier's for ``X``."""
    check_aggregative(quantifier)
    if (X is None) == (posteriors is None):
        raise ValueError("give exactly one of X and posteriors")
    if posteriors is not None:
        return check_posteriors(posteriors, len(quantifier.classes_))
    if not hasattr(quantifier, "classifier_"):
        raise ValueError(
            f"this {type(quantifier).__name__} was fitted on posteriors and has no classifier: "
            "give posteriors instead of X"
        )
    return predict_posteriors(quantifier.classifier_, X, quantifier.classes_)


def training_of(quantifier: Any) -> TrainingPosteriors:
    """Return the training posteriors of a fitted quantifier, or say how to have some."""
    check_aggregative(quantifier)
    training: TrainingPosteriors | None = getattr(quantifier, "training_", None)
    if training is None or training.posteriors is None:
        raise ValueError(
            f"this {type(quantifier).__name__} keeps no training posteriors: use a method that "
            "makes them (KDEyML, PACC, EMQ with calibration), or fit_posteriors"
        )
    return training
