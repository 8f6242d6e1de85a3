"""What all figures of shares have in common: marks on a line, and the legend that explains them.

Shapes tell the marks apart, not colours alone: the estimate is a dot on a bar, the uncorrected
count a diamond, the share in training an upright line and known labels a cross.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kdey.report.groups import ClassRow
from kdey.report.svg import Axis, Drawing, text_width
from kdey.report.vocabulary import SHARES, interval_name, percent

#: Height of a line of a legend, and the size of its text.
_LINE, _SIZE = 20.0, 11.0


@dataclass(frozen=True)
class Legend:
    """What the marks of a figure mean, in as many lines as its width needs.

    Attributes
    ----------
    items : tuple of (kind of mark, meaning)
    left, right : float
        Where the lines begin and end.
    """

    items: tuple[tuple[str, str], ...]
    left: float
    right: float

    @classmethod
    def of_shares(
        cls, rows: Sequence[ClassRow], confidence: float | None, left: float, right: float
    ) -> Legend:
        """Return the legend of the marks that occur in some rows."""
        present = [k for k in SHARES if any(getattr(row, k) is not None for row in rows)]
        meanings = {**SHARES, "estimate": f"estimate with {interval_name(confidence)}"}
        return cls(tuple((kind, meanings[kind]) for kind in present), left, right)

    @property
    def height(self) -> float:
        """The height of all lines."""
        return _LINE * (1 + max((line for line, _ in self._places()), default=-1))

    def _places(self) -> list[tuple[int, float]]:
        """Return the line and the place of each item."""
        places: list[tuple[int, float]] = []
        line, x = 0, self.left
        for _, meaning in self.items:
            wide = 48 + text_width(meaning, _SIZE)
            if x > self.left and x + wide - 16 > self.right:
                line, x = line + 1, self.left
            places.append((line, x))
            x += wide
        return places

    def draw(self, drawing: Drawing, top: float = 0.0) -> None:
        """Draw all lines below a height."""
        for (kind, meaning), (line, x) in zip(self.items, self._places(), strict=True):
            y = top + _LINE * (line + 0.5)
            _draw_sample(drawing, kind, x, y)
            drawing.words(x + 28, y + 4, meaning, "tick")


def _draw_sample(drawing: Drawing, kind: str, x: float, y: float) -> None:
    """Draw an example of a mark, 22 wide."""
    if kind == "interval-thin":
        drawing.line(x, y, x + 22, y, kind)
        drawing.add("circle", cx=x + 11, cy=y, r=2.6, class_="point s0")
    elif kind == "band":
        drawing.add("rect", x=x, y=y - 6, width=22.0, height=12.0, class_="band")
        drawing.line(x, y, x + 22, y, "curve")
    elif kind in ("training-line", "others", "bound-line", "alarm-line"):
        drawing.line(x, y, x + 22, y, kind)
    else:
        if kind == "estimate":
            drawing.line(x, y, x + 22, y, "interval")
        draw_mark(drawing, kind, x + 11, y)


def draw_marks(drawing: Drawing, axis: Axis, y: float, row: ClassRow) -> None:
    """Draw all that is known of one class on a line."""
    for kind in ("training", "interval", "naive", "estimate", "truth"):
        if kind == "interval":
            if row.low is not None and row.high is not None:
                tip = f"{row.name}: {percent(row.low)} to {percent(row.high)}"
                drawing.line(axis.at(row.low), y, axis.at(row.high), y, "interval", tip)
            continue
        share: float | None = getattr(row, kind)
        if share is not None:
            tip = f"{row.name}, {SHARES[kind]}: {percent(share)}"
            draw_mark(drawing, kind, axis.at(share), y, tip)


def draw_mark(drawing: Drawing, kind: str, x: float, y: float, tip: str | None = None) -> None:
    """Draw the mark of a share: "estimate", "naive", "training" or "truth"."""
    if kind == "estimate":
        drawing.add("circle", tip=tip, cx=x, cy=y, r=5, class_="estimate")
    elif kind == "naive":
        path = f"M{x:.1f} {y - 6:.1f}l5 6l-5 6l-5 -6z"
        drawing.add("path", tip=tip, d=path, class_="naive")
    elif kind == "training":
        drawing.line(x, y - 9, x, y + 9, "training", tip)
    else:
        path = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
        drawing.add("path", tip=tip, d=path, class_="truth")
