"""Displays of estimates, of their checks, and of the posteriors behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kdey.diagnostics import FitCheck
from kdey.intervals import Estimate, Estimates
from kdey.model import kept_training, training_of
from kdey.plots.style import (
    DPI,
    REFERENCE,
    TRAINING_COLOUR,
    Display,
    DisplayOf,
    add_legend_above,
    axes_or_new,
    draw_band,
    file_style,
    label_in_percent,
    literal_text,
    pyplot,
    remove_clutter,
)
from kdey.report.page import CLAIMED, COLOURS, OBSERVED, SHARES
from kdey.report.shown_groups import (
    ClassRow,
    Group,
    GroupTable,
    by_size,
    estimate_rows,
    group_table,
    position,
)
from kdey.report.technical import Reliability, reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kdey.diagnostics import Identifiability
    from kdey.intervals import Sensitivity
    from kdey.quantifiers import AggregativeQuantifier
    from kdey.quantifiers.base import BaseQuantifier
    from kdey.report import Report


#: Marks that stand beside the estimate: attribute, marker, colour.
_COMPARED = (
    ("naive", "D", COLOURS[1]),
    ("training", "|", TRAINING_COLOUR),
    ("truth", "x", COLOURS[6]),
)
#: Classes drawn where none are named: those with the largest shares.
_MOST_CLASSES = 8
#: Series that have a panel each, and panels beside each other.
_MOST_PANELS, _COLUMNS = 12, 4
#: Groups that are drawn in a file, and what files may be.
_MOST_ROWS, _FORMATS = 40, ("svg", "png", "pdf")


@dataclass(eq=False)
class IntervalsDisplay(Display):
    """Intervals of one bag, the most frequent class on top.

    Made by :meth:`from_estimate` or :meth:`from_estimator`; needs matplotlib
    (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    rows : sequence of ClassRow
    confidence : float
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.Estimate : Prevalences of one bag with intervals.
    kdey.plots.PrevalenceOverTimeDisplay : Draw prevalences over time.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.EMQ().fit(X[::2], y[::2])
    >>> estimate = q.estimate(X[1::2], check_fit=False)
    >>> display = kdey.plots.IntervalsDisplay.from_estimate(estimate, ax=Figure().subplots())
    >>> display.ax_.get_xlabel()
    'share'
    """

    rows: Sequence[ClassRow]
    confidence: float

    @classmethod
    def from_estimate(
        cls, estimate: Estimate, *, truth: ArrayLike | None = None, ax: Axes | None = None
    ) -> Self:
        """Return the display of an estimate, beside the shares of known labels if given."""
        return cls(estimate_rows(estimate, truth), estimate.confidence).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        quantifier: BaseQuantifier,
        X: Any,
        *,
        truth: ArrayLike | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Return the display of ``quantifier.estimate(X, **options)``."""
        return cls.from_estimate(quantifier.estimate(X, **options), truth=truth, ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw the intervals on ``ax`` or a new figure."""
        rows = by_size(self.rows)[::-1]
        ax = axes_or_new(ax, (6.4, 1.2 + 0.27 * len(rows)))
        places = np.arange(len(rows))
        low, middle, high = (_column(rows, name) for name in ("low", "estimate", "high"))
        label = f"{SHARES['estimate']}, {100 * self.confidence:g} % interval"
        ax.hlines(places, low, high, color=COLOURS[0], linewidth=3.5, alpha=0.5)
        ax.plot(middle, places, "o", color=COLOURS[0], label=label)
        for name, marker, colour in _COMPARED:
            values = _column(rows, name)
            if not np.isnan(values).all():
                hollow = {} if marker != "D" else {"markerfacecolor": "white"}
                size = 10 if marker == "|" else 6
                style: dict[str, Any] = {"color": colour, "ms": size, "mew": 1.6, **hollow}
                ax.plot(values, places, marker, label=SHARES[name], **style)
        ax.set_yticks(places, [literal_text(row.name) for row in rows])
        ax.set(xlabel="share", xlim=(-0.01, None), ylim=(-0.7, len(rows) - 0.3))
        label_in_percent(ax.xaxis)
        add_legend_above(ax)
        return self._drawn_on(ax)


def _column(rows: Sequence[ClassRow], name: str) -> Any:
    return np.array([getattr(row, name) for row in rows], dtype=np.float64)


class PrevalenceOverTimeDisplay(DisplayOf[GroupTable]):
    """Prevalence over time.

    Made by :meth:`from_results`; needs matplotlib (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    shown : GroupTable
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.predict_groups : Estimate the groups of a table.
    kdey.plots.IntervalsDisplay : Draw an estimate.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.EMQ().fit(X[::2], y[::2])
    >>> estimates = q.estimate_bags(X[1::2], [range(30), range(40, 75)], check_fit=False)
    >>> ax = Figure().subplots()
    >>> display = kdey.plots.PrevalenceOverTimeDisplay.from_estimates(estimates, ax=ax)
    >>> len(display.ax_.lines)
    3
    """

    @classmethod
    def from_results(
        cls,
        groups: Any,
        time: str,
        *,
        by: Sequence[str] = (),
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Return the display of a table of groups.

        Parameters
        ----------
        groups : frame or list of dicts
            One row per group and class; see :func:`kdey.report.group_table`.
        time : str
            The column that is a time.
        by : names of further keys
        **options
            See :meth:`plot`.
        """
        return cls(group_table(groups, by, time)).plot(ax=ax, **options)

    @classmethod
    def from_estimates(
        cls,
        estimates: Estimates,
        *,
        ax: Axes | None = None,
        classes: Sequence[str] | None = None,
    ) -> Self:
        """Return the display of bags in their order, or by the last key if that is a date.

        Parameters
        ----------
        estimates : Estimates
        ax : matplotlib axes, optional
            By default a new figure.
        classes : names of classes, by default the eight with the largest shares
        """
        if not len(estimates):
            raise ValueError("there are no estimates to draw")
        keys = estimates.keys
        if keys is not None and keys.columns and isinstance(keys.rows()[0][-1], date):
            shown = group_table(estimates, time=keys.columns[-1])
        else:
            shown = group_table(replace(estimates, keys=None), "bag", "bag")
        return cls(shown).plot(ax=ax, classes=classes)

    def plot(
        self,
        *,
        ax: Axes | None = None,
        classes: Sequence[str] | None = None,
        series: str | None = None,
    ) -> Self:
        """Draw the lines of one series on ``ax`` or a new figure, or a panel for each.

        Parameters
        ----------
        ax : matplotlib axes, optional
            For one series.
        classes : names of classes, by default the eight with the largest shares
        series : str, optional
            Which one, where there are further keys: their values joined by commas. By default the
            twelve with the most instances have a panel each, on one scale.
        """
        if series is None and ax is None and len(self.shown.series) > 1:
            return self._draw_panels(self._classes(classes))
        ax = axes_or_new(ax, (7.2, 3.8))
        self._draw(ax, self._series(series), self._classes(classes))
        ax.set_title(literal_text(series or ""))
        return self._drawn_on(ax, legend=True)

    def _draw_panels(self, classes: Sequence[str]) -> Self:
        """Draw a panel for each of the largest series."""
        sizes = {name: sum(g.n for g in groups) for name, groups in self.shown.series.items()}
        largest = sorted(sizes, key=lambda name: -sizes[name])[:_MOST_PANELS]
        names = [name for name in sizes if name in largest]
        rows = -(-len(names) // _COLUMNS)
        size = (2.6 * _COLUMNS, 1.9 * rows + 0.6)
        figure, axes = pyplot().subplots(
            rows,
            _COLUMNS,
            figsize=size,
            layout="constrained",
            sharex=True,
            sharey=True,
            squeeze=False,
        )
        for ax in axes.flat[len(names) :]:
            ax.axis("off")
        for ax, name in zip(axes.flat, names, strict=False):
            self._draw(ax, self.shown.series[name], classes)
            ax.set_title(literal_text(name), fontsize="small")
            ax.label_outer()
            remove_clutter(ax)
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
        self.ax_, self.figure_ = axes.flat[0], figure
        return self

    def _draw(self, ax: Any, groups: Sequence[Group], classes: Sequence[str]) -> None:
        """Draw the lines of classes over the times of some groups."""
        moments = [self.shown.moment(group) for group in groups]
        dated = all(position(moment) is not None for moment in moments)
        places: Any = moments if dated else np.arange(len(moments))
        for number, name in enumerate(classes):
            rows = [group.by_class.get(name) for group in groups]
            low, middle, high = (
                np.array([getattr(row, part, None) for row in rows], dtype=np.float64)
                for part in ("low", "estimate", "high")
            )
            draw_band(ax, places, middle, (low, high), literal_text(name), number)
        if all(isinstance(moment, int) for moment in moments):
            from matplotlib.ticker import MaxNLocator

            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        if not dated:
            ax.set_xticks(
                places, [literal_text(moment) for moment in moments], rotation=30, ha="right"
            )
        ax.set(xlabel=literal_text(self.shown.time), ylabel="share", ylim=(0, None))
        label_in_percent(ax.yaxis)
        ax.tick_params(axis="x", labelrotation=30)

    def _series(self, name: str | None) -> list[Group]:
        series = self.shown.series
        if name is None and len(series) == 1:
            return next(iter(series.values()))
        if name not in series:
            raise ValueError(f"series must be one of {list(series)[:10]}, got {name!r}")
        return series[name]

    def _classes(self, names: Sequence[Any] | None) -> Sequence[str]:
        if names is not None:
            chosen = [str(name) for name in names]
            unknown = [name for name in chosen if name not in self.shown.classes]
            if unknown:
                raise ValueError(f"classes has {unknown[0]!r}, which the groups do not have")
            return chosen
        peaks = dict.fromkeys(self.shown.classes, 0.0)
        for group in self.shown.groups:
            for row in group.rows:
                peaks[row.name] = max(peaks[row.name], row.estimate or 0.0)
        return sorted(peaks, key=lambda name: -peaks[name])[:_MOST_CLASSES]


class ReliabilityDisplay(DisplayOf[Reliability]):
    """The reliability curve with an interval for each bin.

    Made by :meth:`from_estimator` or :meth:`from_predictions`; needs matplotlib
    (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    shown : Reliability
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.plots.FitCheckDisplay : Draw how well a bag fits.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.PACC().fit(X[::2], y[::2])
    >>> display = kdey.plots.ReliabilityDisplay.from_estimator(q, ax=Figure().subplots())
    >>> display.figure_ is display.ax_.figure
    True
    """

    @classmethod
    def from_estimator(
        cls, quantifier: AggregativeQuantifier, *, n_bins: int = 10, ax: Axes | None = None
    ) -> Self:
        """Return the display of a fitted quantifier's training posteriors."""
        training = training_of(quantifier)
        return cls.from_predictions(training.required(), training.labels, n_bins=n_bins, ax=ax)

    @classmethod
    def from_predictions(
        cls, posteriors: ArrayLike, labels: ArrayLike, *, n_bins: int = 10, ax: Axes | None = None
    ) -> Self:
        """Return the display of posteriors (n, k) and labels, codes 0..k-1 of shape (n,)."""
        return cls(reliability(posteriors, labels, n_bins)).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw the curve on ``ax`` or a new figure."""
        ax = axes_or_new(ax, (4.4, 4.2))
        curve = self.shown
        low = np.floor(10 * min(curve.claimed[0], curve.low.min(), 0.9)) / 10
        ax.plot([low, 1], [low, 1], **REFERENCE)
        ax.vlines(curve.claimed, curve.low, curve.high, color=COLOURS[0], alpha=0.5, linewidth=2)
        ax.plot(curve.claimed, curve.observed, marker="o", markersize=5, color=COLOURS[0])
        ax.set(xlabel=CLAIMED, ylabel=OBSERVED)
        ax.set_title(f"calibration error {100 * curve.error:.1f} %", fontsize="medium")
        label_in_percent(ax.xaxis)
        label_in_percent(ax.yaxis)
        return self._drawn_on(ax)


class FitCheckDisplay(DisplayOf["FitCheck"]):
    """The statistic of a fit check among those of bags that differ in prevalence only.

    Made by :meth:`from_check`; needs matplotlib (``pip install 'kdey[plot]'``).

    Parameters
    ----------
    shown : FitCheck
        The check to draw.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        After :meth:`plot`.

    See Also
    --------
    kdey.check_fit : Check whether a bag is a mixture of the training classes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.KDEyML(bandwidth=0.1).fit(X[::2], y[::2])
    >>> check = kdey.check_fit(q, X[1::2], random_state=0)
    >>> display = kdey.plots.FitCheckDisplay.from_check(check, ax=Figure().subplots())
    >>> display.ax_.get_ylabel()
    'number of bags'
    """

    @classmethod
    def from_check(cls, check: FitCheck, *, ax: Axes | None = None) -> Self:
        """Return the display, drawn on ``ax`` or a new figure."""
        return cls(check).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw the histogram of the null bags and the bag on ``ax`` or a new figure."""
        ax = axes_or_new(ax, (6.4, 3.6))
        check = self.shown
        ax.hist(
            check.null, bins="auto", color=COLOURS[0], alpha=0.5, label="bags that fit (simulated)"
        )
        colour = COLOURS[1] if check.rejected else COLOURS[2]
        label = f"this bag (p = {check.p_density:.2g} of this statistic)"
        ax.axvline(check.statistic, color=colour, linewidth=2.5, label=label)
        ax.set(xlabel="mean log-density, less what the mixture predicts", ylabel="number of bags")
        words = "does not fit" if check.rejected else "no misfit found"
        ax.set_title(f"{words} (p = {check.p_value:.3g})", fontsize="medium")
        return self._drawn_on(ax, legend=True)


class IdentifiabilityDisplay(DisplayOf["Identifiability"]):
    """Expected widths of intervals by class, for bags of several sizes.

    Made by :meth:`from_report`; needs matplotlib (``pip install 'kdey[plot]'``).

    Parameters
    ----------
    shown : Identifiability
        The report to draw.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        After :meth:`plot`.

    See Also
    --------
    kdey.identifiability : Report how precisely prevalences can be known.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> report = kdey.identifiability(kdey.KDEyML(bandwidth=0.1).fit(X, y))
    >>> display = kdey.plots.IdentifiabilityDisplay.from_report(report, ax=Figure().subplots())
    >>> [line.get_label() for line in display.ax_.lines]
    ['bag of 125', 'bag of 500', 'bag of 2,000']
    """

    @classmethod
    def from_report(
        cls,
        report: Identifiability,
        *,
        bag_sizes: Sequence[int] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Return the display; see :meth:`plot`."""
        return cls(report).plot(bag_sizes=bag_sizes, ax=ax)

    def plot(self, *, bag_sizes: Sequence[int] | None = None, ax: Axes | None = None) -> Self:
        """Draw the widths on ``ax`` or a new figure, the widest class on top.

        ``bag_sizes`` are by default that of the report, a quarter of it and four times it.
        """
        report, size = self.shown, self.shown.bag_size
        sizes = (max(1, size // 4), size, 4 * size) if bag_sizes is None else bag_sizes
        order = np.argsort(report.width(), kind="stable")
        ax = axes_or_new(ax, (6.4, 1.2 + 0.27 * len(order)))
        places = np.arange(len(order))
        for number, size in enumerate(sizes):
            widths = report.width(size)[order]
            colour, marker = COLOURS[number % len(COLOURS)], "os^Dv"[number % 5]
            ax.plot(widths, places, marker, color=colour, label=f"bag of {size:,}")
        ax.set_yticks(places, [literal_text(report.classes[i]) for i in order])
        ax.set(xlabel=f"expected width of {100 * report.confidence:g} % intervals")
        ax.set(xlim=(0, None), ylim=(-0.7, len(order) - 0.3))
        label_in_percent(ax.xaxis)
        add_legend_above(ax)
        return self._drawn_on(ax)


class DriftDisplay(DisplayOf["Sensitivity"]):
    """Intervals of a bag against the factor by which the classes may have changed.

    Made by :meth:`from_sensitivity` or :meth:`from_estimate`; needs matplotlib
    (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    shown : Sensitivity
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.Estimate.sensitivity : The intervals that are drawn.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> estimate = kdey.PACC().fit(X[::2], y[::2]).estimate(X[1::2], check_fit=False)
    >>> ax = Figure().subplots()
    >>> kdey.plots.DriftDisplay.from_estimate(estimate, [1.5, 2], ax=ax).ax_.get_ylabel()
    'share'
    """

    @classmethod
    def from_sensitivity(cls, sensitivity: Sensitivity, *, ax: Axes | None = None) -> Self:
        """Return the display of intervals under drift."""
        return cls(sensitivity).plot(ax=ax)

    @classmethod
    def from_estimate(
        cls, estimate: Estimate, factors: ArrayLike | None = None, *, ax: Axes | None = None
    ) -> Self:
        """Return the display of an estimate, by default at 17 factors from 1 to 2."""
        chosen = np.linspace(1.0, 2.0, 17) if factors is None else factors
        return cls.from_sensitivity(estimate.sensitivity(chosen), ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw a line and a band for each of the classes with the largest shares."""
        shown, ax = self.shown, axes_or_new(ax, (5.2, 3.8))
        largest = np.argsort(-shown.estimate, kind="stable")[:_MOST_CLASSES]
        for number, i in enumerate(largest):
            middle = np.full(len(shown.factors), shown.estimate[i])
            name = literal_text(shown.classes[i])
            draw_band(ax, shown.factors, middle, (shown.low[:, i], shown.high[:, i]), name, number)
        if shown.explained_from is not None and shown.explained_from > 1.0:
            ax.axvline(shown.explained_from, **REFERENCE)
        ax.set(xlabel="factor by which the classes may have changed", ylabel="share", ylim=(0, 1))
        label_in_percent(ax.yaxis)
        add_legend_above(ax)
        return self._drawn_on(ax)


def write_figures(
    report: Report, folder: str | PathLike[str], formats: Sequence[str] = ("svg",)
) -> list[Path]:
    """Write what a report shows as figures, each to a file of its own.

    Needs matplotlib (``pip install 'kdey[plot]'``).

    Parameters
    ----------
    report : Report
        As of :func:`kdey.make_report`.
    folder : path-like
        Made if it does not exist.
    formats : sequence of {"svg", "png", "pdf"}

    Returns
    -------
    list of Path
        The files: "prevalence" of all records, "groups" or "time", "fit" and "reliability", as far
        as the report has them.

    Raises
    ------
    ValueError
        If a format is not known.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> report = kdey.make_report(kdey.EMQ().fit(X[::2], y[::2]).estimate(X[1::2]))
    >>> with TemporaryDirectory() as folder:
    ...     [path.name for path in kdey.plots.write_figures(report, folder)]
    ['prevalence.svg']
    """
    unknown = [kind for kind in formats if kind not in _FORMATS]
    if unknown:
        raise ValueError(f"formats must be of {', '.join(_FORMATS)}, got {unknown[0]!r}")
    plt = pyplot()
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    written = []
    with file_style():
        for name, display in _displays_of(report).items():
            for kind in formats:
                written.append(home / f"{name}.{kind}")
                display.figure_.figure.savefig(written[-1], dpi=DPI)
            plt.close(display.figure_.figure)
    return written


def _displays_of(report: Report) -> dict[str, Display]:
    """Return the displays of what a report shows, by the names of their files."""
    displays: dict[str, Display] = {}
    table, explorer = report.shown_groups, report.group_explorer
    if report.estimate is not None:
        displays["prevalence"] = IntervalsDisplay.from_estimate(report.estimate, truth=report.truth)
    if table is not None and table.time is not None:
        displays["time"] = PrevalenceOverTimeDisplay(table).plot()
    elif table is not None and explorer is not None:
        label = explorer.classes[explorer.focus]
        rows = [
            replace(group.by_class[label], name=table.label(group))
            for group in table.groups[:_MOST_ROWS]
            if label in group.by_class
        ]
        display = IntervalsDisplay(rows, 0.95 if table.confidence is None else table.confidence)
        displays["groups"] = display.plot()
        display.ax_.set_xlabel(literal_text(f"share of “{label}”"))
    if isinstance(report.check, FitCheck):
        displays["fit"] = FitCheckDisplay.from_check(report.check)
    training = kept_training(report.quantifier)
    if training is not None and training.posteriors is not None:
        displays["reliability"] = ReliabilityDisplay.from_predictions(
            training.posteriors, training.labels
        )
    return displays
