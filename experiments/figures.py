"""Figures of the paper: sketches that need no results, and those made from results files."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression

from experiments.results import Results
from experiments.scores import Scores, gather, published_order
from experiments.sensitivity import CURVES
from experiments.settings import COMPACT, METRICS, SETTINGS
from kdey._io import write_whole
from kdey.bags import Array
from kdey.evaluation import APP
from kdey.kernels import class_log_sums
from kdey.plots.style import (
    DPI,
    add_figure_legend,
    file_style,
    label_log_axis,
    line_style,
    new_figure,
    remove_clutter,
)
from kdey.posteriors import training_posteriors
from kdey.quantifiers.densities import KDEyML
from kdey.report.page import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Colours of the classes, of the mixture of two, and of the bag.
_CLASSES, _MIXTURE, _BAG = COLOURS[:3], COLOURS[2], COLOURS[3]
_LINE_BANDWIDTH = 0.05
_SIMPLEX_BANDWIDTH, _SKETCH_BINS, _STEPS = 0.08, 10, 90
#: Corners of the triangle for the three classes.
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
#: Beta distributions of the positive posterior in each class, and the share of positives.
_NEGATIVE, _POSITIVE, _SHARE = (2.0, 4.5), (5.0, 2.2), 0.7


def mixture_figure(seed: int = 0) -> Figure:
    """Return the figure: class densities on the left, a bag and its best mixture on the right.

    The posteriors are drawn from two Beta distributions; the mixture is what KDEy-ML finds.
    """
    rng = np.random.default_rng(seed)
    negative, positive = rng.beta(*_NEGATIVE, size=600), rng.beta(*_POSITIVE, size=600)
    n_positive = round(400 * _SHARE)
    bag = np.concatenate(
        [rng.beta(*_POSITIVE, size=n_positive), rng.beta(*_NEGATIVE, size=400 - n_positive)]
    )
    estimate = _estimate(negative, positive, bag)
    at = np.linspace(0, 1, 301)
    low, high = _density(negative, at), _density(positive, at)
    figure = new_figure(7.6, 3.2)
    left, right = figure.subplots(1, 2, sharex=True)
    for values, colour, label in (
        (low, _CLASSES[0], "negatives"),
        (high, _CLASSES[1], "positives"),
    ):
        left.fill_between(at, values, color=colour, alpha=0.25)
        left.plot(at, values, color=colour, label=label)
    left.set(title="Labelled items: what each class scores", ylabel="how often (density)")
    mix = (1 - estimate) * low + estimate * high
    right.fill_between(at, _density(bag, at), color=_BAG, alpha=0.25)
    right.plot(at, _density(bag, at), color=_BAG, label=f"scores of {len(bag)} new items")
    label = f"best mixture: {100 * estimate:.0f} % positives"
    right.plot(at, mix, color=_MIXTURE, linestyle="--", label=label)
    right.plot(at, (1 - estimate) * low, color=_CLASSES[0], linewidth=0.9, alpha=0.7)
    right.plot(at, estimate * high, color=_CLASSES[1], linewidth=0.9, alpha=0.7)
    right.set_title(f"New items ({100 * _SHARE:.0f} % are positives): a mixture")
    for ax in (left, right):
        ax.set(xlabel="classifier's score for positive", xlim=(0, 1), ylim=(0, None))
        ax.legend(loc="upper left", frameon=False)
        remove_clutter(ax)
    # Room for the legends above the curves.
    right.set_ylim(0, 1.35 * float(max(_density(bag, at).max(), mix.max())))
    left.set_ylim(0, 1.25 * float(max(low.max(), high.max())))
    return figure


def _estimate(negative: Array, positive: Array, bag: Array) -> float:
    """Return the share of positives in the bag by KDEy-ML."""
    training = np.concatenate([negative, positive])
    labels = np.repeat([0, 1], [len(negative), len(positive)])
    # The simplex of two classes is sqrt(2) long.
    model = KDEyML(bandwidth=_LINE_BANDWIDTH * np.sqrt(2)).fit_posteriors(_pairs(training), labels)
    return float(model.aggregate(_pairs(bag))[1])


def _pairs(positive: Array) -> Array:
    return np.stack([1 - positive, positive], axis=1)


def _density(points: Array, at: Array) -> Array:
    z = (at[:, None] - points[None, :]) / _LINE_BANDWIDTH
    sums = np.exp(-0.5 * z**2).mean(axis=1)
    return np.asarray(sums / (_LINE_BANDWIDTH * np.sqrt(2 * np.pi)), dtype=np.float64)


def representation_figure(seed: int = 3) -> Figure:
    """Return the figure: a line per class and one for a bag, histograms left, density right.

    Posteriors of scikit-learn's wine data by a logistic regression on two of its features, so
    that the classes overlap, each by a model that did not see its instance.
    """
    posteriors, labels = _posteriors()
    drawn = APP(1, 120, random_state=seed).bags(labels)
    bag = posteriors[drawn.bags.indices]
    shares = ", ".join(f"{100 * share:.0f}" for share in drawn.prevalences[0])
    parts = [(f"class {i + 1}", posteriors[labels == i]) for i in range(3)]
    parts.append((f"a bag of these classes\n({shares} %)", bag))
    figure = new_figure(10.0, 7.6)
    axes = figure.subplots(4, 4, width_ratios=(1, 1, 1, 1.6))
    for (name, points), line in zip(parts, axes, strict=True):
        for i, ax in enumerate(line[:3]):
            _histogram(ax, points[:, i], _CLASSES[i])
        _triangle(line[3], points)
        line[0].set_ylabel(f"{name}\n\nshare of items")
        for ax in line[:3]:
            ax.label_outer()
            remove_clutter(ax)
    for i in range(3):
        axes[0, i].set_title(f"score for class {i + 1}")
        axes[-1, i].set_xlabel("score (posterior)")
    axes[0, 3].set_title("all scores together: a density", pad=16)
    figure.suptitle(
        "What a method sees of the scores: a histogram for each class (DM), or one density (KDEy)"
    )
    return figure


def _posteriors() -> tuple[Array, NDArray[np.int64]]:
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = LogisticRegression(C=1.0)
    _, training = training_posteriors(model, X[:, [0, 1]], y, np.arange(3), cv=10, random_state=0)
    return np.asarray(training.required(), dtype=np.float64), training.labels


def _histogram(ax: Axes, values: Array, colour: str) -> None:
    shares, edges = np.histogram(values, bins=_SKETCH_BINS, range=(0, 1))
    ax.stairs(shares / len(values), edges, fill=True, color=colour, alpha=0.75)
    ax.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1])


def _triangle(ax: Axes, points: Array) -> None:
    """Draw the kernel density of points of the simplex, and the points."""
    grid = simplex_grid(_STEPS)
    sums = class_log_sums(grid, points, np.array([0, len(points)]), [_SIMPLEX_BANDWIDTH])
    density = np.exp(np.asarray(sums).reshape(len(grid)))
    at = grid @ _CORNERS
    ax.tripcolor(at[:, 0], at[:, 1], density, shading="gouraud", cmap="Greens", rasterized=True)
    x, y = (points @ _CORNERS).T
    ax.scatter(x, y, s=3, color="black", alpha=0.45, linewidths=0)
    ax.plot(*np.vstack([_CORNERS, _CORNERS[:1]]).T, color="black", linewidth=0.9)
    for i, (corner, colour) in enumerate(zip(_CORNERS, _CLASSES, strict=True)):
        above = i == 2
        ax.annotate(
            f"class {i + 1}",
            corner,
            xytext=(0, 4 if above else -4),
            textcoords="offset points",
            ha="center",
            va="bottom" if above else "top",
            color=colour,
        )
    ax.set(xlim=(-0.06, 1.06), ylim=(-0.1, 0.96), aspect="equal")
    ax.axis("off")


def simplex_grid(steps: int) -> Array:
    """Return the points of the three-class simplex whose entries are multiples of 1 / steps."""
    first, second = np.meshgrid(np.arange(steps + 1), np.arange(steps + 1), indexing="ij")
    inside = first + second <= steps
    a, b = first[inside], second[inside]
    return np.stack([a, b, steps - a - b], axis=1) / steps


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
        if (figure := sensitivity_figure(results, metric, "tweets")) is not None:
            yield f"sensitivity-tweets-{metric}", figure
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


def sensitivity_figure(results: Results, metric: str, experiment: str = "multi") -> Figure | None:
    """Return the figure: one panel per method, one curve per data set; None without results.

    Curves are means over seeds, the marked point the smallest of each.
    """
    from matplotlib.ticker import NullLocator

    curves = [
        curve
        for curve in results.curves.values()
        if (curve.metric, curve.experiment) == (metric, experiment) and curve.method in CURVES
    ]
    if not curves:
        return None
    figure = new_figure(9.2, 3.6)
    axes = figure.subplots(1, len(CURVES), sharey=True)
    datasets = published_order(experiment, {curve.dataset for curve in curves})
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
