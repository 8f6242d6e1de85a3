"""The joint region of three classes, drawn on the simplex."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kdey.plots.style import literal_text, pyplot
from kdey.plots.ternary import name_corners, need_mpltern, ternary
from kdey.report.figures.simplex import region_border, region_middle
from kdey.report.vocabulary import COLOURS
from kdey.simplex import check_posteriors

if TYPE_CHECKING:
    from kdey.intervals import Estimate


@dataclass(eq=False)
class RegionDisplay:
    """Estimates of three classes with their joint confidence regions, in one triangle.

    Made by :meth:`from_estimate` or :meth:`from_estimates`; needs matplotlib and mpltern
    (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    estimates : mapping from names to :class:`~kdey.Estimate`
    truth : array of shape (3,) or None
        Known shares of the classes.
    ax_, figure_ : matplotlib objects, after :meth:`plot`

    See Also
    --------
    kdey.IntervalsDisplay : Draw the limits of each class, for any number of classes.
    kdey.Region : The region, which knows what it contains, and its volume.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> estimate = kdey.PACC().fit(X[::2], y[::2]).estimate(X[1::2])
    >>> draw = kdey.RegionDisplay.from_estimate  # draw(estimate) needs matplotlib and mpltern
    >>> callable(draw)
    True
    """

    estimates: Mapping[str, Estimate]
    truth: ArrayLike | None = None

    @classmethod
    def from_estimate(
        cls, estimate: Estimate, *, truth: ArrayLike | None = None, ax: Any = None
    ) -> Self:
        """Return the display of one estimate."""
        return cls({"estimate": estimate}, truth).plot(ax=ax)

    @classmethod
    def from_estimates(
        cls, estimates: Mapping[str, Estimate], *, truth: ArrayLike | None = None, ax: Any = None
    ) -> Self:
        """Return the display of several estimates of the same classes, by their names."""
        return cls(estimates, truth).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the triangle on ternary axes, or on a new figure."""
        classes = self._classes()
        need_mpltern()
        if ax is None:
            figure = pyplot().figure(figsize=(4.6, 4.2), layout="constrained")
            ax = figure.add_subplot(projection="ternary")
        for number, (name, estimate) in enumerate(self.estimates.items()):
            colour = COLOURS[number % len(COLOURS)]
            border = region_border(estimate.region, region_middle(estimate))
            if border is not None:
                ax.fill(*ternary(border), color=colour, alpha=0.25, linewidth=0)
            label = f"{literal_text(name)}, {100 * estimate.confidence:g} % region"
            point = np.atleast_2d(estimate.estimate)
            ax.scatter(*ternary(point), color=colour, s=28, zorder=3, label=label)
        if self.truth is not None:
            known = check_posteriors(np.atleast_2d(np.asarray(self.truth)), 3, name="truth")
            ax.scatter(*ternary(known), color="black", marker="x", zorder=4, label="labels")
        name_corners(ax, classes)
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), frameon=False, fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _classes(self) -> list[str]:
        """Return the names of the three classes that all estimates have."""
        if not self.estimates:
            raise ValueError("estimates must hold at least one estimate")
        all_classes = [[str(label) for label in e.classes] for e in self.estimates.values()]
        if any(classes != all_classes[0] for classes in all_classes):
            raise ValueError("all estimates must have the same classes")
        if len(all_classes[0]) != 3:
            raise ValueError(
                f"regions are drawn for 3 classes, these estimates have {len(all_classes[0])}: "
                "estimate.plot() draws the limits of any number, and estimate.merge adds classes up"
            )
        return all_classes[0]
