"""The critical-difference diagram: average ranks on a line, bars over what chance can explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kdey.significance.ranks import CriticalDifference

#: Height between two names, and of the part above the axis, in units of a line of text.
_LINE, _ABOVE = 0.9, 2.2


@dataclass(eq=False)
class CriticalDifferenceDisplay:
    """Diagram of Demšar (2006): best methods on the left, bars join groups without difference.

    Made by :meth:`from_results`; needs matplotlib (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    results : CriticalDifference
        What :func:`~kdey.significance.nemenyi` returned.
    ax_, figure_ : matplotlib objects, after :meth:`plot`
    """

    results: CriticalDifference

    @classmethod
    def from_results(cls, results: CriticalDifference, *, ax: Any = None) -> Self:
        """Return the display, plotted on ``ax`` or a new figure."""
        return cls(results).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the diagram on ``ax`` or a new figure."""
        import matplotlib.pyplot as plt

        n = len(self.results.names)
        half = (n + 1) // 2
        height = _ABOVE + _LINE * (half + len(self.results.groups) * 0.5 + 1)
        if ax is None:
            _, ax = plt.subplots(figsize=(8, 0.38 * height + 0.3), layout="constrained")
        ax.set(xlim=(0.5, n + 0.5), ylim=(-height + _ABOVE, _ABOVE))
        ax.axis("off")
        self._draw_axis(ax, n)
        below = self._draw_groups(ax)
        self._draw_methods(ax, half, below)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_axis(self, ax: Any, n: int) -> None:
        ax.plot([1, n], [0, 0], color="black", linewidth=1)
        for rank in range(1, n + 1):
            ax.plot([rank, rank], [0, 0.15], color="black", linewidth=1)
            ax.text(rank, 0.25, str(rank), ha="center", va="bottom")
        width = self.results.critical_difference
        ax.plot([1, 1 + width], [1.5, 1.5], color="black", linewidth=2)
        note = f"critical difference {width:.2f} (level {self.results.level:g})"
        ax.text(1 + width + 0.08, 1.5, note, va="center")

    def _draw_groups(self, ax: Any) -> float:
        """Draw one bar per group; return the height below the last."""
        ranks = dict(zip(self.results.names, self.results.ranks, strict=True))
        height = -0.4
        for group in self.results.groups:
            if len(group) > 1:
                inside = [ranks[name] for name in group]
                ends = [min(inside) - 0.04, max(inside) + 0.04]
                ax.plot(ends, [height, height], color="#b03a2e", linewidth=4, zorder=3)
                height -= 0.45
        return height

    def _draw_methods(self, ax: Any, half: int, below: float) -> None:
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
                f"{name} ({rank:.2f})",
                ha=side,
                va="center",
            )
