"""Quantifiers of other libraries, which have ``fit`` and ``predict`` only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from kdey._parallel import thread_count
from kdey.arrays import refuse_masked
from kdey.model import AnyModel, BagSolver, ForeignModel, Pool
from kdey.quantifiers.base import BaseQuantifier, SettledTable, shares_of
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

    See :class:`~kdey.model.ForeignModel` for its answers.

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
        codes, known = training_labels(y, self.classes)
        self._training = known, shares_of(codes, None, len(known))
        return self

    @property
    def model_(self) -> ForeignModel:  # type: ignore[override]
        """The quantifier inside, with its classes, or the labels that it was fitted on."""
        fallback, shares = vars(self).get("_training", (self.classes, None))
        classes = getattr(self.quantifier, "classes_", fallback)
        if classes is None:
            raise AttributeError(
                f"{type(self.quantifier).__name__} has no classes_: fit it first, and if it never "
                "has them, set them to the sorted labels in fit"
            )
        known = np.asarray(classes)
        prevalence = np.full(len(known), np.nan) if shares is None else shares
        return ForeignModel(known, prevalence, self.quantifier)

    def _fitted_model(self) -> AnyModel:
        return self.model_

    def _check_points(self, X: Any) -> None:
        """Leave the check of features to the quantifier inside, which knows its training data."""
        refuse_masked(X, "X")


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


def pool_solver(quantifier: QuantifierLike, pool: Pool, n_jobs: int | None = None) -> BagSolver:
    """Do the work per instance of a pool; return the map from bags to their solutions.

    Quantifiers that share a classifier and a pool also share the posteriors.

    Parameters
    ----------
    quantifier : fitted quantifier
    pool : Pool
    n_jobs : int, optional
        Native threads; overrides the ``n_jobs`` of the quantifier.
    """
    shell = as_quantifier(quantifier)
    model, place = shell._fitted_model(), shell._place()
    shell._check_points(pool.X)
    if n_jobs is not None:
        place = replace(place, n_threads=thread_count(n_jobs))
    return model.solver(model.points(pool), place)


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
