"""Two figures that need no results: the idea of distribution matching, and what it compares.

:func:`mixture_figure` shows a bag as a mixture of the classes, :func:`representation_figure`
histograms against densities on the simplex.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression

from kdey.bags import Array
from kdey.kernels import class_log_sums
from kdey.plots.style import new_figure, remove_clutter
from kdey.posteriors import training_posteriors
from kdey.protocols import APP
from kdey.quantifiers.kde import KDEyML
from kdey.report.vocabulary import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours of the classes, of the mixture of two, and of the bag.
_CLASSES, _MIXTURE, _BAG = COLOURS[:3], COLOURS[2], COLOURS[3]
_LINE_BANDWIDTH = 0.05
_SIMPLEX_BANDWIDTH, _N_BINS, _STEPS = 0.08, 10, 90
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
    shares, edges = np.histogram(values, bins=_N_BINS, range=(0, 1))
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
