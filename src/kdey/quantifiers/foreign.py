"""Wrapper of quantifiers from other libraries, which have ``fit`` and ``predict`` only."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import _safe_indexing

from kdey.bags import Bags
from kdey.quantifiers.base import BagSolver, BaseQuantifier, PoolWork, PosteriorsMixin
from kdey.solvers.solution import Solution


class QuantifierLike(Protocol):
    """Anything with ``fit`` and ``predict`` for bags: quantifiers of kdey or of other libraries."""

    def fit(self, X: Any, y: Any) -> Any:
        """Fit on instances ``X`` with labels ``y``."""

    def predict(self, X: Any) -> Any:
        """Return the prevalences of the bag of all instances of ``X``."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, as scikit-learn's estimators do."""


class ForeignQuantifier(BaseQuantifier):
    """Adapter for objects with ``classes_`` and ``predict_bags(X, bags)`` or ``predict(X)``.

    There are no certificates: gaps are NaN, and finite answers count as converged.

    Parameters
    ----------
    quantifier : object
        Not cloned; ``fit`` fits it in place.
    """

    def __init__(self, quantifier: Any) -> None:
        self.quantifier = quantifier

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the quantifier inside."""
        extra = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.quantifier.fit(X, y, **extra)
        return self

    @property
    def classes_(self) -> Any:  # type: ignore[override]
        """The classes of the quantifier inside."""
        return self.quantifier.classes_

    def on_pool(self, pool: PoolWork) -> BagSolver:
        """Return the map from bags to solutions, which have prevalences only."""
        return lambda bags: self._solve(pool.X, bags)

    def _solve(self, X: Any, bags: Bags) -> Solution:
        name = type(self.quantifier).__name__
        if hasattr(self.quantifier, "predict_bags"):
            answers = self.quantifier.predict_bags(X, bags)
        elif bags.weights is not None:
            raise ValueError(f"{name} has no predict_bags for weighted bags")
        else:
            answers = [self.quantifier.predict(_safe_indexing(X, bag)) for bag in bags]
        prevalence = np.asarray(answers, dtype=np.float64)
        expected = (len(bags), len(self.classes_))
        if prevalence.shape != expected:
            raise ValueError(
                f"{name} must return prevalences of shape {expected}, got {prevalence.shape}"
            )
        unknown = np.full(len(bags), np.nan)
        finite = np.asarray(np.isfinite(prevalence).all(axis=1))
        return Solution(prevalence, unknown, unknown, np.zeros(len(bags), np.int64), finite)


def as_quantifier(quantifier: QuantifierLike) -> BaseQuantifier:
    """Return a quantifier of kdey unchanged, and any other object wrapped."""
    return quantifier if isinstance(quantifier, BaseQuantifier) else ForeignQuantifier(quantifier)


class WrapperQuantifier(PosteriorsMixin):
    """Base of the quantifiers that fit clones of another one (Median, OneVsAll, Ensemble)."""

    quantifier: QuantifierLike

    def inner_estimator(self) -> Any:
        """Return the quantifier that X is passed to."""
        return self.quantifier

    @property
    def takes_posteriors(self) -> bool:
        """Whether the quantifier inside works on posteriors."""
        return as_quantifier(self.quantifier).takes_posteriors

    def _check_takes_posteriors(self) -> None:
        if not self.takes_posteriors:
            raise TypeError(
                f"quantifier={type(self.quantifier).__name__}() works on features, not on "
                "posteriors: use fit and predict"
            )
