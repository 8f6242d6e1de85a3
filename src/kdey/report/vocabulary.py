"""The words and colours that all figures share: a report's, the displays' and the paper's.

A colour is defined once, as a hue with three tones: for print and plots, for the light page and
for the dark page. A quantity has one name wherever it is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kdey.status import (
    ALIKE,
    EMPTY,
    FEW_LABELS,
    MISSING_STRATA,
    MISSING_VALUES,
    NO_LABELS,
    NOT_CHECKED,
    NOT_CONVERGED,
    OK,
    ONE_SIDED,
    POOR_FIT,
    TOO_SMALL,
    UNSEEN_VALUES,
    status_parts,
)


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
PAPER = Hue("#ffffff", "#ffffff", "#14181d")
PANEL = Hue("#f5f7f9", "#f5f7f9", "#1c2229")
INK = Hue("#000000", "#1b2128", "#e9edf1")
SOFT_INK = Hue("#3d4650", "#4b5663", "#b3bdc8")
RULE = Hue("#c8ced5", "#d3dae1", "#3a444f")

#: Series of a plot, in order; the grey is dark enough not to be taken for the green or the purple
#: by readers who do not see green.
COLOURS = (
    *(hue.plot for hue in (BLUE, VERMILION, GREEN, PURPLE, ORANGE)),
    *("#56B4E9", "#000000", GREY.plot),
)
#: Variables of the page's style sheet, by their roles.
_PAGE_COLOURS = {
    "paper": PAPER,
    "panel": PANEL,
    "ink": INK,
    "soft": SOFT_INK,
    "rule": RULE,
    "accent": BLUE,
    "naive": VERMILION,
    "training": GREY,
    "truth": INK,
    "good": GREEN,
    "bad": RED,
    "link": LINK,
}

#: What figures call the shares of a class.
SHARES = {
    "estimate": "estimate",
    "naive": "uncorrected count",
    "training": "share in training",
    "truth": "known labels",
}
#: The words of a status for readers who have never heard of the library.
_PLAIN_STATUS = {
    OK: "",
    EMPTY: "no records",
    TOO_SMALL: "too few records",
    POOR_FIT: "looks unlike the training examples",
    MISSING_VALUES: "missing values",
    UNSEEN_VALUES: "values that the training examples lack",
    NOT_CONVERGED: "the calculation did not settle",
    ALIKE: "groups cannot be told apart",
    FEW_LABELS: "a class with few training examples",
    NO_LABELS: "no known labels",
    MISSING_STRATA: "a part of the population is missing",
    ONE_SIDED: "partly checked",
}
#: The axes of a reliability curve.
CLAIMED, OBSERVED = "posterior of the predicted class", "share of correct predictions"


def page_colours(theme: Literal["light", "dark"]) -> str:
    """Return the colours of a theme as declarations of CSS variables."""
    return " ".join(f"--{name}: {tone};" for name, tone in theme_tones(theme).items())


def theme_tones(theme: Literal["light", "dark"]) -> dict[str, str]:
    """Return the colours of a theme by their roles."""
    return {name: getattr(hue, theme) for name, hue in _PAGE_COLOURS.items()}


def plain_status(status: str) -> str:
    """Return a status in words for everybody; empty where all is well."""
    parts = [
        "not checked" if part.startswith(NOT_CHECKED) else _PLAIN_STATUS.get(part, part)
        for part in status_parts(status)
    ]
    return "; ".join(part for part in parts if part)


def interval_name(confidence: float | None) -> str:
    """Return what legends call an interval."""
    return "interval" if confidence is None else f"{100 * confidence:g} % interval"


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
