"""The answers for groups that have labels: three estimates side by side, a test and a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Indices
from kdey.intervals import Estimate
from kdey.intervals.estimate import LabelledShares
from kdey.labelled import LabelledEstimate
from kdey.options import LABEL_SHIFT, WAYS

_PARTS = {"estimate": "", "low": "_low", "high": "_high"}
#: Columns with one number per class: ``label_shift``, ``label_shift_low``, ... of the three ways.
PER_CLASS = tuple(f"{way.replace('-', '_')}{end}" for way in WAYS for end in _PARTS.values())
#: Columns that a table with labels has beside the others.
LABELLED_COLUMNS = ("n_labels", *PER_CLASS, "label_shift_p_value", "verdict")
#: The sentence about a group without a label.
WITHOUT_LABELS = (
    "no row of this group has a label: the estimate holds only if nothing but the prevalences has "
    "changed since training, which is not tested"
)


@dataclass(frozen=True, eq=False)
class LabelledAnswers(LabelledShares):
    """What labels say about G groups.

    Attributes
    ----------
    n_labels : int64 array of shape (G,)
    shares : dict of arrays of shape (G, k)
        By the names in :data:`PER_CLASS`; NaN where a group has no label, but for label shift,
        which needs none.
    p_value : array of shape (G,)
        Of the test of label shift; NaN if it was not made.
    verdict : object array of shape (G,)
        Which estimate is believed, and why.
    """

    n_labels: Indices
    shares: dict[str, Array]
    p_value: Array
    verdict: NDArray[Any]

    @classmethod
    def empty(cls, n_groups: int, n_classes: int) -> LabelledAnswers:
        """Return answers that are not known yet."""
        return cls(
            np.zeros(n_groups, dtype=np.int64),
            {name: np.full((n_groups, n_classes), np.nan) for name in PER_CLASS},
            np.full(n_groups, np.nan),
            np.full(n_groups, "", dtype=object),
        )

    def fill(self, groups: Indices, estimates: Sequence[Estimate]) -> None:
        """Enter the answers of some groups."""
        for group, estimate in zip(groups.tolist(), estimates, strict=True):
            if isinstance(estimate, LabelledEstimate):
                self._fill(group, estimate)
            else:
                self._enter(group, LABEL_SHIFT, estimate)
                self.verdict[group] = WITHOUT_LABELS

    def _fill(self, group: int, estimate: LabelledEstimate) -> None:
        self.n_labels[group] = estimate.n_labels
        for way, part in estimate.alternatives.items():
            self._enter(group, way, part)
        if estimate.shift_test is not None:
            self.p_value[group] = estimate.shift_test.p_value
        self.verdict[group] = estimate.verdict

    def _enter(self, group: int, way: str, part: Estimate) -> None:
        for name, end in _PARTS.items():
            self.shares[f"{way.replace('-', '_')}{end}"][group] = getattr(part, name)

    def long(self, rows: Indices, n_classes: int) -> dict[str, Any]:
        """Return the columns with one row per group and class."""
        columns: dict[str, Any] = {"n_labels": np.repeat(self.n_labels[rows], n_classes)}
        columns |= {name: values[rows].ravel() for name, values in self.shares.items()}
        columns["label_shift_p_value"] = np.repeat(self.p_value[rows], n_classes)
        return columns | {"verdict": np.repeat(self.verdict[rows], n_classes)}
