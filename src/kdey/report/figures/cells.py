"""Cells shaded by their share: classes by groups, and true by predicted classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.report.svg import MOST_NARROW, WIDE, Drawing, shortened, text_width
from kdey.report.vocabulary import percent

#: Shading of a share of one: text on it must stay readable.
DARKEST = 0.5
#: More columns than this have no numbers in their cells.
_MOST_NUMBERS = 12
#: Width and height of a cell with a number, and of one without.
_LARGE, _SMALL = (54.0, 26.0), (26.0, 18.0)
#: Distance of slanted labels of columns that do not touch.
_LABEL_PITCH = 13.0


def heat_figure(
    shares: NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    name: str,
    title: str,
    description: str,
    axes: tuple[str, str] = ("", ""),
    darkest: float = 1.0,
    width: float = WIDE,
) -> Drawing:
    """Return cells shaded by their share; NaN cells stay empty.

    Parameters
    ----------
    shares : array of shape (n_rows, n_columns), in [0, 1]
    rows, columns : labels
    axes : what rows and columns are, in words
    darkest : float
        The share with the darkest shade.
    width : float
        Of the drawing, at most; cells shrink to it.
    """
    narrow = width <= MOST_NARROW
    short_rows = [shortened(label, 96 if narrow else 140) for label in rows]
    short_columns = [shortened(label, 84 if narrow else 110) for label in columns]
    left = max(text_width(label) for label in short_rows) + (34 if axes[0] else 16)
    # Labels of columns are slanted, or upright where there is no room for their ends.
    steep, lean = (1.0, 0.0) if narrow else (0.72, 1.0)
    top = steep * max(text_width(label) for label in short_columns) + (34 if axes[1] else 18)
    wide, tall = _cell_size(len(columns), width - left - lean * top)
    numbers = len(columns) <= _MOST_NUMBERS and wide >= 20
    whole = max(left + wide * len(columns) + lean * top, text_width(axes[1], 11))
    drawing = Drawing(name, whole, top + tall * len(rows) + 6, title, description)
    drawing.with_tips = not narrow
    step = max(1, int(np.ceil(_LABEL_PITCH / wide)))
    for j, label in list(enumerate(short_columns))[::step]:
        x = left + wide * (j + 0.5) + (4 if narrow else 0)
        place = f"translate({x:.1f} {top - 6:.1f}) rotate({-90 if narrow else -45})"
        drawing.add("text", label, transform=place, class_="tick")
    for i, label in enumerate(short_rows):
        y = top + tall * i
        drawing.words(left - 8, y + tall / 2 + 4, label, "tick", "end")
        for j in range(len(columns)):
            share = float(shares[i, j])
            if np.isnan(share):
                continue
            tip = f"{rows[i]}, {columns[j]}: {percent(share)}"
            box = {"x": left + wide * j, "y": y, "width": wide - 1, "height": tall - 1}
            text = f"{100 * share:.{1 if wide >= 32 else 0}f}" if numbers else ""
            _cell(drawing, box, share / darkest, tip, text)
    _name_axes(drawing, axes, left, top, tall * len(rows))
    return drawing


def _cell_size(n_columns: int, room: float) -> tuple[float, float]:
    """Return width and height of the cells."""
    wide, tall = _LARGE if n_columns <= _MOST_NUMBERS else _SMALL
    return min(wide, max(room / n_columns, 5.0)), tall


def _cell(drawing: Drawing, box: dict[str, Any], depth: float, tip: str, text: str) -> None:
    """Draw a cell of a shade between none (0) and darkest (1)."""
    shade = round(DARKEST * min(max(depth, 0.0), 1.0), 3)
    drawing.add("rect", tip=tip, **box, class_="cell")
    if shade > 0.004:
        drawing.add("rect", tip=tip, **box, class_="heat", fill_opacity=f"{shade:g}")
    if text not in ("", "0", "0.0"):
        middle, base = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 + 4
        drawing.words(middle, base, text, "number", "middle")


def _name_axes(
    drawing: Drawing, axes: tuple[str, str], left: float, top: float, tall: float
) -> None:
    if axes[1]:
        start = min(left, drawing.width - text_width(axes[1], 11))
        drawing.words(start, 12, axes[1], "tick")
    if axes[0]:
        drawing.add(
            "text",
            axes[0],
            transform=f"translate(12 {top + tall / 2:.0f}) rotate(-90)",
            class_="tick",
            text_anchor="middle",
        )
