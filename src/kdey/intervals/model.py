"""A fitted quantifier as intervals see it: its stages, and what is computed once per fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array
from kdey.intervals.class_rows import ClassRows, class_rows
from kdey.intervals.features import calibrated_map
from kdey.intervals.moments import Moments, training_moments
from kdey.matching.base import IntervalSource, Matching
from kdey.matching.likelihood import MaximiseLikelihood
from kdey.posteriors import TrainingPosteriors
from kdey.rows.base import RowMap, RowSpec
from kdey.validation import few_labels_note


@dataclass(frozen=True, eq=False)
class FittedModel:
    """The stages of a fitted quantifier.

    Attributes
    ----------
    classes : array of shape (k,)
    prevalence : array of shape (k,)
        Class prevalences of the training data.
    row_spec : RowSpec or None
        None if the user supplied the templates, so that none were learnt.
    row_map : RowMap
    matching : Matching
    training : TrainingPosteriors or None
        None if the user supplied the templates, so that none were learnt.
    on_posteriors : bool
        Whether the points of a bag are posteriors; otherwise they are features.
    n_threads : int
    """

    classes: NDArray[Any]
    prevalence: Array
    row_spec: RowSpec | None
    row_map: RowMap
    matching: Matching[Any]
    training: TrainingPosteriors | None
    on_posteriors: bool
    n_threads: int = 1

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return len(self.classes)

    @property
    def members(self) -> list[FittedModel]:
        """The models whose estimates a composite combines, by falling weight; or only this one."""
        if not self.row_map.is_composite:
            return [self]
        n = len(self.row_map.members)
        specs = (None,) * n if self.row_spec is None else self.row_spec.members
        return [
            replace(self, row_spec=spec, row_map=row_map, matching=self.matching.member)
            for spec, row_map in zip(specs, self.row_map.members, strict=True)
        ]

    @property
    def likelihood(self) -> MaximiseLikelihood | None:
        """The mixture likelihood that is maximised (by every member of an average), or None."""
        return self.matching.likelihood

    @property
    def is_learnt(self) -> bool:
        """Whether templates were learnt from training posteriors or features that are kept."""
        return self.training is not None and self.training.posteriors is not None

    @property
    def interval_source(self) -> IntervalSource:
        """Where limits come from by default; see :class:`Matching`."""
        if self.likelihood is not None:
            return "moments"
        source = self.matching.interval_source
        if source == "moments":
            return source if self.training is not None else "bootstrap"
        derivable = self.is_learnt and self.matching.bag_summary == "mean"
        return source if derivable else "bootstrap"

    @property
    def is_analytic(self) -> bool:
        """Whether limits follow from the moment equation for every bag."""
        return self.interval_source == "moments"

    @cached_property
    def class_rows(self) -> ClassRows | None:
        """Rows of the training instances as if these were new; None if nothing was learnt."""
        if self.training is None or not self.is_learnt:
            return None
        return class_rows(
            self.row_map, self.training, self.n_classes, self.moment_rows, self.n_threads
        )

    @cached_property
    def moment_map(self) -> RowMap:
        """The map whose rows are the densities or features of the moment equation.

        Likelihood methods on posteriors share calibrated posteriors (``features.py``), whichever
        rows and however many members they have; all others have their own rows, and so have pools
        of scores by several models, whose rows are calibrated posteriors.
        """
        if self.likelihood is None or not (self.on_posteriors and self.is_learnt):
            return self.row_map
        assert self.training is not None
        if self.training.required().shape[1] != self.n_classes:
            return self.row_map  # scores of several models, which the rows pool and calibrate
        return calibrated_map(self.training, self.n_classes)

    @property
    def has_calibrated_moments(self) -> bool:
        """Whether the moment equation has rows of its own."""
        return self.moment_map is not self.row_map

    @cached_property
    def moment_class_rows(self) -> ClassRows | None:
        """As :attr:`class_rows`, for the rows of the moment equation."""
        if not self.has_calibrated_moments:
            return self.class_rows
        assert self.training is not None
        return class_rows(
            self.moment_map,
            self.training,
            self.n_classes,
            lambda rows: densities(rows, logs=False),
            self.n_threads,
        )

    def moment_densities(self, points: NDArray[Any]) -> Array:
        """Return the densities (m, k) of points (m, d) in the moment equation of a likelihood."""
        rows = self.moment_map(points, self.n_threads).each()
        return (
            densities(rows, logs=False) if self.has_calibrated_moments else self.moment_rows(rows)
        )

    @cached_property
    def feature_moments(self) -> Moments:
        """Moments of rows that are features, which are the same for every bag."""
        if self.class_rows is None:
            raise ValueError(
                "analytic intervals need training posteriors: fit with a cv that is not None, or "
                "use method='bootstrap'"
            )
        return training_moments(self.class_rows, None)

    @property
    def rare(self) -> NDArray[np.bool_]:
        """Whether each class has fewer than two training instances (unknown spread), (k,)."""
        return self.label_counts < 2

    @property
    def label_counts(self) -> NDArray[np.int64]:
        """Number of training instances of each class that have a weight, shape (k,).

        So many as no class ever lacks if nothing is known of the training data.
        """
        if self.training is None:
            return np.full(self.n_classes, np.iinfo(np.int64).max)
        w = self.training.weights
        labels = self.training.labels if w is None else self.training.labels[w > 0]
        return np.bincount(labels, minlength=self.n_classes)

    @property
    def training_notes(self) -> tuple[str, ...]:
        """Sentences about the training data that belong beside every estimate."""
        note = few_labels_note(self.classes, self.label_counts)
        return () if note is None else (note,)

    def moment_rows(self, rows: NDArray[np.floating]) -> Array:
        """Return rows as the moment equation needs them: relative densities, or features."""
        if self.likelihood is None:
            return np.asarray(rows, dtype=np.float64)
        return densities(rows, self.likelihood.log_rows)


def densities(rows: NDArray[np.floating], logs: bool) -> Array:
    """Return class densities relative to the largest of each row.

    Parameters
    ----------
    rows : array of shape (n, k)
        Densities, or their logarithms.
    logs : bool
        Whether the rows are logarithms.

    Returns
    -------
    array of shape (n, k)
        Rows without any positive density become ones, as they say nothing about the classes.
    """
    array = np.asarray(rows, dtype=np.float64)
    if logs:
        largest = array.max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            array = np.exp(array - np.where(np.isneginf(largest), 0.0, largest))
    else:
        largest = array.max(axis=1, keepdims=True)
        array = array / np.where(largest > 0, largest, 1.0)
    empty = ~(array.max(axis=1) > 0)
    if empty.any():
        array[empty] = 1.0
    return array
