"""The classifier stage: training posteriors that the classifier has not been fitted on.

Templates made from posteriors of instances the classifier was fitted on are too sure of
themselves, so they come from cross-validation or from a held-out part. The classifier always
sees the user's own labels (``class_weight`` dictionaries and prefit classifiers keep their
meaning); everything after this stage sees codes 0..k-1, the positions in ``classes``.

The classifier stage as a value: what it depends on, and what it gives to later stages.

Everything before the rows of a quantifier depends on a classifier, on ``cv`` and on a seed alone.
Held apart, the stage can be fitted once and serve every quantifier and setting that agrees on
these three.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import has_fit_parameter

from kdey._support.device import on_gpu, posteriors_on
from kdey._support.threads import one_blas_thread, run_jobs
from kdey._support.validation import check_weights
from kdey.simplex import check_posteriors
from kdey.splits import Indices, RandomState, Split, make_splits

Posteriors = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class TrainingPosteriors:
    """What the templates are made from: one row per used training instance.

    Attributes
    ----------
    posteriors : float array of shape (n_used, k) or None
        None where no posteriors were asked for.
    labels : int64 array of shape (n_used,)
        Codes 0..k-1.
    weights : float64 array of shape (n_used,) or None
    folds : int64 array of shape (n_used,) or None
        Number of the split whose model made the row; None where one model made all of them.
    instances : int64 array of shape (n_used,) or None
        Row number in X, ascending; None where the rows are those of X, all and in order.
    """

    posteriors: Posteriors | None
    labels: Indices
    weights: NDArray[np.float64] | None = None
    folds: Indices | None = None
    instances: Indices | None = None

    def required(self) -> Posteriors:
        """Return the posteriors, or raise where none were made."""
        if self.posteriors is None:
            raise ValueError("this method needs training posteriors: cv must not be None")
        return self.posteriors


@dataclass(frozen=True, eq=False)
class _Stage:
    """A classifier and the data to fit it on; rows are chosen per fit."""

    classifier: Any
    X: Any
    codes: Indices
    classes: NDArray[Any]
    weights: NDArray[np.float64] | None
    weight_parameter: str | None
    #: Whether a fit is held to one BLAS thread.
    held: bool = False

    def fit(self, rows: Indices | None = None) -> Any:
        """Return a fitted clone; None means all rows (``X`` is then passed on untouched)."""
        X, codes, weights = self.X, self.codes, self.weights
        if rows is not None:
            X, codes = _safe_indexing(X, rows), codes[rows]
            weights = None if weights is None else weights[rows]
        extra = {} if self.weight_parameter is None else {self.weight_parameter: weights}
        with self._blas():
            return clone(self.classifier).fit(X, self.classes[codes], **extra)

    def _blas(self) -> AbstractContextManager[None]:
        return one_blas_thread() if self.held else nullcontext()

    def posteriors(self, fitted: Any, rows: Indices) -> Posteriors:
        """Return the posteriors of some rows of X by a fitted classifier."""
        with self._blas():
            return predict_posteriors(fitted, _safe_indexing(self.X, rows), self.classes)


def training_posteriors(
    classifier: Any,
    X: Any,
    codes: ArrayLike,
    classes: ArrayLike,
    *,
    cv: Any,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
    random_state: RandomState = None,
) -> tuple[Any, TrainingPosteriors]:
    """Fit ``classifier`` and make the posteriors that templates are built from.

    With several splits each row comes from a model that did not see its instance, and the
    classifier returned is fitted on all of X. With one split (a held-out fraction, one pair) the
    classifier returned is the model of that split, so that templates and later posteriors come
    from the same model. A split whose training part holds a single class gives that class
    posterior one; classes that a model never saw get posterior zero, with one warning for all.

    Parameters
    ----------
    classifier : scikit-learn classifier with ``predict_proba``
        Cloned, never fitted in place. A ``FrozenEstimator`` is used as it is: no fit, and the
        rows are its posteriors for all of X, whatever ``cv``.
    X : array, sparse matrix, frame or list of n instances
    codes : array-like of shape (n,)
        Label of each instance as a position in ``classes``.
    classes : array-like of shape (k,)
        The labels themselves; the classifier is fitted on ``classes[codes]``.
    cv : int, float, splitter, iterable of (train, test) index pairs, or None
        An int >= 2 is a number of stratified folds; a float in (0, 1) the fraction of each class
        to hold out; None means no posteriors (``classifier`` is fitted on all of X). Given splits
        may test an instance several times (its rows repeat) or never (it is left out), and
        train and test may overlap: ``[(all, all)]`` asks for resubstitution posteriors.
    sample_weight : array-like of shape (n,), optional
        Passed to the classifier where it takes weights, and on to the templates.
    n_jobs : int, optional
        Number of fits run at once; the result does not depend on it, each fit having one BLAS
        thread. None: one fit after the other, with as many BLAS threads as there are.
    random_state : int, RandomState, Generator or None
        Shuffles the folds of an int ``cv`` (None: folds in row order, no shuffling) and draws
        the held-out fraction (None: anew in each call).

    Returns
    -------
    classifier : fitted classifier
    training : TrainingPosteriors
    """
    _check_classifier(classifier)
    classes = np.asarray(classes)
    X, codes = _check_rows(X, codes)
    weights = None if sample_weight is None else check_weights(sample_weight, len(codes))
    if isinstance(classifier, FrozenEstimator):
        rows = None if cv is None else predict_posteriors(classifier, X, classes)
        return classifier, TrainingPosteriors(rows, codes, weights)
    weight_parameter = _weight_parameter(classifier, weights)
    # Products of matrices differ in their last bits with the number of BLAS threads, which
    # worker processes have fewer of.
    stage = _Stage(classifier, X, codes, classes, weights, weight_parameter, n_jobs is not None)
    if cv is None:
        _check_two_classes(codes, "y")
        return stage.fit(), TrainingPosteriors(None, codes, weights)
    splits = make_splits(cv, X, codes, classes, random_state=random_state)
    fitted, parts = _fit_splits(stage, splits, n_jobs)
    _warn_rare(cv, stage, splits)
    return fitted, _assemble(stage, splits, parts)


def predict_posteriors(
    classifier: Any, X: Any, classes: ArrayLike, *, stay: bool = False
) -> Posteriors:
    """Return the classifier's posteriors with one column per entry of ``classes``.

    Columns follow ``classifier.classes_`` (taken to be ``classes`` where the classifier has no
    such attribute); a class that the classifier never saw has posterior zero.

    Parameters
    ----------
    classifier : fitted classifier
    X : instances, m of them
    classes : array-like of shape (k,)
        The labels the classifier was fitted on, or a superset.
    stay : bool
        Whether posteriors that a classifier gives as a tensor on a GPU stay there.

    Returns
    -------
    posteriors : float array of shape (m, k), or such a tensor
    """
    name = "classifier.predict_proba(X)"
    columns = column_codes(classifier, classes)
    given = classifier.predict_proba(X)
    if stay and on_gpu(given):
        tensor: Posteriors = _aligned_tensor(given, columns, len(np.asarray(classes)), name)
        return tensor
    made = check_posteriors(given, len(columns), name=name)
    k = len(np.asarray(classes))
    if np.array_equal(columns, np.arange(k)):
        return made
    aligned = np.zeros((len(made), k), dtype=made.dtype)
    aligned[:, columns] = made
    return aligned


def _aligned_tensor(given: Any, columns: Indices, k: int, name: str) -> Any:
    """Return posteriors on a GPU with one column per class, on that GPU."""
    made = posteriors_on(given, len(columns), given.device, name)
    if np.array_equal(columns, np.arange(k)):
        return made
    aligned = made.new_zeros((len(made), k))
    aligned[:, columns.tolist()] = made
    return aligned


def column_codes(classifier: Any, classes: ArrayLike) -> Indices:
    """Return the position in ``classes`` of each posterior column of a fitted classifier."""
    labels = np.asarray(classes).tolist()
    own = getattr(classifier, "classes_", None)
    if own is None:
        return np.arange(len(labels), dtype=np.int64)
    position = {label: code for code, label in enumerate(labels)}
    unknown = [label for label in np.asarray(own).tolist() if label not in position]
    if unknown:
        raise ValueError(
            f"classifier gives posteriors for classes that y does not have: {unknown[:5]}; "
            f"y has {labels[:5]}{'...' if len(labels) > 5 else ''}"
        )
    return np.array([position[label] for label in np.asarray(own).tolist()], dtype=np.int64)


def _fit_splits(
    stage: _Stage, splits: list[Split], n_jobs: int | None
) -> tuple[Any, list[Posteriors]]:
    """Return the classifier to keep and the posteriors of each split's test part."""
    if len(splits) == 1:
        train, test = splits[0]
        _check_two_classes(stage.codes[train], "cv: the training part of the only split")
        fitted = stage.fit(train)
        return fitted, [stage.posteriors(fitted, test)]
    _check_two_classes(stage.codes, "y")
    folds = [partial(_tested_posteriors, stage, train, test) for train, test in splits]
    # The refit is one more job of the same batch, so that it does not wait for the folds.
    jobs: list[Callable[[], Any]] = [stage.fit, *folds]
    fitted, *parts = run_jobs(jobs, n_jobs)
    return fitted, parts


