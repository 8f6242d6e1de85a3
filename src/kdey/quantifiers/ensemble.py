"""Ensemble: one quantifier fitted on training bags of different prevalences (EHDy)."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing, check_random_state, indexable
from sklearn.utils.validation import check_consistent_length, validate_data

from kdey._support.threads import run_jobs
from kdey._support.validation import check_choice
from kdey._support.warnings import muted
from kdey.bags import Array, Bags
from kdey.labels import FewLabelsWarning
from kdey.quantifiers.base import (
    BagSolver,
    PoolWork,
    unfitted_on_failure,
)
from kdey.quantifiers.foreign import QuantifierLike, WrapperQuantifier
from kdey.simplex import check_posteriors, sample_uniform
from kdey.solvers.solution import Solution

Indices = NDArray[np.int64]
_REDUCTIONS = ("mean", "median")
_SELECTIONS = ("all", "prevalence")


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
        "prevalence" keeps, for each bag, the half of the members whose training prevalence is
        closest to a first estimate by all of them.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Number of members fitted in parallel.

    Attributes
    ----------
    quantifiers_ : list of fitted quantifiers
    member_prevalence_ : array of shape (n_members, k)

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
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.quantifier = quantifier
        self.n_members = n_members
        self.size = size
        self.min_per_class = min_per_class
        self.reduction = reduction
        self.selection = selection
        self.random_state = random_state
        self.n_jobs = n_jobs

    @unfitted_on_failure
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Draw the training bags and fit one clone of the quantifier on each."""
        validate_data(self, X, skip_check_array=True)
        codes = self._start_fit(y)
        check_consistent_length(X, codes, sample_weight)
        draws = self._draw(codes)
        X = indexable(X)[0]
        self.quantifiers_ = run_jobs(
            [
                partial(
                    _fit_member,
                    clone(self.quantifier),
                    X,
                    self.classes_[codes],
                    sample_weight,
                    draw,
                )
                for draw in draws
            ],
            self.n_jobs,
        )
        return self

    @unfitted_on_failure
    def fit_posteriors(
        self, posteriors: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Draw the training bags from posteriors of shape (n, k) and fit a clone on each."""
        codes = self._start_fit(y)
        p = check_posteriors(posteriors, len(self.classes_))
        check_consistent_length(p, codes, sample_weight)
        w = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        with muted(FewLabelsWarning):
            self.quantifiers_ = [
                clone(self.quantifier).fit_posteriors(
                    p[draw], self.classes_[codes[draw]], None if w is None else w[draw]
                )
                for draw in self._draw(codes)
            ]
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
        for name in ("n_members", "min_per_class", "size"):
            value = getattr(self, name)
            optional = name == "size" and value is None
            if not optional and not (isinstance(value, int | np.integer) and value >= 1):
                raise ValueError(f"{name} must be a positive integer, got {value!r}")

    def _on_pool(self, pool: PoolWork) -> BagSolver:
        solvers = [member.on_pool(pool) for member in self.quantifiers_]
        return lambda bags: self._combine([solve(bags) for solve in solvers])

    def _solve_posteriors(self, posteriors: NDArray[np.floating], bags: Bags) -> Solution:
        return self._combine(
            [member.solve_posteriors(posteriors, bags) for member in self.quantifiers_]
        )

    def _combine(self, parts: list[Solution]) -> Solution:
        votes = np.stack([part.prevalence for part in parts])
        keep = np.ones(votes.shape[:2], dtype=np.bool_)
        if self.selection == "prevalence":
            keep = self._nearest(self._reduce(votes, keep))
        prevalence = self._reduce(votes, keep)
        unknown = np.full(len(prevalence), np.nan)
        n_iter = np.sum([part.n_iter for part in parts], axis=0)
        converged = np.all([part.converged for part in parts], axis=0)
        return Solution(prevalence, unknown, unknown, n_iter, converged)

    def _nearest(self, first: Array) -> NDArray[np.bool_]:
        """Return which members are used for which bag, shape (n_members, n_bags)."""
        distance = np.abs(self.member_prevalence_[:, None, :] - first).sum(axis=2)
        rank = distance.argsort(axis=0, kind="stable").argsort(axis=0)
        return np.asarray(rank < max(1, len(distance) // 2))

    def _reduce(self, votes: Array, keep: NDArray[np.bool_]) -> Array:
        kept = np.where(keep[:, :, None], votes, np.nan)
        reduce = np.nanmean if self.reduction == "mean" else np.nanmedian
        merged = reduce(kept, axis=0)
        return np.asarray(merged / merged.sum(axis=1, keepdims=True))


def _fit_member(
    quantifier: QuantifierLike,
    X: Any,
    y: NDArray[Any],
    sample_weight: ArrayLike | None,
    draw: Indices,
) -> Any:
    extra = {}
    if sample_weight is not None:
        extra["sample_weight"] = np.asarray(sample_weight, dtype=np.float64)[draw]
    with muted(FewLabelsWarning):  # the ensemble has said it of all labels
        return quantifier.fit(_safe_indexing(X, draw), y[draw], **extra)
