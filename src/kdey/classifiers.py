"""Classifiers: those without probabilities, and the splits on which they are fitted.

:func:`make_splits` turns the parameter ``cv`` into row numbers.

What a method assumes of the numbers that a classifier gives decides what it can do without
``predict_proba``:

* **Decisions** are enough for methods that count them (CC, ACC): ``predict`` alone is used.
* **Scores** are enough for methods that learn what the numbers look like in each class (PACC, DM,
  KDEy, thresholds, energy distances): they assume that scores of a class are distributed in a bag
  as in training, and not that a score is a probability. :class:`ScorePosteriors` maps the
  ``decision_function`` to the simplex by a softmax. That loses nothing: log-ratios, in which KDEy's
  kernel "aitchison" works, are the scores themselves, up to their scale.
* **Probabilities** are needed where a number is read as a probability (PCC, and EMQ without a
  calibration): scores are refused there.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from numbers import Integral, Real
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, check_random_state, get_tags

from kdey.validation import for_numpy

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
#: What a method needs of a classifier; each is given by all that come after it in this order.
ClassifierOutput: TypeAlias = Literal["decisions", "scores", "probabilities"]


class ClassifierAdapter(ClassifierMixin, BaseEstimator):
    """Base of the adapters: a classifier with ``predict_proba`` around one without.

    Parameters
    ----------
    classifier : scikit-learn classifier
        Cloned.

    Attributes
    ----------
    classifier_ : the fitted classifier
    classes_ : array of shape (k,)
    """

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def fit(self, X: Any, y: ArrayLike, **fit_params: Any) -> Self:
        """Fit a clone of the classifier; further arguments are passed on to it."""
        return self.use_fitted(clone(self.classifier).fit(X, y, **fit_params), np.unique(y))

    def use_fitted(self, fitted: Any, classes: ArrayLike | None = None) -> Self:
        """Use a classifier that is fitted already.

        ``classes`` are its classes, for classifiers that have no ``classes_``.
        """
        known = getattr(fitted, "classes_", classes)
        if known is None:
            raise TypeError(
                f"{type(fitted).__name__} has neither predict_proba nor classes_: give it the "
                "attribute classes_, or use fit_decisions"
            )
        self.classifier_, self.classes_ = fitted, np.asarray(known)
        return self

    def scaled_to(self, X: Any) -> Self:
        """Return the adapter of a fitted classifier with what it has to learn from instances."""
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the decisions of the classifier, shape (m,)."""
        return np.asarray(self.classifier_.predict(X))

    def predict_proba(self, X: Any) -> Array:
        """Return points of the simplex, shape (m, k)."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: X may be what the classifier takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.classifier).input_tags
        return tags


class DecisionPosteriors(ClassifierAdapter):
    """Decisions as posteriors of zero and one, for methods that count them."""

    def predict_proba(self, X: Any) -> Array:
        """Return the decision of each instance as a one-hot row, shape (m, k)."""
        return one_hot(self.classifier_.predict(X), self.classes_, "classifier.predict(X)")


class ScorePosteriors(ClassifierAdapter):
    r"""Scores as points of the simplex, by a softmax.

    .. math:: p_i(x) = \frac{e^{s_i(x) / c}}{\sum_j e^{s_j(x) / c}}

    with s the ``decision_function`` (for two classes, 0 and its only column) and c the median of
    the absolute scores of the training instances, relative to the mean of each instance, so that
    scores of any size keep away from zero and one. These numbers are no probabilities.

    Attributes
    ----------
    scale_ : float
        c.
    """

    def fit(self, X: Any, y: ArrayLike, **fit_params: Any) -> Self:
        """Fit a clone of the classifier, and learn the scale of its scores."""
        super().fit(X, y, **fit_params)
        self.scale_ = self._typical_score(X)
        return self

    def use_fitted(self, fitted: Any, classes: ArrayLike | None = None) -> Self:
        """Use a classifier that is fitted already; ``scaled_to`` learns the scale of its scores."""
        super().use_fitted(fitted, classes)
        self.scale_ = 1.0
        return self

    def scaled_to(self, X: Any) -> Self:
        """Return the adapter with the scale of the scores of these instances."""
        scaled = copy(self)
        scaled.scale_ = self._typical_score(X)
        return scaled

    def _typical_score(self, X: Any) -> float:
        scores = self._scores(X)
        typical = float(np.median(np.abs(scores - scores.mean(axis=1, keepdims=True))))
        return typical if typical > 0 else 1.0

    def predict_proba(self, X: Any) -> Array:
        """Return the scores of each instance as a point of the simplex, shape (m, k)."""
        return np.asarray(softmax(self._scores(X) / self.scale_, axis=1))

    def _scores(self, X: Any) -> Array:
        """Return one score per class, shape (m, k); raises ValueError for another shape."""
        scores = np.asarray(self.classifier_.decision_function(X), dtype=np.float64)
        if scores.ndim == 1:
            scores = np.stack([np.zeros(len(scores)), scores], axis=1)
        if scores.shape[1:] != self.classes_.shape:
            raise ValueError(
                f"classifier.decision_function(X) must give one score per class, got shape "
                f"{scores.shape} for {len(self.classes_)} classes; scores of pairs of classes need "
                "decision_function_shape='ovr'"
            )
        if not np.isfinite(scores).all():
            raise ValueError("classifier.decision_function(X) contains NaN or infinity")
        return scores


def adapt_classifier(classifier: Any, needs: ClassifierOutput) -> Any:
    """Return a classifier with ``predict_proba``, as far as the needs of a method allow.

    Parameters
    ----------
    classifier : unfitted classifier, or a ``FrozenEstimator``
    needs : {"decisions", "scores", "probabilities"}

    Returns
    -------
    classifier
        The same if it has ``predict_proba``, or nothing else that would do; otherwise an adapter
        (frozen, if the classifier is).
    """
    if isinstance(classifier, type) or hasattr(classifier, "predict_proba"):
        return classifier
    check_estimator(classifier)
    adapter: ClassifierAdapter | None = None
    if needs == "decisions" and hasattr(classifier, "predict"):
        adapter = DecisionPosteriors(classifier)
    elif needs == "scores" and hasattr(classifier, "decision_function"):
        adapter = ScorePosteriors(classifier)
    if adapter is None:
        return classifier
    if isinstance(classifier, FrozenEstimator):
        return FrozenEstimator(adapter.use_fitted(classifier.estimator))
    return adapter


def scale_frozen(classifier: FrozenEstimator, X: Any) -> FrozenEstimator:
    """Return a frozen classifier whose adapter, if it has one, has learnt from instances."""
    inner = classifier.estimator
    return (
        FrozenEstimator(inner.scaled_to(X)) if isinstance(inner, ClassifierAdapter) else classifier
    )


def check_estimator(classifier: Any) -> None:
    """Raise TypeError unless ``classifier`` can be cloned, as scikit-learn's estimators can."""
    inner = classifier.estimator if isinstance(classifier, FrozenEstimator) else classifier
    if not hasattr(inner, "get_params"):
        raise TypeError(
            f"classifier must be an estimator of scikit-learn, which has get_params and can be "
            f"cloned, got {inner!r:.60}: let a class of your own inherit from "
            "sklearn.base.BaseEstimator, or fit on what it says, "
            "ACC().fit_decisions(decisions, y) or fit_posteriors(posteriors, y)"
        )


