"""What a report says of one class of one bag, as plain values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from kdey.inference import Estimate


@dataclass(frozen=True)
class ClassRow:
    """One class of one bag.

    Attributes
    ----------
    name : str
        The class.
    estimate, low, high : float or None
        Prevalence and its limits; None where nothing could be estimated.
    naive : float or None
        Share of the classifier's decisions.
    training : float or None
        Share in the training data.
    truth : float or None
        Share of the labels, where the table has some.
    """

    name: str
    estimate: float | None
    low: float | None
    high: float | None
    naive: float | None = None
    training: float | None = None
    truth: float | None = None

    @property
    def values(self) -> list[float]:
        """All shares that are known."""
        every = (self.estimate, self.low, self.high, self.naive, self.training, self.truth)
        return [value for value in every if value is not None]

    def outside(self, share: float | None) -> bool:
        """Return whether a known share lies outside the limits."""
        if share is None or self.low is None or self.high is None:
            return False
        return not self.low <= share <= self.high


def number(value: Any) -> float | None:
    """Return a float, None for what is missing or NaN."""
    if value is None:
        return None
    made = float(value)
    return None if math.isnan(made) else made


def estimate_rows(estimate: Estimate, truth: ArrayLike | None = None) -> tuple[ClassRow, ...]:
    """Return the rows of an estimate, with the shares of known labels beside them if given."""
    columns = estimate.columns()
    known: Iterable[Any] = [None] * len(estimate.classes) if truth is None else list(truth)  # type: ignore[arg-type]
    parts = (columns[name] for name in ("estimate", "low", "high"))
    compared = (columns["classify_and_count"], columns["training_prevalence"], known)
    return tuple(
        ClassRow(str(label), *(number(value) for value in values))
        for label, *values in zip(estimate.classes, *parts, *compared, strict=True)
    )


def by_size(rows: Iterable[ClassRow]) -> list[ClassRow]:
    """Return rows from the most frequent class to the rarest; unknown ones last."""
    return sorted(
        rows, key=lambda row: -1.0 if row.estimate is None else row.estimate, reverse=True
    )
