"""Sensitivity of DM-HD to the number of bins and of KDEy-ML to the bandwidth."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdey.experiments.published import published_order
from kdey.experiments.sensitivity import CURVES
from kdey.experiments.store import Results

_AXES = {"n_bins": "number of bins", "bandwidth": "bandwidth"}


def sensitivity_figure(results: Results, metric: str) -> Any:
    """Return the figure: one panel per method, one curve per data set; None without results.

    Curves are means over seeds, the marked point the smallest of each.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    found = [curve for curve in results.curves.values() if curve.metric == metric]
    if not found:
        return None
    figure = Figure(figsize=(9.2, 3.6), layout="constrained")
    axes = figure.subplots(1, len(CURVES), sharey=True)
    datasets = published_order("multi", {curve.dataset for curve in found})
    for ax, method in zip(axes, CURVES, strict=True):
        for number, dataset in enumerate(datasets):
            mine = [c for c in found if c.method == method and c.dataset == dataset]
            if mine:
                means = np.mean([curve.means for curve in mine], axis=0)
                _curve(ax, mine[0].values, means, f"C{number}", dataset)
                ax.set_xlabel(_AXES.get(mine[0].parameter, mine[0].parameter))
        ax.set(title=method, yscale="log")
        ax.grid(alpha=0.3)
    axes[0].set(ylabel=metric.upper(), xscale="log")
    axes[0].set_xticks([2, 4, 8, 16, 32, 64], ["2", "4", "8", "16", "32", "64"])
    axes[0].xaxis.set_minor_locator(NullLocator())
    axes[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes[0].yaxis.set_minor_locator(NullLocator())
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", frameon=False)
    return figure


def _curve(ax: Any, values: tuple[float, ...], means: Any, colour: str, name: str) -> None:
    best = int(np.argmin(means))
    ax.plot(values, means, color=colour, marker=".", markersize=3, linewidth=1.2, label=name)
    ax.plot(values[best], means[best], "o", color=colour, markersize=6, markerfacecolor="none")
