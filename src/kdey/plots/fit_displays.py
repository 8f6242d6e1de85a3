"""Displays of diagnostics: the fit check, expected widths of intervals, and plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from kdey.plots.style import (
    Display,
    add_legend_above,
    axes_or_new,
    label_in_percent,
    literal_text,
)
from kdey.report.vocabulary import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kdey.diagnostics import FitCheck, Identifiability


@dataclass(eq=False)
class FitCheckDisplay(Display):
    """The statistic of a fit check among those of bags that differ in prevalence only.

    Made by :meth:`from_check`; needs matplotlib (``pip install 'kdey[plot]'``).

    Parameters
    ----------
    check : FitCheck
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

    check: FitCheck

    @classmethod
    def from_check(cls, check: FitCheck, *, ax: Axes | None = None) -> Self:
        """Return the display, drawn on ``ax`` or a new figure."""
        return cls(check).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw the histogram of the null bags and the bag on ``ax`` or a new figure."""
        ax = axes_or_new(ax, (6.4, 3.6))
        check = self.check
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


@dataclass(eq=False)
class IdentifiabilityDisplay(Display):
    """Expected widths of intervals by class, for bags of several sizes.

    Made by :meth:`from_report`; needs matplotlib (``pip install 'kdey[plot]'``).

    Parameters
    ----------
    report : Identifiability
        The report to draw.
    bag_sizes : sequence of int
        One mark per class for each of them.

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
    >>> list(display.bag_sizes)
    [125, 500, 2000]
    """

    report: Identifiability
    bag_sizes: Sequence[int]

    @classmethod
    def from_report(
        cls,
        report: Identifiability,
        *,
        bag_sizes: Sequence[int] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Return the display.

        Parameters
        ----------
        report : Identifiability
        bag_sizes : sequence of int, optional
            Default: that of the report, a quarter of it and four times it.
        ax : matplotlib axes, optional
            By default a new figure.
        """
        size = report.bag_size
        sizes = (max(1, size // 4), size, 4 * size) if bag_sizes is None else bag_sizes
        return cls(report, sizes).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw the widths on ``ax`` or a new figure, the widest class on top."""
        order = np.argsort(self.report.width(), kind="stable")
        ax = axes_or_new(ax, (6.4, 1.2 + 0.27 * len(order)))
        places = np.arange(len(order))
        for number, size in enumerate(self.bag_sizes):
            widths = self.report.width(size)[order]
            colour, marker = COLOURS[number % len(COLOURS)], "os^Dv"[number % 5]
            ax.plot(widths, places, marker, color=colour, label=f"bag of {size:,}")
        ax.set_yticks(places, [literal_text(self.report.classes[i]) for i in order])
        ax.set(xlabel=f"expected width of {100 * self.report.confidence:g} % intervals")
        ax.set(xlim=(0, None), ylim=(-0.7, len(order) - 0.3))
        label_in_percent(ax.xaxis)
        add_legend_above(ax)
        return self._drawn_on(ax)
