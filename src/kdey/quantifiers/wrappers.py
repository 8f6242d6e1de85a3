"""Quantifiers around others: the median over settings, one against all, one against one.

:class:`WrapperQuantifier` fits the members, on instances or on posteriors. A wrapper says what each
member is fitted on (:class:`Part`) and how answers are combined (:class:`~kdey.model.Combination`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid
from sklearn.utils import indexable
from sklearn.utils.validation import check_consistent_length

from kdey._display import muted, warn
from kdey._parallel import run_jobs
from kdey.arrays import refuse_masked, take_rows
from kdey.bags import Array, Bags
from kdey.matching.base import Solution, median_solution
from kdey.model import (
    AnyModel,
    Combination,
    CombinedModel,
    CombinedPoints,
    Floats,
    InstanceScorer,
    Pool,
)
from kdey.quantifiers.base import (
    PosteriorsMixin,
    SettledTable,
    shares_of,
    unfitted_on_failure,
)
from kdey.quantifiers.foreign import (
    QuantifierLike,
    as_quantifier,
    check_is_quantifier,
    settle_table,
)
from kdey.simplex import check_posteriors
from kdey.tables.schema import TableSchema
from kdey.validation import FewLabelsWarning, check_choice, check_weights

Indices = NDArray[np.int64]
_NORMALISATIONS = ("l1", "softmax")


@dataclass(frozen=True, eq=False)
class Part:
    """What one member is fitted on.

    Attributes
    ----------
    quantifier : unfitted quantifier
    labels : array of shape (n',)
        Of the instances at ``rows``.
    rows : int64 array of shape (n',) or None
        None: all instances.
    """

    quantifier: QuantifierLike
    labels: NDArray[Any]
    rows: Indices | None = None

    def select(self, values: Any) -> Any:
        """Return the values of the instances of this part; None if there are none."""
        return values if values is None or self.rows is None else take_rows(values, self.rows)

    def fit(self, method: str, points: Any, sample_weight: Array | None) -> AnyModel:
        """Fit on the rows of points by ``fit`` or ``fit_posteriors``; return the model.

        The models of its folds are left out, because nobody uses them.
        """
        quantifier = clone(self.quantifier)
        weights = self.select(sample_weight)
        extra = {} if weights is None else {"sample_weight": weights}
        with muted(FewLabelsWarning):  # the wrapper has said it
            getattr(quantifier, method)(self.select(points), self.labels, **extra)
        model = as_quantifier(quantifier, np.unique(self.labels))._fitted_model()
        return model.with_scorer(fold_models=None)


class WrapperQuantifier(PosteriorsMixin):
    """Base of the quantifiers that fit clones of another one (Median, OneVsAll, Ensemble)."""

    model_: CombinedModel
    quantifier: QuantifierLike

    def _parts(
        self, quantifier: QuantifierLike, codes: Indices, classes: NDArray[Any]
    ) -> Sequence[Part]:
        """Return what each member is fitted on; raises ValueError for invalid parameters."""
        raise NotImplementedError

    def _combination(self, classes: NDArray[Any]) -> Combination:
        """Return how answers are combined."""
        raise NotImplementedError

    def _completed(
        self,
        model: CombinedModel,
        parts: Sequence[Part],
        codes: Indices,
        points: CombinedPoints | Pool,
        sample_weight: Array | None,
    ) -> CombinedModel:
        """Return the model once its members are known; by default as it is."""
        return model

    @unfitted_on_failure
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the members on instances.

        Parameters
        ----------
        X : instances
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
        """
        check_is_quantifier(self.quantifier)
        inner = settle_table(self.quantifier, refuse_masked(X, "X"))
        self._check_training_points(inner.X)
        codes, classes = self._labels(y)
        check_consistent_length(inner.X, codes)
        weights = None if sample_weight is None else check_weights(sample_weight, len(codes))
        parts, X = self._parts(inner.quantifier, codes, classes), indexable(inner.X)[0]
        members = run_jobs([partial(part.fit, "fit", X, weights) for part in parts], self.n_jobs)
        model = self._model(members, codes, classes, inner.schema)
        self.model_ = self._completed(model, parts, codes, Pool(X), weights)
        return self

    @unfitted_on_failure
    def fit_posteriors(
        self, posteriors: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the members on posteriors.

        Parameters
        ----------
        posteriors : array-like of shape (n, k)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
        """
        if not self.takes_posteriors:
            raise TypeError(
                f"quantifier={type(self.quantifier).__name__}() works on features, not on "
                "posteriors: use fit and predict"
            )
        codes, classes = self._labels(y)
        p = check_posteriors(posteriors, classes=classes)
        check_consistent_length(p, codes)
        weights = None if sample_weight is None else check_weights(sample_weight, len(codes))
        parts, rule = self._parts(self.quantifier, codes, classes), self._combination(classes)
        members = [
            part.fit("fit_posteriors", rule.member_posteriors(p, number), weights)
            for number, part in enumerate(parts)
        ]
        model = self._model(members, codes, classes, None)
        self.model_ = self._completed(model, parts, codes, model.given(p), weights)
        return self

    def _model(
        self,
        members: Sequence[AnyModel],
        codes: Indices,
        classes: NDArray[Any],
        schema: TableSchema | None,
    ) -> CombinedModel:
        scorer: InstanceScorer = self._scorer(schema=schema)
        prevalence = shares_of(codes, None, len(classes))
        return CombinedModel(
            classes, prevalence, tuple(members), self._combination(classes), scorer
        )

    def inner_estimator(self) -> Any:
        """Return the quantifier that X is passed to."""
        return self.quantifier

    def settle_table(self, X: Any) -> SettledTable:
        """Settle how the quantifier inside reads tables."""
        inner = settle_table(self.quantifier, X)
        if inner.schema is None:
            return SettledTable(self, X)
        settled = clone(self).set_params(quantifier=inner.quantifier)
        return SettledTable(settled, inner.X, inner.schema)

    @property
    def takes_posteriors(self) -> bool:
        """Whether the quantifier inside works on posteriors."""
        return as_quantifier(self.quantifier).takes_posteriors


@dataclass(frozen=True, eq=False)
class MedianOfMembers(Combination):
    """The median of the answers."""

    def combine(self, parts: list[Solution], points: CombinedPoints, bags: Bags) -> Solution:
        """Return the median of the members."""
        return median_solution(parts)


class Median(WrapperQuantifier):
    """The median of one quantifier fitted at every setting of a grid.

    Parameters
    ----------
    quantifier : quantifier
        Cloned for every setting.
    param_grid : dict or list of dict
        As in scikit-learn's ``ParameterGrid``.
    n_jobs : int, optional
        Number of settings fitted in parallel.

    Attributes
    ----------
    model_ : :class:`~kdey.model.CombinedModel`
        With one member per setting.

    See Also
    --------
    kdey.Ensemble : Members fitted on bags of many prevalences.
    kdey.DM : Match histograms of posteriors.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import KDEyCS, Median
    >>> X, y = load_iris(return_X_y=True)
    >>> q = Median(KDEyCS(), {"bandwidth": [0.05, 0.1, 0.2]}).fit(X[::2], y[::2])
    >>> q.predict(X[1::2][y[1::2] < 2]).round(1)
    array([0.5, 0.5, 0. ])
    """

    def __init__(
        self, quantifier: QuantifierLike, param_grid: Any, *, n_jobs: int | None = None
    ) -> None:
        self.quantifier = quantifier
        self.param_grid = param_grid
        self.n_jobs = n_jobs

    def _parts(
        self, quantifier: QuantifierLike, codes: Indices, classes: NDArray[Any]
    ) -> list[Part]:
        settings = list(ParameterGrid(self.param_grid))
        if not settings:
            raise ValueError("param_grid must hold at least one setting")
        labels = classes[codes]
        return [Part(clone(quantifier).set_params(**setting), labels) for setting in settings]

    def _combination(self, classes: NDArray[Any]) -> MedianOfMembers:
        return MedianOfMembers()


@dataclass(frozen=True, eq=False)
class OneAgainstRest(Combination):
    """Binary answers, one per class against the rest.

    Attributes
    ----------
    normalisation : {"l1", "softmax"}
    """

    normalisation: str

    def member_posteriors(self, posteriors: Floats, number: int) -> Floats:
        """Return (1 - p_i, p_i)."""
        positive = np.clip(posteriors[:, number], 0.0, 1.0)
        return np.stack([1.0 - positive, positive], axis=1)

    def combine(self, parts: list[Solution], points: CombinedPoints, bags: Bags) -> Solution:
        """Return the shares of the positive classes, normalised."""
        positive = np.stack([part.prevalence[:, 1] for part in parts], axis=1)
        total = positive.sum(axis=1, keepdims=True)
        empty = total[:, 0] <= 0
        if self.normalisation == "softmax":
            prevalence, empty = np.asarray(softmax(positive, axis=1)), np.zeros_like(empty)
        else:
            uniform = np.full_like(positive, 1.0 / positive.shape[1])
            prevalence = np.divide(positive, total, out=uniform, where=total > 0)
        if empty.any():
            warn(
                f"every class came out as absent in {empty.sum()} bags; their estimate is uniform",
                ConvergenceWarning,
                stacklevel=3,
            )
        return combined_solution(prevalence, parts, ~empty)


class OneVsAll(WrapperQuantifier):
    """One binary quantifier per class against the rest, normalised to a prevalence.

    Each binary problem merges the other classes, whose proportions shift too, so that multiclass
    methods are more accurate. Binary methods such as HDy need this wrapper.

    Parameters
    ----------
    quantifier : quantifier
        Cloned for every class.
    normalisation : {"l1", "softmax"}
        "l1" divides by the sum (uniform, with a warning, if every class is estimated as absent).
    n_jobs : int, optional
        Number of classes fitted in parallel.

    Attributes
    ----------
    model_ : :class:`~kdey.model.CombinedModel`
        With one binary member per class.

    See Also
    --------
    kdey.Median : The median of members with other parameters.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from kdey import ACC, OneVsAll
    >>> X, y = load_iris(return_X_y=True)
    >>> q = OneVsAll(ACC(KNeighborsClassifier(9))).fit(X[::2], y[::2])
    >>> q.predict(X[1::2][y[1::2] < 2]).round(1)
    array([0.5, 0.5, 0. ])
    """

    def __init__(
        self, quantifier: QuantifierLike, *, normalisation: str = "l1", n_jobs: int | None = None
    ) -> None:
        self.quantifier = quantifier
        self.normalisation = normalisation
        self.n_jobs = n_jobs

    def _parts(
        self, quantifier: QuantifierLike, codes: Indices, classes: NDArray[Any]
    ) -> list[Part]:
        check_choice(self.normalisation, "normalisation", _NORMALISATIONS)
        return [Part(quantifier, codes == i) for i in range(len(classes))]

    def _combination(self, classes: NDArray[Any]) -> OneAgainstRest:
        return OneAgainstRest(self.normalisation)


def combined_solution(
    prevalence: Array, parts: Sequence[Solution], answered: NDArray[np.bool_] | None = None
) -> Solution:
    """Return a solution without objective, with the iterations of all members together."""
    unknown = np.full(len(prevalence), np.nan)
    n_iter = np.sum([part.n_iter for part in parts], axis=0)
    converged = np.all([part.converged for part in parts], axis=0)
    if answered is not None:
        converged &= answered
    return Solution(prevalence, unknown, unknown, n_iter, converged)
