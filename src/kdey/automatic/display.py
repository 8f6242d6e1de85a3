"""The curve of an automatic choice: error against bandwidth (or bins), one line per geometry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kdey.automatic.tuning import Trial, Tuning
from kdey.metrics import get_metric


@dataclass(eq=False)
class TuningDisplay:
    """Error on the tuning bags against the values tried, with what was chosen.

    Made by :meth:`from_estimator` or :meth:`from_tuning`; needs matplotlib
    (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    tuning : Tuning
    ax_, figure_ : matplotlib objects, after :meth:`plot`
    """

    tuning: Tuning

    @classmethod
    def from_estimator(cls, quantifier: Any, *, ax: Any = None) -> Self:
        """Return the display of a fitted quantifier's ``tuning_``."""
        tuning = getattr(quantifier, "tuning_", None)
        if tuning is None:
            raise ValueError(
                f"this {type(quantifier).__name__} has chosen nothing: fit it with an 'auto' "
                "parameter first"
            )
        return cls(tuning).plot(ax=ax)

    @classmethod
    def from_tuning(cls, tuning: Tuning, *, ax: Any = None) -> Self:
        """Return the display, plotted on ``ax`` or a new figure."""
        return cls(tuning).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the curves on ``ax`` or a new figure."""
        import matplotlib.pyplot as plt
        from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

        if ax is None:
            _, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
        for number, setting in enumerate(dict.fromkeys(t.setting for t in self.tuning.trials)):
            own = [trial for trial in self.tuning.trials if trial.setting == setting]
            self._draw(ax, own, f"C{number}")
        if np.isfinite(self.tuning.baseline):
            ax.axhline(self.tuning.baseline, color="gray", linestyle=":", linewidth=1)
        ax.set(xscale="log", yscale="log", xlabel=self.tuning.parameter.replace("n_bins", "bins"))
        ax.set_ylabel(f"mean {get_metric(self.tuning.metric).title}")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(ScalarFormatter())
            axis.set_minor_formatter(NullFormatter())
        title = f"{self.tuning.n_bags} tuning bags of {self.tuning.bag_size}"
        ax.set_title(f"{title} (dotted: answering all classes alike)", fontsize="medium")
        ax.legend(frameon=False, fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(self, ax: Any, trials: list[Trial], colour: str) -> None:
        trials = sorted(trials, key=lambda trial: trial.value)
        values = np.array([trial.value for trial in trials])
        scores = np.array([trial.score for trial in trials])
        spread = np.array([trial.spread for trial in trials])
        weight = sum(trial.weight for trial in trials)
        label = trials[0].setting + (f" ({weight:.0%})" if weight > 0 else "")
        ax.plot(values, scores, color=colour, marker=".", markersize=4, linewidth=1, label=label)
        ax.fill_between(values, scores - spread, scores + spread, color=colour, alpha=0.15, lw=0)
        for trial in trials:
            if trial.weight > 0:
                size = 4 + 8 * np.sqrt(trial.weight)
                ax.plot(trial.value, trial.score, "o", color=colour, markersize=size)
