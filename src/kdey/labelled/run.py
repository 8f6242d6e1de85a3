"""Estimation with labels: from a fitted model and a labelled sample to three estimates and a test.

The steps: the estimate without labels, the joint estimate under label shift, predictions adapted to
it, from these the prediction-powered estimate and the test, and the labels alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey._support.validation import check_choice
from kdey.bags import Bags
from kdey.intervals import FittedModel, IntervalOptions
from kdey.intervals.estimate import Decisions, Estimate
from kdey.intervals.merging import Merging
from kdey.intervals.sampled_bags import sampled_bags
from kdey.labelled.estimate import (
    LABEL_SHIFT,
    LABELS,
    PREDICTION_POWERED,
    WAYS,
    LabelledEstimate,
    labelled_estimate,
)
from kdey.labelled.label_shift import joint_solution, label_shift_shares, without_labels
from kdey.labelled.prediction_powered import labels_alone, prediction_powered
from kdey.labelled.predictions import Predictions, predict_labels
from kdey.labelled.sample import Labelled, LabelledSample, effective_size, labelled_sample
from kdey.labelled.shares import LabelledUncertainty, Shares
from kdey.labelled.shift_test import LabelShiftTest, label_shift_test
from kdey.matching.interface import exact_solution
from kdey.solvers.solution import Solution

#: The note of bags in which every instance has a label.
ALL_LABELLED = "every instance has a label, so that the three estimates are the same"
#: The note of methods on features, which predict no labels.
NO_PREDICTIONS = (
    "the method works on features and predicts no labels: the prediction-powered estimate is that "
    "of the labels alone"
)


@dataclass(frozen=True, eq=False)
class LabelledRequest:
    """What a caller says about the labels of a bag.

    Attributes
    ----------
    labelled : pair of array-likes of shape (n,)
        Positions of the labelled instances in the bag, and their labels.
    selection : array-like of shape (n,), optional
        The probability with which each labelled instance was chosen for labelling.
    believe : {"prediction-powered", "label-shift", "labels"}
    merge : mapping, optional
        As for :meth:`kdey.Estimate.merge`.
    """

    labelled: Labelled
    selection: ArrayLike | None = None
    believe: str = PREDICTION_POWERED
    merge: Mapping[Any, Any] | None = None

    def estimate(
        self,
        model: FittedModel,
        points: NDArray[Any],
        options: IntervalOptions,
        sample_weight: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
    ) -> LabelledEstimate:
        """Return the estimates of the bag of all points.

        Parameters
        ----------
        model : FittedModel
        points : array of shape (m, d)
        options : IntervalOptions
        sample_weight, clusters : array-likes of shape (m,), optional
            As for ``estimate``.

        Returns
        -------
        LabelledEstimate

        Raises
        ------
        ValueError
            If the request does not fit the bag.
        """
        codes = sampled_bags(Bags.whole(len(points)), clusters).codes
        sample = labelled_sample(
            self.labelled,
            model.classes,
            len(points),
            weights=sample_weight,
            selection=self.selection,
            clusters=codes,
        )
        merging = None if self.merge is None else Merging.of(self.merge, model.classes)
        return estimate_labelled(
            model, points, sample, options, believe=self.believe, merging=merging
        )


def estimate_labelled(
    model: FittedModel,
    points: NDArray[Any],
    sample: LabelledSample,
    options: IntervalOptions,
    *,
    believe: str = PREDICTION_POWERED,
    merging: Merging | None = None,
) -> LabelledEstimate:
    """Return the estimates of a bag of which some instances have labels.

    Parameters
    ----------
    model : FittedModel
    points : array of shape (size, d)
        Posteriors or features of all instances, as ``model.on_posteriors`` says.
    sample : LabelledSample
    options : IntervalOptions
    believe : {"prediction-powered", "label-shift", "labels"}
        The way that is believed.
    merging : Merging, optional
        Groups of classes whose shares are wanted; by default every class by itself.

    Returns
    -------
    LabelledEstimate

    Raises
    ------
    ValueError
        If ``believe`` is none of the three.
    """
    check_choice(believe, "believe", WAYS)
    groups = Merging.identity(model.classes) if merging is None else merging
    tail, population = options.tail(len(groups.names)), options.target == "population"
    y = sample.one_hot @ groups.matrix.T
    labels = labels_alone(y, sample, tail, population)
    shares = dict.fromkeys(WAYS, labels)
    notes: list[str] = []
    rows = model.row_map(points, model.n_threads)
    size = effective_size(sample.shares(sample.members))
    if len(sample.unlabelled) == 0:
        solution = exact_solution((sample.label_weights @ sample.one_hot)[None])
        predictions = predict_labels(model, points, rows, solution.prevalence[0], size)
        notes.append(ALL_LABELLED)
    else:
        base = without_labels(model, points, sample, options)
        notes += base.diagnostics["notes"]
        solution = joint_solution(model, rows, sample, base)
        joint = solution.prevalence[0]
        shares[LABEL_SHIFT] = label_shift_shares(joint, sample, base, groups, options)
        predictions = predict_labels(model, points, rows, joint, size)
        if predictions is None:
            notes.append(NO_PREDICTIONS)
        else:
            f = predictions.f @ groups.matrix.T
            shares[PREDICTION_POWERED] = prediction_powered(y, f, sample, tail, population)
    parts = _Parts(model, points, sample, options, groups, solution, notes)
    alternatives = {name: parts.estimate(name, shares[name]) for name in WAYS}
    shift_test = _test(predictions, sample, options)
    return labelled_estimate(alternatives, believe, sample.n_labels, shift_test)


class _Parts:
    """What the three estimates of a bag have in common."""

    def __init__(
        self,
        model: FittedModel,
        points: NDArray[Any],
        sample: LabelledSample,
        options: IntervalOptions,
        groups: Merging,
        solution: Solution,
        notes: list[str],
    ) -> None:
        self.model, self.sample, self.options = model, sample, options
        self.groups, self.solution, self.notes = groups, solution, notes
        decisions = Decisions(points, sample.bag(sample.members)) if model.on_posteriors else None
        self.decisions = groups.decisions(decisions)

    def estimate(self, name: str, shares: Shares) -> Estimate:
        """Return the estimate with these shares."""
        solved = name == LABEL_SHIFT
        return Estimate(
            classes=self.groups.names,
            estimate=shares.estimate,
            low=shares.low,
            high=shares.high,
            confidence=self.options.confidence,
            target=self.options.target,
            simultaneous=self.options.simultaneous,
            training_prevalence=self.groups.matrix @ self.model.prevalence,
            size=len(self.sample.members),
            gap=float(self.solution.gap[0]) if solved else np.nan,
            converged=bool(self.solution.converged[0]),
            uncertainty=LabelledUncertainty(shares),
            decisions=self.decisions,
            diagnostics={
                "effective_size": effective_size(self.sample.shares(self.sample.members)),
                "effective_labels": self.sample.label_size,
                "notes": list(self.notes) if name != LABELS else [],
            },
        )


def _test(
    predictions: Predictions | None, sample: LabelledSample, options: IntervalOptions
) -> LabelShiftTest | None:
    if predictions is None or predictions.moments is None:
        return None
    seed = options.random_state
    return label_shift_test(predictions.f, predictions.moments, sample, seed=seed)
