"""Estimated against true prevalence: the closer to the diagonal, the better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kdey.bags import Array
from kdey.evaluation import Results
from kdey.plots.axes import axes_or_new, in_per_cent, legend, look, plain, words


@dataclass(eq=False)
class DiagonalDisplay:
    """Mean estimate over bins of the true prevalence, with its spread from bag to bag.

    Made by :meth:`from_results`; needs matplotlib (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    results : Results
    ax_, figure_ : matplotlib objects, after :meth:`plot`
    """

    results: Results

    @classmethod
    def from_results(cls, results: Results, *, ax: Any = None, **options: Any) -> Self:
        """Return the display, plotted on ``ax`` or a new figure; options as for :meth:`plot`."""
        return cls(results).plot(ax=ax, **options)

    def plot(
        self,
        *,
        ax: Any = None,
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
        ax.plot([0, top], [0, top], color="#777777", linestyle="--", linewidth=1)
        for number, name in enumerate(names):
            estimated = self.results.estimated(name)[:, columns].ravel()
            at, middle, spread = binned(true, estimated, n_bins)
            style = look(number)
            ax.fill_between(
                at, middle - spread, middle + spread, color=style["color"], alpha=0.12, lw=0
            )
            ax.plot(at, middle, marker=".", markersize=5, label=name, **style)
        ax.set(xlabel="true prevalence", ylabel="estimated prevalence")
        if label is not None:
            ax.set_title(words(f"class {label}"), fontsize="medium")
        in_per_cent(ax.xaxis)
        in_per_cent(ax.yaxis)
        plain(ax)
        legend(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def binned(at: Array, values: Array, n_bins: int) -> tuple[Array, Array, Array]:
    """Return mean place, mean and standard deviation of values over bins of equal size."""
    order = np.argsort(at, kind="stable")
    parts = [part for part in np.array_split(order, n_bins) if len(part)]
    places = np.array([at[part].mean() for part in parts])
    means = np.array([values[part].mean() for part in parts])
    return places, means, np.array([values[part].std() for part in parts])


def _code(results: Results, label: Any) -> int:
    found = np.flatnonzero(results.classes == label)
    if len(found) != 1:
        raise ValueError(f"label must be one of {results.classes.tolist()[:10]}, got {label!r}")
    return int(found[0])
