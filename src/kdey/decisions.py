"""Classifiers without probabilities: scores and decisions as points of the simplex.

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

from collections.abc import Iterable
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, get_tags

from kdey.tensors import for_numpy

Array = NDArray[np.float64]
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
        scores = self._scores(X)
        typical = float(np.median(np.abs(scores - scores.mean(axis=1, keepdims=True))))
        self.scale_ = typical if typical > 0 else 1.0
        return self

    def use_fitted(self, fitted: Any, classes: ArrayLike | None = None) -> Self:
        """Use a classifier that is fitted already; its scores are taken as they are."""
        super().use_fitted(fitted, classes)
        self.scale_ = 1.0
        return self

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
