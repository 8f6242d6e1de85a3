"""Ensemble: one quantifier fitted on training bags of different prevalences (EHDy)."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state, indexable
from sklearn.utils.validation import check_consistent_length

from kdey._display import muted
from kdey._parallel import run_jobs
from kdey.arrays import take_rows
from kdey.bags import Array, Bags
from kdey.matching.base import Solution
from kdey.metrics import absolute_error
from kdey.posteriors import ClassifierStage, predict_posteriors
from kdey.quantifiers.base import BagSolver, PoolWork, unfitted_on_failure, without_fold_models
from kdey.quantifiers.foreign import QuantifierLike, WrapperQuantifier, as_quantifier
from kdey.rows.histogram import HistogramRows
from kdey.simplex import check_posteriors, sample_uniform
from kdey.validation import FewLabelsWarning, check_choice, check_weights

Indices = NDArray[np.int64]
_REDUCTIONS = ("mean", "median")
_SELECTIONS = ("all", "prevalence", "accuracy", "distribution")
#: Bins per class of the histograms by which training bags are compared with a bag.
_BINS = 8


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
    selection : {"all", "prevalence", "accuracy", "distribution"}
        Which members are averaged. "prevalence": for each bag, those whose training prevalence is
        closest to a first estimate by all of them. "accuracy": at ``fit``, those with the smallest
        absolute error on the training bags of the others. "distribution": for each bag, those
        whose training bag has the most similar posteriors, by the mean Hellinger distance of
        histograms; posteriors come from a cross-validated logistic regression, or are those given
        to ``fit_posteriors`` (Pérez-Gállego, Castaño, Quevedo and del Coz, 2019).
    n_selected : int, optional
        How many members a selection keeps; default: half of them.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Number of members fitted in parallel.

    Attributes
    ----------
    quantifiers_ : list of fitted quantifiers
    member_prevalence_ : array of shape (n_members, k)
    selected_ : array of the numbers of the members that "accuracy" keeps; otherwise of all

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

    draws_at_fit = True

    def __init__(
        self,
        quantifier: QuantifierLike,
        *,
        n_members: int = 30,
        size: int | None = None,
        min_per_class: int = 5,
        reduction: str = "mean",
        selection: str = "all",
        n_selected: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.quantifier = quantifier
        self.n_members = n_members
        self.size = size
        self.min_per_class = min_per_class
        self.reduction = reduction
        self.selection = selection
        self.n_selected = n_selected
        self.random_state = random_state
        self.n_jobs = n_jobs

    @unfitted_on_failure
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Draw the training bags and fit one clone of the quantifier on each."""
        quantifier, X, codes = self._start_members(X, y)
        weights = None if sample_weight is None else check_weights(sample_weight, len(codes))
        draws = self._draw(codes)
        X = indexable(X)[0]
        self.quantifiers_ = run_jobs(
            [
                partial(
                    _fit_member,
                    clone(quantifier),
                    X,
                    self.classes_[codes],
                    weights,
                    draw,
                )
                for draw in draws
            ],
            self.n_jobs,
        )
        if self.selection == "distribution":
            self._describe(self._reference_posteriors(X, codes, sample_weight), draws)
        self._select(self._on_members(PoolWork(X)), draws, codes)
        return self

    @unfitted_on_failure
    def fit_posteriors(
        self, posteriors: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Draw the training bags from posteriors of shape (n, k) and fit a clone on each."""
        self._check_takes_posteriors()
        codes = self._start_fit(y)
        p = check_posteriors(posteriors, classes=self.classes_)
        check_consistent_length(p, codes)
        w = None if sample_weight is None else check_weights(sample_weight, len(codes))
        draws = self._draw(codes)
        with muted(FewLabelsWarning):
            self.quantifiers_ = [
                clone(self.quantifier).fit_posteriors(
                    p[draw], self.classes_[codes[draw]], None if w is None else w[draw]
                )
                for draw in draws
            ]
        self.__dict__.pop("reference_classifier_", None)
        if self.selection == "distribution":
            self._describe(p, draws)
        self._select(self._on_posteriors(p), draws, codes)
        return self

    def _draw(self, codes: Indices) -> list[Indices]:
        self._check_parameters()
        rng = check_random_state(self.random_state)
        k = len(self.classes_)
        # RandomState is scikit-learn's convention; the simplex draws from a Generator.
        generator = np.random.default_rng(rng.randint(2**31 - 1))
        prevalences = sample_uniform(k, self.n_members, generator)
        size = len(codes) if self.size is None else self.size
        members = [np.flatnonzero(codes == i) for i in range(k)]
        counts = np.maximum(np.round(prevalences * size).astype(np.int64), self.min_per_class)
        self.member_prevalence_ = counts / counts.sum(axis=1, keepdims=True)
        return [
            np.concatenate(
                [
                    generator.choice(m, n, replace=n > len(m))
                    for m, n in zip(members, row, strict=True)
                ]
            )
            for row in counts
        ]

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

    @property
    def _n_kept(self) -> int:
        return max(1, self.n_members // 2) if self.n_selected is None else int(self.n_selected)

    def _reference_posteriors(
        self, X: Any, codes: Indices, sample_weight: ArrayLike | None
    ) -> NDArray[np.floating]:
        """Fit the classifier by which bags are compared; return its out-of-sample posteriors."""
        from sklearn.linear_model import LogisticRegression  # slow to import

        classifier: Any = LogisticRegression(max_iter=1000)
        schema = self.table_schema
        if schema is not None:
            from kdey.tables.features import prepare, reading_tables

            classifier = reading_tables(prepare(classifier, schema.kinds), schema)
        stage = ClassifierStage(classifier, 5, 0)
        fitted = stage.fit(X, codes, self.classes_, sample_weight, self.n_jobs)
        self.reference_classifier_ = fitted.classifier
        return fitted.training.required()

    def _describe(self, posteriors: NDArray[np.floating], draws: list[Indices]) -> None:
        """Set ``member_histograms_`` from the posteriors (n, k) of all training instances."""
        bags = Bags.from_indices(draws, len(posteriors))
        self.member_histograms_ = _histograms(posteriors, bags)

    def _select(self, solvers: list[BagSolver], draws: list[Indices], codes: Indices) -> None:
        """Set ``selected_``: by the error on the training bags of the other members, or all."""
        self.selected_ = np.arange(len(solvers))
        if self.selection != "accuracy":
            return
        bags = Bags.from_indices(draws, len(codes))
        errors = np.stack(
            [absolute_error(self.member_prevalence_, solve(bags).prevalence) for solve in solvers]
        )
        np.fill_diagonal(errors, 0.0)  # a member is not judged by its own training bag
        best = np.argsort(errors.sum(axis=1), kind="stable")[: self._n_kept]
        self.selected_ = np.sort(best)

    def _on_members(self, pool: PoolWork) -> list[BagSolver]:
        return [as_quantifier(q, self.classes_).on_pool(pool) for q in self.quantifiers_]

    def _on_posteriors(self, posteriors: NDArray[np.floating]) -> list[BagSolver]:
        return [partial(member.solve_posteriors, posteriors) for member in self.quantifiers_]

    def _on_pool(self, pool: PoolWork) -> BagSolver:
        solvers = self._on_members(pool)
        posteriors: NDArray[np.floating] | None = None
        if self.selection == "distribution":
            if "reference_classifier_" not in vars(self):
                raise ValueError("this Ensemble was fitted on posteriors: use aggregate")
            posteriors = predict_posteriors(self.reference_classifier_, pool.X, self.classes_)
        return lambda bags: self._combine([solve(bags) for solve in solvers], posteriors, bags)

    def _solve_posteriors(self, posteriors: NDArray[np.floating], bags: Bags) -> Solution:
        self._check_takes_posteriors()
        solvers = self._on_posteriors(posteriors)
        return self._combine([solve(bags) for solve in solvers], posteriors, bags)

    def _combine(
        self, parts: list[Solution], posteriors: NDArray[np.floating] | None, bags: Bags
    ) -> Solution:
        votes = np.stack([part.prevalence for part in parts])
        keep = np.zeros(votes.shape[:2], dtype=np.bool_)
        keep[self.selected_] = True
        if self.selection == "prevalence":
            first = self._reduce(votes, keep)
            keep = self._nearest(np.abs(self.member_prevalence_[:, None, :] - first).sum(axis=2))
        elif self.selection == "distribution" and posteriors is not None:
            keep = self._nearest(_hellinger(self.member_histograms_, _histograms(posteriors, bags)))
        prevalence = self._reduce(votes, keep)
        unknown = np.full(len(prevalence), np.nan)
        n_iter = np.sum([part.n_iter for part in parts], axis=0)
        converged = np.all([part.converged for part in parts], axis=0)
        return Solution(prevalence, unknown, unknown, n_iter, converged)

    def _nearest(self, distance: Array) -> NDArray[np.bool_]:
        """Return which members are used for which bag, from distances (n_members, n_bags)."""
        rank = distance.argsort(axis=0, kind="stable").argsort(axis=0)
        return np.asarray(rank < self._n_kept)

    def _reduce(self, votes: Array, keep: NDArray[np.bool_]) -> Array:
        kept = np.where(keep[:, :, None], votes, np.nan)
        reduce = np.nanmean if self.reduction == "mean" else np.nanmedian
        merged = reduce(kept, axis=0)
        return np.asarray(merged / merged.sum(axis=1, keepdims=True))


def _histograms(posteriors: NDArray[np.floating], bags: Bags) -> Array:
    """Return the histograms of each bag, one per class, shape (n_bags, k, n_bins)."""
    codes = np.minimum((np.asarray(posteriors) * _BINS).astype(np.int64), _BINS - 1)
    return HistogramRows(codes, _BINS, cumulative=False).mean(bags).reshape(len(bags), -1, _BINS)


def _hellinger(members: Array, bags: Array) -> Array:
    """Return the Hellinger distance of histograms, averaged over classes, (n_members, n_bags)."""
    differences = np.sqrt(members)[:, None] - np.sqrt(bags)
    return np.asarray(np.sqrt((differences**2).sum(axis=3)).mean(axis=2))


def _fit_member(
    quantifier: QuantifierLike,
    X: Any,
    y: NDArray[Any],
    sample_weight: Array | None,
    draw: Indices,
) -> Any:
    extra = {} if sample_weight is None else {"sample_weight": sample_weight[draw]}
    with muted(FewLabelsWarning):  # the ensemble has said it of all labels
        quantifier.fit(take_rows(X, draw), y[draw], **extra)
    return without_fold_models(quantifier)
