"""Quantifiers around others: Median, OneVsAll, Ordered."""

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
from kdey.matching.base import AnyMatching, Solution, median_solution
from kdey.matching.penalty import PenalisedMap, Smoothness, penalise
from kdey.matching.squares import Mean
from kdey.model import (
    AnyModel,
    Combination,
    CombinedModel,
    CombinedPoints,
    Floats,
    InstanceScorer,
    Pool,
)
from kdey.posteriors import ClassifierStage
from kdey.quantifiers.aggregative import AggregativeQuantifier
from kdey.quantifiers.base import (
    PosteriorsMixin,
    SettledTable,
    shares_of,
    unfitted_on_failure,
)
from kdey.quantifiers.composed import (
    QuantifierLike,
    as_quantifier,
    check_is_quantifier,
    settle_table,
)
from kdey.rows.base import RowSpec
from kdey.simplex import check_posteriors
from kdey.tables.schema import TableSchema
from kdey.tuning.automatic import AutomaticStrength
from kdey.tuning.trials import TuningPlan
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


class Ordered(AggregativeQuantifier):
    r"""A method for ordered classes: neighbouring classes have similar prevalences.

    .. math:: \min_{\alpha \in \Delta} f(\alpha)
              + \tfrac{\tau}{2} \sum_{i=2}^{k-1} (\alpha_{i-1} - 2 \alpha_i + \alpha_{i+1})^2

    with f the objective of ``quantifier``. ``Ordered(ACC())`` and ``Ordered(PACC())`` are the
    Tikhonov-regularised o-ACC and o-PACC of Bunse et al. (2022); ``Ordered(EMQ())`` and
    ``Ordered(KDEyML())`` maximise a penalised likelihood. (The o-SLD of that paper smooths every
    step of EM by a polynomial instead, which minimises no function.) All are convex and certified.

    Shares that really are rough (all items in the middle class, none beside it) are pulled towards
    a smooth curve, and the limits do not know of it: take the method without the penalty there.

    The order is that of ``classes_``, which are sorted: number the classes if their names do not
    sort in their order. Two classes have no second difference, and the penalty vanishes.

    Parameters
    ----------
    quantifier : AggregativeQuantifier
        A method with a convex problem: ACC, PACC, EMQ, DIR, KDEyML, KDEyL2, KDEyHD, EDy, DM with an
        f-divergence; or a pool of several, Quantifier.
    strength : float or "auto"
        :math:`\tau`. "auto": chosen at ``fit`` by the error on smooth bags from held-out parts of
        the training posteriors, after a bandwidth that is itself "auto".
    tune_for : str
        The error that the automatic choice minimises; the match distance respects the order.
    tune_bag_size : int
        Expected size of bags, for the automatic choice.
    tune_smoothest : float
        Bags of the automatic choice have prevalences from the smoothest part of the simplex, of
        this share (:func:`kdey.simplex.sample_smooth`).

    Attributes
    ----------
    tuning_ : :class:`~kdey.tuning.Tuning` of the strength, or None if it was a number

    See Also
    --------
    kdey.PACC : Adjust mean posteriors.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import PACC, Ordered
    >>> X, y = load_iris(return_X_y=True)
    >>> q = Ordered(PACC(), strength=0.001).fit(X[::2], y[::2])
    >>> q.predict(X[1::2]).round(1)
    array([0.3, 0.3, 0.3])
    """

    orders_classes = True

    def __init__(
        self,
        quantifier: AggregativeQuantifier,
        *,
        strength: float | str = "auto",
        tune_for: Any = "nmd",
        tune_bag_size: int = 500,
        tune_smoothest: float = 0.2,
    ) -> None:
        self.quantifier = quantifier
        self.strength = strength
        self.tune_for = tune_for
        self.tune_bag_size = tune_bag_size
        self.tune_smoothest = tune_smoothest

    @property
    def inner(self) -> AggregativeQuantifier:
        """The quantifier inside; raises TypeError if it has no rows and matching."""
        if not isinstance(self.quantifier, AggregativeQuantifier):
            raise TypeError(
                "quantifier must be a method on posteriors with rows and a matching, such as "
                f"PACC() or KDEyML(), got {self.quantifier!r:.80}"
            )
        return self.quantifier

    @property
    def cv(self) -> Any:
        """How the training posteriors are made."""
        return self.inner.cv

    @property
    def random_state(self) -> Any:
        """The seed of the quantifier inside."""
        return self.inner.random_state

    @property
    def n_jobs(self) -> int | None:  # type: ignore[override]
        """Number of classifier fits in parallel, and of threads."""
        return self.inner.n_jobs

    @property
    def max_classes(self) -> int | None:  # type: ignore[override]
        """Largest number of classes that the quantifier inside handles."""
        return self.inner.max_classes

    def check_n_classes(self, k: int) -> None:
        """Raise ValueError if the quantifier inside does not handle ``k`` classes."""
        if self.max_classes is not None and k > self.max_classes:
            raise ValueError(
                f"{type(self.inner).__name__} is for two classes, and y has {k}: an order needs a "
                "method for all of them at once, such as PACC, EMQ or KDEyML"
            )

    @property
    def needs_posteriors(self) -> bool:
        """Whether ``fit`` needs training posteriors, which an automatic choice does."""
        return self._tunes or self.inner.needs_posteriors

    @property
    def draws_at_fit(self) -> bool:  # type: ignore[override]
        """Whether fitting draws random numbers for more than the folds."""
        return self._tunes or self.inner.draws_at_fit

    @property
    def _tunes(self) -> bool:
        return isinstance(self.strength, str)

    def inner_estimator(self) -> Any:
        """Return the unfitted classifier of the quantifier inside."""
        return self.inner.inner_estimator()

    def settle_table(self, X: Any) -> SettledTable:
        """Settle the schema of the quantifier inside."""
        settled = self.inner.settle_table(X)
        if settled.quantifier is self.inner:
            return SettledTable(self, settled.X, settled.schema)
        ordered = clone(self).set_params(quantifier=settled.quantifier)
        return SettledTable(ordered, settled.X, settled.schema)

    def _classifier_stage(self) -> ClassifierStage:
        if self.inner.needs_posteriors:
            return self.inner.stages().classifier
        return super()._classifier_stage()  # an automatic choice needs posteriors all the same

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        plan = TuningPlan(self.tune_for, self.tune_bag_size, self.random_state, self.tune_smoothest)
        rows = self.inner.row_spec()
        if isinstance(self.strength, str):
            check_choice(self.strength, "strength", ["auto"])
            return AutomaticStrength(rows, Smoothness, self.matching(), plan)
        return PenalisedMap(rows, Smoothness(self.strength))

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        inner = self.inner.matching()
        if isinstance(inner, Mean):
            raise ValueError(
                f"{type(self.inner).__name__} counts, and minimises nothing that a penalty could "
                "be added to: take ACC, PACC, EMQ, KDEyML or another method that corrects"
            )
        return penalise(inner)
