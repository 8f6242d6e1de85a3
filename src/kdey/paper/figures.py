"""The paper's figures: all that a set of results allows, written as PNG files.

Error by shift (how far the prevalence of a bag lies from that of training, and what it costs),
sensitivity of DM-HD to the number of bins and of KDEy-ML to the bandwidth, and the two sketches.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kdey._support.files import write_whole
from kdey.bags import Array
from kdey.paper.methods import COMPACT
from kdey.paper.published import published_order
from kdey.paper.results import Results
from kdey.paper.scores import Scores, gather
from kdey.paper.sensitivity import CURVES
from kdey.paper.settings import METRICS, SETTINGS
from kdey.paper.sketches import mixture_figure, representation_figure
from kdey.plots.style import (
    DPI,
    add_figure_legend,
    file_style,
    label_log_axis,
    line_style,
    new_figure,
    remove_clutter,
)
from kdey.report.vocabulary import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_AXES = {"n_bins": "number of bins", "bandwidth": "bandwidth"}
_ERRORS = {"mae": "mean absolute error (MAE)", "mrae": "mean relative absolute error (MRAE)"}
#: What the methods of the figure of sensitivity compare.
_COMPARED = {"DM-HD": "DM-HD: histograms", "KDEy-ML": "KDEy-ML: kernel densities"}
_N_BINS = 8
#: More data sets than this are drawn together, over quantiles of the shift.
_MOST_PANELS = 6
_BLUE, _VERMILION, _GREEN, *_, _BLACK, _GREY = COLOURS
#: Pairs of the paper share a colour; the KDEy method has the full line.
_STYLES = {
    "PACC": (_GREY, ":"),
    "DM-T": (_BLACK, ":"),
    "DM-HD": (_BLUE, "--"),
    "KDEy-HD": (_BLUE, "-"),
    "DM-CS": (_VERMILION, "--"),
    "KDEy-CS": (_VERMILION, "-"),
    "EMQ": (_GREEN, "--"),
    "KDEy-ML": (_GREEN, "-"),
}


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
    with file_style():
        for name, figure in _figures(results):
            if figure is None:
                say(f"{name}: no results for it yet")
                continue
            path, image = target / f"{name}.png", io.BytesIO()
            figure.savefig(image, format="png", dpi=DPI)
            write_whole(path, image.getvalue())
            yield path


def _figures(results: Results) -> Iterator[tuple[str, Figure | None]]:
    yield "mixture", mixture_figure()
    yield "representation", representation_figure()
    for metric in METRICS:
        yield f"sensitivity-{metric}", sensitivity_figure(results, metric)
        for experiment in SETTINGS:
            figure = shift_figure(results, experiment, metric)
            if figure is not None or experiment == "multi":
                yield f"shift-{experiment}-{metric}", figure


def shift_figure(results: Results, experiment: str, metric: str) -> Figure | None:
    """Return mean errors over bins of the shift, a line per method; None without results.

    The shift of a bag is the absolute error between its prevalence and that of the development
    data. Bins hold equally many bags. Many data sets are averaged over the same quantiles. Bands
    reach two standard errors over the bags of a bin to either side.
    """
    scores = gather(results, experiment, metric, COMPACT)
    shifts = {}
    for name in scores.datasets:
        shift = _shift(results, scores, name)
        if shift is not None:
            shifts[name] = shift
    if not shifts:
        return None
    together = len(shifts) > _MOST_PANELS
    n = 1 if together else len(shifts)
    columns = min(n, 3)
    rows = -(-n // columns)
    figure = new_figure(3.1 * columns + 1.6, 2.7 * rows + 0.3)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    if together:
        _draw_together(axes[0], scores, shifts)
    else:
        for ax, (name, shift) in zip(axes, shifts.items(), strict=False):
            _draw_dataset(ax, scores, name, shift)
    for ax in axes[n:]:
        ax.axis("off")
    for ax in axes[:n:columns]:
        ax.set_ylabel(_ERRORS[metric])
    add_figure_legend(figure, axes[0])
    return figure


def _shift(results: Results, scores: Scores, dataset: str) -> Array | None:
    """Return the shifts of a data set's bags over all seeds, as errors are joined."""
    keys = [(scores.experiment, dataset, seed) for seed in scores.seeds(dataset)]
    if not keys or any(key not in results.bags for key in keys):
        return None
    return np.concatenate([results.bags[key].shift for key in keys])