def _tested_posteriors(stage: _Stage, train: Indices, test: Indices) -> Posteriors:
    seen = np.unique(stage.codes[train])
    if len(seen) == 1:  # many classifiers refuse to be fitted on one class
        return np.tile(np.eye(len(stage.classes))[seen[0]], (len(test), 1))
    return stage.posteriors(stage.fit(train), test)


def _assemble(stage: _Stage, splits: list[Split], parts: list[Posteriors]) -> TrainingPosteriors:
    """Stack the splits' rows in the order of X (an instance tested twice: in split order)."""
    instances = np.concatenate([test for _, test in splits])
    folds = np.repeat(np.arange(len(splits)), [len(test) for _, test in splits])
    order = np.argsort(instances, kind="stable")
    instances = instances[order]
    weights = None if stage.weights is None else stage.weights[instances]
    rows = np.concatenate(parts)[order]
    return TrainingPosteriors(rows, stage.codes[instances], weights, folds[order], instances)


def _warn_rare(cv: Any, stage: _Stage, splits: list[Split]) -> None:
    """Say once which classes the splits treat badly (scikit-learn would say it per split)."""
    k = len(stage.classes)
    counts = np.bincount(stage.codes, minlength=k)
    from sklearn.model_selection import StratifiedKFold  # slow to import

    stratified = isinstance(cv, Integral | StratifiedKFold)
    rare = int(np.count_nonzero((counts > 0) & (counts < len(splits)))) if stratified else 0
    unseen = np.array([np.bincount(stage.codes[t], minlength=k) == 0 for t, _ in splits])
    told = []
    if rare:
        told.append(f"{rare} of {k} classes have fewer instances than the {len(splits)} folds")
    if unseen.any():
        told.append(
            f"{np.count_nonzero(unseen.any(axis=0))} of {k} classes were not seen by the model "
            f"of {np.count_nonzero(unseen.any(axis=1))} of {len(splits)} splits, which gives "
            "them posterior zero"
        )
    if told:
        warnings.warn("cv: " + "; ".join(told), UserWarning, stacklevel=3)


