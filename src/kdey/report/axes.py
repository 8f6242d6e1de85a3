"""Linear axes: round ticks, and places for values."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kdey.report.svg import Drawing


@dataclass(frozen=True)
class Axis:
    """A linear map from values to places of a drawing.

    Attributes
    ----------
    low, high : float
        Values at the two ends.
    start, stop : float
        Places of the two ends.
    """

    low: float
    high: float
    start: float
    stop: float

    def at(self, value: float) -> float:
        """Return the place of a value, which is kept inside the axis."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.stop - self.start)

    def ticks(self, about: int = 5) -> list[float]:
        """Return round values inside the axis."""
        step = round_step((self.high - self.low) / about)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def round_step(rough: float) -> float:
    """Return 1, 2 or 5 times a power of ten, the smallest not below ``rough``."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(f * power for f in (1.0, 2.0, 5.0, 10.0) if f * power >= rough * (1 - 1e-9))


def share_axis(largest: float, start: float, stop: float) -> Axis:
    """Return the axis of shares from zero to a round number past the largest."""
    top = min(max(1.02 * largest, 0.01), 1.0)
    step = round_step(top / 5)
    return Axis(0.0, min(math.ceil(top / step - 1e-9) * step, 1.0), start, stop)


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share as per cent; a dash where there is none."""
    if share is None or math.isnan(share):
        return "–"
    # A number and its sign stay on one line.
    return f"{100 * share:.{digits}f}\u00a0%"


def tick_label(share: float) -> str:
    """Return a share as per cent without needless decimals."""
    return f"{100 * share:.4g} %"


def draw_across(drawing: Drawing, axis: Axis, top: float, bottom: float, about: int = 5) -> None:
    """Draw a horizontal axis of shares under a plot, its grid lines through the plot."""
    for value in axis.ticks(about):
        place = axis.at(value)
        drawing.line(place, top, place, bottom, "grid")
        drawing.words(place, bottom + 16, tick_label(value), "tick", "middle")


def draw_up(drawing: Drawing, axis: Axis, left: float, right: float, about: int = 4) -> None:
    """Draw a vertical axis of shares left of a plot, its grid lines through the plot."""
    for value in axis.ticks(about):
        place = axis.at(value)
        drawing.line(left, place, right, place, "grid")
        drawing.words(left - 6, place + 4, tick_label(value), "tick", "end")
