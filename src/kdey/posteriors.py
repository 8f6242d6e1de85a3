"""The classifier stage: out-of-sample training posteriors, from which class templates are made.

A classifier is too confident on the instances that it was fitted on. Templates made from those
posteriors would not look like the posteriors of later bags, so training posteriors come from
cross-validation or from a held-out part (:func:`training_posteriors`). The classifier always sees
the user's labels, so that ``class_weight`` dictionaries and prefit classifiers keep their meaning;
everything after this stage sees codes 0..k-1, the positions in ``classes``.

The stage depends on a classifier, on ``cv`` and on a seed alone. As a value
(:class:`ClassifierStage`) it is fitted once for all quantifiers and settings that share these.
"""

from __future__ import annotations

import math
import pickle
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import indexable
from sklearn.utils.validation import check_consistent_length, has_fit_parameter

from kdey.bags import cluster_codes
from kdey.classifiers import (
    ClassifierAdapter,
    Indices,
    RandomState,
    Split,
    check_estimator,
    make_splits,
    scale_frozen,
)
from kdey.native import one_blas_thread, run_jobs, thread_count
from kdey.simplex import check_posteriors, posteriors_on
from kdey.validation import check_weights, on_gpu, take_rows

Posteriors = NDArray[np.floating]
#: Looks at the model of the first split, and the seconds that the other fits will take.
Judge: TypeAlias = Callable[[Any, float], None]


@dataclass(frozen=True, eq=False)
class TrainingPosteriors:
    """Posteriors from which templates are made, one row per training instance that is used.

    Attributes
    ----------
    posteriors : float array of shape (n_used, k) or None
        None if the method needs no posteriors.
    labels : int64 array of shape (n_used,)
        Codes 0..k-1.
    weights : float64 array of shape (n_used,) or None
    folds : int64 array of shape (n_used,) or None
        Number of the split whose model gave the row; None if one model gave all rows.
    instances : int64 array of shape (n_used,) or None
        Row number in X, ascending; None if the rows are all rows of X, in order.
    clusters : int64 array of shape (n_used,) or None
        Number of the cluster in which the instance was drawn, from 0; None if instances were drawn
        one by one.
    strata : int64 array of shape (n_used,) or None
        What stands for the stratum of the instance; None if classes look alike in all.
    """

    posteriors: Posteriors | None
    labels: Indices
    weights: NDArray[np.float64] | None = None
    folds: Indices | None = None
    instances: Indices | None = None
    clusters: Indices | None = None
    strata: Indices | None = None

    def required(self) -> Posteriors:
        """Return the posteriors; raises ValueError if there are none."""
        if self.posteriors is None:
            raise ValueError("this method needs training posteriors: cv must not be None")
        return self.posteriors

    @property
    def row_weights(self) -> NDArray[np.float64]:
        """The weight of each row, shape (n_used,): one where there are no weights."""
        return np.ones(len(self.labels)) if self.weights is None else self.weights

    def take(self, rows: NDArray[Any]) -> TrainingPosteriors:
        """Return some of the rows, by their positions."""
        held = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(self, **{n: v[rows] for n, v in held.items() if v is not None})

    def joined(self, new: TrainingPosteriors) -> TrainingPosteriors:
        """Return these rows and new ones, whose clusters are others than those of these rows.

        The new rows come from the classifier that scores bags: where each fold had a model of its
        own, they are a fold of their own.
        """
        n, m = len(self.labels), len(new.labels)
        weighted = self.weights is not None or new.weights is not None
        folds = self.folds
        if folds is not None:
            number = int(folds.max()) + (1 if len(np.unique(folds)) > 1 else 0)
            folds = np.concatenate([folds, np.full(m, number)])
        instances = self.instances
        if instances is not None:
            instances = np.concatenate([instances, int(instances.max()) + 1 + np.arange(m)])
        clusters = None
        if self.clusters is not None or new.clusters is not None:
            known = np.arange(n) if self.clusters is None else self.clusters
            added = np.arange(m) if new.clusters is None else new.clusters
            clusters = np.concatenate([known, int(known.max()) + 1 + added])
        return TrainingPosteriors(
            np.concatenate([self.required(), new.required()]),
            np.concatenate([self.labels, new.labels]),
            np.concatenate([self.row_weights, new.row_weights]) if weighted else None,
            folds,
            instances,
            clusters,
            None if self.strata is None else np.concatenate([self.strata, np.asarray(new.strata)]),
        )

    def in_stratum(self, stratum: int) -> TrainingPosteriors:
        r"""Return the instances with the weights of templates for one stratum.

        The template of a class is s times that of its n instances of the stratum and 1 - s times
        that of all, :math:`s^2 = n / (n + m_0)`, where m_0 is the variance of instances within
        strata divided by that of the strata's means. The best prediction of these means has
        :math:`s^2` for s; the root makes the variance that the weights show equal to the mean
        square error of that prediction. Where strata look alike nothing changes. Instances of a
        cluster, which err together, count for as much as the sums over clusters show.
        """
        assert self.strata is not None, "instances have strata"
        weights = self.row_weights.copy()
        points = np.asarray(self.required(), dtype=np.float64)
        for label in np.unique(self.labels):
            rows = np.flatnonzero((self.labels == label) & (weights > 0))
            own = self.strata[rows] == stratum
            if not own.any():
                continue
            w = weights[rows]
            units = None if self.clusters is None else self.clusters[rows]
            within, between = _variances_of_strata(points[rows], w, self.strata[rows], units)
            n = len(rows) * w[own].sum() / w.sum()
            share = math.sqrt(n * between / (n * between + within)) if between > 0 else 0.0
            if share > 0:
                part = np.where(own, w, 0.0) * (w.sum() / w[own].sum())
                # Every row keeps some weight, so that strata have rows in common.
                weights[rows] = (1.0 - share) * w + share * part
        return replace(self, weights=weights)


