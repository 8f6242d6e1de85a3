"""Median: one quantifier at several settings, combined by the class-wise median."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import validate_data

from kdey.bags import Bags
from kdey.matching import median_solution
from kdey.quantifiers.base import BaseQuantifier, PosteriorsMixin
from kdey.quantifiers.failing import unfitted_on_failure
from kdey.quantifiers.pool import BagSolver, PoolWork
from kdey.solvers.solution import Solution
from kdey.threads import run_jobs


class Median(PosteriorsMixin, BaseQuantifier):
    """The median of one quantifier fitted at every setting of a grid.

    Parameters
    ----------
    quantifier : quantifier
        Cloned for every setting.
    param_grid : dict or list of dict
        As in scikit-learn's ``ParameterGrid``.
    n_jobs : int, optional
        Settings fitted at once.

    Attributes
    ----------
    quantifiers_ : list of fitted quantifiers, one per setting

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import KDEyCS, Median
    >>> X, y = load_iris(return_X_y=True)
    >>> q = Median(KDEyCS(), {"bandwidth": [0.05, 0.1, 0.2]}).fit(X[::2], y[::2])
    >>> q.predict(X[1::2][y[1::2] < 2]).round(1)
    array([0.5, 0.5, 0. ])
    """

    def __init__(self, quantifier: Any, param_grid: Any, *, n_jobs: int | None = None) -> None:
        self.quantifier = quantifier
        self.param_grid = param_grid
        self.n_jobs = n_jobs

    @unfitted_on_failure
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit one clone of the quantifier per setting."""
        validate_data(self, X, skip_check_array=True)
        self._start_fit(y)
        members = self._members()
        self.quantifiers_ = run_jobs(
            [partial(_fit, member, X, y, sample_weight) for member in members], self.n_jobs
        )
        return self

    @unfitted_on_failure
    def fit_posteriors(
        self, posteriors: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit one clone per setting on posteriors of shape (n, k)."""
        self._start_fit(y)
        self.quantifiers_ = [
            member.fit_posteriors(posteriors, y, sample_weight) for member in self._members()
        ]
        return self

    def _members(self) -> list[Any]:
        settings = list(ParameterGrid(self.param_grid))
        if not settings:
            raise ValueError("param_grid must hold at least one setting")
        return [clone(self.quantifier).set_params(**setting) for setting in settings]

    def _on_pool(self, pool: PoolWork) -> BagSolver:
        solvers = [member.on_pool(pool) for member in self.quantifiers_]
        return lambda bags: median_solution([solve(bags) for solve in solvers])

    def _solve_posteriors(self, posteriors: NDArray[np.floating], bags: Bags) -> Solution:
        return median_solution(
            [member.solve_posteriors(posteriors, bags) for member in self.quantifiers_]
        )


def _fit(quantifier: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Any:
    extra = {} if sample_weight is None else {"sample_weight": sample_weight}
    return quantifier.fit(X, y, **extra)
