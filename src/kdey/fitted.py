"""A fitted quantifier as groups see it; everything else takes its model (:mod:`kdey.model`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.bags import Array, BagsLike
from kdey.intervals import Estimate, Estimates
from kdey.model import AnyModel, Model
from kdey.options import Options
from kdey.rows.base import TuningRecord
from kdey.tables.schema import TableSchema

Floats = NDArray[np.floating]
T = TypeVar("T")


class FittedQuantifier(Protocol):
    """A fitted quantifier as other parts of the library see it.

    Attributes
    ----------
    classes_ : array of shape (k,)
        Sorted labels; prevalences follow this order.
    prevalence_ : array of shape (k,)
        Class prevalences of the training data.
    n_jobs : int or None
    """

    classes_: NDArray[Any]
    prevalence_: Array
    n_jobs: int | None
    model_: AnyModel

    @property
    def answering(self) -> FittedQuantifier:
        """The quantifier that gives the answers: itself, or the best one of a search."""

    @property
    def takes_posteriors(self) -> bool:
        """Whether it works on posteriors, and so has ``aggregate`` and ``estimate_posteriors``."""

    @property
    def counts_decisions(self) -> bool:
        """Whether it uses no more of a posterior than the class that it decides for."""

    @property
    def n_score_columns(self) -> int:
        """The number of columns of posteriors that it takes."""

    @property
    def fitted_classifier(self) -> Any | None:
        """The classifier that scores instances; None if there is none, or more than one."""

    @property
    def fold_classifiers(self) -> Sequence[Any] | None:
        """The classifiers of the folds if they were kept (``keep_fold_models``), otherwise None."""

    @property
    def table_schema(self) -> TableSchema | None:
        """The columns of the training table; None if there was no table."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the training features; None if they had no names."""

    @property
    def n_features(self) -> int | None:
        """The number of training features; None if it was fitted on posteriors."""

    @property
    def tuning_record(self) -> TuningRecord | None:
        """The record of an automatic choice at ``fit``; None if nothing was left to choose."""

    def interval_model(self) -> Model | None:
        """Return the fitted stages of a method with rows and a matching; None for other methods."""

    def estimate_bags(
        self,
        X: Any,
        bags: BagsLike,
        *,
        clusters: ArrayLike | None = None,
        options: Options | None = None,
    ) -> Estimates:
        """Return estimates with confidence limits for bags over the pool ``X``."""

    def estimate_posteriors(
        self,
        posteriors: ArrayLike,
        bags: BagsLike | None = None,
        *,
        clusters: ArrayLike | None = None,
        options: Options | None = None,
    ) -> Estimate | Estimates:
        """Return estimates with confidence limits for bags over a pool of posteriors."""
