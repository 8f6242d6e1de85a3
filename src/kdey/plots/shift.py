"""Error by shift: what it costs that a bag's prevalence lies far from that of training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kdey.bags import Array
from kdey.evaluation import Results
from kdey.metrics import absolute_error, get_metric
from kdey.plots.axes import axes_or_new, legend, look, plain
from kdey.plots.diagonal import binned


@dataclass(eq=False)
class ErrorByShiftDisplay:
    """Mean error over bins of the shift, a line per method.

    The shift of a bag is the absolute error between its prevalence and that of training. Made by
    :meth:`from_results`; needs matplotlib (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    results : Results
    training_prevalence : array of shape (k,)
    ax_, figure_ : matplotlib objects, after :meth:`plot`
    """

    results: Results
    training_prevalence: Array

    @classmethod
    def from_results(
        cls, results: Results, training_prevalence: ArrayLike, *, ax: Any = None, **options: Any
    ) -> Self:
        """Return the display; ``training_prevalence`` is the quantifier's ``prevalence_``."""
        given = np.asarray(training_prevalence, dtype=np.float64)
        if given.shape != results.true.shape[1:]:
            raise ValueError(
                f"training_prevalence must have shape {results.true.shape[1:]}, got {given.shape}"
            )
        return cls(results, given).plot(ax=ax, **options)

    def plot(
        self,
        *,
        ax: Any = None,
        metric: str | None = None,
        methods: Sequence[str] | None = None,
        n_bins: int = 8,
    ) -> Self:
        """Draw a line per method for a metric of the results (by default their first)."""
        ax = axes_or_new(ax, (5.6, 3.8))
        first = next(iter(next(iter(self.results.methods.values())).errors))
        chosen = first if metric is None else metric
        shift = absolute_error(self.results.true, self.training_prevalence)
        names = list(self.results.methods) if methods is None else methods
        for number, name in enumerate(names):
            at, means, spread = binned(shift, self.results.errors(chosen, name), n_bins)
            error = spread / np.sqrt(max(len(shift) // n_bins, 1))
            style = look(number)
            ax.fill_between(
                at, means - error, means + error, color=style["color"], alpha=0.15, lw=0
            )
            ax.plot(at, means, marker=".", markersize=5, label=name, **style)
        ax.set(xlabel="shift of the bag (absolute error of the training prevalence)")
        ax.set(ylabel=f"mean {get_metric(chosen).title}", ylim=(0, None))
        plain(ax)
        legend(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self
