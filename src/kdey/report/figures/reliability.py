"""The classifier's calibration: how sure it is against how often it is right."""

from __future__ import annotations

import numpy as np

from kdey.report.axes import Axis, draw_across, draw_up, percent
from kdey.report.reliability import Reliability
from kdey.report.svg import Drawing

_SIZE, _LEFT, _TOP, _BOTTOM = 340.0, 64.0, 12.0, 48.0


def reliability_figure(curve: Reliability, name: str = "reliability") -> Drawing:
    """Return the reliability curve with limits of chance for each bin."""
    told = (
        f"{len(curve.claimed)} bins; the expected calibration error is {percent(curve.error)}. "
        "Points on the diagonal are calibrated; below it the classifier is too sure."
    )
    width, height = _LEFT + _SIZE + 26, _TOP + _SIZE + _BOTTOM
    drawing = Drawing(name, width, height, "Calibration of the classifier", told)
    low = np.floor(10 * min(curve.claimed[0], curve.low.min(), 0.9)) / 10
    across = Axis(low, 1.0, _LEFT, _LEFT + _SIZE)
    up = Axis(low, 1.0, _TOP + _SIZE, _TOP)
    draw_across(drawing, across, _TOP, _TOP + _SIZE)
    draw_up(drawing, up, _LEFT, _LEFT + _SIZE, about=5)
    drawing.line(across.start, up.start, across.stop, up.stop, "diagonal")
    points = []
    for claim, seen, lower, upper, n in zip(
        curve.claimed, curve.observed, curve.low, curve.high, curve.counts, strict=True
    ):
        x, y = across.at(claim), up.at(seen)
        points.append(f"{x:.1f},{y:.1f}")
        drawing.line(x, up.at(lower), x, up.at(upper), "whisker")
        tip = f"claimed {percent(claim)}, right {percent(seen)} of {n:,}"
        drawing.add("circle", tip=tip, cx=x, cy=y, r=4, class_="estimate")
    drawing.add("polyline", points=" ".join(points), class_="curve")
    drawing.words(
        _LEFT + _SIZE / 2, height - 8, "posterior of the class decided for", "tick", "middle"
    )
    drawing.add(
        "text",
        "share of right decisions",
        transform=f"translate(13 {_TOP + _SIZE / 2:.0f}) rotate(-90)",
        class_="tick",
        text_anchor="middle",
    )
    return drawing