def strictest(needs: Iterable[ClassifierOutput]) -> ClassifierOutput:
    """Return the need that satisfies all: probabilities before scores before decisions."""
    order: tuple[ClassifierOutput, ...] = ("decisions", "scores", "probabilities")
    return max(needs, key=order.index)


def one_hot(decisions: ArrayLike, classes: ArrayLike, name: str = "decisions") -> Array:
    """Return decided labels as one-hot rows, shape (m, k).

    Parameters
    ----------
    decisions : array-like of shape (m,)
        Labels.
    classes : array-like of shape (k,)
        The classes in the order of the columns.
    name : str
        What to call the labels in messages.

    Raises
    ------
    ValueError
        If the labels are no vector, or one of them is not among the classes.
    """
    labels = np.asarray(for_numpy(decisions, name))
    if labels.ndim != 1:
        raise ValueError(f"{name} must be a vector of labels, got shape {labels.shape}")
    # Python equality keeps 1 and "1" apart, where comparing arrays would turn both into text.
    position = {label: code for code, label in enumerate(np.asarray(classes).tolist())}
    values = labels.tolist()
    unknown = sorted({repr(label) for label in values if label not in position})
    if unknown:
        raise ValueError(
            f"{name} has labels that are not among the classes: {', '.join(unknown[:5])}; leave "
            "these instances out, or decide for a class"
        )
    rows = np.zeros((len(values), len(position)))
    rows[np.arange(len(values)), [position[label] for label in values]] = 1.0
    return rows


