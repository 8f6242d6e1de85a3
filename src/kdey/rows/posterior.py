"""Rows made of the posteriors themselves: CC, PCC, ACC, PACC and EMQ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.calibration import make_calibrator
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import (
    Array,
    ArrayRows,
    RowMap,
    RowSpec,
    TemplateReplicator,
    class_means,
    no_templates,
)


def one_hot_argmax(posteriors: NDArray[np.floating]) -> Array:
    """Return the crisp decision of each row as a one-hot row, shape (m, k)."""
    crisp = np.zeros(posteriors.shape)
    crisp[np.arange(len(posteriors)), posteriors.argmax(axis=1)] = 1.0
    return crisp


@dataclass(frozen=True, eq=False)
class PosteriorMap(RowMap):
    """Row of an instance: its posterior, or its one-hot decision (``crisp``).

    ``templates`` is the (soft) misclassification matrix of shape (k, k): column i holds the mean
    row of training class i. It is empty, shape (k, 0), for methods that do not adjust.
    """

    templates: Array
    crisp: bool

    def __call__(self, points: NDArray[np.floating], n_threads: int = 1) -> ArrayRows:
        """Return the rows of posteriors of shape (m, k)."""
        rows = one_hot_argmax(points) if self.crisp else np.asarray(points, dtype=np.float64)
        return ArrayRows(rows)

    def influence_features(self, points: NDArray[Any]) -> Array | None:
        """Return the rows themselves where the method inverts their class means (ACC, PACC)."""
        return self(points).array if self.templates.size else None

    def replicate_templates(self, training: TrainingPosteriors) -> TemplateReplicator | None:
        """Return weighted class means of the training rows, by one product per class."""
        if not self.templates.size:
            return None
        rows = self(training.required()).array
        classes = [np.flatnonzero(training.labels == i) for i in range(self.templates.shape[1])]

        def replicate(weights: Array) -> Array:
            means = [_weighted_means(weights[:, where], rows[where]) for where in classes]
            return np.stack(means, axis=2)

        return replicate


def _weighted_means(weights: Array, rows: Array) -> Array:
    return np.asarray(weights @ rows / weights.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class PosteriorRows(RowSpec):
    """Spec of :class:`PosteriorMap`; ``adjusted`` asks for templates (ACC, PACC)."""

    crisp: bool
    adjusted: bool

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> PosteriorMap:
        """Return the map, with class means of the training rows where asked for."""
        empty = PosteriorMap(no_templates(n_classes), self.crisp)
        if not self.adjusted:
            return empty
        rows = empty(training.required()).array
        templates = class_means(rows, training.labels, n_classes, training.weights)
        return PosteriorMap(templates, self.crisp)


@dataclass(frozen=True, eq=False)
class RatioMap(RowMap):
    """Row of an instance: (calibrated) posterior over training prevalence, as EMQ needs it.

    By Bayes' rule p(y|x) / p(y) is the class density p(x|y) up to a factor of the row, and the
    mixture likelihood does not see such factors (Saerens, Latinne and Decaestecker, 2002).
    """

    prior: Array
    calibrator: Any

    @property
    def templates(self) -> Array:
        """No template: empty, shape (k, 0)."""
        return no_templates(len(self.prior))

    def __call__(self, points: NDArray[np.floating], n_threads: int = 1) -> ArrayRows:
        """Return the rows of posteriors of shape (m, k)."""
        p = points if self.calibrator is None else self.calibrator.transform(points)
        return ArrayRows(np.asarray(p, dtype=np.float64) / self.prior)

    def starting_prevalence(self) -> Array:
        """Return the training prevalence, where EM starts."""
        return np.asarray(self.prior / self.prior.sum())


@dataclass(frozen=True)
class RatioRows(RowSpec):
    """Spec of :class:`RatioMap`.

    Without calibration the training prevalence is exact (the labels'); with it, it is the mean
    calibrated posterior, as Alexandari, Kundaje and Shrikumar (2020) advise.
    """

    calibration: Any = None

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> RatioMap:
        """Return the map, with its calibrator fitted on the training posteriors."""
        w = training.weights
        if self.calibration is None:
            prior = np.bincount(training.labels, weights=w, minlength=n_classes).astype(np.float64)
            return RatioMap(prior / prior.sum(), None)
        calibrator = make_calibrator(self.calibration)
        p = training.required()
        calibrator.fit(p, training.labels, sample_weight=w)
        prior = np.average(calibrator.transform(p), axis=0, weights=w)
        # A calibrator that failed (and said so) may call a class impossible: no 0 / 0 for it.
        return RatioMap(np.maximum(prior, np.finfo(np.float64).tiny), calibrator)
