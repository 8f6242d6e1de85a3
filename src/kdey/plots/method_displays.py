"""Displays of evaluations: errors of methods, ranks, and what an automatic choice tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from kdey.bags import Array
from kdey.evaluation import Results
from kdey.evaluation.significance import CriticalDifference
from kdey.metrics import absolute_error, get_metric
from kdey.plots.style import (
    REFERENCE,
    DisplayOf,
    ResultsDisplay,
    axes_or_new,
    draw_band,
    label_in_percent,
    label_log_axis,
    line_style,
    literal_text,
)
from kdey.report.page import COLOURS, RED
from kdey.simplex import in_class_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kdey.quantifiers.base import BaseQuantifier
    from kdey.tuning import Tuning
    from kdey.tuning.trials import Trial


class BiasDisplay(ResultsDisplay):
    """Boxes of estimated minus true prevalence.

    Made by :meth:`from_results`; needs matplotlib (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    shown : Results
    boxes_ : list of what ``boxplot`` returned, after :meth:`plot`
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.plots.DiagonalDisplay : Draw estimated against true prevalences.
    kdey.plots.ErrorByShiftDisplay : Draw errors by the shift of bags.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.EMQ().fit(X[::2], y[::2])
    >>> protocol = kdey.APP(n_bags=10, bag_size=50)
    >>> results = kdey.evaluate(q, X[1::2], y[1::2], protocol, verbose=False)
    >>> display = kdey.plots.BiasDisplay.from_results(results, ax=Figure().subplots())
    >>> display.shown is results
    True
    """

    def plot(
        self,
        *,
        ax: Axes | None = None,
        methods: Sequence[str] | None = None,
        by_class: bool = False,
    ) -> Self:
        """Draw a box per method; or, with ``by_class``, a box per class and method.

        The errors of all classes sum to zero in every bag: together they show spread, by class
        they show bias.
        """
        names = list(self.shown.methods) if methods is None else list(methods)
        errors = {name: self.shown.estimated(name) - self.shown.true for name in names}
        wide = 0.75 * len(self.shown.classes) * len(names) ** 0.5 if by_class else 0.75 * len(names)
        ax = axes_or_new(ax, (max(4.0, 1.2 + wide), 3.8))
        self.boxes_ = self._by_class(ax, errors) if by_class else [self._by_method(ax, errors)]
        ax.axhline(0, **REFERENCE)
        ax.set(ylabel="estimated - true prevalence")
        label_in_percent(ax.yaxis)
        return self._drawn_on(ax)

    def _by_method(self, ax: Any, errors: dict[str, Any]) -> Any:
        boxes = ax.boxplot([values.ravel() for values in errors.values()], **_box_style())
        _fill(boxes, COLOURS[0])
        ax.set_xticks(np.arange(1, len(errors) + 1), list(errors), rotation=30, ha="right")
        return boxes

    def _by_class(self, ax: Any, errors: dict[str, Any]) -> list[Any]:
        k, n = len(self.shown.classes), len(errors)
        width, boxes = 0.8 / n, []
        for number, (name, values) in enumerate(errors.items()):
            at = np.arange(k) + (number - (n - 1) / 2) * width
            boxes.append(
                ax.boxplot(list(values.T), positions=at, widths=0.85 * width, **_box_style())
            )
            colour = COLOURS[number % len(COLOURS)]
            _fill(boxes[-1], colour)
            ax.plot([], [], "s", color=colour, alpha=0.5, label=name)
        ax.set_xticks(np.arange(k), [literal_text(label) for label in self.shown.classes])
        ax.set(xlabel="class")
        ax.legend(frameon=False, fontsize="small")
        return boxes


def _box_style() -> dict[str, Any]:
    return {
        "patch_artist": True,
        "flierprops": {"marker": ".", "markersize": 2, "alpha": 0.4},
        "medianprops": {"color": "black"},
        "manage_ticks": False,
    }


def _fill(boxes: Any, colour: str) -> None:
    for box in boxes["boxes"]:
        box.set(facecolor=colour, alpha=0.5)


class DiagonalDisplay(ResultsDisplay):
    """Mean estimate over bins of the true prevalence, with its spread from bag to bag.

    Made by :meth:`from_results`; needs matplotlib (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    shown : Results
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.plots.ErrorByShiftDisplay : Draw errors by the shift of bags.
    kdey.plots.BiasDisplay : Draw the distribution of errors.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.EMQ().fit(X[::2], y[::2])
    >>> protocol = kdey.APP(n_bags=10, bag_size=50)
    >>> results = kdey.evaluate(q, X[1::2], y[1::2], protocol, verbose=False)
    >>> display = kdey.plots.DiagonalDisplay.from_results(results, ax=Figure().subplots())
    >>> display.shown is results
    True
    """

    def plot(
        self,
        *,
        ax: Axes | None = None,
        methods: Sequence[str] | None = None,
        label: Any = None,
        n_bins: int = 12,
    ) -> Self:
        """Draw a line per method.

        Parameters
        ----------
        methods : names of methods, by default all
        label : a class, by default all classes together
        n_bins : int
            Bins of equally many bags.
        """
        ax = axes_or_new(ax, (4.8, 4.6))
        columns = slice(None) if label is None else [_code(self.shown, label)]
        true = self.shown.true[:, columns].ravel()
        names = list(self.shown.methods) if methods is None else methods
        top = float(binned(true, true, n_bins)[0][-1])
        ax.plot([0, top], [0, top], **REFERENCE)
        for number, name in enumerate(names):
            estimated = self.shown.estimated(name)[:, columns].ravel()
            at, middle, spread = binned(true, estimated, n_bins)
            draw_band(ax, at, middle, (middle - spread, middle + spread), name, number)
        ax.set(xlabel="true prevalence", ylabel="estimated prevalence")
        if label is not None:
            ax.set_title(literal_text(f"class {label}"), fontsize="medium")
        label_in_percent(ax.xaxis)
        label_in_percent(ax.yaxis)
        return self._drawn_on(ax, legend=True)


def binned(at: Array, values: Array, n_bins: int) -> tuple[Array, Array, Array]:
    """Return mean place, mean and standard deviation of values over bins of equal size."""
    order = np.argsort(at, kind="stable")
    parts = [part for part in np.array_split(order, n_bins) if len(part)]
    places = np.array([at[part].mean() for part in parts])
    means = np.array([values[part].mean() for part in parts])
    return places, means, np.array([values[part].std() for part in parts])


def _code(results: Results, label: Any) -> int:
    matches = np.flatnonzero(results.classes == label)
    if len(matches) != 1:
        raise ValueError(f"label must be one of {results.classes.tolist()[:10]}, got {label!r}")
    return int(matches[0])


class ErrorByShiftDisplay(ResultsDisplay):
    """Mean error over bins of the shift, a line per method.

    The shift of a bag is the absolute error between its prevalence and that of training. Made by
    :meth:`from_results`; needs matplotlib (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    shown : Results
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.plots.BiasDisplay : Draw the distribution of errors.
    kdey.plots.DiagonalDisplay : Draw estimated against true prevalences.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.EMQ().fit(X[::2], y[::2])
    >>> protocol = kdey.APP(n_bags=10, bag_size=50)
    >>> results = kdey.evaluate(q, X[1::2], y[1::2], protocol, verbose=False)
    >>> display = kdey.plots.ErrorByShiftDisplay.from_results(
    ...     results, q.prevalence_, ax=Figure().subplots()
    ... )
    >>> display.shown is results
    True
    """

    def plot(
        self,
        training_prevalence: ArrayLike,
        *,
        ax: Axes | None = None,
        metric: str | None = None,
        methods: Sequence[str] | None = None,
        n_bins: int = 8,
    ) -> Self:
        """Draw a line per method for a metric of the results (by default their first).

        ``training_prevalence`` is the quantifier's ``prevalence_``.
        """
        shown = self.shown
        ordered = in_class_order(training_prevalence, shown.classes, "training_prevalence")
        prevalence = np.asarray(ordered, dtype=np.float64)
        shape = shown.true.shape[1:]
        if prevalence.shape != shape:
            raise ValueError(f"training_prevalence must have shape {shape}, got {prevalence.shape}")
        ax = axes_or_new(ax, (5.6, 3.8))
        first = next(iter(next(iter(shown.methods.values())).errors))
        chosen = first if metric is None else metric
        shift = absolute_error(shown.true, prevalence)
        names = list(shown.methods) if methods is None else methods
        for number, name in enumerate(names):
            at, means, spread = binned(shift, shown.errors(chosen, name), n_bins)
            error = spread / np.sqrt(max(len(shift) // n_bins, 1))
            draw_band(ax, at, means, (means - error, means + error), name, number)
        ax.set(xlabel="shift of the bag (absolute error of the training prevalence)")
        ax.set(ylabel=f"mean {get_metric(chosen).title}", ylim=(0, None))
        return self._drawn_on(ax, legend=True)


#: Distance between two names, and height of the part above the axis, in lines of text.
_LINE, _ABOVE = 0.9, 2.2


class CriticalDifferenceDisplay(DisplayOf[CriticalDifference]):
    """Diagram of Demšar (2006): best methods on the left, bars join groups without difference.

    Made by :meth:`from_results`; needs matplotlib (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    shown : CriticalDifference
        What :func:`~kdey.evaluation.significance.nemenyi` returned.
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.evaluation.Results : Errors of methods on bags.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> import kdey
    >>> from kdey.evaluation.significance import nemenyi
    >>> errors = np.random.default_rng(0).random((12, 3))
    >>> ranks = nemenyi(errors, ["CC", "PACC", "EMQ"])
    >>> display = kdey.plots.CriticalDifferenceDisplay.from_results(ranks, ax=Figure().subplots())
    >>> display.shown is ranks
    True
    """

    @classmethod
    def from_results(cls, results: CriticalDifference, *, ax: Axes | None = None) -> Self:
        """Return the display, plotted on ``ax`` or a new figure."""
        return cls(results).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw the diagram on ``ax`` or a new figure."""
        n = len(self.shown.names)
        half = (n + 1) // 2
        height = _ABOVE + _LINE * (half + len(self.shown.groups) * 0.5 + 1)
        ax = axes_or_new(ax, (8.0, 0.38 * height + 0.3))
        ax.set(xlim=(0.5, n + 0.5), ylim=(-height + _ABOVE, _ABOVE))
        ax.axis("off")
        self._draw_axis(ax, n)
        below = self._draw_groups(ax)
        self._draw_methods(ax, half, below)
        return self._drawn_on(ax)

    def _draw_axis(self, ax: Axes, n: int) -> None:
        ax.plot([1, n], [0, 0], color="black", linewidth=1)
        for rank in range(1, n + 1):
            ax.plot([rank, rank], [0, 0.15], color="black", linewidth=1)
            ax.text(rank, 0.25, str(rank), ha="center", va="bottom")
        width = self.shown.critical_difference
        ax.plot([1, 1 + width], [1.5, 1.5], color="black", linewidth=2)
        note = f"critical difference {width:.2f} (level {self.shown.level:g})"
        ax.text(1 + width + 0.08, 1.5, note, va="center")

    def _draw_groups(self, ax: Axes) -> float:
        """Draw one bar per group; return the height below the last."""
        ranks = dict(zip(self.shown.names, self.shown.ranks, strict=True))
        height = -0.4
        for group in self.shown.groups:
            if len(group) > 1:
                inside = [ranks[name] for name in group]
                ends = [min(inside) - 0.04, max(inside) + 0.04]
                ax.plot(ends, [height, height], color=RED, linewidth=4, zorder=3)
                height -= 0.45
        return height

    def _draw_methods(self, ax: Axes, half: int, below: float) -> None:
        """Hang the names on both sides, the outer ranks lowest so that no lines cross."""
        n = len(self.shown.names)
        order = np.argsort(self.shown.ranks, kind="stable")
        for place, method in enumerate(order):
            left = place < half
            rank, name = float(self.shown.ranks[method]), self.shown.names[method]
            depth = place if left else n - 1 - place
            height = below - _LINE * (depth + 0.4)
            edge = 0.95 if left else n + 0.05
            ax.plot([rank, rank, edge], [0, height, height], color="gray", linewidth=0.9)
            side = "right" if left else "left"
            ax.text(
                edge + (-0.05 if left else 0.05),
                height,
                f"{literal_text(name)} ({rank:.2f})",
                ha=side,
                va="center",
            )


class TuningDisplay(DisplayOf["Tuning"]):
    """Error on the tuning bags against the values tried, with what was chosen.

    Made by :meth:`from_estimator` or :meth:`from_tuning`; needs matplotlib
    (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    shown : Tuning
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.tuning.Tuning : The record of an automatic choice.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.KDEyML(random_state=0).fit(X[::2], y[::2])
    >>> display = kdey.plots.TuningDisplay.from_estimator(q, ax=Figure().subplots())
    >>> display.shown is q.tuning_
    True
    """

    @classmethod
    def from_estimator(cls, quantifier: BaseQuantifier, *, ax: Axes | None = None) -> Self:
        """Return the display of a fitted quantifier's ``tuning_``."""
        tuning = quantifier.model_.tuning
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
        for number, setting in enumerate(dict.fromkeys(t.setting for t in self.shown.trials)):
            trials = [trial for trial in self.shown.trials if trial.setting == setting]
            self._draw(ax, trials, line_style(number))
        if np.isfinite(self.shown.baseline):
            ax.axhline(self.shown.baseline, **{**REFERENCE, "linestyle": ":"})
        ax.set(xscale="log", yscale="log", xlabel=self.shown.parameter.replace("n_bins", "bins"))
        ax.set_ylabel(f"mean {get_metric(self.shown.metric).title}")
        for axis in (ax.xaxis, ax.yaxis):
            label_log_axis(axis)
        title = f"{self.shown.n_bags} tuning bags of {self.shown.bag_size}"
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
