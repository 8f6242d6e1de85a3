"""Bias: the signed errors of each method as boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kdey.evaluation import Results
from kdey.plots.axes import COLOURS, axes_or_new, in_per_cent, plain, words


@dataclass(eq=False)
class BiasDisplay:
    """Boxes of estimated minus true prevalence.

    Made by :meth:`from_results`; needs matplotlib (``pip install 'kdey[plot]'``).

    Attributes
    ----------
    results : Results
    boxes_ : list of what ``boxplot`` returned, after :meth:`plot`
    ax_, figure_ : matplotlib objects, after :meth:`plot`
    """

    results: Results

    @classmethod
    def from_results(cls, results: Results, *, ax: Any = None, **options: Any) -> Self:
        """Return the display, plotted on ``ax`` or a new figure; options as for :meth:`plot`."""
        return cls(results).plot(ax=ax, **options)

    def plot(
        self, *, ax: Any = None, methods: Sequence[str] | None = None, by_class: bool = False
    ) -> Self:
        """Draw a box per method; or, with ``by_class``, a box per class and method.

        The errors of all classes sum to zero in every bag: together they show spread, by class
        they show bias.
        """
        names = list(self.results.methods) if methods is None else list(methods)
        errors = {name: self.results.estimated(name) - self.results.true for name in names}
        wide = (
            0.75 * len(self.results.classes) * len(names) ** 0.5 if by_class else 0.75 * len(names)
        )
        ax = axes_or_new(ax, (max(4.0, 1.2 + wide), 3.8))
        self.boxes_ = self._by_class(ax, errors) if by_class else [self._by_method(ax, errors)]
        ax.axhline(0, color="#777777", linestyle="--", linewidth=1)
        ax.set(ylabel="estimated - true prevalence")
        in_per_cent(ax.yaxis)
        plain(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _by_method(self, ax: Any, errors: dict[str, Any]) -> Any:
        boxes = ax.boxplot([values.ravel() for values in errors.values()], **_look())
        _fill(boxes, COLOURS[0])
        ax.set_xticks(np.arange(1, len(errors) + 1), list(errors), rotation=30, ha="right")
        return boxes

    def _by_class(self, ax: Any, errors: dict[str, Any]) -> list[Any]:
        k, n = len(self.results.classes), len(errors)
        width, made = 0.8 / n, []
        for number, (name, values) in enumerate(errors.items()):
            at = np.arange(k) + (number - (n - 1) / 2) * width
            made.append(ax.boxplot(list(values.T), positions=at, widths=0.85 * width, **_look()))
            colour = COLOURS[number % len(COLOURS)]
            _fill(made[-1], colour)
            ax.plot([], [], "s", color=colour, alpha=0.5, label=name)
        ax.set_xticks(np.arange(k), [words(label) for label in self.results.classes])
        ax.set(xlabel="class")
        ax.legend(frameon=False, fontsize="small")
        return made


def _look() -> dict[str, Any]:
    return {
        "patch_artist": True,
        "flierprops": {"marker": ".", "markersize": 2, "alpha": 0.4},
        "medianprops": {"color": "black"},
        "manage_ticks": False,
    }


def _fill(boxes: Any, colour: str) -> None:
    for box in boxes["boxes"]:
        box.set(facecolor=colour, alpha=0.5)
