"""Fold models: the classifiers of the cross-validation folds, refitted to score bags.

Training posteriors come from models fitted on a part of the training set, those of a bag from the
classifier fitted on all of it, which is slightly more confident. A check that compares the two
would detect this difference. It does not exist if the fold models score the bag.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import _num_samples

from kdey.arrays import for_numpy, take_rows
from kdey.model import Fitted, HasModel, model_of, training_of
from kdey.posteriors import TrainingPosteriors, find_weight_parameter, predict_posteriors

Floats = NDArray[np.floating]
Q = TypeVar("Q", bound=HasModel)


@dataclass(frozen=True, eq=False)
class FoldModels:
    """Classifiers that were each fitted without one fold.

    Attributes
    ----------
    models : tuple of fitted classifiers
    classes : array of shape (k,)
    """

    models: tuple[Any, ...]
    classes: NDArray[Any]

    def posteriors(self, X: Any, random_state: Any = None) -> Floats:
        """Return posteriors, each instance being scored by one model chosen at random.

        We use one model per instance rather than the mean of all, because each training posterior
        comes from one model and a mean of models is more confident than each of them.

        Parameters
        ----------
        X : instances
        random_state : int, Generator or None

        Returns
        -------
        array of shape (m, k)
        """
        rng = np.random.default_rng(random_state)
        return self._scored_by(X, rng.permutation(np.arange(_num_samples(X)) % len(self.models)))

    def posteriors_by(self, X: Any, hashes: NDArray[np.uint64]) -> Floats:
        """As :meth:`posteriors`, where a hash of each instance chooses the model.

        An instance thus has the same posteriors in whatever table, batch and order it comes.
        """
        return self._scored_by(X, (hashes % np.uint64(len(self.models))).astype(np.int64))

    def _scored_by(self, X: Any, model: NDArray[np.int64]) -> Floats:
        """Return the posteriors of instances, each by the model with the number given."""
        out = np.empty((len(model), len(self.classes)))
        for f, fitted in enumerate(self.models):
            rows = np.flatnonzero(model == f)
            if len(rows):
                out[rows] = predict_posteriors(fitted, take_rows(X, rows), self.classes)
        return out


def fold_models(quantifier: Fitted, X: Any, y: ArrayLike) -> FoldModels:
    """Refit the models of the cross-validation folds of a fitted quantifier.

    If a single model produced all training posteriors (``cv`` is a fraction, or the classifier a
    ``FrozenEstimator``), this model is the classifier itself and nothing is refitted.

    Parameters
    ----------
    quantifier : fitted quantifier with a classifier
    X, y : training data
        The data that the quantifier was fitted on, in the same order.

    Returns
    -------
    FoldModels

    Raises
    ------
    ValueError
        If the quantifier has no classifier, or X and y are not its training data.
    """
    training, model = training_of(quantifier), model_of(quantifier)
    if model.scorer.classifier is None:
        raise ValueError(
            "quantifier was fitted on posteriors and has no classifier to refit; fit it on "
            "instances"
        )
    labels = np.asarray(for_numpy(y, "y"))
    _check_same_data(training, model.classes, X, labels)
    if training.folds is None or len(np.unique(training.folds)) == 1:
        return FoldModels((model.scorer.classifier,), model.classes)
    models = tuple(
        _refit_without(model.scorer.classifier, training, int(fold), X, labels)
        for fold in np.unique(training.folds)
    )
    return FoldModels(models, model.classes)


def hold_fold_models(quantifier: Q, X: Any, y: ArrayLike) -> Q:
    """Refit the models of the folds and keep them in the quantifier as ``fold_classifiers_``.

    Fit checks on instances then have the same power as with the training data, and a saved model
    includes the fold models.

    Parameters
    ----------
    quantifier : fitted quantifier with a classifier
    X, y : training data
        As for ``fold_models``.

    Returns
    -------
    quantifier
        The same object.
    """
    models = fold_models(quantifier, X, y).models
    quantifier.model_ = quantifier.model_.with_scorer(fold_models=models)  # type: ignore[misc]
    return quantifier


def held_fold_models(quantifier: Fitted) -> FoldModels | None:
    """Return the models that :func:`hold_fold_models` kept, or None if there are none."""
    model = model_of(quantifier)
    models = model.scorer.fold_classifiers
    return None if models is None else FoldModels(tuple(models), model.classes)


def _refit_without(
    classifier: Any,
    training: TrainingPosteriors,
    fold: int,
    X: Any,
    labels: NDArray[Any],
) -> Any:
    """Return the classifier refitted without one fold."""
    instances = _instances(training)
    tested = instances[training.folds == fold]
    rows = np.setdiff1d(np.arange(len(labels)), tested)
    if len(np.unique(labels[rows])) == 1:  # Its training posteriors were all of that class, too.
        from sklearn.dummy import DummyClassifier

        return DummyClassifier().fit(take_rows(X, rows), labels[rows])
    unfitted, extra = clone(classifier), {}
    parameter = None if training.weights is None else find_weight_parameter(unfitted)
    if parameter is not None:
        weights = np.ones(len(labels))
        weights[instances] = training.weights
        extra[parameter] = weights[rows]
    return unfitted.fit(take_rows(X, rows), labels[rows], **extra)


def _instances(training: TrainingPosteriors) -> NDArray[np.int64]:
    """Return the position in the training data of each training posterior."""
    if training.instances is not None:
        return training.instances
    return np.arange(len(training.labels))


def _check_same_data(
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
