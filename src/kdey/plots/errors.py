"""Displays of an evaluation: bias, estimates against true prevalences, errors by shift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kdey.bags import Array
from kdey.class_columns import in_class_order
from kdey.evaluation import Results
from kdey.metrics import absolute_error, get_metric
from kdey.plots.display import Display, ResultsDisplay
from kdey.plots.style import (
    REFERENCE,
    axes_or_new,
    draw_band,
    label_in_percent,
    literal_text,
)
from kdey.report.vocabulary import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False)
class BiasDisplay(ResultsDisplay):
    """Boxes of estimated minus true prevalence.

    Made by :meth:`from_results`; needs matplotlib (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    results : Results
    boxes_ : list of what ``boxplot`` returned, after :meth:`plot`
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.DiagonalDisplay : Draw estimated against true prevalences.
    kdey.ErrorByShiftDisplay : Draw errors by the shift of bags.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.EMQ().fit(X[::2], y[::2])
    >>> protocol = kdey.APP(n_bags=10, bag_size=50)
    >>> results = kdey.evaluate(q, X[1::2], y[1::2], protocol, verbose=False)
    >>> display = kdey.BiasDisplay.from_results(results, ax=Figure().subplots())
    >>> display.results is results
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
        names = list(self.results.methods) if methods is None else list(methods)
        errors = {name: self.results.estimated(name) - self.results.true for name in names}
        wide = (
            0.75 * len(self.results.classes) * len(names) ** 0.5 if by_class else 0.75 * len(names)
        )
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
        k, n = len(self.results.classes), len(errors)
        width, boxes = 0.8 / n, []
        for number, (name, values) in enumerate(errors.items()):
            at = np.arange(k) + (number - (n - 1) / 2) * width
            boxes.append(
                ax.boxplot(list(values.T), positions=at, widths=0.85 * width, **_box_style())
            )
            colour = COLOURS[number % len(COLOURS)]
            _fill(boxes[-1], colour)
            ax.plot([], [], "s", color=colour, alpha=0.5, label=name)
        ax.set_xticks(np.arange(k), [literal_text(label) for label in self.results.classes])
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


@dataclass(eq=False)
class DiagonalDisplay(ResultsDisplay):
    """Mean estimate over bins of the true prevalence, with its spread from bag to bag.

    Made by :meth:`from_results`; needs matplotlib (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    results : Results
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.ErrorByShiftDisplay : Draw errors by the shift of bags.
    kdey.BiasDisplay : Draw the distribution of errors.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.EMQ().fit(X[::2], y[::2])
    >>> protocol = kdey.APP(n_bags=10, bag_size=50)
    >>> results = kdey.evaluate(q, X[1::2], y[1::2], protocol, verbose=False)
    >>> display = kdey.DiagonalDisplay.from_results(results, ax=Figure().subplots())
    >>> display.results is results
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
        columns = slice(None) if label is None else [_code(self.results, label)]
        true = self.results.true[:, columns].ravel()
        names = list(self.results.methods) if methods is None else methods
        top = float(binned(true, true, n_bins)[0][-1])
        ax.plot([0, top], [0, top], **REFERENCE)
        for number, name in enumerate(names):
            estimated = self.results.estimated(name)[:, columns].ravel()
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


@dataclass(eq=False)
class ErrorByShiftDisplay(Display):
    """Mean error over bins of the shift, a line per method.

    The shift of a bag is the absolute error between its prevalence and that of training. Made by
    :meth:`from_results`; needs matplotlib (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    results : Results
    training_prevalence : array of shape (k,)
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.BiasDisplay : Draw the distribution of errors.
    kdey.DiagonalDisplay : Draw estimated against true prevalences.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.EMQ().fit(X[::2], y[::2])
    >>> protocol = kdey.APP(n_bags=10, bag_size=50)
    >>> results = kdey.evaluate(q, X[1::2], y[1::2], protocol, verbose=False)
    >>> display = kdey.ErrorByShiftDisplay.from_results(
    ...     results, q.prevalence_, ax=Figure().subplots()
    ... )
    >>> display.results is results
    True
    """

    results: Results
    training_prevalence: Array

    @classmethod
    def from_results(
        cls,
        results: Results,
        training_prevalence: ArrayLike,
        *,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Return the display; ``training_prevalence`` is the quantifier's ``prevalence_``."""
        ordered = in_class_order(training_prevalence, results.classes, "training_prevalence")
        prevalence = np.asarray(ordered, dtype=np.float64)
        shape = results.true.shape[1:]
        if prevalence.shape != shape:
            raise ValueError(f"training_prevalence must have shape {shape}, got {prevalence.shape}")
        return cls(results, prevalence).plot(ax=ax, **options)

    def plot(
        self,
        *,
        ax: Axes | None = None,
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
            draw_band(ax, at, means, (means - error, means + error), name, number)
        ax.set(xlabel="shift of the bag (absolute error of the training prevalence)")
        ax.set(ylabel=f"mean {get_metric(chosen).title}", ylim=(0, None))
        return self._drawn_on(ax, legend=True)
