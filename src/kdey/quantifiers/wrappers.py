"""Quantifiers around others: the median over settings, one against all, one against one."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_consistent_length

from kdey._display import muted, warn
from kdey._parallel import run_jobs
from kdey.bags import Bags
from kdey.matching.base import Solution, median_solution
from kdey.quantifiers.base import BagSolver, PoolWork, unfitted_on_failure, without_fold_models
from kdey.quantifiers.foreign import QuantifierLike, WrapperQuantifier, as_quantifier
from kdey.simplex import check_posteriors
from kdey.validation import FewLabelsWarning, check_choice

_NORMALISATIONS = ("l1", "softmax")


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
    quantifiers_ : list of fitted quantifiers, one per setting

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

    @unfitted_on_failure
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit one clone of the quantifier per setting."""
        quantifier, X, _ = self._start_members(X, y)
        members = self._members(quantifier)
        self.quantifiers_ = run_jobs(
            [partial(_fit_member, member, X, y, sample_weight) for member in members], self.n_jobs
        )
        return self

    @unfitted_on_failure
    def fit_posteriors(
        self, posteriors: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit one clone per setting on posteriors of shape (n, k)."""
        self._check_takes_posteriors()
        self._start_fit(y)
        with muted(FewLabelsWarning):
            self.quantifiers_ = [
                member.fit_posteriors(posteriors, y, sample_weight)
                for member in self._members(self.quantifier)
            ]
        return self

    def _members(self, quantifier: QuantifierLike) -> list[Any]:
        settings = list(ParameterGrid(self.param_grid))
        if not settings:
            raise ValueError("param_grid must hold at least one setting")
        return [clone(quantifier).set_params(**setting) for setting in settings]

    def _on_pool(self, pool: PoolWork) -> BagSolver:
        solvers = [as_quantifier(q, self.classes_).on_pool(pool) for q in self.quantifiers_]
        return lambda bags: median_solution([solve(bags) for solve in solvers])

    def _solve_posteriors(self, posteriors: NDArray[np.floating], bags: Bags) -> Solution:
        self._check_takes_posteriors()
        return median_solution(
            [member.solve_posteriors(posteriors, bags) for member in self.quantifiers_]
        )


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
    quantifiers_ : list of k fitted binary quantifiers

    See Also
    --------
    kdey.OneVsOne : A binary method for many classes, by pairs.

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

    @unfitted_on_failure
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit one clone of the quantifier (and its classifier) per class."""
        self._check_normalisation()
        quantifier, X, codes = self._start_members(X, y)
        self.quantifiers_ = run_jobs(
            [
                partial(_fit_member, clone(quantifier), X, codes == i, sample_weight)
                for i in range(len(self.classes_))
            ],
            self.n_jobs,
        )
        return self

    @unfitted_on_failure
    def fit_posteriors(
        self, posteriors: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit one clone per class on (1 - p_i, p_i), for posteriors of shape (n, k)."""
        self._check_normalisation()
        self._check_takes_posteriors()
        codes = self._start_fit(y)
        p = check_posteriors(posteriors, classes=self.classes_)
        check_consistent_length(p, codes)
        with muted(FewLabelsWarning):
            self.quantifiers_ = [
                clone(self.quantifier).fit_posteriors(
                    _one_against_rest(p, i), codes == i, sample_weight
                )
                for i in range(len(self.classes_))
            ]
        return self

    def _solve_posteriors(self, posteriors: NDArray[np.floating], bags: Bags) -> Solution:
        self._check_takes_posteriors()
        return self._combine(
            [
                quantifier.solve_posteriors(_one_against_rest(posteriors, i), bags)
                for i, quantifier in enumerate(self.quantifiers_)
            ]
        )

    def _on_pool(self, pool: PoolWork) -> BagSolver:
        solvers = [as_quantifier(q, [False, True]).on_pool(pool) for q in self.quantifiers_]
        return lambda bags: self._combine([solve(bags) for solve in solvers])

    def _combine(self, parts: list[Solution]) -> Solution:
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
        unknown = np.full(len(positive), np.nan)
        n_iter = np.sum([part.n_iter for part in parts], axis=0)
        converged = np.all([part.converged for part in parts], axis=0) & ~empty
        return Solution(prevalence, unknown, unknown, n_iter, converged)

    def _check_normalisation(self) -> None:
        check_choice(self.normalisation, "normalisation", _NORMALISATIONS)


def _fit_member(
    quantifier: QuantifierLike, X: Any, y: ArrayLike, sample_weight: ArrayLike | None
) -> Any:
    extra = {} if sample_weight is None else {"sample_weight": sample_weight}
    with muted(FewLabelsWarning):  # the wrapper has said it
        quantifier.fit(X, y, **extra)
    return without_fold_models(quantifier)


def _one_against_rest(posteriors: NDArray[np.floating], label: int) -> NDArray[np.floating]:
    positive = np.clip(posteriors[:, label], 0.0, 1.0)
    return np.stack([1.0 - positive, positive], axis=1)
