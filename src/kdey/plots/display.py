"""What all displays have in common: they keep the axes that they were drawn on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from kdey.evaluation import Results
from kdey.plots.style import add_legend, remove_clutter

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


class Display:
    """A figure of one panel.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        After ``plot``.
    """

    ax_: Axes
    figure_: Figure | SubFigure

    def _drawn_on(self, ax: Axes, *, legend: bool = False) -> Self:
        """Remove clutter from axes on which all is drawn, add a legend and keep them."""
        remove_clutter(ax)
        if legend:
            add_legend(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(eq=False)
class ResultsDisplay(Display):
    """A figure of the results of an evaluation.

    Attributes
    ----------
    results : Results
    """

    results: Results

    @classmethod
    def from_results(cls, results: Results, *, ax: Axes | None = None, **options: Any) -> Self:
        """Return the display, plotted on ``ax`` or a new figure; options as for :meth:`plot`."""
        return cls(results).plot(ax=ax, **options)

    def plot(self, *args: Any, **options: Any) -> Self:
        """Draw the results on ``ax`` or a new figure."""
        raise NotImplementedError
