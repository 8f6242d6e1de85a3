"""All figures that a set of results allows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kdey.experiments.figures.mixture import mixture_figure
from kdey.experiments.figures.representation import representation_figure
from kdey.experiments.figures.sensitivity import sensitivity_figure
from kdey.experiments.figures.shift import shift_figure
from kdey.experiments.settings import METRICS, SETTINGS
from kdey.experiments.store import Results

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
