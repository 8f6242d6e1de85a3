"""The result of an estimate with labels: three estimates side by side, a test and a sentence.

No estimate is chosen by the test: choosing by a test with little power gives limits that cover too
rarely. The prediction-powered estimate is believed unless the caller says otherwise, because its
limits hold whatever has shifted; the test says what the estimate under label shift is worth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kdey.intervals.estimate import Estimate
from kdey.labelled.shift_test import LabelShiftTest
from kdey.options import LABEL_SHIFT, LABELS, PREDICTION_POWERED


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
        """Which estimate is believed, and why."""
        return believed_sentence(self.believed, self.shift_test, self.n_labels, self.alternatives)

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


def labelled_estimate(
    alternatives: dict[str, Estimate],
    believed: str,
    n_labels: int,
    shift_test: LabelShiftTest | None,
) -> LabelledEstimate:
    """Return the result whose estimate is the believed one of the alternatives.

    Parameters
    ----------
    alternatives : dict of str to Estimate
    believed : str
    n_labels : int
    shift_test : LabelShiftTest or None

    Returns
    -------
    LabelledEstimate
    """
    chosen = alternatives[believed]
    values = {name: getattr(chosen, name) for name in chosen.__dataclass_fields__}
    notes = [*chosen.diagnostics["notes"]]
    notes.append(believed_sentence(believed, shift_test, n_labels, alternatives))
    values["diagnostics"] = {**chosen.diagnostics, "notes": notes}
    return LabelledEstimate(
        **values,
        alternatives=alternatives,
        believed=believed,
        n_labels=n_labels,
        shift_test=shift_test,
    )


def believed_sentence(
    believed: str,
    shift_test: LabelShiftTest | None,
    n_labels: int,
    alternatives: dict[str, Estimate],
) -> str:
    """Return which estimate is believed and why, in one or two sentences.

    Parameters
    ----------
    believed : str
    shift_test : LabelShiftTest or None
    n_labels : int
    alternatives : dict of str to Estimate

    Returns
    -------
    str
    """
    labels = "1 label" if n_labels == 1 else f"{n_labels:,} labels"
    reasons = {
        PREDICTION_POWERED: "whose limits hold whatever has changed since training",
        LABELS: "as asked for, which makes no use of the classifier",
        LABEL_SHIFT: "as asked for, which holds only if nothing but the prevalences has changed",
    }
    first = f"with {labels} of this bag, believe the {believed} estimate, {reasons[believed]}"
    if shift_test is None:
        return f"{first}; label shift could not be tested, because no training data are kept"
    p = f"p = {shift_test.p_value:.2g}"
    if shift_test.rejected:
        warning = "do not use" if believed != LABEL_SHIFT else "you should not use"
        return f"{first}; the labels contradict label shift ({p}): {warning} the estimate under it"
    widths = {name: float((e.high - e.low).mean()) for name, e in alternatives.items()}
    return (
        f"{first}; the labels do not contradict label shift ({p}), under which the limits are "
        f"{widths[LABEL_SHIFT]:.3f} wide on average instead of {widths[PREDICTION_POWERED]:.3f}, "
        "but labels cannot prove it"
    )
