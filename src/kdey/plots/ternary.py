"""Ternary axes of mpltern: which corner is which class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.plots.style import literal_text, pyplot

Floats = NDArray[np.floating]


def ternary(points: Floats) -> tuple[Floats, Floats, Floats]:
    """Return points (n, 3) as mpltern takes them: top, left and right.

    The first class lies left, the second right, the third on top.
    """
    return points[:, 2], points[:, 0], points[:, 1]


def name_corners(ax: Any, classes: Sequence[str]) -> None:
    """Write the names of three classes at their corners, without ticks."""
    left, right, top = classes
    for label, side in ((top, "t"), (left, "l"), (right, "r")):
        getattr(ax, f"set_{side}label")(literal_text(label))
    for axis in (ax.taxis, ax.laxis, ax.raxis):
        axis.set_label_position("corner")
        axis.set_label_rotation_mode("horizontal")
        axis.set_ticks([])


def need_mpltern() -> None:
    """Raise ImportError, with what to install, unless matplotlib and mpltern are there."""
    pyplot()
    try:
        import mpltern  # noqa: F401  (it registers the ternary projection)
    except ImportError:
        raise ImportError("the simplex is drawn by mpltern: pip install 'kdey[plot]'") from None
