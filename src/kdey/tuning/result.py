"""What an automatic choice tried and what it chose.

The curve of an automatic choice: error against bandwidth (or bins), one line per geometry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from kdey._support.frames import make_frame
from kdey.metrics import get_metric
from kdey.tuning.hold_outs import Array

#: Weight of a member of a committee: (smallest error / its error) to this power. Found on 22 cases
#: (docs/automatic.md): flat between 4 and 16.
POWER = 8
#: Members below this weight relative to the best are left out.
LEAST_WEIGHT = 0.1


class TuningWarning(UserWarning):
    """Nothing could be learnt about the free parameters; a fixed setting is used."""


@dataclass(frozen=True)
class Trial:
    """One setting on the tuning bags.

    Attributes
    ----------
    setting : str
        What the value belongs to: a geometry in words, or the histogram's channels.
    params : tuple of (name, value)
    value : float
        The bandwidth, or the number of bins.
    score : float
        Mean error over the tuning bags.
    spread : float
        Standard error of that mean, from bag to bag.
    weight : float
        Share in the estimate; zero for what was tried and not chosen.
    """

    setting: str
    params: tuple[tuple[str, Any], ...]
    value: float
    score: float
    spread: float
    weight: float = 0.0


@dataclass(frozen=True)
class Tuning:
    """The trials of an automatic choice, in order of setting and value.

    Attributes
    ----------
    parameter : {"bandwidth", "n_bins"}
    trials : tuple of Trial
    metric : str
    bag_size, n_bags, seed : int
    baseline : float
        Error of answering the uniform prevalence to the same bags.
    reason : str or None
        Why nothing could be chosen; None where all went well.
    """

    parameter: str
    trials: tuple[Trial, ...]
    metric: str
    bag_size: int
    n_bags: int
    seed: int
    baseline: float
    reason: str | None = None

    @property
    def members(self) -> tuple[Trial, ...]:
        """The trials that make the estimate, heaviest first; their weights sum to one."""
        kept = [trial for trial in self.trials if trial.weight > 0]
        return tuple(sorted(kept, key=lambda trial: -trial.weight))

    @property
    def best(self) -> Trial:
        """The member with the smallest error."""
        return self.members[0]

    @property
    def best_value(self) -> float:
        """The value of the parameter that did best."""
        return self.best.value

    def to_frame(self, backend: str | None = None) -> Any:
        """Return one row per trial as a data frame of pandas, polars or pyarrow."""
        columns: dict[str, Any] = {
            "setting": [trial.setting for trial in self.trials],
            self.parameter: [trial.value for trial in self.trials],
            self.metric: [trial.score for trial in self.trials],
            "standard_error": [trial.spread for trial in self.trials],
            "weight": [trial.weight for trial in self.trials],
        }
        return make_frame(columns, backend)

    def summary(self) -> str:
        """Return the choice in a sentence."""
        words = self.parameter.replace("n_bins", "number of bins")
        if self.reason is not None:
            return f"No {words} could be chosen: {self.reason}. Used: {_told(self.best)}."
        error = get_metric(self.metric).title
        return (
            f"Chosen: {self._choice()}. On {self.n_bags} bags of {self.bag_size} held-out training "
            f"instances the best of {len(self.trials)} settings had a mean {error} of "
            f"{self.best.score:.3g}, against {self.baseline:.3g} for answering all classes alike."
        )

    def _choice(self) -> str:
        if len(self.members) == 1:
            return f"{self.parameter} {_told(self.best)}"
        shares = [f"{_told(trial)} ({100 * trial.weight:.0f} %)" for trial in self.members]
        return f"the average of {self.parameter} " + ", ".join(shares)


def _told(trial: Trial) -> str:
    return f"{trial.value:.3g} [{trial.setting}]"


def one_trial(
    setting: str, params: dict[str, Any], value: float, errors: Array, weight: float = 0.0
) -> Trial:
    """Return the trial of one setting from its errors per bag."""
    spread = float(np.std(errors) / np.sqrt(len(errors)))
    return Trial(setting, tuple(params.items()), value, float(np.mean(errors)), spread, weight)


def committee_weights(scores: Sequence[float], committee: bool) -> Array:
    r"""Return the members' weights, which sum to one; the best alone without a committee.

    .. math:: w_g \propto (e_{\min} / e_g)^8, \quad 0 \text{ where this is below } 0.1
    """
    given = np.asarray(scores, dtype=np.float64)
    weights = np.zeros(len(given))
    best = int(np.argmin(given))
    weights[best] = 1.0
    if committee and given[best] > 0:
        raw = (given[best] / given) ** POWER
        weights = np.where(raw >= LEAST_WEIGHT, raw, 0.0)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


class HasTuning(Protocol):
    """A fitted quantifier with what its automatic choice tried."""

    tuning_: Tuning | None


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
    def from_estimator(cls, quantifier: HasTuning, *, ax: Any = None) -> Self:
        """Return the display of a fitted quantifier's ``tuning_``."""
        tuning = quantifier.tuning_
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
