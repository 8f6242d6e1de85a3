"""Colours are told apart by all eyes: by those that lack one kind of cones, too.

Colour vision without one kind of cones is simulated by the matrices of Machado, Oliveira and
Fernandes (2009), for full severity, on linear RGB. Distances are those of CIE 1976 (L*a*b*), where
2 is just visible side by side.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, Literal

import numpy as np
import pytest

from kdey.report.page import COLOURS, page_colours

EYES = {
    "all cones": np.eye(3),
    "no long-wave cones": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no middle-wave cones": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no short-wave cones": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour: str, eyes: Any) -> Any:
    """Return L*a*b* of #rrggbb as some eyes see it."""
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    xyz = _TO_XYZ @ np.clip(np.array(eyes) @ linear, 0, 1) / _TO_XYZ.sum(axis=1)
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def nearest(colours: Any, eyes: Any) -> float:
    """Return the distance of the two colours that are hardest to tell apart."""
    seen = [lab(colour, eyes) for colour in colours]
    return min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2))


@pytest.mark.parametrize("eyes", EYES.values(), ids=EYES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_marks_of_a_figure(eyes: Any, theme: Literal["light", "dark"]) -> None:
    tones = page_colours(theme)
    marks = [tones[role] for role in ("accent", "naive", "training", "truth", "paper")]
    assert nearest(marks, eyes) > 15


@pytest.mark.parametrize("eyes", EYES.values(), ids=EYES)
def test_series_of_a_plot(eyes: Any) -> None:
    assert nearest(COLOURS, eyes) > 15


def test_the_distance_finds_colours_that_look_the_same() -> None:
    pair = ["#CC79A7", "#999999"]
    assert nearest(pair, EYES["all cones"]) > 30
    assert nearest(pair, EYES["no middle-wave cones"]) < 10
