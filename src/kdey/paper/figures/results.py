"""Sensitivity of DM-HD to the number of bins and of KDEy-ML to the bandwidth.

Error by shift: how far a bag's prevalence lies from that of training, and what it costs.

All figures that a set of results allows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kdey.bags import Array
from kdey.paper.cells import Results
from kdey.paper.figures.sketches import mixture_figure, representation_figure
from kdey.paper.methods import COMPACT
from kdey.paper.published import published_order
from kdey.paper.sensitivity import CURVES
from kdey.paper.settings import METRICS, SETTINGS
from kdey.paper.tables.results import Scores, gather

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


_N_BINS = 8
#: More data sets than this are drawn together, over quantiles of the shift.
_MOST_PANELS = 6
#: Pairs of the paper share a colour; the KDEy method has the full line.
_STYLES = {
    "PACC": ("#999999", ":"),
    "DM-T": ("#000000", ":"),
    "DM-HD": ("#0072B2", "--"),
    "KDEy-HD": ("#0072B2", "-"),
    "DM-CS": ("#D55E00", "--"),
    "KDEy-CS": ("#D55E00", "-"),
    "EMQ": ("#009E73", "--"),
    "KDEy-ML": ("#009E73", "-"),
}


def shift_figure(results: Results, experiment: str, metric: str) -> Any:
    """Return mean errors over bins of the shift, a line per method; None without results.

    The shift of a bag is the absolute error between its prevalence and that of the development
    data. Bins hold equally many bags. Many data sets are averaged over the same quantiles.
    """
    from matplotlib.figure import Figure

    scores = gather(results, experiment, metric, COMPACT)
    shifts = {name: _shift(results, scores, name) for name in scores.datasets}
    known = [name for name in scores.datasets if shifts[name] is not None]
    if not known:
        return None
    together = len(known) > _MOST_PANELS
    n = 1 if together else len(known)
    columns = min(n, 3)
    rows = -(-n // columns)
    figure = Figure(figsize=(3.1 * columns + 1.6, 2.7 * rows + 0.3), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    if together:
        _draw_together(axes[0], scores, {name: shifts[name] for name in known})
    else:
        for ax, name in zip(axes, known, strict=False):
            _draw_one(ax, scores, name, shifts[name])
    for ax in axes[n:]:
        ax.axis("off")
    axes[0].set_ylabel(metric.upper())
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", frameon=False)
    return figure


def _shift(results: Results, scores: Scores, dataset: str) -> Array | None:
    """Return the shifts of a data set's bags over all seeds, as errors are joined."""
    keys = [(scores.experiment, dataset, seed) for seed in scores.seeds(dataset)]
    if not keys or any(key not in results.bags for key in keys):
        return None
    return np.concatenate([results.bags[key].shift for key in keys])


def _draw_one(ax: Any, scores: Scores, dataset: str, shift: Any) -> None:
    at = by_quantile(shift, shift)
    for method in scores.methods:
        errors = scores.joined(dataset, method)
        if errors is not None:
            _line(ax, at, by_quantile(errors, shift), method)
    ax.set(title=dataset, xlabel="shift of the bag", ylim=(0, None))
    ax.grid(alpha=0.3)


def _draw_together(ax: Any, scores: Scores, shifts: dict[str, Any]) -> None:
    at = (np.arange(_N_BINS) + 0.5) / _N_BINS
    for method in scores.methods:
        found = {name: scores.joined(name, method) for name in shifts}
        lines = [by_quantile(e, shifts[name]) for name, e in found.items() if e is not None]
        if len(lines) == len(shifts):
            _line(ax, at, np.mean(lines, axis=0), method)
    ax.set(title=f"mean of {len(shifts)} data sets", xlabel="quantile of the shift", ylim=(0, None))
    ax.grid(alpha=0.3)


def _line(ax: Any, at: Array, errors: Array, method: str) -> None:
    colour, style = _STYLES[method]
    ax.plot(at, errors, color=colour, linestyle=style, marker=".", markersize=4, label=method)


def by_quantile(values: Array, shift: Array, n_bins: int = _N_BINS) -> Array:
    """Return the means of values over bins of rising shift with equally many bags each."""
    order = np.argsort(shift, kind="stable")
    return np.array([part.mean() for part in np.array_split(values[order], n_bins)])


#: Pixels per inch of the files.
_DPI = 150


def draw_figures(
    results: Results, folder: str | os.PathLike[str], say: Callable[[str], None]
) -> Iterator[Path]:
    """Write the figures as PNG files, yielding their paths; say which ones lack results.

    Parameters
    ----------
    results : Results
        Curves and cells to draw; the sketches of the mixture and of the representations need
        none.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    with _quiet_backend():
        for name, figure in _figures(results):
            if figure is None:
                say(f"{name}: no results for it yet")
                continue
            path = target / f"{name}.png"
            draft = target / f"{name}.part.png"
            figure.savefig(draft, dpi=_DPI)
            os.replace(draft, path)
            yield path


def _figures(results: Results) -> Iterator[tuple[str, Any]]:
    yield "mixture", mixture_figure()
    yield "representation", representation_figure()
    for metric in METRICS:
        yield f"sensitivity-{metric}", sensitivity_figure(results, metric)
        for experiment in SETTINGS:
            figure = shift_figure(results, experiment, metric)
            if figure is not None or experiment == "multi":
                yield f"shift-{experiment}-{metric}", figure


def _quiet_backend() -> Any:
    """Return a context without windows: figures go to files."""
    import matplotlib as mpl

    return mpl.rc_context({"backend": "agg", "font.size": 9, "axes.titlesize": 10})
