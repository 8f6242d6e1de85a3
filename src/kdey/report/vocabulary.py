"""The words and colours that all figures share: a report's, the displays' and the paper's.

A colour is defined once, as a hue with three tones: for print and plots, for the light page and
for the dark page. A quantity has one name wherever it is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Hue:
    """One colour in the tones that each background needs.

    Attributes
    ----------
    plot : str
        For plots on white; colour-blind readers can tell them apart (Okabe and Ito, 2008).
    light, dark : str
        For the light and the dark page, with enough contrast for lines and text.
    """

    plot: str
    light: str
    dark: str


BLUE = Hue("#0072B2", "#0b5fa5", "#6db5f2")
VERMILION = Hue("#D55E00", "#b4430d", "#f2a274")
GREEN = Hue("#009E73", "#12703c", "#6fce97")
PURPLE = Hue("#CC79A7", "#7a3fa0", "#cb9dee")
ORANGE = Hue("#E69F00", "#8a6100", "#e3bd55")
GREY = Hue("#555555", "#5d6875", "#a3afbb")
RED = Hue("#b03a2e", "#a32222", "#ff9a94")
LINK = Hue("#0072B2", "#0b5fa5", "#8cc6f7")

#: Series of a plot, in order.
COLOURS = (
    *(hue.plot for hue in (BLUE, VERMILION, GREEN, PURPLE, ORANGE)),
    *("#56B4E9", "#000000", "#999999"),
)
#: Variables of the page's style sheet: a role, or the number of a series.
_PAGE_COLOURS = {
    "accent": BLUE,
    "naive": VERMILION,
    "training": GREY,
    "truth": GREEN,
    "good": GREEN,
    "bad": RED,
    "region": BLUE,
    "link": LINK,
    **{f"s{i}": hue for i, hue in enumerate((BLUE, VERMILION, GREEN, PURPLE, ORANGE, GREY))},
}

#: What figures call the shares of a class.
SHARES = {
    "estimate": "estimate",
    "naive": "naive count",
    "training": "training",
    "truth": "labels",
}
#: The axes of a reliability curve.
CLAIMED, OBSERVED = "posterior of the predicted class", "share of correct predictions"


def page_colours(theme: Literal["light", "dark"]) -> str:
    """Return the colours of a theme as declarations of CSS variables."""
    tones = {name: getattr(hue, theme) for name, hue in _PAGE_COLOURS.items()}
    return " ".join(f"--{name}: {tone};" for name, tone in tones.items())


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share as per cent; a dash where there is none."""
    if share is None or math.isnan(share):
        return "–"
    # A number and its sign stay on one line.
    return f"{100 * share:.{digits}f}\u00a0%"


def tick_label(share: float) -> str:
    """Return a share as per cent without needless decimals."""
    return f"{100 * share:.4g} %"


def listed(parts: Sequence[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
