"""How objects show themselves: a sentence, a table with percentages and bars, and remarks.

An object that shows itself makes an :class:`Overview`, which a terminal shows as text and a
notebook as HTML. Where the columns of a table do not fit in 80 characters, the least important ones
are left out and named below the table; numbers are never shortened. Text is plain ASCII apart from
names of the user, so that it can be written to any terminal and file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Columns of a terminal that texts are made for.
LINE_WIDTH = 80
#: Rows of a table that are shown of objects which may have thousands.
MOST_ROWS = 10
#: Characters of a bar in a text.
_BAR_WIDTH = 20
#: Longer names of rows give way to columns: they are shortened if there is no room for them.
_LONG_NAME = 32
#: Columns that did not fit are named up to this number.
_MOST_OMITTED = 5
_GAP = "  "
_CELL_STYLE = "text-align:right;white-space:nowrap"


class OverviewCell:
    """A cell of an overview."""

    def text(self) -> str:
        """Return the cell for a terminal."""
        raise NotImplementedError

    def html(self) -> str:
        """Return the cell for a page, with every text escaped."""
        return escape(self.text())


@dataclass(frozen=True)
class Text(OverviewCell):
    """A cell of words, or of a number that is already formatted."""

    words: str

    def text(self) -> str:
        """Return the words."""
        return self.words


@dataclass(frozen=True)
class Bar(OverviewCell):
    """A share, drawn as a bar, with its limits where they are known.

    Attributes
    ----------
    value, low, high : float in [0, 1]
        Without limits ``low`` and ``high`` are the value.
    """

    value: float
    low: float
    high: float

    def text(self) -> str:
        """Return ``#`` up to the lower limit, ``=`` up to the value, ``-`` up to the upper one."""
        low, value, high = (_cells(part) for part in (self.low, self.value, self.high))
        return "#" * low + "=" * (value - low) + "-" * (high - value)

    def html(self) -> str:
        """Return the bar as HTML, hidden from screen readers, which read the numbers."""
        low, value, high = (100 * _clipped(part) for part in (self.low, self.value, self.high))
        parts = "".join(
            f'<span style="position:absolute;left:{start:.1f}%;width:{end - start:.1f}%;top:0;'
            f'height:100%;background:#0072b2;opacity:{opacity}"></span>'
            for start, end, opacity in ((0, low, 0.9), (low, value, 0.6), (value, high, 0.3))
        )
        return (
            '<span aria-hidden="true" style="position:relative;display:inline-block;width:9em;'
            f'height:0.8em;background:rgba(128,128,128,0.2)">{parts}</span>'
        )


@dataclass(frozen=True)
class OverviewColumn:
    """A column of an overview.

    Attributes
    ----------
    name : str
    cells : sequence of OverviewCell
    numeric : bool
        Numbers are aligned to the right, texts and bars to the left.
    importance : int
        Where there is not enough room, the column of the smallest importance is left out first,
        and of several the last one. Columns of importance 9 always stay.
    """

    name: str
    cells: Sequence[OverviewCell]
    numeric: bool = True
    importance: int = 5

    @property
    def texts(self) -> list[str]:
        """The cells as text."""
        return [cell.text() for cell in self.cells]

    @property
    def width(self) -> int:
        """The number of characters that the column needs."""
        return max(len(text) for text in (self.name, *self.texts))

    def html_cell(self, row: int) -> str:
        """Return a cell as HTML."""
        style = f' style="{_CELL_STYLE}"' if self.numeric else ""
        return f"<td{style}>{self.cells[row].html()}</td>"


