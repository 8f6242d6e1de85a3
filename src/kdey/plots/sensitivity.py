"""Sensitivity: the error of a method over the values of one of its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kdey.bags import Array
from kdey.plots.axes import axes_or_new, legend, look, plain


@dataclass(eq=False)
class SensitivityDisplay:
    """Error against a parameter, the best value of each line ringed.

    Made by :meth:`from_search` or :meth:`from_results`; needs matplotlib
    (``pip install 'kdey[plot]'``). What an automatic choice tried is drawn by ``TuningDisplay``.

    Attributes
    ----------
    parameter : str
    lines : mapping from a name to (values, errors)
    metric : str
        What the errors are.
    ax_, figure_ : matplotlib objects, after :meth:`plot`
    """

    parameter: str
    lines: Mapping[str, tuple[Array, Array]]
    metric: str = "error"

    @classmethod
    def from_results(
        cls,
        parameter: str,
        lines: Mapping[str, tuple[ArrayLike, ArrayLike]],
        *,
        metric: str = "error",
        ax: Any = None,
    ) -> Self:
        """Return the display of named pairs (values, errors), each of one length."""
        made = {str(name): _pair(str(name), *pair) for name, pair in lines.items()}
        return cls(parameter, made, metric).plot(ax=ax)

    @classmethod
    def from_search(
        cls, search: Any, parameter: str, *, by: str | None = None, ax: Any = None
    ) -> Self:
        """Return the display of a fitted search (``GridSearchQ`` and the like).

        Parameters
        ----------
        parameter : name of a numeric parameter of the search
        by : name of another parameter, a line for each of its values
            Over all parameters not named, the best error counts.
        """
        found = search.cv_results_
        score = next(name for name in found if name.startswith("mean_test_"))
        for name in (parameter, *([] if by is None else [by])):
            if f"param_{name}" not in found:
                known = [key.removeprefix("param_") for key in found if key.startswith("param_")]
                raise ValueError(f"the search has no parameter {name!r}; it has {known}")
        best: dict[str, dict[float, float]] = {}
        for setting, value in zip(found["params"], -found[score], strict=True):
            if parameter in setting and np.isfinite(value):
                line = best.setdefault("best" if by is None else str(setting.get(by)), {})
                at = float(setting[parameter])
                line[at] = min(line.get(at, np.inf), float(value))
        lines = {name: (list(line), list(line.values())) for name, line in best.items()}
        metric = score.removeprefix("mean_test_")
        named = search.scorer_.title if metric == "score" else metric
        return cls.from_results(parameter, lines, metric=f"mean {named}", ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the lines on ``ax`` or a new figure; axes are logarithmic where values are wide."""
        ax = axes_or_new(ax, (5.6, 3.8))
        for number, (name, (values, errors)) in enumerate(self.lines.items()):
            style = look(number)
            best = int(np.argmin(errors))
            ax.plot(values, errors, marker=".", markersize=5, label=name, **style)
            ax.plot(values[best], errors[best], "o", color=style["color"], ms=9, mfc="none")
        at, errors = (np.concatenate(part) for part in zip(*self.lines.values(), strict=True))
        if _wide(at):
            ax.set_xscale("log")
        if _wide(errors):
            ax.set_yscale("log")
        ax.set(xlabel=self.parameter, ylabel=self.metric)
        plain(ax)
        legend(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _wide(values: Array) -> bool:
    """Return whether values want a logarithmic axis."""
    return bool(values.min() > 0 and values.max() / values.min() >= 20)


def _pair(name: str, values: ArrayLike, errors: ArrayLike) -> tuple[Array, Array]:
    at, found = np.asarray(values, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    if at.ndim != 1 or at.shape != found.shape or not len(at):
        raise ValueError(f"line {name!r} must hold values and errors of one length")
    order = np.argsort(at, kind="stable")
    return at[order], found[order]
