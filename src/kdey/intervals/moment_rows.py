"""The rows of a model in the moment equation: its own, or calibrated posteriors.

Any features give a valid moment equation, but not an equally sharp one. Those of a kernel density
fail with few labels: eight kernels send the other points of their class to the majority, and
leave-one-out rows of seven kernels are not those of eight. Calibrated posteriors have k + 1
parameters only, and are close to the efficient score of the bag's likelihood whichever method
estimates it. All likelihood methods on posteriors therefore share them.

What is computed from the training data is computed once per model.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey._display import muted
from kdey.bags import Array
from kdey.calibration import BCTS, Minimum
from kdey.intervals.class_rows import ClassRows, class_rows
from kdey.intervals.moments import Moments, training_moments
from kdey.matching.base import IntervalSource
from kdey.model import Model
from kdey.posteriors import TrainingPosteriors
from kdey.rows.base import RowMap
from kdey.rows.posterior import RatioMap


class RegularisedBCTS(BCTS):
    """BCTS to labels of which one in all, spread over the classes, is taken to be wrong.

    Without it the scale grows without bound where the training posteriors separate the classes, and
    posteriors between those of training would depend on where the fit happened to stop.
    """

    def _minimise(self, p: Array, hot: Array, weights: Array) -> Minimum:
        effective_size = float(weights.sum() ** 2 / (weights**2).sum())
        wrong = 1.0 / (effective_size + 1.0)
        return super()._minimise(p, (1.0 - wrong) * hot + wrong / p.shape[1], weights)


def calibrated_map(training: TrainingPosteriors, n_classes: int) -> RatioMap:
    """Return the map from posteriors to calibrated posteriors over training prevalences.

    Parameters
    ----------
    training : TrainingPosteriors
    n_classes : int

    Returns
    -------
    RatioMap
        Its rows are proportional to the class densities.
    """
    with muted(UserWarning):  # any features are valid, those of an unfinished fit too
        return RatioMap(RegularisedBCTS()).fit(training, n_classes)


def interval_source(model: Model) -> IntervalSource:
    """Return where intervals come from by default; see :class:`~kdey.matching.Matching`."""
    if model.likelihood is not None:
        return "moments"
    source = model.matching.interval_source
    if source == "moments":
        return source if model.training is not None else "bootstrap"
    derivable = model.is_learnt and model.matching.bag_summary == "mean"
    return source if derivable else "bootstrap"


def moment_map(model: Model) -> RowMap:
    """Return the map whose rows are the densities or features of the moment equation.

    Likelihood methods on posteriors share calibrated posteriors, whichever rows and however many
    members they have; all others have their own rows, and so have pools of scores by several
    models, whose rows are calibrated posteriors.
    """
    training, k = model.training, model.n_classes
    if model.likelihood is None or not (model.takes_posteriors and model.is_learnt):
        return model.row_map
    assert training is not None
    if training.required().shape[1] != k:
        return model.row_map  # scores of several models, which the rows pool and calibrate
    return model.derived("moment map", lambda: calibrated_map(training, k))


def has_calibrated_moments(model: Model) -> bool:
    """Return whether the moment equation has rows of its own."""
    return moment_map(model) is not model.row_map


def training_rows(model: Model, n_threads: int = 1) -> ClassRows | None:
    """Return rows of the training instances as if these were new; None if nothing was learnt."""
    training = model.training
    if training is None or not model.is_learnt:
        return None
    own = partial(moment_rows, model)
    return model.derived(
        "class rows", lambda: class_rows(model.row_map, training, model.n_classes, own, n_threads)
    )


def moment_training_rows(model: Model, n_threads: int = 1) -> ClassRows | None:
    """As :func:`training_rows`, for the rows of the moment equation."""
    training, row_map = model.training, moment_map(model)
    if row_map is model.row_map:
        return training_rows(model, n_threads)
    assert training is not None
    plain = partial(densities, logs=False)
    return model.derived(
        "moment class rows",
        lambda: class_rows(row_map, training, model.n_classes, plain, n_threads),
    )


def feature_moments(model: Model, n_threads: int = 1) -> Moments:
    """Return the moments of rows that are features, which are the same for every bag."""
    rows = training_rows(model, n_threads)
    if rows is None:
        raise ValueError(
            "analytic intervals need training posteriors: fit with a cv that is not None, or "
            "use method='bootstrap'"
        )
    return model.derived("feature moments", lambda: training_moments(rows, None))


def moment_densities(model: Model, points: NDArray[Any], n_threads: int = 1) -> Array:
    """Return the densities (m, k) of points (m, d) in the moment equation of a likelihood."""
    rows = moment_map(model)(points, n_threads).each()
    return (
        densities(rows, logs=False) if has_calibrated_moments(model) else moment_rows(model, rows)
    )


def moment_rows(model: Model, rows: NDArray[np.floating]) -> Array:
    """Return rows of the model as the moment equation needs them: relative densities, or features.

    Parameters
    ----------
    model : Model
    rows : array of shape (n, r)
        As the row map of the model returns them.
    """
    if model.likelihood is None:
        return np.asarray(rows, dtype=np.float64)
    return densities(rows, model.likelihood.log_rows)


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
