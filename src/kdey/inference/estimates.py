"""The answers for many bags: a table, and a sequence of estimates that are made when asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array
from kdey.frames import make_frame
from kdey.inference.display import heading
from kdey.inference.estimate import Decisions, Estimate
from kdey.inference.options import IntervalOptions
from kdey.inference.uncertainty import Uncertainty


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(Sequence[Estimate]):
    """Estimates of many bags, in their order.

    Attributes
    ----------
    classes : array of shape (k,)
    estimate, low, high : arrays of shape (n_bags, k)
    options : IntervalOptions
    training_prevalence : array of shape (k,)
    size : int array of shape (n_bags,)
    effective_size : array of shape (n_bags,)
    gap : array of shape (n_bags,)
    converged : bool array of shape (n_bags,)
    notes : sequence of n_bags lists of str
    uncertainty_of : callable
        From a position in ``positions`` to what that bag's limits rest on.
    decisions : Decisions or None
    positions : int array of shape (n_bags,)
        Where the bags stood among those estimated together.
    details : sequence of n_bags dicts, optional
        What checks add to the diagnostics.
    """

    classes: NDArray[Any]
    estimate: Array
    low: Array
    high: Array
    options: IntervalOptions
    training_prevalence: Array
    size: NDArray[np.int64]
    effective_size: Array
    gap: Array
    converged: NDArray[np.bool_]
    notes: Sequence[list[str]]
    uncertainty_of: Callable[[int], Uncertainty]
    decisions: Decisions | None
    positions: NDArray[np.int64]
    details: Sequence[dict[str, Any]] | None = None

    @cached_property
    def items(self) -> tuple[Estimate, ...]:
        """The estimates, one object per bag."""
        return tuple(self._one(b) for b in range(len(self)))

    def _one(self, b: int) -> Estimate:
        position = int(self.positions[b])
        return Estimate(
            classes=self.classes,
            estimate=self.estimate[b],
            low=self.low[b],
            high=self.high[b],
            confidence=self.options.confidence,
            target=self.options.target,
            simultaneous=self.options.simultaneous,
            training_prevalence=self.training_prevalence,
            size=int(self.size[b]),
            gap=float(self.gap[b]),
            converged=bool(self.converged[b]),
            uncertainty=self.uncertainty_of(position),
            decisions=self.decisions,
            number=position,
            diagnostics={
                "effective_size": float(self.effective_size[b]),
                "notes": list(self.notes[b]),
                **({} if self.details is None else self.details[b]),
            },
        )

    @overload
    def __getitem__(self, index: int) -> Estimate: ...

    @overload
    def __getitem__(self, index: slice) -> Estimates: ...

    def __getitem__(self, index: int | slice) -> Estimate | Estimates:
        """Return one estimate, or those of a slice."""
        if not isinstance(index, slice):
            return self.items[index]
        columns = ("estimate", "low", "high", "size", "effective_size", "gap", "converged")
        cut = {name: getattr(self, name)[index] for name in (*columns, "notes", "positions")}
        return replace(self, **cut, details=None if self.details is None else self.details[index])

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.estimate)

    @property
    def classify_and_count(self) -> Array | None:
        """Share of the classifier's decisions for each class, shape (n_bags, k)."""
        return None if self.decisions is None else self.decisions.shares[self.positions]

    def columns(self) -> dict[str, Any]:
        """Return one vector per column of the frame, a row per bag and class."""
        n, k = self.estimate.shape
        counted = self.classify_and_count
        return {
            "bag": np.repeat(np.arange(n), k),
            "size": np.repeat(self.size, k),
            "class": list(self.classes) * n,
            "estimate": self.estimate.ravel(),
            "low": self.low.ravel(),
            "high": self.high.ravel(),
            "classify_and_count": np.full(n * k, np.nan) if counted is None else counted.ravel(),
            "training_prevalence": np.tile(self.training_prevalence, n),
        }

    def to_frame(self, backend: str | None = None) -> Any:
        """Return one row per bag and class as a data frame; ``bag`` numbers the bags."""
        return make_frame(self.columns(), backend)

    def to_json(self) -> str:
        """Return a JSON list of what :meth:`Estimate.to_dict` holds."""
        return json.dumps([one.to_dict() for one in self.items], allow_nan=False)

    def __repr__(self) -> str:
        """Return the number of bags and the first of them."""
        first = f"; the first: {heading(self.items[0])}" if len(self) else ""
        return f"Estimates of {len(self)} bags{first}"

    def _repr_html_(self) -> str:
        shown = "".join(one._repr_html_() for one in self.items[:10])
        more = f"<p>and {len(self) - 10} more bags</p>" if len(self) > 10 else ""
        return f"<div>{shown}{more}</div>"
