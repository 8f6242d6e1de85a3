"""Prevalence of each class with its interval.

Prevalence over time, a line with its interval for each class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kdey.intervals import Estimate
from kdey.plots.axes import COLOURS, axes_or_new, in_per_cent, legend, look, plain, words
from kdey.report.groups import ClassRow, GroupTable, by_size, estimate_rows, group_table, position

#: Marks that stand beside the estimate: attribute, label, marker, colour.
_BESIDE = (
    ("naive", "naive count", "D", COLOURS[1]),
    ("training", "training", "|", "#555555"),
    ("truth", "labels", "x", COLOURS[2]),
)


@dataclass(eq=False)
class IntervalsDisplay:
    """Intervals of one bag, the most frequent class on top.

    Made by :meth:`from_estimate` or :meth:`from_estimator`; needs matplotlib
    (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    rows : sequence of ClassRow
    confidence : float
    ax_, figure_ : matplotlib objects, after :meth:`plot`
    """

    rows: Sequence[ClassRow]
    confidence: float

    @classmethod
    def from_estimate(
        cls, estimate: Estimate, *, truth: ArrayLike | None = None, ax: Any = None
    ) -> Self:
        """Return the display of an estimate, beside the shares of known labels if given."""
        return cls(estimate_rows(estimate, truth), estimate.confidence).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        quantifier: Any,
        X: Any,
        *,
        truth: ArrayLike | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Return the display of ``quantifier.estimate(X, **options)``."""
        return cls.from_estimate(quantifier.estimate(X, **options), truth=truth, ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the intervals on ``ax`` or a new figure."""
        rows = by_size(self.rows)[::-1]
        ax = axes_or_new(ax, (6.4, 1.2 + 0.27 * len(rows)))
        places = np.arange(len(rows))
        low, middle, high = (_column(rows, name) for name in ("low", "estimate", "high"))
        label = f"estimate, {100 * self.confidence:g} % interval"
        ax.hlines(places, low, high, color=COLOURS[0], linewidth=3.5, alpha=0.5)
        ax.plot(middle, places, "o", color=COLOURS[0], label=label)
        for name, meaning, marker, colour in _BESIDE:
            values = _column(rows, name)
            if not np.isnan(values).all():
                hollow = {} if marker != "D" else {"markerfacecolor": "white"}
                size = 10 if marker == "|" else 6
                ax.plot(
                    values, places, marker, color=colour, label=meaning, ms=size, mew=1.6, **hollow
                )
        ax.set_yticks(places, [words(row.name) for row in rows])
        ax.set(xlabel="prevalence", xlim=(-0.01, None), ylim=(-0.7, len(rows) - 0.3))
        in_per_cent(ax.xaxis)
        plain(ax)
        ax.legend(frameon=False, fontsize="small", ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _column(rows: Sequence[ClassRow], name: str) -> Any:
    return np.array([getattr(row, name) for row in rows], dtype=np.float64)


#: Classes drawn where none are named: those with the largest shares.
_MOST = 8


@dataclass(eq=False)
class PrevalenceOverTimeDisplay:
    """Prevalence over time.

    Made by :meth:`from_results`; needs matplotlib (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    table : GroupTable
    ax_, figure_ : matplotlib objects, after :meth:`plot`
    """

    table: GroupTable

    @classmethod
    def from_results(
        cls, groups: Any, time: str, *, by: Sequence[str] = (), ax: Any = None, **options: Any
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

    def plot(
        self,
        *,
        ax: Any = None,
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
            style = look(number)
            ax.fill_between(places, low, high, color=style["color"], alpha=0.15, linewidth=0)
            ax.plot(places, middle, marker="o", markersize=3, label=words(name), **style)
        if not dated:
            ax.set_xticks(places, [words(moment) for moment in moments], rotation=30, ha="right")
        ax.set(xlabel=words(self.table.time), ylabel="prevalence", ylim=(0, None))
        ax.set_title(words(series or ""))
        in_per_cent(ax.yaxis)
        plain(ax)
        legend(ax)
        ax.tick_params(axis="x", labelrotation=30)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _series(self, name: str | None) -> Any:
        found = self.table.series
        if name is None and len(found) == 1:
            return next(iter(found.values()))
        if name not in found:
            raise ValueError(f"series must be one of {list(found)[:10]}, got {name!r}")
        return found[name]

    def _classes(self, names: Sequence[Any] | None) -> Sequence[str]:
        if names is not None:
            wanted = [str(name) for name in names]
            unknown = [name for name in wanted if name not in self.table.classes]
            if unknown:
                raise ValueError(f"classes has {unknown[0]!r}, which the groups do not have")
            return wanted
        peaks = dict.fromkeys(self.table.classes, 0.0)
        for group in self.table.groups:
            for row in group.rows:
                peaks[row.name] = max(peaks[row.name], row.estimate or 0.0)
        return sorted(peaks, key=lambda name: -peaks[name])[:_MOST]
