"""The critical-difference diagram: average ranks on a line, bars over those that do not differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from kdey.plots.display import Display
from kdey.plots.style import axes_or_new, literal_text
from kdey.report.vocabulary import RED
from kdey.significance import CriticalDifference

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Distance between two names, and height of the part above the axis, in lines of text.
_LINE, _ABOVE = 0.9, 2.2


@dataclass(eq=False)
class CriticalDifferenceDisplay(Display):
    """Diagram of Demšar (2006): best methods on the left, bars join groups without difference.

    Made by :meth:`from_results`; needs matplotlib (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    results : CriticalDifference
        What :func:`~kdey.significance.nemenyi` returned.
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.Results : Errors of methods on bags.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> import kdey
    >>> from kdey.significance import nemenyi
    >>> errors = np.random.default_rng(0).random((12, 3))
    >>> ranks = nemenyi(errors, ["CC", "PACC", "EMQ"])
    >>> display = kdey.CriticalDifferenceDisplay.from_results(ranks, ax=Figure().subplots())
    >>> display.results is ranks
    True
    """

    results: CriticalDifference

    @classmethod
    def from_results(cls, results: CriticalDifference, *, ax: Axes | None = None) -> Self:
        """Return the display, plotted on ``ax`` or a new figure."""
        return cls(results).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw the diagram on ``ax`` or a new figure."""
        n = len(self.results.names)
        half = (n + 1) // 2
        height = _ABOVE + _LINE * (half + len(self.results.groups) * 0.5 + 1)
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
        width = self.results.critical_difference
        ax.plot([1, 1 + width], [1.5, 1.5], color="black", linewidth=2)
        note = f"critical difference {width:.2f} (level {self.results.level:g})"
        ax.text(1 + width + 0.08, 1.5, note, va="center")

    def _draw_groups(self, ax: Axes) -> float:
        """Draw one bar per group; return the height below the last."""
        ranks = dict(zip(self.results.names, self.results.ranks, strict=True))
        height = -0.4
        for group in self.results.groups:
            if len(group) > 1:
                inside = [ranks[name] for name in group]
                ends = [min(inside) - 0.04, max(inside) + 0.04]
                ax.plot(ends, [height, height], color=RED.plot, linewidth=4, zorder=3)
                height -= 0.45
        return height

    def _draw_methods(self, ax: Axes, half: int, below: float) -> None:
        """Hang the names on both sides, the outer ranks lowest so that no lines cross."""
        n = len(self.results.names)
        order = np.argsort(self.results.ranks, kind="stable")
        for place, method in enumerate(order):
            left = place < half
            rank, name = float(self.results.ranks[method]), self.results.names[method]
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
