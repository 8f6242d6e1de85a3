"""The record of an automatic choice: the settings that were tried, their errors, and the choice.

:class:`kdey.TuningDisplay` plots the errors against the bandwidth (or the number of bins), with one
line per geometry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kdey._support.frames import make_frame
from kdey._support.overview import (
    MOST_ROWS,
    Overview,
    bar_column,
    percentages,
    row_names,
    text_column,
)
from kdey.metrics import get_metric
from kdey.tuning.hold_outs import Array

#: The weight of a committee member is (smallest error / its error) to this power. On 22 cases
#: (docs/automatic.md) the error hardly depends on it between 4 and 16.
POWER = 8
#: Members whose weight relative to the best is below this are left out.
LEAST_WEIGHT = 0.1


class TuningWarning(UserWarning):
    """No parameter could be chosen from the training data; a fixed setting is used."""


@dataclass(frozen=True)
class Trial:
    """One setting on the tuning bags.

    Attributes
    ----------
    setting : str
        Description of the setting besides ``value``: the geometry, or the kind of histogram.
    params : tuple of (name, value)
    value : float
        The bandwidth, or the number of bins.
    score : float
        Mean error over the tuning bags.
    spread : float
        Standard error of that mean over the bags.
    weight : float
        Share in the estimate; zero if the setting was not chosen.
    """

    setting: str
    params: tuple[tuple[str, Any], ...]
    value: float
    score: float
    spread: float
    weight: float = 0.0


@dataclass(frozen=True, repr=False)
class Tuning:
    """The trials of an automatic choice, in order of setting and value.

    Attributes
    ----------
    parameter : {"bandwidth", "n_bins"}
    trials : tuple of Trial
    metric : str
    bag_size, n_bags, seed : int
    baseline : float
        Mean error of the uniform prevalence on the same bags.
    reason : str or None
        Why nothing could be chosen; None if there was a choice.

    See Also
    --------
    kdey.TuningDisplay : Draw the record of an automatic choice.
    kdey.KDEyML : Kernel densities by maximum likelihood.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> tuning = kdey.KDEyML(random_state=0).fit(X[::2], y[::2]).tuning_
    >>> tuning.parameter
    'bandwidth'
    >>> bool(tuning.best.score < tuning.baseline)
    True
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
        """The trials with positive weight, heaviest first; their weights sum to one."""
        kept = [trial for trial in self.trials if trial.weight > 0]
        return tuple(sorted(kept, key=lambda trial: -trial.weight))

    @property
    def best(self) -> Trial:
        """The member with the smallest error."""
        return self.members[0]

    @property
    def best_value(self) -> float:
        """The value of the parameter with the smallest error."""
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

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the errors against the values; needs matplotlib (``pip install 'kdey[plot]'``).

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default a new figure.

        Returns
        -------
        kdey.TuningDisplay
            With ``ax_`` and ``figure_``.
        """
        import kdey  # Displays are a layer above records, so we reach them by the public name.

        return kdey.TuningDisplay.from_tuning(self, ax=ax)

    def overview(self) -> Overview:
        """Return the choice in a sentence, and a table of the ten best trials."""
        best = sorted(self.trials, key=lambda trial: (-trial.weight, trial.score))[:MOST_ROWS]
        more = len(self.trials) - len(best)
        return Overview(
            self.summary(),
            row_names(self.parameter, [f"{trial.value:.3g}" for trial in best]),
            (
                text_column("setting", [t.setting for t in best], numeric=False, importance=7),
                text_column(f"mean {self.metric}", [f"{t.score:.4g}" for t in best], importance=9),
                text_column("std. error", [f"{t.spread:.2g}" for t in best], importance=4),
                text_column("weight", percentages([t.weight for t in best], 0), importance=8),
                bar_column([t.weight for t in best]),
            ),
            (f"and {more:,} more settings; to_frame() has all",) if more else (),
        )

    def __repr__(self) -> str:
        """Return the :meth:`overview` as text."""
        return str(self.overview())

    def _repr_html_(self) -> str:
        return self.overview().html()

    def summary(self) -> str:
        """Return a sentence about the choice."""
        words = self.parameter.replace("n_bins", "number of bins")
        if self.reason is not None:
            return f"No {words} could be chosen: {self.reason}. Used: {_describe(self.best)}."
        error = get_metric(self.metric).title
        return (
            f"Chosen: {self._choice()}. On {self.n_bags} bags of {self.bag_size} held-out training "
            f"instances the best of {len(self.trials)} settings had a mean {error} of "
            f"{self.best.score:.3g}, against {self.baseline:.3g} for answering all classes alike."
        )

    def _choice(self) -> str:
        if len(self.members) == 1:
            return f"{self.parameter} {_describe(self.best)}"
        shares = [f"{_describe(trial)} ({100 * trial.weight:.0f} %)" for trial in self.members]
        return f"the average of {self.parameter} " + ", ".join(shares)


def make_trial(
    setting: str, params: dict[str, Any], value: float, errors: Array, weight: float = 0.0
) -> Trial:
    """Return the trial of a setting from its error on each bag."""
    spread = float(np.std(errors) / np.sqrt(len(errors)))
    return Trial(setting, tuple(params.items()), value, float(np.mean(errors)), spread, weight)


def committee_weights(scores: Sequence[float], most_members: int) -> Array:
    r"""Return the weights of the members of a committee, which sum to one.

    .. math:: w_g \propto (e_{\min} / e_g)^8, \quad 0 \text{ where this is below } 0.1

    for the ``most_members`` smallest errors, and zero for the others.
    """
    errors = np.asarray(scores, dtype=np.float64)
    weights = np.zeros(len(errors))
    kept = np.argsort(errors, kind="stable")[:most_members]
    best = kept[0]
    weights[best] = 1.0
    if errors[best] > 0:
        raw = (errors[best] / errors[kept]) ** POWER
        weights[kept] = np.where(raw >= LEAST_WEIGHT, raw, 0.0)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _describe(trial: Trial) -> str:
    return f"{trial.value:.3g} [{trial.setting}]"
