"""Adaptation to an estimated prevalence: posteriors, classifiers and training weights."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from kdey.bags import Array
from kdey.model import Fitted, model_of
from kdey.posteriors import predict_posteriors
from kdey.simplex import check_posteriors, check_prevalence, in_class_order
from kdey.validation import encode_labels


def adapt_posteriors(
    posteriors: ArrayLike,
    training_prevalence: ArrayLike,
    prevalence: ArrayLike,
    classes: ArrayLike | None = None,
) -> Array:
    r"""Return posteriors corrected from the training prevalence to another one, shape (m, k).

    .. math:: p'(i \mid x) \propto p(i \mid x)\, \frac{\alpha_i}{\pi_i}

    which is Bayes' rule under label shift (Saerens et al., 2002). A row without mass on any class
    of positive prevalence is uninformative about these classes and becomes the prevalence itself.

    Parameters
    ----------
    posteriors : array-like of shape (m, k)
        Calibrated at the training prevalence.
    training_prevalence : array-like of shape (k,)
        The :math:`\pi` above, all positive.
    prevalence : array-like of shape (k,)
        The :math:`\alpha` above, as estimated.
    classes : array-like of shape (k,), optional
        The label of each column. Data frames and series with names are matched by them, and are
        refused without them.

    Returns
    -------
    array of shape (m, k)

    Raises
    ------
    ValueError
        If an argument is no prevalence or posterior, or a training prevalence is zero.

    See Also
    --------
    kdey.AdaptedClassifier : A classifier corrected to another prevalence.
    kdey.diagnostics.importance_weights : Weights of classes for another prevalence.

    Examples
    --------
    >>> from kdey import adapt_posteriors
    >>> adapt_posteriors([[0.5, 0.5]], [0.5, 0.5], [0.9, 0.1])
    array([[0.9, 0.1]])
    """
    p = np.asarray(check_posteriors(posteriors, classes=classes), dtype=np.float64)
    target = check_prevalence(prevalence, p.shape[1], classes=classes)
    ratios = importance_weights(training_prevalence, target, classes=classes)
    joint = p * ratios
    total = joint.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, joint / total, target)


def importance_weights(
    training_prevalence: ArrayLike,
    prevalence: ArrayLike,
    y: ArrayLike | None = None,
    classes: ArrayLike | None = None,
) -> Array:
    """Return the factors alpha_i / pi_i that reweight a training set to the bag's prevalence.

    Parameters
    ----------
    training_prevalence : array-like of shape (k,)
        All positive.
    prevalence : array-like of shape (k,)
    y : array-like of shape (n,), optional
        Labels of training instances. With labels, the function returns one factor per instance,
        for use as ``sample_weight``; without, it returns one per class.
    classes : array-like of shape (k,), optional
        The label of each entry of the prevalences; default: the sorted labels of ``y``.

    Returns
    -------
    array of shape (k,), or (n,) if ``y`` is not None

    Raises
    ------
    ValueError
        If an argument is no prevalence, a training prevalence is zero, or the labels do not fit
        the classes.

    See Also
    --------
    kdey.adapt_posteriors : Correct posteriors to another prevalence.
    kdey.AdaptedClassifier : A classifier corrected to another prevalence.

    Examples
    --------
    >>> from kdey.diagnostics import importance_weights
    >>> importance_weights([0.5, 0.5], [0.9, 0.1], [0, 1, 1])
    array([1.8, 0.2, 0.2])
    """
    codes, labels = (None, classes) if y is None else encode_labels(y, classes)
    name = "training_prevalence"
    before = check_prevalence(in_class_order(training_prevalence, labels, name), name=name)
    if not (before > 0).all():
        raise ValueError(
            "training_prevalence must be positive, but that of class number "
            f"{int(np.argmin(before))} is zero, which no factor can make up for"
        )
    ratios = check_prevalence(in_class_order(prevalence, labels), len(before)) / before
    if labels is not None and np.shape(labels) != before.shape:
        raise ValueError(f"classes must have shape {before.shape}, got {np.shape(labels)}")
    if codes is None:
        return np.asarray(ratios)
    return np.asarray(ratios[codes])


class AdaptedClassifier(ClassifierMixin, BaseEstimator):
    """A fitted classifier with its posteriors corrected to another prevalence.

    Parameters
    ----------
    classifier : fitted classifier with ``predict_proba`` and ``classes_``
        Used as it is; :meth:`fit` does not refit it.
    training_prevalence : array-like of shape (k,)
        Prevalence of the data that the classifier was fitted on, in the order of its ``classes_``.
    prevalence : array-like of shape (k,)
        Prevalence to which its posteriors are corrected, such as an estimate for a bag.

    See Also
    --------
    kdey.diagnostics.importance_weights : Weights of classes for another prevalence.
    kdey.adapt_posteriors : Correct posteriors to another prevalence.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.EMQ().fit(X[::2], y[::2])
    >>> adapted = kdey.AdaptedClassifier.from_quantifier(q, [0.5, 0.5, 0.0])
    >>> bool(adapted.predict_proba(X[1::2])[:, 2].max() < 0.1)
    True
    """

    def __init__(self, classifier: Any, training_prevalence: Any, prevalence: Any) -> None:
        self.classifier = classifier
        self.training_prevalence = training_prevalence
        self.prevalence = prevalence

    @classmethod
    def from_quantifier(cls, quantifier: Fitted, prevalence: ArrayLike) -> AdaptedClassifier:
        """Return the classifier of a fitted quantifier, adapted to an estimated prevalence.

        Parameters
        ----------
        quantifier : fitted quantifier with a classifier
        prevalence : array-like of shape (k,)
            In the order of the quantifier's ``classes_``.

        Returns
        -------
        AdaptedClassifier

        Raises
        ------
        ValueError
            If the quantifier has no classifier, or ``prevalence`` is none of k classes.
        """
        model = model_of(quantifier)
        classifier = model.scorer.classifier
        if classifier is None:
            raise ValueError(f"this {type(quantifier).__name__} has no classifier to adapt")
        labels = list(model.classes)
        columns = [labels.index(label) for label in classifier.classes_]
        target = check_prevalence(prevalence, classes=model.classes)[columns]
        return cls(classifier, model.prevalence[columns], target)

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Return self, because the classifier is already fitted."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the classifier is fitted."""
        return hasattr(self.classifier, "classes_")

    @property
    def classes_(self) -> NDArray[Any]:
        """The classifier's labels, shape (k,)."""
        return np.asarray(self.classifier.classes_)

    def predict_proba(self, X: Any) -> Array:
        """Return the corrected posteriors of X, shape (m, k)."""
        check_is_fitted(self)
        posteriors = predict_posteriors(self.classifier, X, self.classes_)
        return adapt_posteriors(posteriors, self.training_prevalence, self.prevalence)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of each instance, shape (m,)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
