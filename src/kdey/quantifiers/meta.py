"""Quantifiers that fit others and combine their answers: Median, OneVsAll, Ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid
from sklearn.utils import Tags, check_random_state, indexable
from sklearn.utils.validation import check_consistent_length

from kdey._display import muted, warn
from kdey.bags import Array, Indices
from kdey.matching import Solution, combined_solution
from kdey.model import (
    AnyModel,
    Combination,
    CombinedModel,
    Floats,
    InstanceScorer,
)
from kdey.native import run_jobs
from kdey.posteriors import training_clusters
from kdey.quantifiers.base import BaseQuantifier, PosteriorsMixin, shares_of, unfitted_on_failure
from kdey.quantifiers.composed import (
    QuantifierLike,
    as_quantifier,
    check_is_quantifier,
    read_training,
)
from kdey.simplex import check_posteriors, sample_uniform
from kdey.tables.schema import TableSchema
from kdey.validation import FewLabelsWarning, check_choice, check_weights, refuse_masked, take_rows

_NORMALISATIONS = ("l1", "softmax")


#: What one member is fitted on: an unfitted quantifier, and the labels of the instances at some
#: positions; None: of all instances.
MemberData: TypeAlias = tuple[QuantifierLike, NDArray[Any], Indices | None]


def _fit_member(
    data: MemberData,
    method: str,
    points: Any,
    sample_weight: Array | None,
    clusters: Indices | None = None,
) -> AnyModel:
    """Fit a member on its points by ``fit`` or ``fit_posteriors``; return the model.

    The models of its folds are left out, because nobody uses them.
    """
    quantifier, labels, rows = data
    quantifier, extra = clone(quantifier), {}
    if rows is not None:
        points = take_rows(points, rows)
    for name, values in (("sample_weight", sample_weight), ("clusters", clusters)):
        if values is not None:
            extra[name] = values if rows is None else values[rows]
    with muted(FewLabelsWarning):  # the wrapper has said it
        getattr(quantifier, method)(points, labels, **extra)
    model = as_quantifier(quantifier, np.unique(labels))._fitted_model()
    return model.with_scorer(fold_models=None)


class WrapperQuantifier(PosteriorsMixin):
    """Base of the quantifiers that fit clones of another one (Median, OneVsAll, Ensemble)."""

    model_: CombinedModel = field(init=False)
    quantifier: QuantifierLike = field(kw_only=False)
    n_jobs: int | None = None

    def _parts(
        self, quantifier: QuantifierLike, codes: Indices, classes: NDArray[Any]
    ) -> Sequence[MemberData]:
        """Return what each member is fitted on; raises ValueError for invalid parameters."""
        raise NotImplementedError

    def _combination(self, parts: Sequence[MemberData], classes: NDArray[Any]) -> Combination:
        """Return how the answers of members that are fitted on ``parts`` are combined."""
        return Combination()

    @unfitted_on_failure
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Fit the members on instances.

        Parameters
        ----------
        X : instances
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
        clusters : array-like of shape (n,), optional
            Id of the cluster (patient, user, document) in which each instance was drawn, if they
            were not drawn one by one: folds leave clusters whole.
        """
        check_is_quantifier(self.quantifier)
        reader, X, schema = read_training(self.quantifier, refuse_masked(X, "X"))
        self._remember_features(X)
        codes, classes = self._labels(y)
        check_consistent_length(X, codes)
        weights = None if sample_weight is None else check_weights(sample_weight, len(codes))
        parts, X = self._parts(reader, codes, classes), indexable(X)[0]
        drawn = training_clusters(clusters, len(codes))
        jobs = [partial(_fit_member, part, "fit", X, weights, drawn) for part in parts]
        members = run_jobs(jobs, self.n_jobs)
        return self._combine(members, self._combination(parts, classes), codes, classes, schema)

    @unfitted_on_failure
    def fit_posteriors(
        self,
        posteriors: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Fit the members on posteriors.

        Parameters
        ----------
        posteriors : array-like of shape (n, k)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
        clusters : array-like of shape (n,), optional
            As for :meth:`fit`.
        """
        if not self._takes_posteriors:
            raise TypeError(
                f"quantifier={type(self.quantifier).__name__}() works on features, not on "
                "posteriors: use fit and predict"
            )
        codes, classes = self._labels(y)
        p = check_posteriors(posteriors, classes=classes)
        check_consistent_length(p, codes)
        weights = None if sample_weight is None else check_weights(sample_weight, len(codes))
        parts = self._parts(self.quantifier, codes, classes)
        rule = self._combination(parts, classes)
        drawn = training_clusters(clusters, len(codes))
        members = [
            _fit_member(part, "fit_posteriors", rule.member_posteriors(p, number), weights, drawn)
            for number, part in enumerate(parts)
        ]
        return self._combine(members, rule, codes, classes)

    def _combine(
        self,
        members: Sequence[AnyModel],
        rule: Combination,
        codes: Indices,
        classes: NDArray[Any],
        schema: TableSchema | None = None,
    ) -> Self:
        """Make the model that combines fitted members."""
        scorer: InstanceScorer = self._scorer(schema=schema)
        prevalence = shares_of(codes, None, len(classes))
        self.model_ = CombinedModel(classes, prevalence, tuple(members), rule, scorer)
        return self

    def _inner_estimator(self) -> Any:
        return self.quantifier

    def _read_training(self, X: Any) -> tuple[Self, Any, TableSchema | None]:
        """Learn how the quantifier inside reads tables."""
        reader, features, schema = read_training(self.quantifier, X)
        if schema is None:
            return self, X, None
        return clone(self).set_params(quantifier=reader), features, schema

    @property
    def _takes_posteriors(self) -> bool:  # type: ignore[override]
        """Whether the quantifier inside works on posteriors."""
        return as_quantifier(self.quantifier)._takes_posteriors


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

    param_grid: Any = field(kw_only=False)

    def _parts(
        self, quantifier: QuantifierLike, codes: Indices, classes: NDArray[Any]
    ) -> list[MemberData]:
        settings = list(ParameterGrid(self.param_grid))
        if not settings:
            raise ValueError("param_grid must hold at least one setting")
        labels = classes[codes]
        return [(clone(quantifier).set_params(**setting), labels, None) for setting in settings]


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

    def combine(self, parts: list[Solution]) -> Solution:
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

    normalisation: str = "l1"

    def _parts(
        self, quantifier: QuantifierLike, codes: Indices, classes: NDArray[Any]
    ) -> list[MemberData]:
        check_choice(self.normalisation, "normalisation", _NORMALISATIONS)
        return [(quantifier, codes == i, None) for i in range(len(classes))]

    def _combination(self, parts: Sequence[MemberData], classes: NDArray[Any]) -> OneAgainstRest:
        return OneAgainstRest(self.normalisation)


_REDUCTIONS = ("mean", "median")
_SELECTIONS = ("all", "prevalence")


@dataclass(frozen=True, eq=False)
class Votes(Combination):
    """The mean or median of members, or of those that suit a bag.

    Attributes
    ----------
    reduction : {"mean", "median"}
    n_kept : int
        How many members are kept for each bag: those whose training prevalence is closest to a
        first estimate by all.
    prevalences : array of shape (n_members, k)
        Of the training bags.
    """

    reduction: str
    n_kept: int
    prevalences: Array

    def combine(self, parts: list[Solution]) -> Solution:
        """Return the mean or median of the members that are kept for each bag."""
        votes = np.stack([part.prevalence for part in parts])
        answer = self._reduced(votes)
        if self.n_kept < len(parts):
            distance = np.abs(self.prevalences[:, None, :] - answer).sum(axis=2)
            rank = distance.argsort(axis=0, kind="stable").argsort(axis=0)
            answer = self._reduced(np.where((rank < self.n_kept)[:, :, None], votes, np.nan))
        return combined_solution(answer, parts)

    def _reduced(self, votes: Array) -> Array:
        reduce = np.nanmean if self.reduction == "mean" else np.nanmedian
        merged = reduce(votes, axis=0)
        return np.asarray(merged / merged.sum(axis=1, keepdims=True))


class Ensemble(WrapperQuantifier):
    """Many copies of a quantifier, fitted on training bags of different prevalences.

    Training prevalences are drawn uniformly from the simplex (Pérez-Gállego, Quevedo and
    del Coz, 2017; with HDy inside it is EHDy).

    Parameters
    ----------
    quantifier : quantifier
        Cloned for every member.
    n_members : int
    size : int, optional
        Instances per training bag; default: the size of the training set.
    min_per_class : int
        Smallest number of instances of each class in a bag (drawn with replacement if the class
        has fewer).
    reduction : {"mean", "median"}
    selection : {"all", "prevalence"}
        Which members are averaged. "prevalence": for each bag, those whose training prevalence is
        closest to a first estimate by all of them.
    n_selected : int, optional
        How many members a selection keeps; default: half of them.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Number of members fitted in parallel.

    Attributes
    ----------
    model_ : :class:`~kdey.model.CombinedModel`
        Its ``combination`` has the prevalences of the training bags.

    See Also
    --------
    kdey.Median : Median over settings of a method.
    kdey.Quantifier : Several classifiers and methods combined; the default choice.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import PACC, Ensemble
    >>> X, y = load_iris(return_X_y=True)
    >>> q = Ensemble(PACC(), n_members=3, random_state=0).fit(X[::2], y[::2])
    >>> q.predict(X[1::2][y[1::2] < 2]).round(1)
    array([0.5, 0.5, 0. ])
    """

    n_members: int = 30
    size: int | None = None
    min_per_class: int = 5
    reduction: str = "mean"
    selection: str = "all"
    n_selected: int | None = None
    random_state: Any = None

    @property
    def _draws_at_fit(self) -> bool:
        return True

    def _parts(
        self, quantifier: QuantifierLike, codes: Indices, classes: NDArray[Any]
    ) -> list[MemberData]:
        """Draw the training bags."""
        self._check_parameters()
        rng, k = check_random_state(self.random_state), len(classes)
        # RandomState is scikit-learn's convention; the simplex draws from a Generator.
        generator = np.random.default_rng(rng.randint(2**31 - 1))
        prevalences = sample_uniform(k, self.n_members, generator)
        size = len(codes) if self.size is None else self.size
        members = [np.flatnonzero(codes == i) for i in range(k)]
        counts = np.maximum(np.round(prevalences * size).astype(np.int64), self.min_per_class)
        parts: list[MemberData] = []
        for row in counts:
            pairs = zip(members, row, strict=True)
            rows = np.concatenate([generator.choice(m, n, replace=n > len(m)) for m, n in pairs])
            parts.append((quantifier, classes[codes[rows]], rows))
        return parts

    def _check_parameters(self) -> None:
        check_choice(self.reduction, "reduction", _REDUCTIONS)
        check_choice(self.selection, "selection", _SELECTIONS)
        for name in ("n_members", "min_per_class", "size", "n_selected"):
            value = getattr(self, name)
            optional = name in ("size", "n_selected") and value is None
            if not optional and not (isinstance(value, int | np.integer) and value >= 1):
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
        if self.n_selected is not None and self.n_selected > self.n_members:
            raise ValueError(
                f"n_selected must be at most n_members={self.n_members}, got {self.n_selected}"
            )

    def _combination(self, parts: Sequence[MemberData], classes: NDArray[Any]) -> Votes:
        kept = self.n_members
        if self.selection == "prevalence":
            kept = max(1, kept // 2) if self.n_selected is None else int(self.n_selected)
        shares = np.stack([(labels[:, None] == classes).mean(axis=0) for _, labels, _ in parts])
        return Votes(self.reduction, kept, shares)


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
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Count the labels ``y`` of shape (n,), weighted by ``sample_weight`` if given.

        ``clusters`` change nothing, as nothing is learnt from instances.
        """
        self._remember_features(X)
        codes, classes = self._labels(y)
        check_consistent_length(X, codes)
        weights = None if sample_weight is None else check_weights(sample_weight, len(codes))
        prevalence = shares_of(codes, weights, len(classes))
        no_members, scorer = Combination(), self._scorer()
        self.model_ = CombinedModel(classes, prevalence, (), no_members, scorer)
        return self

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: the values of X are not used."""
        tags = super().__sklearn_tags__()
        tags.no_validation = True
        tags.input_tags.sparse = True
        return tags
