"""Estimation with labels: from a fitted model and a labelled sample to three estimates and a test.

The steps: the estimate without labels, the joint estimate under label shift, predictions adapted to
it, from these the prediction-powered estimate and the test, and the labels alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey._support.validation import check_choice
from kdey.bags import Bags
from kdey.intervals import FittedModel
from kdey.intervals.estimate import Decisions, Estimate
from kdey.intervals.merging import Merging
from kdey.intervals.sampled_bags import sampled_bags
from kdey.labelled.estimate import LabelledEstimate, labelled_estimate
from kdey.labelled.label_shift import joint_solution, label_shift_shares, without_labels
from kdey.labelled.prediction_powered import labels_alone, prediction_powered
from kdey.labelled.predictions import LabelPredictor, Predictions
from kdey.labelled.sample import (
    Labelled,
    LabelledSample,
    effective_size,
    labelled_sample,
    sample_offsets,
)
from kdey.labelled.shares import LabelledUncertainty, Shares
from kdey.labelled.shift_test import LabelShiftTest, label_shift_test
from kdey.matching.interface import exact_solution
from kdey.options import LABEL_SHIFT, LABELS, PREDICTION_POWERED, WAYS, Options
from kdey.rows.interface import Rows
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
        options: Options,
        sample_weight: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
    ) -> LabelledEstimate:
        """Return the estimates of the bag of all points.

        Parameters
        ----------
        model : FittedModel
        points : array of shape (m, d)
        options : Options
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
    options: Options,
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
    options : Options
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
    request = BagRequest(believe, merging)
    return estimate_labelled_bags(model, points, [sample], options, request)[0]


@dataclass(frozen=True, eq=False)
class BagRequest:
    """What is asked about bags with labels.

    Attributes
    ----------
    believe : {"prediction-powered", "label-shift", "labels"}
        The way that is believed.
    merging : Merging, optional
        Groups of classes whose shares are wanted; by default every class by itself.
    test : bool
        Whether to test label shift, which takes most of the time.
    """

    believe: str = PREDICTION_POWERED
    merging: Merging | None = None
    test: bool = True


def estimate_labelled_bags(
    model: FittedModel,
    points: NDArray[Any],
    samples: Sequence[LabelledSample],
    options: Options,
    request: BagRequest | None = None,
) -> list[LabelledEstimate]:
    """Return the estimates of many bags, in each of which some instances have labels.

    All bags are solved together, which takes a fraction of the time of one call per bag.

    Parameters
    ----------
    model : FittedModel
    points : array of shape (total size of the samples, d)
        Posteriors or features of all instances, bag after bag.
    samples : sequence of LabelledSample
    options : Options
    request : BagRequest, optional

    Returns
    -------
    list of LabelledEstimate

    Raises
    ------
    ValueError
        If ``believe`` is none of the three ways.
    """
    request = BagRequest() if request is None else request
    check_choice(request.believe, "believe", WAYS)
    if not samples:
        return []
    merging = request.merging
    groups = Merging.identity(model.classes) if merging is None else merging
    offsets = sample_offsets(samples)
    runs = [slice(a, b) for a, b in pairwise(offsets.tolist())]
    rows = model.row_map(points, model.n_threads)
    predictor = LabelPredictor.of(model, points, rows)
    bases, solutions = _solve(model, points, rows, samples, options)
    results = []
    for run, sample, base, solution in zip(runs, samples, bases, solutions, strict=True):
        bag = _Bag(model, points[run], sample, options, groups)
        predictions = None
        if predictor is not None:
            predictions = predictor.predict(run, solution.prevalence[0], bag.size)
        alternatives = bag.alternatives(base, solution, predictions)
        test = _test(predictions, sample, options) if request.test else None
        results.append(labelled_estimate(alternatives, request.believe, sample.n_labels, test))
    return results


def _solve(
    model: FittedModel,
    points: NDArray[Any],
    rows: Rows,
    samples: Sequence[LabelledSample],
    options: Options,
) -> tuple[list[Estimate | None], list[Solution]]:
    """Return for each sample the estimate without labels, and the joint solution.

    A sample in which every instance has a label has no estimate without labels.
    """
    bases: list[Estimate | None] = [None] * len(samples)
    solutions = [exact_solution((s.label_weights @ s.one_hot)[None]) for s in samples]
    partial = [number for number, s in enumerate(samples) if len(s.unlabelled)]
    if not partial:
        return bases, solutions
    if len(partial) < len(samples):
        offsets = sample_offsets(samples)
        kept = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in partial])
        points = points[kept]
        rows = model.row_map(points, model.n_threads)
    chosen = [samples[number] for number in partial]
    unlabelled = list(without_labels(model, points, chosen, options))
    joint = joint_solution(model, rows, chosen, unlabelled)
    for position, number in enumerate(partial):
        bases[number], solutions[number] = unlabelled[position], joint[position : position + 1]
    return bases, solutions


class _Bag:
    """One bag, and what its three estimates have in common."""

    def __init__(
        self,
        model: FittedModel,
        points: NDArray[Any],
        sample: LabelledSample,
        options: Options,
        groups: Merging,
    ) -> None:
        self.model, self.sample, self.options, self.groups = model, sample, options, groups
        self.size = effective_size(sample.shares(sample.members))
        decisions = Decisions(points, sample.bag(sample.members)) if model.on_posteriors else None
        self.decisions = groups.decisions(decisions)

    def alternatives(
        self, base: Estimate | None, solution: Solution, predictions: Predictions | None
    ) -> dict[str, Estimate]:
        """Return the three estimates."""
        sample, options, groups = self.sample, self.options, self.groups
        tail, population = options.tail(len(groups.names)), options.target == "population"
        y = sample.one_hot @ groups.matrix.T
        shares = dict.fromkeys(WAYS, labels_alone(y, sample, tail, population))
        notes = [ALL_LABELLED] if base is None else list(base.diagnostics["notes"])
        if base is not None:
            joint = solution.prevalence[0]
            shares[LABEL_SHIFT] = label_shift_shares(joint, sample, base, groups, options)
            if predictions is None:
                notes.append(NO_PREDICTIONS)
            else:
                f = predictions.f @ groups.matrix.T
                shares[PREDICTION_POWERED] = prediction_powered(y, f, sample, tail, population)
        return {name: self._estimate(name, shares[name], solution, notes) for name in WAYS}

    def _estimate(
        self, name: str, shares: Shares, solution: Solution, notes: list[str]
    ) -> Estimate:
        """Return the estimate with these shares."""
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
            gap=float(solution.gap[0]) if name == LABEL_SHIFT else np.nan,
            converged=bool(solution.converged[0]),
            uncertainty=LabelledUncertainty(shares),
            decisions=self.decisions,
            diagnostics={
                "effective_size": self.size,
                "effective_labels": self.sample.label_size,
                "notes": list(notes) if name != LABELS else [],
            },
        )


def _test(
    predictions: Predictions | None, sample: LabelledSample, options: Options
) -> LabelShiftTest | None:
    if predictions is None or predictions.moments is None:
        return None
    seed = options.random_state
    return label_shift_test(predictions.f, predictions.moments, sample, seed=seed)