Split: TypeAlias = tuple[Indices, Indices]
RandomState: TypeAlias = "int | np.random.RandomState | np.random.Generator | None"


def make_splits(
    cv: Any,
    X: Any,
    codes: Indices,
    classes: NDArray[Any],
    *,
    random_state: RandomState = None,
    clusters: Indices | None = None,
) -> list[Split]:
    """Return the splits that ``cv`` describes, as pairs of int64 row numbers (train, test).

    Parameters
    ----------
    cv, X, codes, classes, random_state
        As for :func:`kdey.posteriors.training_posteriors`, except that ``cv`` is not None.
    clusters : int64 array of shape (n,), optional
        Number of each row's cluster, from 0. The rows of a cluster are never on both sides of a
        split (:func:`_cluster_splits`).

    Returns
    -------
    splits : list of (train, test)
        At least one split; neither of its parts is empty.

    Raises
    ------
    ValueError
        If ``cv`` has none of the accepted forms, or a split refers to rows outside ``X``.
    """
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**31 - 1))
    if isinstance(cv, bool | str | bytes):
        raise ValueError(_cv_message(cv))
    if clusters is not None:
        return _cluster_splits(cv, X, codes, classes, clusters, random_state)
    if isinstance(cv, Integral):
        cv = _stratified_folds(int(cv), codes, random_state)
    elif isinstance(cv, Real):
        return [_hold_out(float(cv), codes, random_state)]
    with _without_rare_class_warning(cv, codes):
        return _checked_splits(cv, X, classes[codes], None)


def _checked_splits(
    cv: Any, X: Any, labels: NDArray[Any], groups: Indices | None = None
) -> list[Split]:
    """Return the splits of a splitter or an iterable of pairs, checked."""
    pairs = cv.split(X, labels, groups) if hasattr(cv, "split") else cv
    if not isinstance(pairs, Iterable):
        raise ValueError(_cv_message(cv))
    splits = [_check_split(pair, len(labels), number) for number, pair in enumerate(pairs)]
    if not splits:
        raise ValueError("cv holds no splits")
    return splits


def _cluster_splits(
    cv: Any,
    X: Any,
    codes: Indices,
    classes: NDArray[Any],
    clusters: Indices,
    random_state: RandomState,
) -> list[Split]:
    """Return splits that leave clusters whole.

    A number of folds is that of scikit-learn's ``StratifiedGroupKFold``, or that of the clusters if
    there are fewer; of a fraction, as much is held out as one of its folds has. A class whose rows
    are all in one cluster could not be learnt and held out at the same time: its rows are divided
    one by one, and its intervals are 0 to 1 (``Model.rare``). Splits that the user gives must leave
    clusters whole themselves, or there is a warning.
    """
    from sklearn.model_selection import StratifiedGroupKFold  # slow to import

    if not isinstance(cv, Integral | Real):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The groups parameter is ignored", UserWarning)
            splits = _checked_splits(cv, X, classes[codes], clusters)
        torn = max(len(np.intersect1d(clusters[a], clusters[b])) for a, b in splits)
        if torn:
            warnings.warn(
                f"cv: rows of {torn} clusters are in the training and in the test part of one "
                "split; use a number of folds, or a splitter such as StratifiedGroupKFold",
                UserWarning,
                stacklevel=4,
            )
        return splits
    groups = _units(codes, clusters)
    n_groups = len(np.unique(groups))
    if isinstance(cv, Integral):
        _check_folds(min(int(cv), n_groups), codes)
        n_folds, keep, swap = min(int(cv), n_groups), slice(None), False
    else:
        if not 0.0 < float(cv) < 1.0:
            raise ValueError(_cv_message(cv))
        swap = float(cv) > 0.5
        n_folds = min(max(2, round(1.0 / min(float(cv), 1.0 - float(cv)))), n_groups)
        keep = slice(1)
        random_state = check_random_state(random_state).randint(2**31 - 1)
    shuffle = random_state is not None
    folds = StratifiedGroupKFold(n_folds, shuffle=shuffle, random_state=random_state)
    with warnings.catch_warnings():  # the caller says it once
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        drawn = list(folds.split(np.zeros((len(codes), 1)), codes, groups))
    # Where some clusters are most of the data, a fold can be left without any.
    whole = [(train, test) for train, test in drawn if len(train) and len(test)][keep]
    return [
        _check_split(pair[::-1] if swap else pair, len(codes), number)
        for number, pair in enumerate(whole)
    ]


