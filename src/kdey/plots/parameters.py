"""Displays of a parameter: errors over its values, from a search or from an automatic choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from kdey.bags import Array
from kdey.metrics import Metric, get_metric
from kdey.plots.display import Display
from kdey.plots.style import (
    REFERENCE,
    axes_or_new,
    label_log_axis,
    line_style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kdey.model_selection import GridSearchQ
    from kdey.quantifiers.base import BaseQuantifier
    from kdey.tuning import Tuning
    from kdey.tuning.result import Trial


@dataclass(eq=False)
class SensitivityDisplay(Display):
    """Error against a parameter, the best value of each line ringed.

    Made by :meth:`from_search` or :meth:`from_results`; needs matplotlib
    (``pip install 'kdey[plot]'``). What an automatic choice tried is drawn by ``TuningDisplay``.

    Attributes
    ----------
    parameter : str
    lines : mapping from a name to (values, errors)
    metric : str
        What the errors are.
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.TuningDisplay : Draw the record of an automatic choice.
    kdey.GridSearchQ : Search over a grid.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> import kdey
    >>> lines = {"KDEy-ML": ([0.05, 0.1, 0.2], [0.05, 0.03, 0.06])}
    >>> display = kdey.SensitivityDisplay.from_results(
    ...     "bandwidth", lines, metric="absolute error", ax=Figure().subplots()
    ... )
    >>> display.ax_.get_xlabel()
    'bandwidth'
    """

    parameter: str
    lines: Mapping[str, tuple[Array, Array]]
    metric: str = "error"

    @classmethod
    def from_results(
        cls,
        parameter: str,
        lines: Mapping[str, tuple[ArrayLike, ArrayLike]],
        *,
        metric: str = "error",
        ax: Axes | None = None,
    ) -> Self:
        """Return the display of named pairs (values, errors), each of one length."""
        pairs = {str(name): _pair(str(name), *pair) for name, pair in lines.items()}
        return cls(parameter, pairs, metric).plot(ax=ax)

    @classmethod
    def from_search(
        cls, search: GridSearchQ, parameter: str, *, by: str | None = None, ax: Axes | None = None
    ) -> Self:
        """Return the display of a fitted search (``GridSearchQ`` and the like).

        Parameters
        ----------
        parameter : name of a numeric parameter of the search
        by : name of another parameter, a line for each of its values
            Over all parameters not named, the best error counts.
        """
        scores = search.cv_results_
        score = next(name for name in scores if name.startswith("mean_test_"))
        for name in (parameter, *([] if by is None else [by])):
            if f"param_{name}" not in scores:
                known = [key.removeprefix("param_") for key in scores if key.startswith("param_")]
                raise ValueError(f"the search has no parameter {name!r}; it has {known}")
        best: dict[str, dict[float, float]] = {}
        for setting, value in zip(scores["params"], -scores[score], strict=True):
            if parameter in setting and np.isfinite(value):
                line = best.setdefault("best" if by is None else str(setting.get(by)), {})
                at = float(setting[parameter])
                line[at] = min(line.get(at, np.inf), float(value))
        lines = {name: (list(line), list(line.values())) for name, line in best.items()}
        metric = score.removeprefix("mean_test_")
        scorer = search.scorer_
        title = scorer.title if metric == "score" and isinstance(scorer, Metric) else metric
        return cls.from_results(parameter, lines, metric=f"mean {title}", ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw the lines on ``ax`` or a new figure; axes are logarithmic where values are wide."""
        ax = axes_or_new(ax, (5.6, 3.8))
        for number, (name, (values, errors)) in enumerate(self.lines.items()):
            style = line_style(number)
            best = int(np.argmin(errors))
            ax.plot(values, errors, marker=".", markersize=5, label=name, **style)
            ax.plot(values[best], errors[best], "o", color=style["color"], ms=9, mfc="none")
        at, errors = (np.concatenate(part) for part in zip(*self.lines.values(), strict=True))
        if _wide(at):
            ax.set_xscale("log")
        if _wide(errors):
            ax.set_yscale("log")
        ax.set(xlabel=self.parameter, ylabel=self.metric)
        return self._drawn_on(ax, legend=True)