def _weight_parameter(classifier: Any, weights: NDArray[np.float64] | None) -> str | None:
    """Return the name under which ``classifier.fit`` takes weights; warn where it has none."""
    if weights is None:
        return None
    found = find_weight_parameter(classifier)
    if found is None:
        warnings.warn(
            f"classifier {type(classifier).__name__} takes no sample_weight: it is fitted "
            "without the weights, while the templates use them",
            UserWarning,
            stacklevel=3,
        )
    return found


def find_weight_parameter(classifier: Any) -> str | None:
    """Return the name under which ``classifier.fit`` takes weights, inside pipelines and searches.

    None where it takes none.
    """
    from sklearn.model_selection import GridSearchCV, RandomizedSearchCV  # slow to import
    from sklearn.pipeline import Pipeline

    if isinstance(classifier, Pipeline):
        step, last = classifier.steps[-1]
        inner = find_weight_parameter(last)
        return None if inner is None else f"{step}__{inner}"
    if isinstance(classifier, GridSearchCV | RandomizedSearchCV):
        return find_weight_parameter(classifier.estimator)
    return "sample_weight" if has_fit_parameter(classifier, "sample_weight") else None


def _check_classifier(classifier: Any) -> None:
    if isinstance(classifier, type):
        raise TypeError(f"classifier must be an instance, got the class {classifier.__name__}")
    if not hasattr(classifier, "predict_proba"):
        raise TypeError(
            f"classifier must have predict_proba, which {type(classifier).__name__} has not; "
            "sklearn.calibration.CalibratedClassifierCV(classifier) adds it"
        )


def _check_rows(X: Any, codes: ArrayLike) -> tuple[Any, Indices]:
    checked = np.asarray(codes, dtype=np.int64)
    try:
        return indexable(X, checked)[0], checked
    except ValueError as error:
        raise ValueError(f"X and y must have the same number of rows: {error}") from error


def _check_two_classes(codes: Indices, where: str) -> None:
    if len(np.unique(codes)) < 2:
        raise ValueError(f"{where} holds one class only; at least two are needed")


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
