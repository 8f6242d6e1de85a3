"""Tables of shares as shaded cells: the confusion matrix, groups by classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.report.axes import percent
from kdey.report.svg import Drawing, shortened, text_width

#: Shading of a share of one: text on it must stay readable.
DARKEST = 0.5
#: More columns than this have no numbers in their cells.
_MOST_NUMBERS = 12


def heat_figure(
    shares: NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    name: str,
    title: str,
    told: str,
    axes: tuple[str, str] = ("", ""),
    darkest: float = 1.0,
) -> Drawing:
    """Return cells shaded by their share; NaN cells stay empty.

    Parameters
    ----------
    shares : array of shape (n_rows, n_columns), in [0, 1]
    rows, columns : labels
    axes : what rows and columns are, in words
    darkest : float
        The share with the darkest shade.
    """
    numbers = len(columns) <= _MOST_NUMBERS
    wide, tall = (54.0, 26.0) if numbers else (max(13.0, 560.0 / len(columns)), 18.0)
    short_rows = [shortened(label, 140) for label in rows]
    short_columns = [shortened(label, 110) for label in columns]
    left = max(text_width(label) for label in short_rows) + (34 if axes[0] else 16)
    # Labels of columns stand slanted: their height is what their length makes it.
    top = 0.72 * max(text_width(label) for label in short_columns) + (34 if axes[1] else 18)
    width = left + wide * len(columns) + top
    drawing = Drawing(name, width, top + tall * len(rows) + 6, title, told)
    for j, label in enumerate(short_columns):
        place = f"translate({left + wide * (j + 0.5):.1f} {top - 6:.1f}) rotate(-45)"
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
            _cell(drawing, box, share / darkest, tip, f"{100 * share:.1f}" if numbers else "")
    _name_axes(drawing, axes, left, top, tall * len(rows))
    return drawing


def _cell(drawing: Drawing, box: dict[str, Any], depth: float, tip: str, text: str) -> None:
    """Draw a cell of a shade between none (0) and darkest (1)."""
    shade = round(DARKEST * min(max(depth, 0.0), 1.0), 3)
    drawing.add("rect", tip=tip, **box, class_="cell")
    if shade > 0.004:
        drawing.add("rect", tip=tip, **box, class_="heat", fill_opacity=f"{shade:g}")
    if text not in ("", "0.0"):
        middle, base = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 + 4
        drawing.words(middle, base, text, "number", "middle")


def _name_axes(
    drawing: Drawing, axes: tuple[str, str], left: float, top: float, tall: float
) -> None:
    if axes[1]:
        drawing.words(left, 12, axes[1], "tick")
    if axes[0]:
        drawing.add(
            "text",
            axes[0],
            transform=f"translate(12 {top + tall / 2:.0f}) rotate(-90)",
            class_="tick",
            text_anchor="middle",
        )
