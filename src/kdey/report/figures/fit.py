"""The fit check: where this bag lies among bags that differ in prevalence only."""

from __future__ import annotations

import numpy as np

from kdey.diagnostics import FitCheck
from kdey.report.axes import Axis
from kdey.report.svg import Drawing, text_width

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 560.0, 200.0, 12.0, 26.0, 40.0
_N_BINS = 30


def fit_figure(check: FitCheck, name: str = "fit") -> Drawing:
    """Return the histogram of the null statistics with this bag's statistic on it."""
    seen = check.statistic
    told = (
        f"Histogram of {len(check.null)} bags drawn from training at the estimated shares; this "
        f"bag lies at {seen:.3g}; p = {check.p_value:.3g}."
    )
    drawing = Drawing(name, _WIDTH, _HEIGHT, "Fit of this bag among bags that must fit", told)
    low, high = min(seen, *check.null), max(seen, *check.null)
    margin = 0.04 * (high - low) or 1.0
    axis = Axis(low - margin, high + margin, _LEFT, _WIDTH - _LEFT)
    counts, edges = np.histogram(check.null, bins=_N_BINS, range=(axis.low, axis.high))
    bottom = _HEIGHT - _BOTTOM
    up = Axis(0.0, float(counts.max()), bottom, _TOP)
    for count, start, stop in zip(counts, edges[:-1], edges[1:], strict=True):
        if count:
            x, y = axis.at(start), up.at(float(count))
            wide = axis.at(stop) - x - 1
            drawing.add("rect", x=x, y=y, width=wide, height=bottom - y, class_="bar")
    drawing.line(_LEFT, bottom, _WIDTH - _LEFT, bottom, "axis")
    for value in axis.ticks():
        drawing.words(axis.at(value), bottom + 15, f"{value:.3g}", "tick", "middle")
    drawing.words(_WIDTH / 2, _HEIGHT - 6, "how well a bag fits (left: badly)", "tick", "middle")
    place = axis.at(seen)
    drawing.line(place, _TOP - 6, place, bottom, "seen", f"this bag: {seen:.3g}")
    half = text_width("this bag") / 2
    drawing.words(min(max(place, half), _WIDTH - half), _TOP - 11, "this bag", "label", "middle")
    return drawing
