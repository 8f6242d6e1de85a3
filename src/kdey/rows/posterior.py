"""Rows made of the posteriors themselves.

``PosteriorMap`` has the rows of CC, PCC, ACC and PACC, ``FriedmanMap`` those of
Friedman's method, ``RatioMap`` those of EMQ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.calibration import Calibrator, make_calibrator
from kdey.decisions import ClassifierOutput
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import (
    Array,
    ArrayRows,
    MeanRule,
    RowMap,
    RowSpec,
    TemplateReplicator,
    class_means,
    no_templates,
)

#: Relative error by which a number in single precision may have been rounded down.
_ROUNDING = 2.0**-22


@dataclass(frozen=True)
class PosteriorRows(RowSpec):
    """Spec of ``PosteriorMap``; with ``adjusted`` it has templates (ACC, PACC)."""

    crisp: bool
    adjusted: bool

    @property
    def needs(self) -> ClassifierOutput:
        """Decisions if they are counted, scores if templates are learnt, or probabilities."""
        if self.crisp:
            return "decisions"
        return "scores" if self.adjusted else "probabilities"

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> PosteriorMap:
        """Return the map, with class means of the training rows as templates if ``adjusted``."""
        unadjusted = PosteriorMap(no_templates(n_classes), self.crisp)
        if not self.adjusted:
            return unadjusted
        rows = unadjusted(training.required()).array
        templates = class_means(rows, training.labels, n_classes, training.weights)
        return PosteriorMap(templates, self.crisp)


@dataclass(frozen=True, eq=False)
class PosteriorMap(RowMap):
    """Row of an instance: its posterior, or its one-hot decision (``crisp``).

    ``templates`` is the (soft) misclassification matrix of shape (k, k): column i holds the mean
    row of training class i. It is empty, shape (k, 0), for methods without adjustment.
    """

    templates: Array
    crisp: bool

    def __call__(self, points: NDArray[np.floating], n_threads: int = 1) -> ArrayRows:
        """Return the rows of posteriors of shape (m, k)."""
        rows = one_hot_argmax(points) if self.crisp else np.asarray(points, dtype=np.float64)
        return ArrayRows(rows)

    @property
    def mean_rule(self) -> MeanRule:
        """Shares of decisions, or mean posteriors."""
        return "decisions" if self.crisp else "posteriors"

    @property
    def has_tensor_rows(self) -> bool:
        """True: a tensor can be compared and read like an array."""
        return True

    def tensor_rows(self, points: Any) -> Any:
        """Return the rows of a tensor of posteriors, shape (m, k)."""
        if not self.crisp:
            return points
        is_largest = points == points.amax(dim=1, keepdim=True)
        # Of several largest posteriors the first counts, as on the host.
        return (is_largest & (is_largest.cumsum(dim=1) == 1)).to(points.dtype)

    def influence_features(self, points: NDArray[Any]) -> Array | None:
        """Return the rows if the method inverts their class means (ACC, PACC), otherwise None."""
        return self(points).array if self.templates.size else None

    def replicate_templates(self, training: TrainingPosteriors) -> TemplateReplicator | None:
        """Return a function that computes weighted class means of the training rows."""
        if not self.templates.size:
            return None
        rows = self(training.required()).array
        classes = [np.flatnonzero(training.labels == i) for i in range(self.templates.shape[1])]

        def replicate(weights: Array) -> Array:
            means = [_weighted_means(weights[:, members], rows[members]) for members in classes]
            return np.stack(means, axis=2)

        return replicate


@dataclass(frozen=True)
class FriedmanRows(RowSpec):
    """Spec of ``FriedmanMap``; it has no parameters."""

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> FriedmanMap:
        """Return the map, with class means of the training rows as templates."""
        mass = np.bincount(training.labels, weights=training.weights, minlength=n_classes)
        untrained = FriedmanMap(np.empty((0, n_classes)), mass / mass.sum())
        rows = untrained(training.required()).array
        templates = class_means(rows, training.labels, n_classes, training.weights)
        return FriedmanMap(templates, untrained.prior)


@dataclass(frozen=True, eq=False)
class FriedmanMap(RowMap):
    """Row of an instance: whether each posterior reaches the training prevalence, and a one.

    The one says that prevalences sum to one, which the least squares on the simplex know anyway,
    and limits would not. ``templates`` has shape (k + 1, k).
    """

    templates: Array
    prior: Array

    def __call__(self, points: NDArray[np.floating], n_threads: int = 1) -> ArrayRows:
        """Return the rows of posteriors of shape (m, k)."""
        # A posterior that equals the prevalence reaches it in single precision, too.
        reached = np.asarray(points, dtype=np.float64) >= self.prior * (1.0 - _ROUNDING)
        return ArrayRows(np.hstack([reached, np.ones((len(reached), 1))]).astype(np.float64))

    @property
    def has_tensor_rows(self) -> bool:
        """True: a tensor can be compared like an array."""
        return True

    def tensor_rows(self, points: Any) -> Any:
        """Return the rows of a tensor of posteriors, shape (m, k + 1)."""
        exact = points.double()
        rows = exact.new_ones((len(points), points.shape[1] + 1))
        rows[:, :-1] = exact >= exact.new_tensor(self.prior * (1.0 - _ROUNDING))
        return rows

    def influence_features(self, points: NDArray[Any]) -> Array | None:
        """Return the indicators, whose class means the method inverts, shape (m, k)."""
        return self(points).array[:, :-1]


@dataclass(frozen=True)
class RatioRows(RowSpec):
    """Spec of ``RatioMap``.

    Without calibration the training prevalence is that of the labels; with calibration it is the
    mean calibrated posterior, as Alexandari, Kundaje and Shrikumar (2020) advise. ``pseudo_share``
    is that of :class:`kdey.problems.MixtureLikelihood`.
    """

    calibration: Any = None
    pseudo_share: float = 0.0

    @property
    def needs(self) -> ClassifierOutput:
        """Probabilities, which a calibration makes of scores."""
        return "probabilities" if self.calibration is None else "scores"

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> RatioMap:
        """Return the map, with its calibrator fitted on the training posteriors."""
        w = training.weights
        if self.calibration is None:
            prior = np.bincount(training.labels, weights=w, minlength=n_classes).astype(np.float64)
            return RatioMap(prior / prior.sum(), None, self.pseudo_share)
        calibrator = make_calibrator(self.calibration)
        p = training.required()
        calibrator.fit(p, training.labels, sample_weight=w)
        prior = np.average(calibrator.transform(p), axis=0, weights=w)
        # A calibrator that did not converge may give a class probability zero; this avoids 0 / 0.
        prior = np.maximum(prior, np.finfo(np.float64).tiny)
        return RatioMap(prior, calibrator, self.pseudo_share)


@dataclass(frozen=True, eq=False)
class RatioMap(RowMap):
    """Row of an instance: its (calibrated) posterior divided by the training prevalence, for EMQ.

    By Bayes' rule p(y|x) / p(y) is the class density p(x|y) up to a factor per row, and such
    factors do not change the maximum of the likelihood (Saerens, Latinne and Decaestecker, 2002).
    """

    prior: Array
    calibrator: Any
    pseudo_share: float = 0.0

    @property
    def templates(self) -> Array:
        """Empty, shape (k, 0): the method has no templates."""
        return no_templates(len(self.prior))

    def __call__(self, points: NDArray[np.floating], n_threads: int = 1) -> ArrayRows:
        """Return the rows of posteriors of shape (m, k)."""
        p = points if self.calibrator is None else self.calibrator.transform(points)
        return ArrayRows(np.asarray(p, dtype=np.float64) / self.prior)

    @property
    def has_tensor_rows(self) -> bool:
        """Whether posteriors are used as they are, or by a calibrator that takes tensors."""
        calibrator = self.calibrator
        return calibrator is None or (
            isinstance(calibrator, Calibrator) and calibrator.takes_tensors
        )

    def tensor_rows(self, points: Any) -> Any:
        """Return the rows of a tensor of posteriors, shape (m, k)."""
        calibrator = self.calibrator
        exact = points.double() if calibrator is None else calibrator.transform_tensor(points)
        return exact / exact.new_tensor(self.prior)

    def starting_prevalence(self) -> Array:
        """Return the training prevalence, from which EM starts."""
        return np.asarray(self.prior / self.prior.sum())


def one_hot_argmax(posteriors: NDArray[np.floating]) -> Array:
    """Return the most probable class of each row as a one-hot row, shape (m, k)."""
    crisp = np.zeros(posteriors.shape)
    crisp[np.arange(len(posteriors)), posteriors.argmax(axis=1)] = 1.0
    return crisp


def _weighted_means(weights: Array, rows: Array) -> Array:
    return np.asarray(weights @ rows / weights.sum(axis=1, keepdims=True))
