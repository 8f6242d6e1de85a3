"""Estimation with labels: three estimates side by side, a test and a sentence.

The steps: the estimate without labels, the joint estimate under label shift, predictions adapted to
it, from these the prediction-powered estimate and the test, and the labels alone.

No estimate is chosen by the test: choosing by a test with little power gives limits that cover too
rarely. The prediction-powered estimate is believed unless the caller says otherwise, because its
limits hold whatever has shifted; the test says what the estimate under label shift is worth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.bags import Array, Bags, sampled_bags
from kdey.intervals.estimate import Decisions, Estimate
from kdey.intervals.merging import Merging
from kdey.labelled.label_shift import (
    LabelPredictor,
    LabelShiftTest,
    joint_solution,
    label_shift_shares,
    label_shift_test,
    without_labels,
)
from kdey.labelled.sample import (
    Labelled,
    LabelledSample,
    Shares,
    labelled_sample,
    labels_alone,
    prediction_powered,
    sample_offsets,
)
from kdey.matching.base import Solution, exact_solution
from kdey.model import Model
from kdey.options import LABEL_SHIFT, LABELS, PREDICTION_POWERED, WAYS, Options
from kdey.rows.base import Rows

#: The note of bags in which every instance has a label.
ALL_LABELLED = "every instance has a label, so that the three estimates are the same"
#: The note of methods on features, which predict no labels.
NO_PREDICTIONS = (
    "the method works on features and predicts no labels: the prediction-powered estimate is that "
    "of the labels alone"
)
#: Why each estimate may be believed.
_REASONS = {
    PREDICTION_POWERED: "whose limits hold whatever has changed since training",
    LABELS: "as asked for, which makes no use of the classifier",
    LABEL_SHIFT: "as asked for, which holds only if nothing but the prevalences has changed",
}


@dataclass(frozen=True, eq=False, repr=False)
class LabelledEstimate(Estimate):
    """Prevalences of one bag of which some instances have labels.

    ``estimate``, ``low`` and ``high`` are those of the way that is believed.

    Attributes
    ----------
    alternatives : dict of str to Estimate
        "label-shift": labels as one-hot rows of the likelihood, valid if only the prevalences have
        changed since training. "labels": shares among the labels. "prediction-powered": mean
        predictions, corrected by the labels, valid whatever has changed.
    believed : str
        The key of the alternative that is believed.
    n_labels : int
    shift_test : LabelShiftTest or None
        The test of label shift; None if the method keeps no training posteriors.
    """

    alternatives: dict[str, Estimate] = field(default_factory=dict)
    believed: str = PREDICTION_POWERED
    n_labels: int = 0
    shift_test: LabelShiftTest | None = None

    @property
    def verdict(self) -> str:
        """Which estimate is believed and why, in one or two sentences."""
        believed, test = self.believed, self.shift_test
        labels = "1 label" if self.n_labels == 1 else f"{self.n_labels:,} labels"
        first = f"with {labels} of this bag, believe the {believed} estimate, {_REASONS[believed]}"
        if test is None:
            return f"{first}; label shift could not be tested, because no training data are kept"
        p = f"p = {test.p_value:.2g}"
        if test.rejected:
            warning = "do not use" if believed != LABEL_SHIFT else "you should not use"
            return (
                f"{first}; the labels contradict label shift ({p}): {warning} the estimate under it"
            )
        widths = {name: float((e.high - e.low).mean()) for name, e in self.alternatives.items()}
        return (
            f"{first}; the labels do not contradict label shift ({p}), under which the limits are "
            f"{widths[LABEL_SHIFT]:.3f} wide on average instead of "
            f"{widths[PREDICTION_POWERED]:.3f}, but labels cannot prove it"
        )

    def with_diagnostics(self, details: dict[str, Any]) -> LabelledEstimate:
        """Return the result with more diagnostics, such as the verdict of the fit check."""
        parts = {
            name: replace(part, diagnostics={**part.diagnostics, **details})
            for name, part in self.alternatives.items()
        }
        diagnostics = {**self.diagnostics, **details}
        return replace(self, alternatives=parts, diagnostics=diagnostics)

    def merge(self, merge: Mapping[Any, Any]) -> Estimate:
        """Raise ValueError: the limits of a sum need the labels, so merge when estimating."""
        raise ValueError(
            "the limits of a sum of classes need the labels themselves: use estimate(..., "
            "labelled=..., merge=...)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate and its alternatives as plain Python values."""
        test = self.shift_test
        return {
            **super().to_dict(),
            "believed": self.believed,
            "n_labels": self.n_labels,
            "verdict": self.verdict,
            "label_shift_test": None if test is None else test.to_dict(),
            "alternatives": {name: part.to_dict() for name, part in self.alternatives.items()},
        }


def estimate_labelled(
    model: Model,
    points: NDArray[Any],
    labelled: Labelled,
    options: Options,
    *,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    merge: Mapping[Any, Any] | None = None,
    n_threads: int = 1,
) -> LabelledEstimate:
    """Return the estimates of the bag of all points, of which some have labels.

    Parameters
    ----------
    model : Model
    points : array of shape (m, d)
        Posteriors or features of all instances, as ``model.takes_posteriors`` says.
    labelled : pair of array-likes of shape (n,)
        Positions of the labelled instances in the bag, and their labels.
    options : Options
        Among them ``selection``, the probability with which each labelled instance was chosen for
        labelling, and ``believe``, the way that is believed.
    sample_weight, clusters : array-likes of shape (m,), optional
        As for ``estimate``.
    merge : mapping, optional
        As for :meth:`kdey.Estimate.merge`.

    Returns
    -------
    LabelledEstimate

    Raises
    ------
    ValueError
        If labels or options do not fit the bag.
    """
    sample = labelled_sample(
        labelled,
        model.classes,
        len(points),
        weights=sample_weight,
        selection=options.selection,
        clusters=sampled_bags(Bags.whole(len(points)), clusters).codes,
    )
    merging = None if merge is None else Merging.of(merge, model.classes)
    found = estimate_labelled_bags(model, points, [sample], options, merging, n_threads=n_threads)
    return found[0]