#: Least share of the variance between strata that is ascribed to rows, so that no row loses all
#: of its weight.
_LEAST_WITHIN = 1e-6


def _variances_of_strata(
    points: NDArray[np.float64],
    weights: NDArray[np.float64],
    strata: Indices,
    clusters: Indices | None,
) -> tuple[float, float]:
    """Return the variances of points (n, d) within strata and between the means of these.

    The former, divided by the share of a stratum in n instances, is that of the error of its mean.
    """
    n, codes = len(points), np.unique(strata, return_inverse=True)[1]
    w = weights * (n / weights.sum())
    masses = np.bincount(codes, weights=w)
    n_strata, d = len(masses), points.shape[1]
    means, units = np.zeros((n_strata, d)), np.arange(n)
    np.add.at(means, codes, points * w[:, None])
    means /= masses[:, None]
    if clusters is not None:  # those of a stratum, if they are in several
        units = np.unique(np.stack([clusters, codes]), axis=1, return_inverse=True)[1].ravel()
    n_units = int(units.max()) + 1
    if n_strata < 2 or n_units <= n_strata:
        return 1.0, 0.0
    sums = np.zeros((n_units, d))
    np.add.at(sums, units, (points - means[codes]) * w[:, None])
    within = float((sums**2).sum()) / n * n_units / (n_units - n_strata)
    squares = float(masses @ ((means - masses @ means / n) ** 2).sum(axis=1))
    typical = (n - (masses**2).sum() / n) / (n_strata - 1)
    between = max((squares / (n_strata - 1) - within) / typical, 0.0)
    return max(within, _LEAST_WITHIN * between), between


@dataclass(frozen=True, eq=False)
class FittedStage:
    """A fitted classifier and the training posteriors from which templates are made.

    Attributes
    ----------
    classifier : fitted classifier or None
        None if :func:`cross_fit` was not asked for one that has seen all instances.
    training : TrainingPosteriors
    fold_models : tuple of fitted classifiers, or None
        The models of the splits, by their numbers in ``training.folds``; None if they were not
        kept, or if ``classifier`` is the only model.
    """

    classifier: Any
    training: TrainingPosteriors
    fold_models: tuple[Any, ...] | None = None


