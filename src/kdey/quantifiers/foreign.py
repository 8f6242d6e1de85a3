"""Wrapper of quantifiers from other libraries, which have ``fit`` and ``predict`` only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_consistent_length

from kdey.arrays import in_class_order, refuse_masked, take_rows
from kdey.bags import Bags
from kdey.matching.base import Solution
from kdey.quantifiers.base import BagSolver, BaseQuantifier, PoolWork, SettledTable
from kdey.quantifiers.on_posteriors import PosteriorsMixin
from kdey.validation import training_labels


class QuantifierLike(Protocol):
    """Anything with ``fit`` and ``predict`` for bags: quantifiers of kdey or of other libraries."""

    def fit(self, X: Any, y: Any) -> Any:
        """Fit on instances ``X`` with labels ``y``."""

    def predict(self, X: Any) -> Any:
        """Return the prevalences of the bag of all instances of ``X``."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, as scikit-learn's estimators do."""


class ForeignQuantifier(BaseQuantifier):
    """Adapter for objects with ``predict_bags(X, bags)`` or ``predict(X)``.

    There are no certificates: gaps are NaN, and finite answers count as converged. Answers with
    names (series of pandas, data frames) are matched with the classes by name.

    Parameters
    ----------
    quantifier : object
        Not cloned; ``fit`` fits it in place.
    classes : array-like of shape (k,), optional
        The labels of its prevalences, in their order, if it has no ``classes_``; by default the
        sorted labels of ``fit``.
    """

    def __init__(self, quantifier: Any, classes: ArrayLike | None = None) -> None:
        self.quantifier = quantifier
        self.classes = classes

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the quantifier inside."""
        extra = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.quantifier.fit(X, y, **extra)
        self._training_classes = training_labels(y, self.classes)[1]
        return self

    @property
    def classes_(self) -> Any:  # type: ignore[override]
        """The classes of the quantifier inside, or the labels that it was fitted on."""
        fallback = vars(self).get("_training_classes", self.classes)
        classes = getattr(self.quantifier, "classes_", fallback)
        if classes is None:
            raise AttributeError(
                f"{type(self.quantifier).__name__} has no classes_: fit it first, and if it never "
                "has them, set them to the sorted labels in fit"
            )
        return np.asarray(classes)

    def _check_points(self, X: Any) -> None:
        """Leave the check of features to the quantifier inside, which knows its training data."""
        refuse_masked(X, "X")

    def _on_pool(self, pool: PoolWork) -> BagSolver:
        return lambda bags: self._solve(pool.X, bags)

    def _solve(self, X: Any, bags: Bags) -> Solution:
        name, classes = type(self.quantifier).__name__, self.classes_
        if hasattr(self.quantifier, "predict_bags"):
            answers = self.quantifier.predict_bags(X, bags)
            prevalence = in_class_order(answers, classes, f"{name}.predict_bags(X, bags)")
        else:
            prevalence = [
                in_class_order(
                    self.quantifier.predict(take_rows(X, bag)), classes, f"{name}.predict(X)"
                )
                for bag in _repeated(bags, name)
            ]
        prevalence = np.asarray(prevalence, dtype=np.float64)
        expected = (len(bags), len(classes))
        if prevalence.shape != expected:
            raise ValueError(
                f"{name} must return prevalences of shape {expected}, got {prevalence.shape}"
            )
        unknown = np.full(len(bags), np.nan)
        finite = np.asarray(np.isfinite(prevalence).all(axis=1))
        return Solution(prevalence, unknown, unknown, np.zeros(len(bags), np.int64), finite)


def _repeated(bags: Bags, name: str) -> Iterator[NDArray[np.int64]]:
    """Yield the positions of each bag, repeated as often as their weights say."""
    for number, bag in enumerate(bags):
        weights = bags.bag_weights(number)
        counts = np.rint(weights)
        # Counts of a bootstrap have been multiplied and divided by the size of the bag.
        if not np.allclose(weights, counts, rtol=1e-9, atol=1e-9):
            raise ValueError(
                f"{name} has no predict_bags for weighted bags, and weights that are no whole "
                "numbers cannot be counts of repeated instances"
            )
        yield np.repeat(bag, counts.astype(np.int64))


def as_quantifier(quantifier: QuantifierLike, classes: ArrayLike | None = None) -> BaseQuantifier:
    """Return a quantifier of kdey unchanged, and any other object wrapped.

    Parameters
    ----------
    quantifier : quantifier
    classes : array-like of shape (k,), optional
        The labels that it was fitted on, for objects without ``classes_``.
    """
    if isinstance(quantifier, BaseQuantifier):
        return quantifier
    return ForeignQuantifier(quantifier, classes)


def settle_table(quantifier: QuantifierLike, X: Any) -> SettledTable:
    """Return a quantifier and its training instances, once it is decided how tables are read.

    Quantifiers of other libraries, and those that do not read tables by a schema, are returned as
    they are (:meth:`~kdey.quantifiers.base.BaseQuantifier.settle_table`).
    """
    settled = as_quantifier(quantifier).settle_table(X)
    return SettledTable(quantifier, X) if settled.schema is None else settled


def check_is_quantifier(quantifier: Any) -> None:
    """Raise TypeError unless ``quantifier`` is an instance with ``fit`` and ``predict``."""
    if isinstance(quantifier, type):
        name = quantifier.__name__
        raise TypeError(f"quantifier must be an instance, got the class {name}: pass {name}(...)")
    needed = ("fit", "predict", "get_params", "set_params")
    absent = [name for name in needed if not callable(getattr(quantifier, name, None))]
    if absent:
        raise TypeError(
            f"quantifier must have {', '.join(needed)}, but {quantifier!r:.60} has no "
            f"{', '.join(absent)}; get_params and set_params come with sklearn.base.BaseEstimator"
        )


class WrapperQuantifier(PosteriorsMixin):
    """Base of the quantifiers that fit clones of another one (Median, OneVsAll, Ensemble)."""

    quantifier: QuantifierLike

    def inner_estimator(self) -> Any:
        """Return the quantifier that X is passed to."""
        return self.quantifier

    def _check_takes_posteriors(self) -> None:
        """Raise TypeError unless the quantifier inside works on posteriors."""
        if not self.takes_posteriors:
            raise TypeError(
                f"quantifier={type(self.quantifier).__name__}() works on features, not on "
                "posteriors: use fit and predict"
            )

    def settle_table(self, X: Any) -> SettledTable:
        """Settle how the quantifier inside reads tables."""
        inner = settle_table(self.quantifier, X)
        if inner.schema is None:
            return SettledTable(self, X)
        settled = clone(self).set_params(quantifier=inner.quantifier)
        return SettledTable(settled, inner.X, inner.schema)

    def _start_members(self, X: Any, y: ArrayLike) -> tuple[QuantifierLike, Any, NDArray[np.int64]]:
        """Check the training data, and keep the schema if they are a table.

        Returns
        -------
        quantifier : unfitted quantifier, to be cloned for each member
        X : training instances for it
        codes : int64 array of shape (n,)
        """
        check_is_quantifier(self.quantifier)
        inner = settle_table(self.quantifier, refuse_masked(X, "X"))
        self._check_training_points(inner.X)
        codes = self._start_fit(y, stacklevel=5)
        check_consistent_length(inner.X, codes)
        if inner.schema is not None:
            self.table_ = inner.schema
        return inner.quantifier, inner.X, codes

    @property
    def takes_posteriors(self) -> bool:
        """Whether the quantifier inside works on posteriors."""
        return as_quantifier(self.quantifier).takes_posteriors