def estimate_labelled_bags(
    model: Model,
    points: NDArray[Any],
    samples: Sequence[LabelledSample],
    options: Options,
    merging: Merging | None = None,
    *,
    test: bool = True,
    n_threads: int = 1,
) -> list[LabelledEstimate]:
    """Return the estimates of many bags, in each of which some instances have labels.

    All bags are solved together, which takes a fraction of the time of one call per bag.

    Parameters
    ----------
    model : Model
    points : array of shape (total size of the samples, d)
        Posteriors or features of all instances, bag after bag.
    samples : sequence of LabelledSample
    options : Options
    merging : Merging, optional
        Groups of classes whose shares are wanted; by default every class by itself.
    test : bool
        Whether to test label shift, which takes most of the time.

    Returns
    -------
    list of LabelledEstimate
    """
    if not samples:
        return []
    groups = Merging.identity(model.classes) if merging is None else merging
    runs = [slice(a, b) for a, b in pairwise(sample_offsets(samples).tolist())]
    rows = model.row_map(points, n_threads)
    predictor = LabelPredictor.of(model, points, rows, n_threads)
    bases, solutions = _solve(model, points, rows, samples, options, n_threads)
    results = []
    for run, sample, base, solution in zip(runs, samples, bases, solutions, strict=True):
        f, moments, shift_test = None, None, None
        if predictor is not None:
            f, moments = predictor.predict(run, solution.prevalence[0], sample.bag_size)
        shares, notes = _shares(sample, base, solution, f, groups, options)
        alternatives = _alternatives(
            model, points[run], sample, shares, notes, solution, groups, options
        )
        if test and f is not None and moments is not None:
            shift_test = label_shift_test(f, moments, sample, options.random_state)
        results.append(_believed(alternatives, options.believe, sample.n_labels, shift_test))
    return results


def _solve(
    model: Model,
    points: NDArray[Any],
    rows: Rows,
    samples: Sequence[LabelledSample],
    options: Options,
    n_threads: int,
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
        rows = model.row_map(points, n_threads)
    chosen = [samples[number] for number in partial]
    unlabelled = list(without_labels(model, points, chosen, options, n_threads))
    joint = joint_solution(model, rows, chosen, unlabelled, n_threads)
    for position, number in enumerate(partial):
        bases[number], solutions[number] = unlabelled[position], joint[position : position + 1]
    return bases, solutions


def _shares(
    sample: LabelledSample,
    base: Estimate | None,
    solution: Solution,
    f: Array | None,
    groups: Merging,
    options: Options,
) -> tuple[dict[str, Shares], list[str]]:
    """Return the shares that each way gives, and notes."""
    tail, population = options.tail(len(groups.names)), options.target == "population"
    y = sample.one_hot @ groups.matrix.T
    shares = dict.fromkeys(WAYS, labels_alone(y, sample, tail, population))
    if base is None:
        return shares, [ALL_LABELLED]
    notes, joint = list(base.diagnostics["notes"]), solution.prevalence[0]
    shares[LABEL_SHIFT] = label_shift_shares(joint, sample, base, groups, options)
    if f is None:
        notes.append(NO_PREDICTIONS)
    else:
        merged = f @ groups.matrix.T
        shares[PREDICTION_POWERED] = prediction_powered(y, merged, sample, tail, population)
    return shares, notes


def _alternatives(
    model: Model,
    points: NDArray[Any],
    sample: LabelledSample,
    shares: dict[str, Shares],
    notes: list[str],
    solution: Solution,
    groups: Merging,
    options: Options,
) -> dict[str, Estimate]:
    """Return the three estimates of one bag."""
    decided = model.takes_posteriors
    decisions = Decisions(points, sample.bag(sample.members)) if decided else None
    counted = groups.decisions(decisions)
    return {
        way: Estimate(
            classes=groups.names,
            estimate=found.estimate,
            low=found.low,
            high=found.high,
            confidence=options.confidence,
            target=options.target,
            simultaneous=options.simultaneous,
            training_prevalence=groups.matrix @ model.prevalence,
            size=len(sample.members),
            gap=float(solution.gap[0]) if way == LABEL_SHIFT else np.nan,
            converged=bool(solution.converged[0]),
            uncertainty=found,
            decisions=counted,
            diagnostics={
                "effective_size": sample.bag_size,
                "effective_labels": sample.label_size,
                "notes": list(notes) if way != LABELS else [],
            },
        )
        for way, found in shares.items()
    }


def _believed(
    alternatives: dict[str, Estimate],
    believed: str,
    n_labels: int,
    shift_test: LabelShiftTest | None,
) -> LabelledEstimate:
    """Return the result whose estimate is the believed one of the alternatives."""
    chosen = alternatives[believed]
    values = {name: getattr(chosen, name) for name in chosen.__dataclass_fields__}
    result = LabelledEstimate(
        **values,
        alternatives=alternatives,
        believed=believed,
        n_labels=n_labels,
        shift_test=shift_test,
    )
    notes = [*chosen.diagnostics["notes"], result.verdict]
    return replace(result, diagnostics={**chosen.diagnostics, "notes": notes})