@dataclass(frozen=True, eq=False)
class ClassifierStage:
    """Everything the classifier stage depends on; see :func:`training_posteriors`.

    Attributes
    ----------
    classifier : unfitted classifier
    cv : how the training posteriors are made; None if none are needed
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
        keep_bytes: float = 0,
        clusters: Indices | None = None,
    ) -> FittedStage:
        """Return the stage fitted on instances ``X`` with labels ``classes[codes]``.

        The models of the splits are kept if they are not larger than ``keep_bytes`` together.
        ``clusters``, shape (n,), are numbers of clusters that splits leave whole.
        """
        fits = _ClassifierFits.of(
            self.classifier, X, codes, classes, sample_weight, n_jobs, clusters
        )
        if fits.is_frozen:
            return fits.frozen(needs_posteriors=self.cv is not None)
        if self.cv is None:
            _check_two_classes(fits.codes, "y")
            training = TrainingPosteriors(None, fits.codes, fits.weights, clusters=clusters)
            return FittedStage(fits.fit(), training)
        splits = make_splits(
            *(self.cv, fits.X, fits.codes, fits.classes),
            random_state=self.random_state,
            clusters=clusters,
        )
        if len(splits) == 1:  # templates and later posteriors come from the same model
            train, test = splits[0]
            _check_two_classes(fits.codes[train], "cv: the training part of the only split")
            fitted = fits.fit(train)
            parts = [(fits.posteriors(fitted, test), None)]
            stage = FittedStage(fitted, _assemble(fits, splits, parts))
        else:
            stage = fits.cross_fit(splits, n_jobs, keep_bytes)
        warn_about_rare_classes(self.cv, fits.codes, len(fits.classes), splits)
        return stage


def training_posteriors(
    classifier: Any,
    X: Any,
    codes: ArrayLike,
    classes: ArrayLike,
    *,
    cv: Any,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    n_jobs: int | None = None,
    random_state: RandomState = None,
) -> tuple[Any, TrainingPosteriors]:
    """Fit ``classifier`` and return the posteriors from which templates are made.

    With several splits each row comes from a model that did not see its instance, and the
    classifier returned is fitted on all of X. With one split (a held-out fraction, one pair) the
    classifier returned is the model of that split, so that templates and later posteriors come
    from the same model. If the training part of a split has a single class, that class gets
    posterior one. Classes that a model has not seen get posterior zero, with one warning for all.

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
        to hold out; None means no posteriors (``classifier`` is fitted on all of X). Splits may
        test an instance several times (its rows repeat) or never (it is left out), and train and
        test may overlap: ``[(all, all)]`` gives resubstitution posteriors.
    sample_weight : array-like of shape (n,), optional
        Passed to the classifier if it accepts weights, and to the templates.
    clusters : array-like of shape (n,), optional
        Id of the cluster in which each instance was drawn; splits leave clusters whole.
    n_jobs : int, optional
        Number of fits that run in parallel, each with one BLAS thread, so that the result does not
        depend on it. None: one fit after the other, with all BLAS threads.
    random_state : int, RandomState, Generator or None
        Shuffles the folds of an int ``cv`` (None: folds in row order, no shuffling) and draws
        the held-out fraction (None: a different draw in each call).

    Returns
    -------
    classifier : fitted classifier
    training : TrainingPosteriors

    Raises
    ------
    TypeError
        If ``classifier`` is a class or has no ``predict_proba``.
    ValueError
        If lengths differ, ``cv`` is invalid, or there is only one class to fit on.
    """
    labels = np.asarray(codes, dtype=np.int64)
    stage = ClassifierStage(classifier, cv, random_state).fit(
        *(X, labels, np.asarray(classes), sample_weight, n_jobs),
        clusters=training_clusters(clusters, len(labels)),
    )
    return stage.classifier, stage.training


def training_clusters(clusters: ArrayLike | None, n_rows: int) -> Indices | None:
    """Return the number of the cluster of each training row, from 0, shape (n_rows,).

    None if there are no clusters, or one for every row, which is the same. Raises ValueError if
    ``clusters`` has another shape or missing ids, or if all rows are in the same cluster.
    """
    if clusters is None:
        return None
    codes = cluster_codes(clusters, n_rows)
    n_clusters = int(codes.max(initial=-1)) + 1
    if n_clusters == 1 < n_rows:
        raise ValueError(
            "clusters: all training rows are in one cluster, so that nothing shows how clusters "
            "differ; leave clusters out, or label rows of other clusters"
        )
    return None if n_clusters == n_rows else codes


def given_stage(
    points: Any,
    codes: Indices,
    sample_weight: ArrayLike | None,
    clusters: Indices | None = None,
    strata: Indices | None = None,
) -> FittedStage:
    """Return the stage of posteriors or features that were given with labels: no classifier."""
    check_consistent_length(points, codes)
    weights = None if sample_weight is None else check_weights(sample_weight, len(codes))
    given = TrainingPosteriors(points, codes, weights, clusters=clusters, strata=strata)
    return FittedStage(None, given)


def cross_fit(
    classifier: Any,
    X: Any,
    codes: Indices,
    classes: NDArray[Any],
    splits: list[Split],
    *,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
    clusters: Indices | None = None,
    refit: bool = False,
    keep: bool = True,
    judge: Judge | None = None,
) -> FittedStage:
    """Fit ``classifier`` on every split.

    Parameters
    ----------
    classifier, X, codes, classes, sample_weight, n_jobs
        As for :func:`training_posteriors`.
    splits : list of (train, test)
        From ``kdey.classifiers.make_splits``.
    clusters : int64 array of shape (n,), optional
        Those of the splits, kept with the training posteriors.
    refit : bool
        Whether to fit the classifier on all instances too.
    keep : bool
        Whether to keep the models of the splits.
    judge : callable, optional
        Called with the model of the first split, and the seconds that the other fits will take. If
        it raises, they are not made.

    Returns
    -------
    FittedStage
        A ``FrozenEstimator`` has no models of splits, and is the classifier itself.

    Raises
    ------
    TypeError
        If ``classifier`` is a class or has no ``predict_proba``.
    ValueError
        If lengths differ, or there is only one class to fit on.
    """
    fits = _ClassifierFits.of(classifier, X, codes, classes, sample_weight, n_jobs, clusters)
    if fits.is_frozen:
        return fits.frozen()
    return fits.cross_fit(splits, n_jobs, np.inf if keep else 0, refit, judge)


def predict_posteriors(
    classifier: Any, X: Any, classes: ArrayLike, *, keep_on_gpu: bool = False
) -> Posteriors:
    """Return the classifier's posteriors with one column per entry of ``classes``.

    Columns are reordered by ``classifier.classes_`` (or taken to be those of ``classes`` if the
    classifier has no such attribute); a class that the classifier has not seen has posterior zero.
    The columns of a classifier that returns data frames are matched by name.

    Parameters
    ----------
    classifier : fitted classifier
    X : instances, m of them
    classes : array-like of shape (k,)
        The labels that the classifier was fitted on, or a superset of them.
    keep_on_gpu : bool
        Whether posteriors that a classifier returns as a tensor on a GPU stay there.

    Returns
    -------
    posteriors : float array of shape (m, k), or such a tensor
    """
    name = "classifier.predict_proba(X)"
    columns, labels = column_codes(classifier, classes), np.asarray(classes)
    with _reading(X, classifier):
        raw = classifier.predict_proba(X)
    if keep_on_gpu and on_gpu(raw):
        tensor: Posteriors = _aligned_tensor(raw, columns, labels, name)
        return tensor
    checked = check_posteriors(raw, name=name, classes=labels[columns])
    k = len(labels)
    if np.array_equal(columns, np.arange(k)):
        return checked
    aligned = np.zeros((len(checked), k), dtype=checked.dtype)
    aligned[:, columns] = checked
    return aligned


def column_codes(classifier: Any, classes: ArrayLike) -> Indices:
    """Return the position in ``classes`` of each posterior column of a fitted classifier.

    Raises ValueError if the classifier was fitted on a class that is not in ``classes``.
    """
    labels = np.asarray(classes).tolist()
    known = getattr(classifier, "classes_", None)
    if known is None:
        return np.arange(len(labels), dtype=np.int64)
    position = {label: code for code, label in enumerate(labels)}
    unknown = [label for label in np.asarray(known).tolist() if label not in position]
    if unknown:
        raise ValueError(
            f"classifier gives posteriors for classes that y does not have: {unknown[:5]}; "
            f"y has {labels[:5]}{'...' if len(labels) > 5 else ''}"
        )
    return np.array([position[label] for label in np.asarray(known).tolist()], dtype=np.int64)


def find_weight_parameter(classifier: Any) -> str | None:
    """Return the name under which ``classifier.fit`` takes weights; None if it takes none.

    Pipelines and searches are looked into.
    """
    from sklearn.model_selection import GridSearchCV, RandomizedSearchCV  # slow to import
    from sklearn.pipeline import Pipeline

    if isinstance(classifier, ClassifierAdapter):  # passes all arguments on
        return find_weight_parameter(classifier.classifier)
    if isinstance(classifier, Pipeline):
        step, last = classifier.steps[-1]
        inner = find_weight_parameter(last)
        return None if inner is None else f"{step}__{inner}"
    if isinstance(classifier, GridSearchCV | RandomizedSearchCV):
        return find_weight_parameter(classifier.estimator)
    return "sample_weight" if has_fit_parameter(classifier, "sample_weight") else None


def _aligned_tensor(raw: Any, columns: Indices, labels: NDArray[Any], name: str) -> Any:
    """Return posteriors on a GPU with one column per class, on that GPU."""
    checked, k = posteriors_on(raw, labels[columns], raw.device, name), len(labels)
    if np.array_equal(columns, np.arange(k)):
        return checked
    aligned = checked.new_zeros((len(checked), k))
    aligned[:, columns.tolist()] = checked
    return aligned


@contextmanager
def _reading(X: Any, classifier: Any) -> Iterator[None]:
    """Say what to do where a classifier of the host is given instances on a GPU."""
    try:
        yield
    except TypeError as error:
        if not on_gpu(X):
            raise
        raise TypeError(
            f"{type(classifier).__name__} could not read X, a tensor on {X.device}: pass X.cpu(), "
            f"or a classifier that takes tensors there ({error})"
        ) from error


def check_classifier(classifier: Any) -> None:
    """Raise TypeError unless ``classifier`` is an instance with ``predict_proba``."""
    if isinstance(classifier, type):
        raise TypeError(f"classifier must be an instance, got the class {classifier.__name__}")
    check_estimator(classifier)
    if not hasattr(classifier, "predict_proba"):
        if not hasattr(classifier, "decision_function"):
            raise TypeError(
                f"classifier must have predict_proba or decision_function, and "
                f"{type(classifier).__name__} has neither. Methods that count decisions (CC, ACC) "
                "need only predict"
            )
        raise TypeError(
            f"classifier must have predict_proba, which {type(classifier).__name__} lacks; "
            "sklearn.calibration.CalibratedClassifierCV(classifier) adds it. Methods that count "
            "decisions (CC, ACC) need only predict, and methods that learn templates (PACC, DM, "
            "KDEy, ...) take a decision_function; PCC and EMQ read posteriors as probabilities"
        )


def _check_rows(X: Any, codes: ArrayLike) -> tuple[Any, Indices]:
    checked = np.asarray(codes, dtype=np.int64)
    try:
        return indexable(X, checked)[0], checked
    except ValueError as error:
        raise ValueError(f"X and y must have the same number of rows: {error}") from error


def _weight_parameter(classifier: Any, weights: NDArray[np.float64] | None) -> str | None:
    """Return the name under which ``classifier.fit`` takes weights; warn if there is none."""
    if weights is None:
        return None
    name = find_weight_parameter(classifier)
    if name is None:
        warnings.warn(
            f"classifier {type(classifier).__name__} takes no sample_weight: it is fitted "
            "without weights, but the templates use them",
            UserWarning,
            stacklevel=4,
        )
    return name


@dataclass(frozen=True, eq=False)
class _ClassifierFits:
    """A classifier and the data to fit it on; each fit selects its rows.

    Attributes
    ----------
    weight_parameter : str or None
        Name under which ``classifier.fit`` takes weights; None: it is fitted without weights.
    single_blas_thread : bool
        Whether fits and predictions use one BLAS thread only.
    """

    classifier: Any
    X: Any
    codes: Indices
    classes: NDArray[Any]
    weights: NDArray[np.float64] | None
    weight_parameter: str | None
    single_blas_thread: bool = False
    clusters: Indices | None = None

    @classmethod
    def of(
        cls,
        classifier: Any,
        X: Any,
        codes: Indices,
        classes: NDArray[Any],
        sample_weight: ArrayLike | None,
        n_jobs: int | None,
        clusters: Indices | None = None,
    ) -> _ClassifierFits:
        """Return what is to be fitted, once it is checked."""
        check_classifier(classifier)
        X, codes = _check_rows(X, codes)
        weights = None if sample_weight is None else check_weights(sample_weight, len(codes))
        parameter = None
        if isinstance(classifier, FrozenEstimator):
            classifier = scale_frozen(classifier, X)
        else:
            parameter = _weight_parameter(classifier, weights)
        # The last bits of matrix products depend on the number of BLAS threads, and worker
        # processes have fewer of them than this one.
        return cls(
            *(classifier, X, codes, np.asarray(classes), weights, parameter),
            single_blas_thread=n_jobs is not None,
            clusters=clusters,
        )

    @property
    def is_frozen(self) -> bool:
        """Whether the classifier is fitted already, and used as it is."""
        return isinstance(self.classifier, FrozenEstimator)

    def frozen(self, needs_posteriors: bool = True) -> FittedStage:
        """Return the stage of a classifier that is used as it is."""
        rows = (
            predict_posteriors(self.classifier, self.X, self.classes) if needs_posteriors else None
        )
        training = TrainingPosteriors(rows, self.codes, self.weights, clusters=self.clusters)
        return FittedStage(self.classifier, training)

    def fit(self, rows: Indices | None = None) -> Any:
        """Return a clone fitted on ``rows``; None means all rows, and ``X`` is passed unchanged."""
        X, codes, weights = self.X, self.codes, self.weights
        if rows is not None:
            X, codes = take_rows(X, rows), codes[rows]
            weights = None if weights is None else weights[rows]
        extra = {} if self.weight_parameter is None else {self.weight_parameter: weights}
        with self._blas_threads(), _reading(X, self.classifier):
            return clone(self.classifier).fit(X, self.classes[codes], **extra)

    def _blas_threads(self) -> AbstractContextManager[None]:
        return one_blas_thread() if self.single_blas_thread else nullcontext()

    def posteriors(self, fitted: Any, rows: Indices) -> Posteriors:
        """Return the posteriors that a fitted classifier gives to some rows of X."""
        with self._blas_threads():
            return predict_posteriors(fitted, take_rows(self.X, rows), self.classes)

    def cross_fit(
        self,
        splits: list[Split],
        n_jobs: int | None,
        keep_bytes: float,
        refit: bool = True,
        judge: Judge | None = None,
    ) -> FittedStage:
        """Return the stage of one model per split and, with ``refit``, one of all instances.

        The models of the splits are kept if they are not larger than ``keep_bytes`` together.
        """
        _check_two_classes(self.codes, "y")
        # A limit for each split, so that a worker need not send back a model that is not kept.
        limits = [keep_bytes / len(splits)] * len(splits)
        if judge is not None:
            limits[0] = np.inf
        jobs: list[Callable[[], Any]] = [
            partial(_fit_fold, self, *split, limit)
            for split, limit in zip(splits, limits, strict=True)
        ]
        if refit:  # one more job of the same batch, so that it does not wait for the folds
            jobs.append(self.fit)
        results = _run_judged(jobs, n_jobs, judge)
        folds = results[: len(splits)]
        models = tuple(model for _, model in folds)
        return FittedStage(
            results[-1] if refit else None,
            _assemble(self, splits, folds),
            None if None in models else models,
        )


#: Posteriors of a split's test part, and the model that gave them (None: not kept).
_Fold: TypeAlias = tuple[Posteriors, Any | None]


def _fit_fold(fits: _ClassifierFits, train: Indices, test: Indices, keep_bytes: float) -> _Fold:
    trained = np.unique(fits.codes[train])
    if len(trained) == 1:  # many classifiers refuse to be fitted on one class
        posteriors = np.tile(np.eye(len(fits.classes))[trained[0]], (len(test), 1))
        if not keep_bytes:
            return posteriors, None
        from sklearn.dummy import DummyClassifier  # slow to import

        constant = DummyClassifier()
        return posteriors, constant.fit(take_rows(fits.X, train), fits.classes[fits.codes[train]])
    model = fits.fit(train)
    posteriors = fits.posteriors(model, test)
    return posteriors, model if fits_into(model, keep_bytes) else None


def fits_into(model: Any, most_bytes: float) -> bool:
    """Return whether a model is not larger than ``most_bytes`` when pickled."""
    if most_bytes in (0, np.inf):
        return most_bytes > 0
    try:
        pickle.Pickler(_LimitedSize(most_bytes), protocol=5).dump(model)
    except Exception:  # too large, or a model of the user's that cannot be pickled
        return False
    return True


class _LimitedSize:
    """A file that forgets what is written to it, and refuses more than some bytes."""

    def __init__(self, most_bytes: float) -> None:
        self._left = most_bytes

    def write(self, data: Any) -> int:
        """Count the bytes."""
        size = memoryview(data).nbytes
        self._left -= size
        if self._left < 0:
            raise OverflowError("the model is larger than the limit")
        return size


def _run_judged(
    jobs: list[Callable[[], Any]], n_jobs: int | None, judge: Judge | None
) -> list[Any]:
    """Return the results of jobs of about equal length, unless the first shows that it is no use.

    Each returns a model as its second value.
    """
    if judge is None:
        return run_jobs(jobs, n_jobs)
    start = time.monotonic()
    first = jobs[0]()
    rounds = math.ceil((len(jobs) - 1) / thread_count(n_jobs))
    judge(first[1], rounds * (time.monotonic() - start))
    return [first, *run_jobs(jobs[1:], n_jobs)]


def _check_two_classes(codes: Indices, name: str) -> None:
    if len(np.unique(codes)) < 2:
        raise ValueError(f"{name} holds one class only; at least two are needed")


def warn_about_rare_classes(cv: Any, codes: Indices, k: int, splits: list[Split]) -> None:
    """Warn once about classes that are rare or unseen in the splits (scikit-learn: per split)."""
    counts = np.bincount(codes, minlength=k)
    from sklearn.model_selection import StratifiedKFold  # slow to import

    stratified = isinstance(cv, Integral | StratifiedKFold)
    rare = int(np.count_nonzero((counts > 0) & (counts < len(splits)))) if stratified else 0
    is_unseen = np.array([np.bincount(codes[t], minlength=k) == 0 for t, _ in splits])
    remarks = []
    if rare:
        remarks.append(f"{rare} of {k} classes have fewer instances than the {len(splits)} folds")
    if is_unseen.any():
        remarks.append(
            f"{np.count_nonzero(is_unseen.any(axis=0))} of {k} classes were not seen by the model "
            f"of {np.count_nonzero(is_unseen.any(axis=1))} of {len(splits)} splits, which gives "
            "them posterior zero"
        )
    if remarks:
        warnings.warn("cv: " + "; ".join(remarks), UserWarning, stacklevel=3)


def _assemble(
    fits: _ClassifierFits, splits: list[Split], parts: Sequence[_Fold]
) -> TrainingPosteriors:
    """Stack the rows of all splits in the order of X; repeated instances follow the split order."""
    instances = np.concatenate([test for _, test in splits])
    folds = np.repeat(np.arange(len(splits)), [len(test) for _, test in splits])
    order = np.argsort(instances, kind="stable")
    instances = instances[order]
    weights = None if fits.weights is None else fits.weights[instances]
    clusters = None if fits.clusters is None else fits.clusters[instances]
    rows = np.concatenate([posteriors for posteriors, _ in parts])[order]
    return TrainingPosteriors(
        rows, fits.codes[instances], weights, folds[order], instances, clusters
    )
