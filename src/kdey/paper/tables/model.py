"""What a table is, before it is drawn in the terminal, in LaTeX, HTML, Markdown or CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kdey.bags import Array


@dataclass(frozen=True)
class Entry:
    """One cell of a table.

    Attributes
    ----------
    text : str
        What is shown; empty where there is nothing.
    value : float or None
        The number behind it.
    best : bool
        Shown in bold.
    mark : str
        "†", "‡" or "".
    shade : float or None
        From 1 (intense green) over 0 to -1 (intense red).
    """

    text: str = ""
    value: float | None = None
    best: bool = False
    mark: str = ""
    shade: float | None = None


@dataclass(frozen=True)
class Line:
    """A line of a table; ``summary`` lines (averages, ranks) stand apart from the others."""

    name: str
    entries: tuple[Entry, ...]
    summary: bool = False


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes
    ----------
    name : str
        For file names.
    title : str
    corner : str
        Above the names of the lines.
    columns : tuple of str
    families : tuple of str
        One per column; equal neighbours share a heading. Empty: none.
    lines : tuple of Line
    notes : tuple of str
    """

    name: str
    title: str
    corner: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    families: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def headings(self) -> list[tuple[str, int]]:
        """Return the families with the number of neighbouring columns of each."""
        found: list[tuple[str, int]] = []
        for family in self.families:
            if found and found[-1][0] == family:
                found[-1] = (family, found[-1][1] + 1)
            else:
                found.append((family, 1))
        return found


def number(value: float, digits: int = 5) -> Entry:
    """Return a plain number; NaN gives an empty entry."""
    if np.isnan(value):
        return Entry()
    return Entry(f"{value:.{digits}f}", float(value))


def shaded(
    values: Array, texts: Sequence[str] | None = None, marks: Sequence[str] | None = None
) -> tuple[Entry, ...]:
    """Return a line of entries, the smallest in bold and green, the largest in red.

    Parameters
    ----------
    values : array of shape (n_columns,)
        NaN where there is nothing.
    texts, marks : one per value
    """
    known = values[~np.isnan(values)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 0.0)
    width = high - low
    made = []
    for i, value in enumerate(values.tolist()):
        if np.isnan(value):
            made.append(Entry())
            continue
        made.append(
            Entry(
                f"{value:.5f}" if texts is None else texts[i],
                value,
                best=value == low,
                mark="" if marks is None else marks[i],
                shade=1.0 - 2.0 * (value - low) / width if width > 0 else None,
            )
        )
    return tuple(made)
