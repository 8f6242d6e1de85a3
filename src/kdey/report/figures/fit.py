"""Figures of the fit check (this bag among bags that must fit) and of the calibration."""

from __future__ import annotations

import numpy as np

from kdey.diagnostics import FitCheck
from kdey.report.classifier import Reliability
from kdey.report.svg import WIDE, Axis, Drawing, draw_across, draw_up, text_width
from kdey.report.vocabulary import CLAIMED, OBSERVED, percent

_MOST_WIDE, _HEIGHT, _LEFT, _TOP, _BOTTOM = 560.0, 200.0, 12.0, 26.0, 40.0
_N_BINS = 30
_LARGEST, _CURVE_LEFT, _CURVE_RIGHT, _CURVE_TOP, _CURVE_BOTTOM = 340.0, 64.0, 26.0, 12.0, 48.0


def fit_figure(check: FitCheck, name: str = "fit", width: float = WIDE) -> Drawing:
    """Return the histogram of the null statistics with this bag's statistic on it."""
    width = min(width, _MOST_WIDE)
    statistic = check.statistic
    description = (
        f"Histogram of {len(check.null)} bags drawn from training at the estimated shares; this "
        f"bag lies at {statistic:.3g}; p = {check.p_value:.3g}."
    )
    drawing = Drawing(name, width, _HEIGHT, "Fit of this bag among bags that must fit", description)
    low, high = min(statistic, *check.null), max(statistic, *check.null)
    margin = 0.04 * (high - low) or 1.0
    axis = Axis(low - margin, high + margin, _LEFT, width - _LEFT)
    counts, edges = np.histogram(check.null, bins=_N_BINS, range=(axis.low, axis.high))
    bottom = _HEIGHT - _BOTTOM
    up = Axis(0.0, float(counts.max()), bottom, _TOP)
    for count, start, stop in zip(counts, edges[:-1], edges[1:], strict=True):
        if count:
            x, y = axis.at(start), up.at(float(count))
            wide = axis.at(stop) - x - 1
            drawing.add("rect", x=x, y=y, width=wide, height=bottom - y, class_="bar")
    drawing.line(_LEFT, bottom, width - _LEFT, bottom, "axis")
    for value in axis.ticks(5 if width == _MOST_WIDE else 3):
        drawing.words(axis.at(value), bottom + 15, f"{value:.3g}", "tick", "middle")
    drawing.words(width / 2, _HEIGHT - 6, "how well a bag fits (left: badly)", "tick", "middle")
    place = axis.at(statistic)
    drawing.line(place, _TOP - 6, place, bottom, "seen", f"this bag: {statistic:.3g}")
    half = text_width("this bag") / 2
    drawing.words(min(max(place, half), width - half), _TOP - 11, "this bag", "label", "middle")
    return drawing


def reliability_figure(
    curve: Reliability, name: str = "reliability", width: float = WIDE
) -> Drawing:
    """Return the reliability curve with limits of chance for each bin."""
    size = min(_LARGEST, width - _CURVE_LEFT - _CURVE_RIGHT)
    description = (
        f"{len(curve.claimed)} bins; the expected calibration error is {percent(curve.error)}. "
        "Points on the diagonal are calibrated; below it the classifier is overconfident."
    )
    height = _CURVE_TOP + size + _CURVE_BOTTOM
    drawing = Drawing(
        name,
        _CURVE_LEFT + size + _CURVE_RIGHT,
        height,
        "Calibration of the classifier",
        description,
    )
    low = np.floor(10 * min(curve.claimed[0], curve.low.min(), 0.9)) / 10
    across = Axis(low, 1.0, _CURVE_LEFT, _CURVE_LEFT + size)
    up = Axis(low, 1.0, _CURVE_TOP + size, _CURVE_TOP)
    draw_across(drawing, across, _CURVE_TOP, _CURVE_TOP + size)
    draw_up(drawing, up, _CURVE_LEFT, _CURVE_LEFT + size, about=5)
    drawing.line(across.start, up.start, across.stop, up.stop, "diagonal")
    points = []
    for claim, share, lower, upper, n in zip(
        curve.claimed, curve.observed, curve.low, curve.high, curve.counts, strict=True
    ):
        x, y = across.at(claim), up.at(share)
        points.append(f"{x:.1f},{y:.1f}")
        drawing.line(x, up.at(lower), x, up.at(upper), "whisker")
        tip = f"claimed {percent(claim)}, right {percent(share)} of {n:,}"
        drawing.add("circle", tip=tip, cx=x, cy=y, r=4, class_="estimate")
    drawing.add("polyline", points=" ".join(points), class_="curve")
    drawing.words(_CURVE_LEFT + size / 2, height - 8, CLAIMED, "tick", "middle")
    drawing.add(
        "text",
        OBSERVED,
        transform=f"translate(13 {_CURVE_TOP + size / 2:.0f}) rotate(-90)",
        class_="tick",
        text_anchor="middle",
    )
    return drawing