@dataclass(eq=False)
class TuningDisplay(Display):
    """Error on the tuning bags against the values tried, with what was chosen.

    Made by :meth:`from_estimator` or :meth:`from_tuning`; needs matplotlib
    (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    tuning : Tuning
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.Tuning : The record of an automatic choice.
    kdey.SensitivityDisplay : Draw errors over a parameter.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.KDEyML(random_state=0).fit(X[::2], y[::2])
    >>> display = kdey.TuningDisplay.from_estimator(q, ax=Figure().subplots())
    >>> display.tuning is q.tuning_
    True
    """

    tuning: Tuning

    @classmethod
    def from_estimator(cls, quantifier: BaseQuantifier, *, ax: Axes | None = None) -> Self:
        """Return the display of a fitted quantifier's ``tuning_``."""
        tuning = quantifier.tuning_record
        if tuning is None:
            raise ValueError(
                f"this {type(quantifier).__name__} has chosen nothing: fit it with an 'auto' "
                "parameter first"
            )
        return cls(cast("Tuning", tuning)).plot(ax=ax)

    @classmethod
    def from_tuning(cls, tuning: Tuning, *, ax: Axes | None = None) -> Self:
        """Return the display, plotted on ``ax`` or a new figure."""
        return cls(tuning).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw the curves on ``ax`` or a new figure."""
        ax = axes_or_new(ax, (7.0, 4.2))
        for number, setting in enumerate(dict.fromkeys(t.setting for t in self.tuning.trials)):
            trials = [trial for trial in self.tuning.trials if trial.setting == setting]
            self._draw(ax, trials, line_style(number))
        if np.isfinite(self.tuning.baseline):
            ax.axhline(self.tuning.baseline, **{**REFERENCE, "linestyle": ":"})
        ax.set(xscale="log", yscale="log", xlabel=self.tuning.parameter.replace("n_bins", "bins"))
        ax.set_ylabel(f"mean {get_metric(self.tuning.metric).title}")
        for axis in (ax.xaxis, ax.yaxis):
            label_log_axis(axis)
        title = f"{self.tuning.n_bags} tuning bags of {self.tuning.bag_size}"
        ax.set_title(f"{title} (dotted: uniform prevalence)", fontsize="medium")
        ax.legend(frameon=False, fontsize="small")
        return self._drawn_on(ax)

    def _draw(self, ax: Axes, trials: list[Trial], style: dict[str, Any]) -> None:
        trials = sorted(trials, key=lambda trial: trial.value)
        values = np.array([trial.value for trial in trials])
        scores = np.array([trial.score for trial in trials])
        spread = np.array([trial.spread for trial in trials])
        weight = sum(trial.weight for trial in trials)
        label = trials[0].setting + (f" ({weight:.0%})" if weight > 0 else "")
        ax.plot(values, scores, marker=".", markersize=4, linewidth=1, label=label, **style)
        colour = style["color"]
        ax.fill_between(values, scores - spread, scores + spread, color=colour, alpha=0.15, lw=0)
        for trial in trials:
            if trial.weight > 0:
                size = 4 + 8 * np.sqrt(trial.weight)
                ax.plot(trial.value, trial.score, "o", color=colour, markersize=size)


def _wide(values: Array) -> bool:
    """Return whether values span enough to need a logarithmic axis."""
    return bool(values.min() > 0 and values.max() / values.min() >= 20)


def _pair(name: str, values: ArrayLike, errors: ArrayLike) -> tuple[Array, Array]:
    x, y = np.asarray(values, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or not len(x):
        raise ValueError(f"line {name!r} must hold values and errors of one length")
    order = np.argsort(x, kind="stable")
    return x[order], y[order]
