"""The models of the cross-validation folds, which score bags for the score check.

Training posteriors come from models fitted on a part of the training set, those of a bag from the
classifier fitted on all of it, which is slightly more confident. A check that compares the two
would detect this difference. It does not exist if the classifiers of the folds score the bag.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import _num_samples

from kdey._fingerprints import row_hashes
from kdey.bags import Indices
from kdey.model import (
    AnyModel,
    Fitted,
    HasModel,
    Model,
    model_of,
    training_of,
)
from kdey.posteriors import TrainingPosteriors, find_weight_parameter, predict_posteriors
from kdey.validation import for_numpy, take_rows

Floats = NDArray[np.floating]
#: Share of distinct training posteriors below which instances count as repeated: those of a table
#: with few distinct rows. The fit check of a forest on 32 distinct rows rejected .097 at level .05
#: where equal rows shared a fold model, and .023 where they did not.
REPEATED = 0.5
Q = TypeVar("Q", bound=HasModel)


@dataclass(frozen=True, eq=False)
class FoldModels:
    """Classifiers that were each fitted without one fold.

    Attributes
    ----------
    models : tuple of F fitted classifiers
    classes : array of shape (k,)
    repeated : bool
        Whether many training instances are equal, so that those of a bag will be, too.
    """

    models: tuple[Any, ...]
    classes: NDArray[Any]
    repeated: bool = False

    def posteriors(self, X: Any, random_state: Any = None, by_fold: Floats | None = None) -> Floats:
        """Return posteriors, each instance being scored by one model chosen at random.

        We use one model per instance rather than the mean of all, because each training posterior
        comes from one model and a mean of models is more confident than each of them.

        Parameters
        ----------
        X : instances
        random_state : int, Generator or None
        by_fold : array of shape (F, m, k), optional
            The posteriors by all models, where they are known.

        Returns
        -------
        array of shape (m, k)
        """
        rng = np.random.default_rng(random_state)
        chosen = rng.permutation(np.arange(_num_samples(X)) % len(self.models))
        return self._scored_by(X, chosen, by_fold)

    def posteriors_by(
        self, X: Any, hashes: NDArray[np.uint64], by_fold: Floats | None = None
    ) -> Floats:
        """As :meth:`posteriors`, where a hash of each instance chooses the model.

        An instance thus has the same posteriors in whatever table, batch and order it comes. Equal
        instances must not all have the same model, though: those of training have not. Where many
        are equal, all models score each, shape (m, F k), and ``one_model_each`` chooses among
        them once the instances of a bag are together. ``by_fold`` are the posteriors by all models,
        shape (F, m, k), where they are known.
        """
        n_models = len(self.models)
        if not self.repeated or n_models == 1:
            return self._scored_by(X, (hashes % np.uint64(n_models)).astype(np.int64), by_fold)
        if not len(hashes):
            return np.empty((0, n_models * len(self.classes)))
        if by_fold is not None:
            return np.hstack(list(by_fold))
        _, first, numbers = np.unique(row_hashes(X), return_index=True, return_inverse=True)
        distinct = take_rows(X, first)
        scored = [predict_posteriors(model, distinct, self.classes) for model in self.models]
        return np.asarray(np.hstack(scored)[numbers])

    def _scored_by(self, X: Any, model: NDArray[np.int64], by_fold: Floats | None = None) -> Floats:
        """Return the posteriors of instances, each by the model with the number given."""
        if by_fold is not None:
            return np.asarray(by_fold[model, np.arange(len(model))])
        out = np.empty((len(model), len(self.classes)))
        for f, fitted in enumerate(self.models):
            rows = np.flatnonzero(model == f)
            if len(rows):
                out[rows] = predict_posteriors(fitted, take_rows(X, rows), self.classes)
        return out


def one_model_each(
    posteriors: Floats,
    hashes: NDArray[np.uint64],
    n_classes: int,
    offsets: Indices | None = None,
) -> Floats:
    """Return the posteriors of instances by one fold model each, shape (m, k).

    Copies of an instance in a bag take the models in turn, from one that the hash chooses, so that
    the result does not depend on the order of the copies.

    Parameters
    ----------
    posteriors : array of shape (m, F k)
        By all models, or by one (F = 1).
    hashes : uint64 array of shape (m,)
    n_classes : int
    offsets : int64 array of shape (n_bags + 1,), optional
        Bag b owns instances ``offsets[b]`` to ``offsets[b + 1]``; by default all are one bag.
    """
    n_models = posteriors.shape[1] // n_classes
    if n_models == 1:
        return posteriors
    ends = np.array([0, len(hashes)]) if offsets is None else offsets
    bags = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    order = np.lexsort((hashes, bags))
    changes = (np.diff(hashes[order]) != 0) | (np.diff(bags[order]) != 0)
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    copies = np.empty(len(order), dtype=np.uint64)
    copies[order] = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)]))
    chosen = ((hashes + copies) % np.uint64(n_models)).astype(np.int64)
    return posteriors.reshape(len(posteriors), n_models, n_classes)[np.arange(len(order)), chosen]


def _are_repeated(model: AnyModel) -> bool:
    """Return whether many training instances are equal, as their posteriors show."""
    training = model.training if isinstance(model, Model) else None
    if training is None or training.posteriors is None:
        return False
    posteriors = training.posteriors

    def compute() -> bool:
        return len(np.unique(row_hashes(posteriors))) < REPEATED * len(posteriors)

    return bool(model.derived("repeated instances", compute))


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
    return FoldModels(models, model.classes, _are_repeated(model))


def keep_fold_models(quantifier: Q, X: Any, y: ArrayLike) -> Q:
    """Refit the models of the folds and keep them in the quantifier as ``fold_models_``.

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


def kept_fold_models(quantifier: Fitted) -> FoldModels | None:
    """Return the models that :func:`keep_fold_models` kept, or None if there are none."""
    model = model_of(quantifier)
    models = model.fold_models
    if models is None:
        return None
    return FoldModels(tuple(models), model.classes, _are_repeated(model))


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
