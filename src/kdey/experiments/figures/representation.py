"""Histograms against densities on the simplex: what each keeps of three classes and a bag."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression

from kdey.bags import Array
from kdey.kernels import class_log_sums
from kdey.posteriors import training_posteriors
from kdey.protocols import APP

_BANDWIDTH, _N_BINS, _STEPS = 0.08, 10, 90
_COLOURS = ("tab:blue", "tab:olive", "tab:purple")
#: Corners of the triangle for the three classes.
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])


def representation_figure(seed: int = 3) -> Any:
    """Return the figure: a line per class and one for a bag, histograms left, density right.

    Posteriors of scikit-learn's wine data by a logistic regression on two of its features, so
    that the classes overlap, each by a model that did not see its instance.
    """
    from matplotlib.figure import Figure

    posteriors, labels = _posteriors()
    drawn = APP(1, 120, random_state=seed).bags(labels)
    bag = posteriors[drawn.bags.indices]
    shares = ", ".join(f"{share:.2f}" for share in drawn.prevalences[0])
    parts = [(f"class {i + 1}", posteriors[labels == i]) for i in range(3)]
    parts.append((f"bag\n({shares})", bag))
    figure = Figure(figsize=(10, 7.6), layout="constrained")
    axes = figure.subplots(4, 4, width_ratios=(1, 1, 1, 1.6))
    for (name, points), line in zip(parts, axes, strict=True):
        for i, ax in enumerate(line[:3]):
            _histogram(ax, points[:, i], _COLOURS[i])
        _triangle(line[3], points)
        line[0].set_ylabel(name)
        for ax in line[:3]:
            ax.label_outer()
    for i in range(3):
        axes[0, i].set_title(f"posterior of class {i + 1}")
        axes[-1, i].set_xlabel("posterior")
    axes[0, 3].set_title("density on the simplex", pad=16)
    figure.suptitle("One histogram per class posterior (DM) or one density of all (KDEy)")
    return figure


def _posteriors() -> tuple[Array, NDArray[np.int64]]:
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = LogisticRegression(C=1.0)
    _, made = training_posteriors(model, X[:, [0, 1]], y, np.arange(3), cv=10, random_state=0)
    return np.asarray(made.required(), dtype=np.float64), made.labels


def _histogram(ax: Any, values: Array, colour: str) -> None:
    shares, edges = np.histogram(values, bins=_N_BINS, range=(0, 1))
    ax.stairs(shares / len(values), edges, fill=True, color=colour, alpha=0.75)
    ax.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1])


def _triangle(ax: Any, points: Array) -> None:
    """Draw the kernel density of points of the simplex, and the points."""
    grid = simplex_grid(_STEPS)
    sums = class_log_sums(grid, points, np.array([0, len(points)]), [_BANDWIDTH])
    density = np.exp(np.asarray(sums).reshape(len(grid)))
    at = grid @ _CORNERS
    ax.tripcolor(at[:, 0], at[:, 1], density, shading="gouraud", cmap="Greens", rasterized=True)
    ax.scatter(*(points @ _CORNERS).T, s=3, color="black", alpha=0.45, linewidths=0)
    ax.plot(*np.vstack([_CORNERS, _CORNERS[:1]]).T, color="black", linewidth=0.9)
    for i, (corner, colour) in enumerate(zip(_CORNERS, _COLOURS, strict=True)):
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
