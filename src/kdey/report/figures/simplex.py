"""Three classes as a triangle: the distribution of posteriors, and the prevalence as a point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kdey.bags import Array
from kdey.intervals import Estimate
from kdey.intervals.region import Region
from kdey.kernels.sums import class_log_sums
from kdey.report.figures.marks import draw_mark
from kdey.report.groups import ClassRow
from kdey.report.svg import MOST_NARROW, WIDE, Drawing, shortened
from kdey.report.vocabulary import SHARES, percent

#: Bandwidth of the shading, cells along a side, levels of shade, points drawn.
_BANDWIDTH, _STEPS, _LEVELS, _MOST_POINTS = 0.06, 28, 6, 250
_SIDE, _MARGIN = 180.0, 34.0
#: Directions in which the border of the joint region is searched.
_RAYS = 120
#: Shares of the middle of the simplex that are mixed into the point where rays start, if possible.
_INWARD = (0.1, 0.03, 0.01)


def posteriors_figures(
    parts: Sequence[tuple[str, Array]], classes: Sequence[str], name: str = "simplex"
) -> list[Drawing]:
    """Return a triangle for each named set of posteriors (m, 3): its density and its points."""
    wide = _SIDE + 2 * _MARGIN
    drawings = []
    for number, (label, points) in enumerate(parts):
        means = ", ".join(percent(share) for share in points.mean(axis=0))
        drawing = Drawing(
            f"{name}-{number}",
            wide,
            _height(_SIDE) + 62,
            f"Posteriors of {label}",
            f"Where the posteriors lie, a corner for each class; their mean is {means}.",
        )
        drawing.words(wide / 2, 14, shortened(label, wide - 8), "heading", "middle")
        corners = _corners(_MARGIN, 40, _SIDE)
        _shade(drawing, corners, points, "bag" if number == len(parts) - 1 else f"c{number}")
        _frame(drawing, corners, classes)
        drawings.append(drawing)
    return drawings


def prevalence_triangle(
    estimate: Estimate, rows: Sequence[ClassRow], name: str = "region", width: float = WIDE
) -> Drawing:
    """Return the prevalence of three classes as a point, with its joint region."""
    narrow = width <= MOST_NARROW
    side, margin = (width - 60, 30.0) if narrow else (380.0, 60.0)
    top = 110.0 if narrow else 34.0
    description = (
        f"The estimate {', '.join(percent(row.estimate) for row in rows)} with its joint "
        f"{100 * estimate.confidence:g} % region, the uncorrected count and the share in training."
    )
    drawing = Drawing(
        name,
        width if narrow else side + 2 * margin + 90,
        _height(side) + top + 46,
        "Prevalence of three classes",
        description,
    )
    corners = _corners(margin, top, side)
    _grid(drawing, corners)
    border = region_border(estimate.region, region_middle(estimate))
    if border is not None:
        drawing.add("polygon", points=_points(border @ corners), class_="region")
    _frame(drawing, corners, [row.name for row in rows])
    for kind in ("training", "naive", "estimate"):
        shares = [getattr(row, kind) for row in rows]
        if None not in shares:
            x, y = np.array(shares) @ corners
            _place(drawing, kind, x, y, f"{SHARES[kind]}: {', '.join(percent(v) for v in shares)}")
    _key(drawing, 12.0 if narrow else side + 2 * margin - 40, border is not None)
    return drawing


def region_border(region: Region, inside: Array) -> Array | None:
    """Return points (n, 3) on the border of a region around a point of it; None if it is outside.

    Bisection finds the last place inside along each ray from the point; rays end at the border of
    the simplex.
    """
    if not region.contains(inside):
        return None
    # From a point on an edge of the simplex hardly any ray runs along it: start further inside.
    starts = ((1.0 - share) * inside + share / 3.0 for share in _INWARD)
    inside = next((start for start in starts if region.contains(start)), inside)
    angles = np.linspace(0.0, 2 * np.pi, _RAYS, endpoint=False)
    plane = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[2.0], [6.0]])
    rays = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ plane
    falling = rays < 0
    limits = np.where(falling, inside / np.where(falling, -rays, 1.0), np.inf).min(axis=1)
    near, far = np.zeros(_RAYS), limits
    for _ in range(30):
        middle = (near + far) / 2
        points = np.clip(inside + middle[:, None] * rays, 0.0, None)
        inside_region = region.contains(points / points.sum(axis=1, keepdims=True))
        near = np.where(inside_region, middle, near)
        far = np.where(inside_region, far, middle)
    return np.asarray(np.clip(inside + near[:, None] * rays, 0.0, 1.0))


def region_middle(estimate: Estimate) -> Array:
    """Return the middle of the region: the corrected estimate where there is one."""
    return estimate.estimate if estimate.corrected is None else estimate.corrected


def _shade(drawing: Drawing, corners: Array, points: Array, kind: str) -> None:
    """Shade the triangle by the density of points, and draw some of the points."""
    cells = simplex_cells(_STEPS)
    middles = cells.mean(axis=1)
    sums = class_log_sums(middles, points, np.array([0, len(points)]), [_BANDWIDTH])
    density = np.exp(sums[0, :, 0] - sums[0, :, 0].max())
    level = np.ceil(_LEVELS * np.sqrt(density) - 0.25).astype(int)
    for number in range(1, _LEVELS + 1):
        chosen = cells[level >= number]
        if len(chosen):
            path = "".join(f"M{_points(cell @ corners).replace(' ', 'L')}z" for cell in chosen)
            drawing.add("path", d=path, class_=f"density {kind}")
    step = max(1, -(-len(points) // _MOST_POINTS))
    for x, y in points[::step] @ corners:
        drawing.add("circle", cx=round(x, 1), cy=round(y, 1), r=1.3, class_="dot")


def simplex_cells(steps: int) -> Array:
    """Return the small triangles of the three-class simplex, shape (steps^2, 3, 3)."""
    upright = [[(i + 1, j), (i, j + 1), (i, j)] for i in range(steps) for j in range(steps - i)]
    turned = [
        [(i + 1, j), (i, j + 1), (i + 1, j + 1)]
        for i in range(steps - 1)
        for j in range(steps - 1 - i)
    ]
    two = np.array(upright + turned, dtype=np.float64) / steps
    return np.concatenate([two, 1.0 - two.sum(axis=2, keepdims=True)], axis=2)


def _corners(left: float, top: float, side: float) -> Array:
    """Return the places of the corners: first class left, second right, third on top."""
    tall = _height(side)
    return np.array([[left, top + tall], [left + side, top + tall], [left + side / 2, top]])


def _height(side: float) -> float:
    return side * float(np.sqrt(3)) / 2


def _frame(drawing: Drawing, corners: Array, classes: Sequence[str]) -> None:
    drawing.add("polygon", points=_points(corners), class_="frame")
    for (x, y), label, anchor, below in zip(
        corners, classes, ("start", "end", "middle"), (16, 16, -7), strict=True
    ):
        # Names of the lower corners start under them and end before the picture does.
        shift = {"start": -24, "end": 24, "middle": 0}[anchor]
        drawing.words(x + shift, y + below, shortened(label, _SIDE / 2 + 22, 11), "tick", anchor)


def _grid(drawing: Drawing, corners: Array) -> None:
    for share in (0.2, 0.4, 0.6, 0.8):
        for i in range(3):
            first, second = np.eye(3)[(i + 1) % 3], np.eye(3)[(i + 2) % 3]
            ends = [share * np.eye(3)[i] + (1 - share) * end for end in (first, second)]
            (x1, y1), (x2, y2) = (end @ corners for end in ends)
            drawing.line(x1, y1, x2, y2, "grid")


def _place(drawing: Drawing, kind: str, x: float, y: float, tip: str | None = None) -> None:
    """Draw a share of all classes; the share in training is a box, as lines have no place here."""
    if kind == "training":
        drawing.add("rect", tip=tip, x=x - 4, y=y - 4, width=8, height=8, class_="training-box")
    else:
        draw_mark(drawing, kind, x, y, tip)


def _key(drawing: Drawing, left: float, with_region: bool) -> None:
    for number, kind in enumerate(("estimate", "naive", "training")):
        y = 24.0 + 22 * number
        _place(drawing, kind, left, y)
        drawing.words(left + 12, y + 4, SHARES[kind], "tick")
    if with_region:
        drawing.add("rect", x=left - 6, y=84, width=12, height=12, class_="region")
        drawing.words(left + 12, 94, "joint region", "tick")


def _points(places: Array) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
