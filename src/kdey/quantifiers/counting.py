"""Counting without adjustment: CC and PCC, and the training prevalence as a baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length

from kdey.bags import Array, Bags
from kdey.matching.base import Solution, exact_solution
from kdey.matching.squares import Mean
from kdey.model import Combination, CombinedModel, CombinedPoints
from kdey.quantifiers.aggregative import AggregativeQuantifier
from kdey.quantifiers.base import BaseQuantifier, shares_of, unfitted_on_failure
from kdey.quantifiers.decisions import DecisionsMixin
from kdey.rows.posterior import PosteriorMap
from kdey.validation import check_weights


class _Counting(AggregativeQuantifier):
    """The mean row of a bag is its estimate; no training posteriors are needed."""

    _crisp: bool
    cv = None

    def __init__(
        self, classifier: Any = None, *, random_state: Any = None, n_jobs: int | None = None
    ) -> None:
        self.classifier = classifier
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def needs_posteriors(self) -> bool:
        """Whether ``fit`` needs training posteriors."""
        return False

    def row_spec(self) -> PosteriorMap:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        return PosteriorMap(crisp=self._crisp, adjusted=False)

    def matching(self) -> Mean:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return Mean()


class CC(DecisionsMixin, _Counting):
    """Classify and count: the share of instances that the classifier assigns to each class.

    Biased under label shift; the baseline that every other method corrects (Forman, 2008).
    A classifier needs ``predict`` only. ``fit_decisions`` takes labels that were decided elsewhere.

    See Also
    --------
    kdey.PCC : Mean posterior of a classifier.
    kdey.ACC : Count decisions and adjust by error rates.

    References
    ----------
    Forman, G. (2008). Quantifying counts and costs via classification. Data Mining and
    Knowledge Discovery, 17(2).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import CC
    >>> X, y = load_iris(return_X_y=True)
    >>> q = CC().fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    """

    _crisp = True


class PCC(_Counting):
    """Probabilistic classify and count: the mean posterior (Bella et al., 2010).

    See Also
    --------
    kdey.ACC : Count decisions and adjust by error rates.
    kdey.PACC : Adjust mean posteriors.

    References
    ----------
    Bella, A., Ferri, C., Hernández-Orallo, J. and Ramírez-Quintana, M. J. (2010).
    Quantification via probability estimators. IEEE International Conference on Data Mining.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import PCC
    >>> X, y = load_iris(return_X_y=True)
    >>> q = PCC().fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.4, 0.1])
    """

    _crisp = False


@dataclass(frozen=True, eq=False)
class Constant(Combination):
    """The same answer for every bag, of no member.

    Attributes
    ----------
    prevalence : array of shape (k,)
    """

    prevalence: Array

    def combine(self, parts: list[Solution], points: CombinedPoints, bags: Bags) -> Solution:
        """Return the prevalence once for each bag."""
        return exact_solution(np.tile(self.prevalence, (len(bags), 1)))


class TrainingPrevalence(BaseQuantifier):
    """Estimates the training prevalence for every bag: a baseline that a method must beat.

    See Also
    --------
    kdey.CC : Count the decisions of a classifier.
    kdey.PCC : Mean posterior of a classifier.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import TrainingPrevalence
    >>> X, y = load_iris(return_X_y=True)
    >>> q = TrainingPrevalence().fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.3, 0.3, 0.3])
    """

    @unfitted_on_failure
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Count the labels ``y`` of shape (n,), weighted by ``sample_weight`` if given."""
        self._check_training_points(X)
        codes, classes = self._labels(y)
        check_consistent_length(X, codes)
        weights = None if sample_weight is None else check_weights(sample_weight, len(codes))
        prevalence = shares_of(codes, weights, len(classes))
        self.model_ = CombinedModel(classes, prevalence, (), Constant(prevalence), self._scorer())
        return self

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: the values of X are not used."""
        tags = super().__sklearn_tags__()
        tags.no_validation = True
        tags.input_tags.sparse = True
        return tags