def _units(codes: Indices, clusters: Indices) -> Indices:
    """Return what is kept whole: clusters, but single rows of classes that are in one cluster."""
    pairs = np.unique(np.stack([codes, clusters]), axis=1)
    n_clusters = np.bincount(pairs[0], minlength=int(codes.max()) + 1)
    single = n_clusters[codes] == 1
    return np.where(single, int(clusters.max()) + 1 + np.arange(len(codes)), clusters)


@contextmanager
def _without_rare_class_warning(cv: Any, codes: Indices) -> Iterator[None]:
    """Silence scikit-learn's warning about classes with fewer instances than folds.

    ``training_posteriors`` warns about them once instead of once per split. The warning filters
    belong to the whole process, so they are changed only if scikit-learn would warn.
    """
    counts, n_folds = np.bincount(codes), getattr(cv, "n_splits", 0)
    if counts[counts > 0].min(initial=len(codes)) >= n_folds:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        yield


def _stratified_folds(n_folds: int, codes: Indices, random_state: RandomState) -> Any:
    from sklearn.model_selection import StratifiedKFold  # slow to import

    _check_folds(n_folds, codes)
    shuffle = random_state is not None
    return StratifiedKFold(n_folds, shuffle=shuffle, random_state=random_state)


def _check_folds(n_folds: int, codes: Indices) -> None:
    if n_folds < 2:
        raise ValueError(_cv_message(n_folds))
    largest = int(np.bincount(codes).max())
    if largest < n_folds:
        raise ValueError(f"cv={n_folds} folds, but the largest class has {largest} instances")


def _hold_out(fraction: float, codes: Indices, random_state: RandomState) -> Split:
    """Hold out ``fraction`` of each class: at least one instance, but not the whole class.

    The only instance of a class is held out: the class then has a template, as it has under
    cross-validation.
    """
    if not 0.0 < fraction < 1.0:
        raise ValueError(_cv_message(fraction))
    rng = check_random_state(random_state)
    is_test = np.zeros(len(codes), dtype=bool)
    for code in np.unique(codes):
        members = rng.permutation(np.flatnonzero(codes == code))
        size = min(max(round(fraction * len(members)), 1), max(len(members) - 1, 1))
        is_test[members[:size]] = True
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def _cv_message(cv: object) -> str:
    return (
        "cv must be None, an int >= 2, a fraction in (0, 1), a splitter or an iterable of "
        f"(train, test) index pairs, got {cv!r}"
    )


def _check_split(pair: Any, n_rows: int, number: int) -> Split:
    try:
        train, test = pair
    except (TypeError, ValueError) as error:
        raise ValueError(f"cv: split {number} must be a (train, test) pair") from error
    return (
        _check_part(train, n_rows, f"cv: the train part of split {number}"),
        _check_part(test, n_rows, f"cv: the test part of split {number}"),
    )


def _check_part(part: Any, n_rows: int, name: str) -> Indices:
    rows = np.asarray(for_numpy(part, name))
    if rows.dtype == bool and rows.shape == (n_rows,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or len(rows) == 0 or rows.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold row numbers, at least one")
    if rows.min() < 0 or rows.max() >= n_rows:
        raise ValueError(f"{name} has rows outside X, which has {n_rows}")
    return rows.astype(np.int64)
