"""Displays of estimates: each class of a bag with its interval, and prevalence over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kdey.intervals import Estimate, Estimates
from kdey.plots.display import Display
from kdey.plots.style import (
    TRAINING_COLOUR,
    add_legend_above,
    axes_or_new,
    draw_band,
    label_in_percent,
    literal_text,
)
from kdey.report.group_frames import estimates_table, group_table
from kdey.report.groups import ClassRow, Group, GroupTable, by_size, estimate_rows
from kdey.report.periods import position
from kdey.report.vocabulary import COLOURS, SHARES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kdey.quantifiers.base import BaseQuantifier

#: Marks that stand beside the estimate: attribute, marker, colour.
_COMPARED = (
    ("naive", "D", COLOURS[1]),
    ("training", "|", TRAINING_COLOUR),
    ("truth", "x", COLOURS[6]),
)
#: Classes drawn where none are named: those with the largest shares.
_MOST_CLASSES = 8


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
    kdey.Estimate : Prevalences of one bag with limits.
    kdey.PrevalenceOverTimeDisplay : Draw prevalences over time.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.EMQ().fit(X[::2], y[::2])
    >>> estimate = q.estimate(X[1::2], check_fit=False)
    >>> display = kdey.IntervalsDisplay.from_estimate(estimate, ax=Figure().subplots())
    >>> display.ax_.get_xlabel()
    'prevalence'
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
        ax.set(xlabel="prevalence", xlim=(-0.01, None), ylim=(-0.7, len(rows) - 0.3))
        label_in_percent(ax.xaxis)
        add_legend_above(ax)
        return self._drawn_on(ax)


def _column(rows: Sequence[ClassRow], name: str) -> Any:
    return np.array([getattr(row, name) for row in rows], dtype=np.float64)


@dataclass(eq=False)
class PrevalenceOverTimeDisplay(Display):
    """Prevalence over time.

    Made by :meth:`from_results`; needs matplotlib (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    table : GroupTable
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.predict_groups : Estimate the groups of a table.
    kdey.IntervalsDisplay : Draw an estimate.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.EMQ().fit(X[::2], y[::2])
    >>> estimates = q.estimate_bags(X[1::2], [range(30), range(40, 75)], check_fit=False)
    >>> ax = Figure().subplots()
    >>> display = kdey.PrevalenceOverTimeDisplay.from_estimates(estimates, ax=ax)
    >>> len(display.ax_.lines)
    3
    """

    table: GroupTable

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
        """Return the display of the bags of ``estimates`` in their order.

        Parameters
        ----------
        estimates : Estimates
        ax : matplotlib axes, optional
            By default a new figure.
        classes : names of classes, by default the eight with the largest shares
        """
        if not len(estimates):
            raise ValueError("there are no estimates to draw")
        keys = [{"bag": number} for number in range(len(estimates))]
        return cls.from_results(estimates_table(estimates, keys), "bag", ax=ax, classes=classes)

    def plot(
        self,
        *,
        ax: Axes | None = None,
        classes: Sequence[str] | None = None,
        series: str | None = None,
    ) -> Self:
        """Draw the lines of one series on ``ax`` or a new figure.

        Parameters
        ----------
        classes : names of classes, by default the eight with the largest shares
        series : str, optional
            Which one, where there are further keys: their values joined by commas.
        """
        ax = axes_or_new(ax, (7.2, 3.8))
        groups = self._series(series)
        moments = [self.table.moment(group) for group in groups]
        dated = all(position(moment) is not None for moment in moments)
        places: Any = moments if dated else np.arange(len(moments))
        for number, name in enumerate(self._classes(classes)):
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
        ax.set(xlabel=literal_text(self.table.time), ylabel="prevalence", ylim=(0, None))
        ax.set_title(literal_text(series or ""))
        label_in_percent(ax.yaxis)
        ax.tick_params(axis="x", labelrotation=30)
        return self._drawn_on(ax, legend=True)

    def _series(self, name: str | None) -> list[Group]:
        series = self.table.series
        if name is None and len(series) == 1:
            return next(iter(series.values()))
        if name not in series:
            raise ValueError(f"series must be one of {list(series)[:10]}, got {name!r}")
        return series[name]

    def _classes(self, names: Sequence[Any] | None) -> Sequence[str]:
        if names is not None:
            chosen = [str(name) for name in names]
            unknown = [name for name in chosen if name not in self.table.classes]
            if unknown:
                raise ValueError(f"classes has {unknown[0]!r}, which the groups do not have")
            return chosen
        peaks = dict.fromkeys(self.table.classes, 0.0)
        for group in self.table.groups:
            for row in group.rows:
                peaks[row.name] = max(peaks[row.name], row.estimate or 0.0)
        return sorted(peaks, key=lambda name: -peaks[name])[:_MOST_CLASSES]
