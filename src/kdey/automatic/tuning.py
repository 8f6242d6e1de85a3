"""What an automatic choice tried and what it chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kdey.automatic.parts import Array
from kdey.frames import make_frame
from kdey.metrics import get_metric

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
