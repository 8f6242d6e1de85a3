"""The models of the folds, fitted again.

Training posteriors come from models fitted on a part of the training set, a bag's from the
classifier fitted on all of it, which is a little surer of itself. A check that compares the two
sees that difference. Bags scored by the fold models do not have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from kdey.fitted import FittedQuantifier, training_of
from kdey.posteriors import TrainingPosteriors, find_weight_parameter, predict_posteriors

Floats = NDArray[np.floating]
Q = TypeVar("Q", bound=FittedQuantifier)


@dataclass(frozen=True, eq=False)
class FoldModels:
    """Classifiers fitted without one fold each.

    Attributes
    ----------
    models : tuple of fitted classifiers
    classes : array of shape (k,)
    """

    models: tuple[Any, ...]
    classes: NDArray[Any]

    def posteriors(self, X: Any, random_state: Any = None) -> Floats:
        """Return posteriors (m, k), each instance scored by one model picked at random.

        One model per instance, and not their mean: a mean of models is surer than each of them,
        and each training posterior comes from one.
        """
        m = _num_samples(X)
        rng = np.random.default_rng(random_state)
        model = rng.permutation(np.arange(m) % len(self.models))
        out = np.empty((m, len(self.classes)))
        for f, fitted in enumerate(self.models):
            own = np.flatnonzero(model == f)
            if len(own):
                out[own] = predict_posteriors(fitted, _safe_indexing(X, own), self.classes)
        return out


def fold_models(quantifier: FittedQuantifier, X: Any, y: ArrayLike) -> FoldModels:
    """Fit the models of the cross-validation folds of a fitted quantifier again.

    Where one model made all training posteriors (``cv`` a fraction, a ``FrozenEstimator``) it
    is the classifier itself and nothing is fitted.

    Parameters
    ----------
    quantifier : fitted quantifier with a classifier
    X, y : what it was fitted on, in the same order
    """
    training = training_of(quantifier)
    if quantifier.fitted_classifier is None:
        raise ValueError("quantifier was fitted on posteriors and has no classifier to refit")
    labels = np.asarray(y)
    _check_same(training, quantifier.classes_, X, labels)
    if training.folds is None or len(np.unique(training.folds)) == 1:
        return FoldModels((quantifier.fitted_classifier,), quantifier.classes_)
    models = tuple(
        _without(quantifier, training, int(fold), X, labels) for fold in np.unique(training.folds)
    )
    return FoldModels(models, quantifier.classes_)


def hold_fold_models(quantifier: Q, X: Any, y: ArrayLike) -> Q:
    """Fit the models of the folds and keep them as ``fold_classifiers_``; return the quantifier.

    Fit checks from instances are then as sharp as with the training data at hand, and a saved
    model carries them along. Parameters as for :func:`fold_models`.
    """
    quantifier.keep_fold_classifiers(fold_models(quantifier, X, y).models)
    return quantifier


def held_fold_models(quantifier: FittedQuantifier) -> FoldModels | None:
    """Return the models that :func:`hold_fold_models` kept; None: there are none."""
    models = quantifier.fold_classifiers
    return None if models is None else FoldModels(tuple(models), quantifier.classes_)


def _without(
    quantifier: FittedQuantifier,
    training: TrainingPosteriors,
    fold: int,
    X: Any,
    labels: NDArray[Any],
) -> Any:
    instances = _instances(training)
    tested = instances[training.folds == fold]
    rows = np.setdiff1d(np.arange(len(labels)), tested)
    if len(np.unique(labels[rows])) == 1:  # where training posteriors were all that class, too
        from sklearn.dummy import DummyClassifier

        return DummyClassifier().fit(_safe_indexing(X, rows), labels[rows])
    unfitted, extra = clone(quantifier.fitted_classifier), {}
    parameter = None if training.weights is None else find_weight_parameter(unfitted)
    if parameter is not None:
        weights = np.ones(len(labels))
        weights[instances] = training.weights
        extra[parameter] = weights[rows]
    return unfitted.fit(_safe_indexing(X, rows), labels[rows], **extra)


def _instances(training: TrainingPosteriors) -> NDArray[np.int64]:
    if training.instances is not None:
        return training.instances
    return np.arange(len(training.labels))


def _check_same(
    training: TrainingPosteriors, classes: NDArray[Any], X: Any, labels: NDArray[Any]
) -> None:
    instances = _instances(training)
    if len(labels) != _num_samples(X):
        raise ValueError(f"X has {_num_samples(X)} instances, but y has {len(labels)} labels")
    same = instances.max() < len(labels) and np.array_equal(
        labels[instances], np.asarray(classes)[training.labels]
    )
    if not same:
        raise ValueError("X and y must be what the quantifier was fitted on, in the same order")
