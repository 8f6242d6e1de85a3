"""Displays of a classifier's posteriors: its reliability, and three classes on the simplex."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kdey.bags import Array
from kdey.fitted import bag_posteriors, training_of
from kdey.kernels import class_log_sums
from kdey.plots.display import Display
from kdey.plots.style import (
    REFERENCE,
    axes_or_new,
    label_in_percent,
    literal_text,
    pyplot,
)
from kdey.plots.ternary import name_corners, need_mpltern, ternary
from kdey.report.classifier import Reliability, reliability
from kdey.report.figures.simplex import simplex_cells
from kdey.report.vocabulary import CLAIMED, COLOURS, OBSERVED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kdey.quantifiers.aggregative import AggregativeQuantifier

_COLOUR_MAPS = ("Blues", "Oranges", "Greens")
_STEPS, _MOST_POINTS = 60, 400


@dataclass(eq=False)
class ReliabilityDisplay(Display):
    """The reliability curve with limits of chance for each bin.

    Made by :meth:`from_estimator` or :meth:`from_predictions`; needs matplotlib
    (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    curve : Reliability
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.SimplexDisplay : Draw posteriors on the simplex.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.PACC().fit(X[::2], y[::2])
    >>> display = kdey.ReliabilityDisplay.from_estimator(q, ax=Figure().subplots())
    >>> display.figure_ is display.ax_.figure
    True
    """

    curve: Reliability

    @classmethod
    def from_estimator(
        cls, quantifier: AggregativeQuantifier, *, n_bins: int = 10, ax: Axes | None = None
    ) -> Self:
        """Return the display of a fitted quantifier's training posteriors."""
        training = training_of(quantifier)
        return cls.from_predictions(training.required(), training.labels, n_bins=n_bins, ax=ax)

    @classmethod
    def from_predictions(
        cls, posteriors: ArrayLike, labels: ArrayLike, *, n_bins: int = 10, ax: Axes | None = None
    ) -> Self:
        """Return the display of posteriors (n, k) and labels, codes 0..k-1 of shape (n,)."""
        return cls(reliability(posteriors, labels, n_bins)).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw the curve on ``ax`` or a new figure."""
        ax = axes_or_new(ax, (4.4, 4.2))
        curve = self.curve
        low = np.floor(10 * min(curve.claimed[0], curve.low.min(), 0.9)) / 10
        ax.plot([low, 1], [low, 1], **REFERENCE)
        ax.vlines(curve.claimed, curve.low, curve.high, color=COLOURS[0], alpha=0.5, linewidth=2)
        ax.plot(curve.claimed, curve.observed, marker="o", markersize=5, color=COLOURS[0])
        ax.set(xlabel=CLAIMED, ylabel=OBSERVED)
        ax.set_title(f"calibration error {100 * curve.error:.1f} %", fontsize="medium")
        label_in_percent(ax.xaxis)
        label_in_percent(ax.yaxis)
        return self._drawn_on(ax)


@dataclass(eq=False)
class SimplexDisplay:
    """A triangle for each training class and for each bag: kernel density and points.

    Made by :meth:`from_estimator`; needs matplotlib and mpltern (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    parts : sequence of (name, posteriors of shape (m, 3))
    classes : names of the three classes
    n_training : int
        How many of the parts are training classes; the others are bags.
    bandwidth : float
        Of the shading.
    axes_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.ReliabilityDisplay : Draw the calibration of a classifier.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.PACC().fit(X[::2], y[::2])
    >>> draw = kdey.SimplexDisplay.from_estimator  # draw(q, X[1::2]) needs matplotlib and mpltern
    >>> callable(draw)
    True
    """

    parts: Sequence[tuple[str, Array]]
    classes: Sequence[str]
    n_training: int = 0
    bandwidth: float = 0.06

    @classmethod
    def from_estimator(
        cls,
        quantifier: AggregativeQuantifier,
        X: Any = None,
        *,
        posteriors: ArrayLike | None = None,
        bandwidth: float = 0.06,
        axes: Any = None,
    ) -> Self:
        """Return the display of a quantifier's training classes and, if given, of a bag.

        The bag is ``X`` or its ``posteriors``, shape (m, 3).
        """
        training = training_of(quantifier)
        names = [str(label) for label in quantifier.classes_]
        if len(names) != 3:
            raise ValueError(
                f"the simplex is drawn for 3 classes, this quantifier has {len(names)}"
            )
        parts = [
            (f"training: {name}", _floats(training.required()[training.labels == code]))
            for code, name in enumerate(names)
        ]
        if X is not None or posteriors is not None:
            parts.append(("bag", _floats(bag_posteriors(quantifier, X, posteriors))))
        return cls(parts, names, 3, bandwidth).plot(axes=axes)

    def plot(self, *, axes: Any = None) -> Self:
        """Draw the triangles on ternary axes, one per part, or on a new figure."""
        need_mpltern()
        if axes is None:
            n = len(self.parts)
            figure = pyplot().figure(figsize=(3.2 * n, 3.1), layout="constrained")
            axes = [figure.add_subplot(1, n, i + 1, projection="ternary") for i in range(n)]
        if len(axes) != len(self.parts):
            raise ValueError(f"axes must hold one for each of {len(self.parts)} parts")
        for number, (ax, (name, points)) in enumerate(zip(axes, self.parts, strict=True)):
            shade = _COLOUR_MAPS[number] if number < self.n_training else "Greys"
            self._draw(ax, name, points, shade)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self

    def _draw(self, ax: Any, name: str, points: Array, shade: str) -> None:
        grid = _grid()
        sums = class_log_sums(grid, points, np.array([0, len(points)]), [self.bandwidth])
        density = np.exp(sums[0, :, 0] - sums[0, :, 0].max())
        levels = np.linspace(0.03, 1.0, 9)
        ax.tricontourf(*ternary(grid), np.sqrt(density), levels=levels, cmap=shade)
        step = max(1, -(-len(points) // _MOST_POINTS))
        some = points[::step]
        ax.scatter(*ternary(some), s=3, color="black", alpha=0.35, linewidths=0)
        name_corners(ax, self.classes)
        ax.set_title(literal_text(name), fontsize="medium", pad=22)


def _grid() -> Array:
    """Return the corners of all cells of the simplex, each once, shape (n, 3)."""
    two = np.unique(simplex_cells(_STEPS)[..., :2].reshape(-1, 2), axis=0)
    return np.column_stack([two, np.clip(1.0 - two.sum(axis=1), 0.0, 1.0)])


def _floats(points: Any) -> Array:
    return np.asarray(points, dtype=np.float64)