@dataclass(frozen=True)
class Overview:
    """What an object shows of itself.

    Attributes
    ----------
    sentence : str
        The result in words.
    names : OverviewColumn
        The names of the rows.
    columns : tuple of OverviewColumn
    remarks : tuple of str
        Shown below the table.
    """

    sentence: str
    names: OverviewColumn
    columns: tuple[OverviewColumn, ...]
    remarks: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        """Return the overview as text; a terminal breaks its sentences, and the table fits in."""
        remarks = (f"({remark})" for remark in self.remarks)
        return "\n".join([self.sentence, *self.table_lines(), *remarks])

    __repr__ = __str__

    def table_lines(self) -> list[str]:
        """Return the lines of the table, with a line that names columns which did not fit."""
        columns, omitted = _fitting(self.columns, min(self.names.width, _LONG_NAME))
        used = sum(len(_GAP) + column.width for column in columns)
        room = max(_LONG_NAME, LINE_WIDTH - used)
        names = [shorten(name, room) for name in self.names.texts]
        width = max(len(text) for text in (self.names.name, *names))
        rows = [[column.name for column in columns]]
        rows += [[column.texts[i] for column in columns] for i in range(len(names))]
        lines = []
        for name, row in zip((self.names.name, *names), rows, strict=True):
            cells = [
                text.rjust(column.width) if column.numeric else text.ljust(column.width)
                for text, column in zip(row, columns, strict=True)
            ]
            lines.append(_GAP.join((name.ljust(width), *cells)).rstrip())
        if omitted:
            named = ", ".join(shorten(name, _LONG_NAME) for name in omitted[:_MOST_OMITTED])
            more = len(omitted) - _MOST_OMITTED
            others = f" and {more} more" if more > 0 else ""
            lines.append(f"(no room for: {named}{others}; to_frame() has all)")
        return lines

    def html(self) -> str:
        """Return the overview as HTML, with all columns and every text escaped."""
        heads = "".join(f"<th>{escape(c.name)}</th>" for c in (self.names, *self.columns))
        body = "".join(
            f'<tr><th style="text-align:left">{escape(name)}</th>'
            + "".join(column.html_cell(i) for column in self.columns)
            + "</tr>"
            for i, name in enumerate(self.names.texts)
        )
        notes = "".join(f"<p>{escape(remark)}</p>" for remark in self.remarks)
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        return f"<div><p>{escape(self.sentence)}</p>{table}{notes}</div>"

    _repr_html_ = html


def row_names(name: str, labels: Iterable[object]) -> OverviewColumn:
    """Return the column that names the rows, such as the classes."""
    return text_column(name, map(str, labels), numeric=False, importance=9)


def text_column(
    name: str, texts: Iterable[str], *, numeric: bool = True, importance: int = 5
) -> OverviewColumn:
    """Return a column of texts; see :class:`OverviewColumn` for the other parameters."""
    return OverviewColumn(name, [Text(text) for text in texts], numeric, importance)


def bar_column(
    value: ArrayLike, low: ArrayLike | None = None, high: ArrayLike | None = None
) -> OverviewColumn:
    """Return a column of bars.

    Parameters
    ----------
    value : array-like of shape (n,)
        Shares from 0 to 1; NaN gives an empty cell.
    low, high : array-like of shape (n,), optional
        Limits; where they are unknown (NaN) the bar has none.
    """
    values, lows, highs = (
        np.asarray(value if part is None else part, dtype=np.float64) for part in (value, low, high)
    )
    lows = np.where(np.isnan(lows), values, lows)
    highs = np.where(np.isnan(highs), values, highs)
    rows = zip(values.tolist(), lows.tolist(), highs.tolist(), strict=True)
    cells = [Text("") if np.isnan(v) else Bar(v, a, b) for v, a, b in rows]
    return OverviewColumn("", cells, numeric=False, importance=1)


def percentages(values: ArrayLike, decimals: int = 1) -> list[str]:
    """Return shares in per cent; "-" where a share is unknown."""
    shares = np.asarray(values, dtype=np.float64)
    return ["-" if np.isnan(share) else f"{100 * share:.{decimals}f} %" for share in shares]


def share_decimals(*shares: NDArray[np.float64]) -> int:
    """Return the decimals that percentages need: two if there are shares below 1 %, else one.

    Shares that two decimals show as zero do not count.
    """
    values = np.concatenate([np.ravel(part) for part in shares])
    return 2 if ((values >= 0.00005) & (values < 0.01)).any() else 1


def shorten(name: str, width: int) -> str:
    """Return a name of at most ``width`` characters, with its beginning and its end."""
    if len(name) <= width:
        return name
    end = (width - 3) // 2
    return f"{name[: width - 3 - end]}...{name[len(name) - end :]}"


def _fitting(
    columns: Sequence[OverviewColumn], names_width: int
) -> tuple[list[OverviewColumn], list[str]]:
    """Return the columns that fit beside names of a width, and the names of the others."""
    kept = list(columns)
    while names_width + sum(len(_GAP) + column.width for column in kept) > LINE_WIDTH:
        droppable = [column for column in kept if column.importance < 9]
        if not droppable:
            break
        least = min(column.importance for column in droppable)
        kept.remove([column for column in droppable if column.importance == least][-1])
    omitted = [column.name for column in columns if column not in kept and column.name]
    return kept, omitted


def _clipped(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def _cells(share: float) -> int:
    return round(_BAR_WIDTH * _clipped(share))
