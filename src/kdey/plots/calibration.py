"""Calibration: how sure the classifier is against how often it is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kdey.fitted import training_of
from kdey.plots.axes import COLOURS, axes_or_new, in_per_cent, plain
from kdey.report.classifier import Reliability, reliability


@dataclass(eq=False)
class ReliabilityDisplay:
    """The reliability curve with limits of chance for each bin.

    Made by :meth:`from_estimator` or :meth:`from_predictions`; needs matplotlib
    (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    curve : Reliability
    ax_, figure_ : matplotlib objects, after :meth:`plot`
    """

    curve: Reliability

    @classmethod
    def from_estimator(cls, quantifier: Any, *, n_bins: int = 10, ax: Any = None) -> Self:
        """Return the display of a fitted quantifier's training posteriors."""
        training = training_of(quantifier)
        return cls.from_predictions(training.required(), training.labels, n_bins=n_bins, ax=ax)

    @classmethod
    def from_predictions(
        cls, posteriors: ArrayLike, labels: ArrayLike, *, n_bins: int = 10, ax: Any = None
    ) -> Self:
        """Return the display of posteriors (n, k) and labels, codes 0..k-1 of shape (n,)."""
        return cls(reliability(posteriors, labels, n_bins)).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the curve on ``ax`` or a new figure."""
        ax = axes_or_new(ax, (4.4, 4.2))
        curve = self.curve
        low = np.floor(10 * min(curve.claimed[0], curve.low.min(), 0.9)) / 10
        ax.plot([low, 1], [low, 1], color="#777777", linestyle="--", linewidth=1)
        ax.vlines(curve.claimed, curve.low, curve.high, color=COLOURS[0], alpha=0.5, linewidth=2)
        ax.plot(curve.claimed, curve.observed, marker="o", markersize=5, color=COLOURS[0])
        ax.set(xlabel="posterior of the class decided for", ylabel="share of right decisions")
        ax.set_title(f"calibration error {100 * curve.error:.1f} %", fontsize="medium")
        in_per_cent(ax.xaxis)
        in_per_cent(ax.yaxis)
        plain(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self
