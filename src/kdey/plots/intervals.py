"""Prevalence of each class with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kdey.inference import Estimate
from kdey.plots.axes import COLOURS, axes_or_new, in_per_cent, plain, words
from kdey.report.rows import ClassRow, by_size, estimate_rows

#: Marks that stand beside the estimate: attribute, label, marker, colour.
_BESIDE = (
    ("naive", "naive count", "D", COLOURS[1]),
    ("training", "training", "|", "#555555"),
    ("truth", "labels", "x", COLOURS[2]),
)


@dataclass(eq=False)
class IntervalsDisplay:
    """Intervals of one bag, the most frequent class on top.

    Made by :meth:`from_estimate` or :meth:`from_estimator`; needs matplotlib
    (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    rows : sequence of ClassRow
    confidence : float
    ax_, figure_ : matplotlib objects, after :meth:`plot`
    """

    rows: Sequence[ClassRow]
    confidence: float

    @classmethod
    def from_estimate(
        cls, estimate: Estimate, *, truth: ArrayLike | None = None, ax: Any = None
    ) -> Self:
        """Return the display of an estimate, beside the shares of known labels if given."""
        return cls(estimate_rows(estimate, truth), estimate.confidence).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        quantifier: Any,
        X: Any,
        *,
        truth: ArrayLike | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Return the display of ``quantifier.estimate(X, **options)``."""
        return cls.from_estimate(quantifier.estimate(X, **options), truth=truth, ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the intervals on ``ax`` or a new figure."""
        rows = by_size(self.rows)[::-1]
        ax = axes_or_new(ax, (6.4, 1.2 + 0.27 * len(rows)))
        places = np.arange(len(rows))
        low, middle, high = (_column(rows, name) for name in ("low", "estimate", "high"))
        label = f"estimate, {100 * self.confidence:g} % interval"
        ax.hlines(places, low, high, color=COLOURS[0], linewidth=3.5, alpha=0.5)
        ax.plot(middle, places, "o", color=COLOURS[0], label=label)
        for name, meaning, marker, colour in _BESIDE:
            values = _column(rows, name)
            if not np.isnan(values).all():
                hollow = {} if marker != "D" else {"markerfacecolor": "white"}
                size = 10 if marker == "|" else 6
                ax.plot(
                    values, places, marker, color=colour, label=meaning, ms=size, mew=1.6, **hollow
                )
        ax.set_yticks(places, [words(row.name) for row in rows])
        ax.set(xlabel="prevalence", xlim=(-0.01, None), ylim=(-0.7, len(rows) - 0.3))
        in_per_cent(ax.xaxis)
        plain(ax)
        ax.legend(frameon=False, fontsize="small", ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _column(rows: Sequence[ClassRow], name: str) -> Any:
    return np.array([getattr(row, name) for row in rows], dtype=np.float64)