def _draw_dataset(ax: Axes, scores: Scores, dataset: str, shift: Array) -> None:
    at = by_quantile(shift, shift)
    for method in scores.methods:
        errors = scores.joined(dataset, method)
        if errors is not None:
            _line(ax, at, by_quantile(errors, shift), standard_errors(errors, shift), method)
    ax.set(title=dataset, xlabel="distance of the bag from training", ylim=(0, None))
    remove_clutter(ax)


def _draw_together(ax: Axes, scores: Scores, shifts: dict[str, Array]) -> None:
    at = (np.arange(_N_BINS) + 0.5) / _N_BINS
    for method in scores.methods:
        by_dataset = {name: scores.joined(name, method) for name in shifts}
        known = {name: e for name, e in by_dataset.items() if e is not None}
        lines = [by_quantile(e, shifts[name]) for name, e in known.items()]
        spreads = [standard_errors(e, shifts[name]) for name, e in known.items()]
        if len(lines) == len(shifts):
            spread = np.sqrt(np.square(spreads).sum(axis=0)) / len(spreads)
            _line(ax, at, np.mean(lines, axis=0), spread, method)
    ax.set(
        title=f"mean of {len(shifts)} data sets",
        xlabel="distance of the bag from training (quantile)",
        ylim=(0, None),
    )
    remove_clutter(ax)


def _line(ax: Axes, at: Array, errors: Array, spread: Array, method: str) -> None:
    colour, style = _STYLES[method]
    ax.fill_between(at, errors - 2 * spread, errors + 2 * spread, color=colour, alpha=0.12, lw=0)
    ax.plot(at, errors, color=colour, linestyle=style, marker=".", markersize=4, label=method)


def by_quantile(values: Array, shift: Array, n_bins: int = _N_BINS) -> Array:
    """Return the means of values over bins of rising shift with equally many bags each."""
    order = np.argsort(shift, kind="stable")
    return np.array([part.mean() for part in np.array_split(values[order], n_bins)])


def standard_errors(values: Array, shift: Array, n_bins: int = _N_BINS) -> Array:
    """Return the standard errors of the means that :func:`by_quantile` gives."""
    order = np.argsort(shift, kind="stable")
    parts = np.array_split(values[order], n_bins)
    return np.array([part.std(ddof=1) / np.sqrt(len(part)) for part in parts])


def sensitivity_figure(results: Results, metric: str) -> Figure | None:
    """Return the figure: one panel per method, one curve per data set; None without results.

    Curves are means over seeds, the marked point the smallest of each.
    """
    from matplotlib.ticker import NullLocator

    curves = [curve for curve in results.curves.values() if curve.metric == metric]
    if not curves:
        return None
    figure = new_figure(9.2, 3.6)
    axes = figure.subplots(1, len(CURVES), sharey=True)
    datasets = published_order("multi", {curve.dataset for curve in curves})
    for ax, method in zip(axes, CURVES, strict=True):
        for number, dataset in enumerate(datasets):
            own_curves = [c for c in curves if c.method == method and c.dataset == dataset]
            if own_curves:
                means = np.mean([curve.means for curve in own_curves], axis=0)
                _curve(ax, own_curves[0].values, means, line_style(number), dataset)
                ax.set_xlabel(_AXES.get(own_curves[0].parameter, own_curves[0].parameter))
        ax.set(title=_COMPARED[method], yscale="log")
        remove_clutter(ax)
    axes[0].set(ylabel=_ERRORS[metric], xscale="log")
    axes[0].set_xticks([2, 4, 8, 16, 32, 64], ["2", "4", "8", "16", "32", "64"])
    axes[0].xaxis.set_minor_locator(NullLocator())
    label_log_axis(axes[0].yaxis)
    add_figure_legend(figure, axes[0])
    return figure


def _curve(
    ax: Axes, values: tuple[float, ...], means: Array, style: dict[str, Any], name: str
) -> None:
    """Draw one curve and ring its smallest value."""
    best = int(np.argmin(means))
    ax.plot(values, means, marker=".", markersize=3, linewidth=1.2, label=name, **style)
    ring = {"color": style["color"], "markersize": 6, "markerfacecolor": "none"}
    ax.plot(values[best], means[best], "o", **ring)
